"""Names of values in printed IR."""

from __future__ import annotations

import re

from xdsl.ir import SSAValue

#: what xDSL keeps of a hint: no number behind an underscore at its end, which it adds itself
_KEPT = re.compile(r"([A-Za-z_]\w*?)(?:_\d+)?", re.ASCII)


def name_value(value: SSAValue, name: str) -> None:
    """Let printed IR show `value` under the identifier `name` as far as IR can spell it: `_0` it cannot."""
    found = _KEPT.fullmatch(name)
    if found is not None and not found[1].lstrip("_").isdigit():
        value.name_hint = found[1]
