"""Which buffers of Inductor's kernels do not alias, for kernels on a CPU.

Inductor runs the lanes of a kernel in any order and with any block sizes: what one lane stores, no other loads. It passes memory
under two names only where a kernel changes a tensor in place (`in_ptr0` and `out_ptr1` of one parameter that an optimizer
updates), and names these. Of all other kernels the compiler need not compare addresses, nor compile a variant for arrays that
overlap; loads at any index stand in one loop with the stores.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_BUFFER = re.compile(r"(?:in_|out_|in_out_)ptr\d+")
_STORE = re.compile(r"tl\.store\((\w+) \+ \(([^\n]*)")
#: in an index that has been loaded or computed from data: two lanes may have the same
_DATA = re.compile(r"\btmp\d")
_ATOMIC = re.compile(r"tl\.atomic_\w+\((\w+)")


def noalias_arguments(
    names: Sequence[str], meta: Mapping[str, Any], source: str
) -> tuple[str, ...]:
    """The parameters of a kernel with the metadata `meta` and the text `source` that no other one overlaps."""
    mutated = meta.get("mutated_arg_names")
    if mutated is None or any(name.startswith("in_ptr") for name in mutated):
        return ()
    unordered = {*_ATOMIC.findall(source), *mutated}
    unordered |= {to for to, text in _STORE.findall(source) if any(map(_DATA.search, terms(text)))}
    return tuple(
        name
        for name in names
        if _BUFFER.fullmatch(name) and (name.startswith("in_out_ptr") or name not in unordered)
    )


def terms(text: str) -> list[str]:
    """The terms of the sum that `text` begins with, up to the bracket that closes it."""
    found, depth = [""], 0
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth < 0:
            break
        if character == "+" and depth == 0:
            found.append("")
        else:
            found[-1] += character
    return [term.strip() for term in found]
