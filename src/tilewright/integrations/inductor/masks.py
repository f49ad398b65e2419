"""Masks of indices that Inductor computes from running indices and converts to another integer type.

torch 2.13's `value_expr` forgets the mask when it converts: accesses and assertions at such an index then include lanes
beyond the end, whose indices are out of bounds (`max_unpool2d` of the indices from `max_pool2d`). The kernel is wrong on
every device, so the masks are kept on all.
"""

from __future__ import annotations

import sys
from typing import Any

from tilewright.integrations.inductor.replacements import Replacement

_TRITON = "torch._inductor.codegen.triton"


def _with_masks(_: Any, original: Any) -> Any:
    def value_expr(cls: Any, expr: Any, dtype: Any) -> Any:
        result = original.__func__(cls, expr, dtype)
        kernel = sys.modules["torch._inductor.virtualized"].V.kernel
        indexing = kernel.indexing(expr, block_ptr=False, tma_compatibility_checker=None)
        result.mask_vars = result.mask_vars | indexing.mask_vars
        return result

    return classmethod(value_expr)


REPLACEMENTS = (Replacement(_TRITON, "TritonKernelOverrides.value_expr", _with_masks),)
