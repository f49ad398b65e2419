"""Orders in which programs visit the blocks of a matrix."""

from __future__ import annotations

from typing import Any

from tilewright.language import core as tl
from tilewright.language.kernel_function import KernelFunction


@KernelFunction
def swizzle2d(i: Any, j: Any, size_i: Any, size_j: Any, size_g: Any) -> Any:
    """Renumber row-major block indices so that groups of `size_g` rows are walked by columns.

    Neighbouring programs then share blocks of both operands of a product, which caches like.
    """
    place = i * size_j + j
    in_group = size_g * size_j
    group = place // in_group
    first = group * size_g
    rows = tl.minimum(size_i - first, size_g)
    place = place % in_group
    return first + place % rows, place // rows
