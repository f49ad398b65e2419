"""Constant indices that do not fit in 32 bits.

torch 2.13 writes each constant among its indices as an int32, also in kernels that index with 64 bits: an index counted from the
end of 2**31 elements or more (`x[-3]` of a tensor of indices) has their number added, less 2**32. The kernel reads elsewhere on
every device, so the type is corrected on all.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tilewright.integrations.inductor.replacements import Replacement

_NARROW = ", tl.int32)"


def _with_wide_constants(_: Any, original: Callable[..., Any]) -> Any:
    @functools.wraps(original)
    def indexing(self: Any, index: Any, **options: Any) -> Any:
        found = original(self, index, **options)
        if getattr(index, "is_Integer", False) and not -(2**31) <= int(index) < 2**31:
            found.index_str = found.index_str.replace(_NARROW, ", tl.int64)")
        return found

    return indexing


REPLACEMENTS = (
    Replacement("torch._inductor.codegen.triton", "TritonKernel.indexing", _with_wide_constants),
)
