"""Composites written in the language itself, with the functions they complete (`tl.standard`)."""

# ruff: noqa: F401
# pyright: reportUnusedImport=false, reportPrivateUsage=false

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
    ravel,
    reduce_or,
    sigmoid,
    softmax,
    sum,
    xor_sum,
    zeros,
    zeros_like,
)  # fmt: skip
from tilewright.language.standard.building_blocks import (
    _argmax_combine,
    _argmax_combine_tie_break_fast,
    _argmax_combine_tie_break_left,
    _argmin_combine,
    _argmin_combine_tie_break_fast,
    _argmin_combine_tie_break_left,
    _bitonic_merge,
    _bitonic_merge_hypercube,
    _compare_and_swap,
    _elementwise_max,
    _elementwise_min,
    _get_flip_dim,
    _get_int_dtype,
    _indicator,
    _is_power_of_two,
    _log2,
    _or_combine,
    _pick_sum_dtype,
    _prod_combine,
    _sum_combine,
    _xor_combine,
)
from tilewright.language.standard.programs import swizzle2d
from tilewright.language.standard.sorting import bitonic_merge, sort, sort_impl, topk

__all__ = [
    "argmax", "argmin", "bitonic_merge", "cdiv", "cumprod", "cumsum", "flip", "interleave", "max",
    "min", "ravel", "reduce_or", "sigmoid", "softmax", "sort", "sort_impl", "sum", "swizzle2d", "topk", "xor_sum", "zeros",
    "zeros_like",
]  # fmt: skip
