"""Which buffers of Inductor's kernels are apart, for kernels on a CPU.

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
#: a store at an index that has been loaded or computed from data: two lanes may have the same
_INDEXED_STORE = re.compile(r"tl\.store\((\w+) \+ \([^\n]*?tmp\d")


def noalias_arguments(
    names: Sequence[str], meta: Mapping[str, Any], source: str
) -> tuple[str, ...]:
    """The parameters of a kernel with the metadata `meta` and the text `source` that no other one overlaps."""
    mutated = meta.get("mutated_arg_names")
    if mutated is None or any(not name.startswith("in_out_ptr") for name in mutated):
        return ()
    indexed = set(_INDEXED_STORE.findall(source))
    if meta.get("atomic_add_found") or "atomic_" in source:
        return ()
    return tuple(name for name in names if _BUFFER.fullmatch(name) and name not in indexed)
