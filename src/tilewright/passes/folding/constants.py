"""Fold scalar constants if the result is the same on every target.

Integer operations are folded in Python integers and wrapped. Floating-point operations are folded only if IEEE 754
determines the result (one rounding), computed by NumPy in the type itself. Target-dependent operations (`math`,
`libm`, floating-point remainders, division by zero, oversized shifts, out-of-range float-to-integer conversions) are
not folded, so that folding and execution agree.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, cast

import ml_dtypes
import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
)
from xdsl.ir import Attribute, Operation, SSAValue

from tilewright.dialects import tile
from tilewright.passes.analysis.emit import Emitter, constant_float, constant_int

_WRAPPING: dict[type[Operation], Callable[[int, int], int]] = {
    arith.AddiOp: operator.add,
    arith.SubiOp: operator.sub,
    arith.MuliOp: operator.mul,
    arith.AndIOp: operator.and_,
    arith.OrIOp: operator.or_,
    arith.XOrIOp: operator.xor,
    arith.MinSIOp: min,
    arith.MaxSIOp: max,
}
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le,
    "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip
_FLOAT: dict[type[Operation], Callable[[Any, Any], Any]] = {
    arith.AddfOp: operator.add,
    arith.SubfOp: operator.sub,
    arith.MulfOp: operator.mul,
    arith.DivfOp: operator.truediv,
}


def fold(op: Operation, emitter: Emitter) -> SSAValue | None:
    """Return the constant result of `op` on scalar constants, or None."""
    operands = op.operands
    if not operands or not all(isinstance(v.owner, arith.ConstantOp) for v in operands):
        return None
    result = op.results[0].type
    numbers = [constant_int(v) for v in operands]
    if isinstance(result, IntegerType):
        folded = _integer(op, result.width.data, numbers)
        return None if folded is None else emitter.constant(folded, result)
    value = _floating(op, result, numbers)
    if value is None or value != value:  # sign and payload of a NaN depend on the target
        return None
    return emitter.float_constant(value, cast(AnyFloat, result))


# ---- integers ----------------------------------------------------------------------------------------


def _integer(op: Operation, width: int, numbers: list[int | None]) -> int | None:
    """Return the result of an operation on integer constants, any representative modulo 2^width."""
    if isinstance(op, tile.CmpFOp) or None in numbers:
        return None
    source = op.operands[0].type
    if not isinstance(source, IntegerType):
        return None
    bits = source.width.data
    signed = [_signed(n, bits) for n in numbers if n is not None]
    unsigned = [n % (1 << bits) for n in signed]
    if isinstance(op, tile.CmpIOp):
        predicate = op.predicate.data
        side = unsigned if predicate.startswith("u") else signed
        return int(_COMPARE[predicate[-2:]](*side))
    if type(op) in _WRAPPING:
        return _WRAPPING[type(op)](*signed)
    if isinstance(op, (arith.MinUIOp, arith.MaxUIOp)):
        return (min if isinstance(op, arith.MinUIOp) else max)(unsigned)
    if isinstance(op, (arith.ExtSIOp, arith.TruncIOp)):
        return signed[0]
    if isinstance(op, arith.ExtUIOp):
        return unsigned[0]
    if isinstance(op, tile.MulHiUOp):
        return unsigned[0] * unsigned[1] >> width
    return _division_or_shift(op, width, signed, unsigned)


def _signed(number: int, width: int) -> int:
    number %= 1 << width
    return number - (1 << width) if number >> (width - 1) else number


def _division_or_shift(
    op: Operation, width: int, signed: list[int], unsigned: list[int]
) -> int | None:
    if isinstance(op, (arith.ShLIOp, arith.ShRSIOp, arith.ShRUIOp)):
        amount = unsigned[1]
        if amount >= width:
            return None
        if isinstance(op, arith.ShLIOp):
            return signed[0] << amount
        return (signed if isinstance(op, arith.ShRSIOp) else unsigned)[0] >> amount
    if len(signed) != 2 or signed[1] == 0:
        return None
    if isinstance(op, arith.DivUIOp):
        return unsigned[0] // unsigned[1]
    if isinstance(op, arith.RemUIOp):
        return unsigned[0] % unsigned[1]
    if not isinstance(op, (arith.DivSIOp, arith.RemSIOp)):
        return None
    if signed[1] == -1 and signed[0] == -(1 << (width - 1)):
        return None
    quotient = abs(signed[0]) // abs(signed[1])
    if (signed[0] < 0) != (signed[1] < 0):
        quotient = -quotient
    return quotient if isinstance(op, arith.DivSIOp) else signed[0] - quotient * signed[1]


# ---- floating point ------------------------------------------------------------------------------------


def _numpy_type(kind: Attribute) -> Any:
    """Return the NumPy type of a floating-point type whose arithmetic rounds once, or None."""
    if isinstance(kind, BFloat16Type):
        return ml_dtypes.bfloat16
    table: dict[type[Attribute], Any] = {
        Float16Type: np.float16, Float32Type: np.float32, Float64Type: np.float64,
    }  # fmt: skip
    return table.get(type(kind))


def _floating(op: Operation, result: Attribute, numbers: list[int | None]) -> float | None:
    kind = _numpy_type(result)
    if kind is None:
        return None
    values = [constant_float(v) for v in op.operands]
    with np.errstate(all="ignore"):
        if isinstance(op, arith.SIToFPOp) and numbers[0] is not None:
            # 64-bit integers convert to these types with one rounding; bfloat16 is converted via float32
            return (
                None
                if kind is _numpy_type(BFloat16Type())
                else float(np.int64(numbers[0]).astype(kind))
            )
        if None in values:
            return None
        if type(op) in _FLOAT and not isinstance(result, BFloat16Type):
            lhs, rhs = (np.asarray(v, dtype=np.float64).astype(kind) for v in values)
            return float(_FLOAT[type(op)](lhs, rhs))
        if isinstance(op, arith.NegfOp):
            return -float(values[0] or 0.0)
        if isinstance(op, arith.ExtFOp):
            return values[0]
        if isinstance(op, arith.TruncFOp) and isinstance(op.input.type, (Float32Type, Float64Type)):
            narrow = np.asarray(values[0], dtype=_numpy_type(op.input.type))
            double = isinstance(op.input.type, Float64Type)
            return None if double and kind is not np.float32 else float(narrow.astype(kind))
    return None
