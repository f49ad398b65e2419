"""Composites written in the language itself, with the functions they complete (`tl.standard`)."""

# ruff: noqa: F403, F405
# pyright: reportUnusedImport=false, reportPrivateUsage=false

from tilewright.language.core import *
from tilewright.language.standard.building_blocks import *
from tilewright.language.standard.programs import swizzle2d
from tilewright.language.standard.sorting import bitonic_merge, sort, sort_impl, topk

__all__ = [
    "argmax", "argmin", "bitonic_merge", "cdiv", "cumprod", "cumsum", "flip", "interleave", "max",
    "min", "ravel", "reduce_or", "sigmoid", "softmax", "sort", "sort_impl", "sum", "swizzle2d", "topk", "xor_sum", "zeros",
    "zeros_like",
]  # fmt: skip
