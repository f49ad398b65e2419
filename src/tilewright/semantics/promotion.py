"""Which type an operation on two types has. Triton's rules (3.9), on `dtypes` objects alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright import dtypes as t
from tilewright.errors import KernelTypeError
from tilewright.semantics.named import NamedFloat, NamedInt

#: smallest normal and first too-large fp32 magnitudes: literals outside become fp64
_FP32_MIN, _FP32_END = 2.0**-126, 2.0**128

_LITERAL_RANGES = (
    (t.int32, -(2**31), 2**31),
    (t.uint32, 0, 2**32),
    (t.int64, -(2**63), 2**63),
    (t.uint64, 0, 2**64),
)


def literal_type(value: bool | float) -> t.dtype:
    """The type of a Python number by itself: int1; int32, uint32, int64, uint64 (the first that
    holds it); fp32, or fp64 outside fp32's normal range. Raises KernelTypeError beyond 64 bits."""
    if isinstance(value, bool):
        return t.int1
    if isinstance(value, int):
        for kind, low, end in _LITERAL_RANGES:
            if low <= value < end:
                return kind
        raise KernelTypeError(f"{value} does not fit any 64-bit integer type")
    size = abs(value)
    if size == 0 or size != size or size == float("inf") or _FP32_MIN <= size < _FP32_END:
        return t.float32
    return t.float64


def fits_64_bits(value: int) -> bool:
    """Whether an integer type holds `value`."""
    return -(1 << 63) <= value < 1 << 64


def is_exact(kind: t.dtype, value: bool | float) -> bool:
    """Whether a tensor type holds a number exactly, or as well as the type that both promote to."""
    if kind.is_int():
        low, high = (0, 1) if kind.is_bool() else integer_range(kind)
        return isinstance(value, int) and low <= value <= high
    if kind.is_fp8() or kind.is_fp64():
        return kind.is_fp64()
    with np.errstate(over="ignore"):
        rounded = (np.float16 if kind.is_fp16() else np.float32)(value)
    if kind.is_bf16() and rounded.view(np.uint32) & 0xFFFF:
        return False
    return float(rounded) == value or value != value


def kind_rank(kind: Any) -> int:
    """bool < integer < float."""
    if kind.is_bool():
        return 0
    return 2 if kind.is_floating() else 1


def integer_range(kind: t.dtype) -> tuple[int, int]:
    """Smallest and largest value of an integer type."""
    bits = kind.primitive_bitwidth
    if kind.is_int_unsigned():
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def promote_integers(a: t.dtype, b: t.dtype) -> t.dtype:
    """The wider of two integer types; unsigned wins at equal width."""
    if a.is_int_unsigned() == b.is_int_unsigned():
        return a if a.primitive_bitwidth >= b.primitive_bitwidth else b
    unsigned, signed = (a, b) if a.is_int_unsigned() else (b, a)
    return unsigned if unsigned.primitive_bitwidth >= signed.primitive_bitwidth else signed


def promote(a: t.dtype, b: t.dtype, divides: bool = False) -> t.dtype:
    """The type in which an operation on two tensors is done, and which it gives.

    `divides` is true of `/`, `//` and `%`: floats narrower than 32 bits then compute in fp32.
    """
    if not (a.is_floating() or b.is_floating()):
        return promote_integers(a, b)
    if t.float64 in (a, b):
        return t.float64
    if t.float32 in (a, b) or divides:
        return t.float32
    if t.float16 in (a, b):
        return t.float16
    if t.bfloat16 in (a, b):
        return t.bfloat16 if a == b else t.float32
    if a == b or not (a.is_floating() and b.is_floating()):
        return a if a.is_floating() else b
    return t.float16


def promote_with_number(
    kind: t.dtype, value: bool | float, divides: bool, typed: bool = False
) -> t.dtype:
    """The type of an operation on a tensor of `kind` and a Python number.

    A number of a lower or equal kind takes the tensor's type; otherwise, and if it is `typed` or has a name, its own
    type takes part. Raises KernelTypeError when the number does not fit an integer tensor's type.
    """
    own = literal_type(value)
    if typed or isinstance(value, NamedInt | NamedFloat) or kind_rank(own) > kind_rank(kind):
        return promote(kind, own, divides)
    if divides and kind.is_floating() and kind.primitive_bitwidth < 32:
        return t.float32
    if kind.is_int() and not kind.is_bool():
        low, high = integer_range(kind)
        if not low <= value <= high:
            hint = "an unsigned tensor with a negative number" if low == 0 > value else "these"
            raise KernelTypeError(
                f"the constant {value} is out of range for {kind} ({low} … {high})",
                help=f"cannot combine {hint}; convert the tensor to a wider type with .to(...)",
            )
    return kind
