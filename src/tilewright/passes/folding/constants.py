"""Fold scalar constants if the result is the same on every target.

Values are those of the reference interpreter. Integer operations are folded, and floating-point operations if IEEE 754
determines the result (one rounding). Target-dependent operations (`math`, `libm`, floating-point remainders, division by
zero, oversized shifts, out-of-range float-to-integer conversions) are not folded, so that folding and execution agree.
"""

from __future__ import annotations

from typing import Any, cast

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
from tilewright.interpreter import registry
from tilewright.passes.analysis.emit import Emitter, constant_float, constant_int

_WRAPPING: tuple[type[Operation], ...] = (
    arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.AndIOp, arith.OrIOp, arith.XOrIOp,
    arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp, tile.MulHiUOp, tile.CmpIOp,
)  # fmt: skip
_EXTREMES = (arith.MinSIOp, arith.MaxSIOp, arith.MinUIOp, arith.MaxUIOp)
_SHIFTS = (arith.ShLIOp, arith.ShRSIOp, arith.ShRUIOp)
_DIVISIONS = (arith.DivSIOp, arith.RemSIOp, arith.DivUIOp, arith.RemUIOp)
_ARITHMETIC = (arith.AddfOp, arith.SubfOp, arith.MulfOp, arith.DivfOp)
_ROUNDING_ONCE = (Float16Type, Float32Type, Float64Type)
_FOLDED = frozenset(
    (*_WRAPPING, *_EXTREMES, *_SHIFTS, *_DIVISIONS, *_ARITHMETIC,
     arith.NegfOp, arith.ExtFOp, arith.TruncFOp, arith.SIToFPOp)
)  # fmt: skip


def fold(op: Operation, emitter: Emitter) -> SSAValue | None:
    """Return the constant result of `op` on scalar constants, or None."""
    if type(op) not in _FOLDED:
        return None
    if not all(isinstance(v.owner, arith.ConstantOp) for v in op.operands):
        return None
    result = op.results[0].type
    if not (_is_determined(op) if isinstance(result, IntegerType) else _rounds_once(op, result)):
        return None
    properties = {name: registry.plain(p) for name, p in op.properties.items()}
    operands = [_value(v) for v in op.operands]
    (value,) = registry.call(op.name, None, properties, [registry.kind_of(result)], operands)
    if isinstance(result, IntegerType):
        return emitter.constant(int(value), result)
    if value != value:  # sign and payload of a NaN depend on the target
        return None
    return emitter.float_constant(float(value), cast(AnyFloat, result))


def _value(constant: SSAValue) -> Any:
    """The NumPy value of a constant."""
    number = constant_int(constant)
    attributes = {"value": constant_float(constant) if number is None else number}
    return registry.call("arith.constant", None, attributes, [registry.kind_of(constant.type)], ())[
        0
    ]


def _is_determined(op: Operation) -> bool:
    """Return whether an integer operation on integer constants has a specified result."""
    kind, numbers = op.operands[0].type, [constant_int(v) for v in op.operands]
    if not isinstance(kind, IntegerType) or None in numbers:
        return False
    width = kind.width.data
    if isinstance(op, _EXTREMES):
        return width > 1
    if isinstance(op, _SHIFTS):
        return 0 <= cast(int, numbers[1]) < width
    if isinstance(op, _DIVISIONS):
        signed = isinstance(op, (arith.DivSIOp, arith.RemSIOp))
        overflows = signed and numbers == [-(1 << (width - 1)), -1]
        return width > 1 and numbers[1] != 0 and not overflows
    return True


def _rounds_once(op: Operation, result: Attribute) -> bool:
    """Return whether IEEE 754 determines the result of a floating-point operation."""
    if isinstance(op, (*_ARITHMETIC, arith.SIToFPOp)):  # bfloat16 is computed in float32
        return isinstance(result, _ROUNDING_ONCE)
    if isinstance(op, arith.TruncFOp):
        source = op.input.type
        double = isinstance(source, Float64Type) and isinstance(result, Float32Type)
        narrow = (*_ROUNDING_ONCE, BFloat16Type)
        return double or (isinstance(source, Float32Type) and isinstance(result, narrow))
    return isinstance(result, (*_ROUNDING_ONCE, BFloat16Type))
