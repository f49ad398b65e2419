"""Composites written in the language itself, with the functions they complete (`tl.standard`)."""

from typing import Any

from tilewright.dtypes import unwrap_constexpr
from tilewright.language.core import (
    argmax,
    argmin,
    cdiv,
    cumprod,
    cumsum,
    flip,
    interleave,
    max,
    min,
    sigmoid,
    softmax,
    sum,
    xor_sum,
    zeros,
    zeros_like,
)  # fmt: skip
from tilewright.language.standard.programs import swizzle2d
from tilewright.language.standard.sorting import bitonic_merge, sort, topk


def _log2(i: Any) -> int:  # pyright: ignore[reportUnusedFunction]
    """The exponent of a power of two, at compile time; kernels that sort by themselves use it."""
    return int(unwrap_constexpr(i)).bit_length() - 1


__all__ = [
    "argmax", "argmin", "bitonic_merge", "cdiv", "cumprod", "cumsum", "flip", "interleave", "max",
    "min", "sigmoid", "softmax", "sort", "sum", "swizzle2d", "topk", "xor_sum", "zeros",
    "zeros_like",
]  # fmt: skip
