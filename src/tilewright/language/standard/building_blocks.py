"""Parts of which Triton's standard library is made, and kernels of their own: combine functions of reductions, steps of
a bitonic sort, functions of types and extents. Names and parameters are Triton's.
"""

# Written in the kernel language, whose constexpr annotations are no Python types:
# pyright: reportAssignmentType=false, reportRedeclaration=false, reportOperatorIssue=false
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportPrivateUsage=false, reportUnusedFunction=false

from __future__ import annotations

from typing import Any

from tilewright.dtypes import int32, uint32, unwrap_constexpr
from tilewright.language import core as tl
from tilewright.language.kernel_function import KernelFunction

# ---- at compile time --------------------------------------------------------------------------------


def _log2(i: Any) -> int:
    """The exponent of a power of two."""
    return int(unwrap_constexpr(i)).bit_length() - 1


def _is_power_of_two(i: Any) -> bool:
    value = unwrap_constexpr(i)
    return value != 0 and value & (value - 1) == 0


def _get_int_dtype(bitwidth: Any, signed: Any) -> Any:
    """The integer type of a width."""
    return tl.get_int_dtype(unwrap_constexpr(bitwidth), unwrap_constexpr(signed))


def _pick_sum_dtype(in_dtype: Any, dtype: Any) -> Any:
    """The type in which a sum is accumulated: of narrow integers 32 bits; None for the type of the elements."""
    given, chosen = unwrap_constexpr(in_dtype), unwrap_constexpr(dtype)
    if (
        chosen is not None
        or not given.is_int()
        or given.primitive_bitwidth >= int32.primitive_bitwidth
    ):
        return chosen
    return uint32 if given.is_int_unsigned() else int32


def _get_flip_dim(dim: Any, shape: Any) -> int:
    """A dimension counted from the first, the last one by default."""
    rank, value = len(unwrap_constexpr(shape)), unwrap_constexpr(dim)
    if value is None:
        return rank - 1
    return value + rank if value < 0 else value


# ---- combine functions ------------------------------------------------------------------------------


@KernelFunction
def _sum_combine(a: Any, b: Any) -> Any:
    return a + b


@KernelFunction
def _prod_combine(a: Any, b: Any) -> Any:
    return a * b


@KernelFunction
def _xor_combine(a: Any, b: Any) -> Any:
    return a ^ b


@KernelFunction
def _or_combine(x: Any, y: Any) -> Any:
    return x | y


@KernelFunction
def _elementwise_max(a: Any, b: Any) -> Any:
    return tl.maximum(a, b)


@KernelFunction
def _elementwise_min(a: Any, b: Any) -> Any:
    return tl.minimum(a, b)


@KernelFunction
def _argmax_combine(value1: Any, index1: Any, value2: Any, index2: Any, tie_break_left: Any) -> Any:
    """The larger value and its index; of equal values the smaller index with `tie_break_left`."""
    if tie_break_left:
        first = (value1 > value2) | ((value1 == value2) & (index1 < index2))
    else:
        first = value1 > value2
    return tl.where(first, value1, value2), tl.where(first, index1, index2)


@KernelFunction
def _argmax_combine_tie_break_left(value1: Any, index1: Any, value2: Any, index2: Any) -> Any:
    return _argmax_combine(value1, index1, value2, index2, True)


@KernelFunction
def _argmax_combine_tie_break_fast(value1: Any, index1: Any, value2: Any, index2: Any) -> Any:
    return _argmax_combine(value1, index1, value2, index2, False)


@KernelFunction
def _argmin_combine(value1: Any, index1: Any, value2: Any, index2: Any, tie_break_left: Any) -> Any:
    """The smaller value and its index; of equal values the smaller index with `tie_break_left`."""
    if tie_break_left:
        first = (value1 < value2) | ((value1 == value2) & (index1 < index2))
    else:
        first = value1 < value2
    return tl.where(first, value1, value2), tl.where(first, index1, index2)


@KernelFunction
def _argmin_combine_tie_break_left(value1: Any, index1: Any, value2: Any, index2: Any) -> Any:
    return _argmin_combine(value1, index1, value2, index2, True)


@KernelFunction
def _argmin_combine_tie_break_fast(value1: Any, index1: Any, value2: Any, index2: Any) -> Any:
    return _argmin_combine(value1, index1, value2, index2, False)


# ---- steps of a bitonic sort ------------------------------------------------------------------------
# Of a tile with dimensions of extent 2, a bit of the index each; bit 0 is the last dimension.


@KernelFunction
def _indicator(n_dims: tl.constexpr, j: tl.constexpr) -> Any:
    """Bit `j` of the index, in a shape that broadcasts against tiles of `n_dims` dimensions."""
    return tl.reshape(tl.arange(0, 2), [1] * (n_dims - j - 1) + [2] + [1] * j)


@KernelFunction
def _compare_and_swap(x: Any, flip: Any, i: tl.constexpr) -> Any:
    """Order pairs whose indices differ in bit `i`: rising where `flip` is 0, falling where it is 1."""
    n_dims: tl.constexpr = _log2(x.numel)
    kind: tl.constexpr = _get_int_dtype(x.dtype.primitive_bitwidth, True)
    bits = x.to(kind, bitcast=True)
    other = (bits ^ tl.xor_sum(bits, n_dims - 1 - i, True)).to(x.dtype, bitcast=True)
    return tl.where((x > other) != (flip ^ _indicator(n_dims, i)), other, x)


@KernelFunction
def _bitonic_merge_hypercube(x: Any, stage: tl.constexpr, order: tl.constexpr) -> Any:
    """Sort runs of 2**stage elements, each of which is bitonic: rising (0), falling (1) or alternating (2)."""
    if order == 2:
        flip = _indicator(_log2(x.numel), stage)
    else:
        flip = order
    for i in tl.static_range(stage):
        x = _compare_and_swap(x, flip, stage - 1 - i)
    return x


@KernelFunction
def _bitonic_merge(x: Any, stage: tl.constexpr, order: tl.constexpr, n_dims: tl.constexpr) -> Any:
    """`_bitonic_merge_hypercube` of a tile of any shape."""
    cube = tl.reshape(x, [2] * _log2(x.numel))
    return tl.reshape(_bitonic_merge_hypercube(cube, stage, order), x.shape)


#: all of the above, which `tl.standard` offers although their names are private
__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    name for name in globals() if name.startswith("_") and not name.startswith("__")
]
