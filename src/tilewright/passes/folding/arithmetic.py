"""Algebraic identities of integer and floating-point arithmetic, comparisons, selects and conversions.

A rule takes an operation and an emitter in front of it, and returns the value that replaces its
result, or None. All rules are exact: floating ones hold for -0.0, infinities and NaN too.

Scalar constants are folded if the result is the same on every target. Values are those of the reference interpreter.
Integer operations are folded, and floating-point operations if IEEE 754
determines the result (one rounding). Target-dependent operations (`math`, `libm`, floating-point remainders, division by
zero, oversized shifts, out-of-range float-to-integer conversions) are not folded, so that folding and execution agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

from xdsl.dialects import arith
from xdsl.dialects import math as math_dialect
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    UnitAttr,
    VectorType,
)
from xdsl.ir import Attribute, Operation, SSAValue

from tilewright.dialects import cpu, tile
from tilewright.dialects.tile import WRAPS, element_of, shape_of
from tilewright.interpreter import registry
from tilewright.ir.types import defining_op, width_of
from tilewright.passes.analysis.emit import Emitter, constant_float, constant_int, uniform_constant

Rule = Callable[[Operation, Emitter], SSAValue | None]

_TRUE_WHEN_EQUAL = {"eq", "sle", "sge", "ule", "uge"}
_COMMUTATIVE = (
    arith.AddiOp, arith.MuliOp, arith.AndIOp, arith.OrIOp, arith.XOrIOp, arith.MulfOp,
    arith.AddfOp,
)  # fmt: skip
#: operation -> its right identity element
_RIGHT_UNIT: dict[type[Operation], int] = {
    arith.AddiOp: 0, arith.SubiOp: 0, arith.MuliOp: 1, arith.DivSIOp: 1, arith.DivUIOp: 1,
    arith.OrIOp: 0, arith.XOrIOp: 0, arith.ShLIOp: 0, arith.ShRSIOp: 0, arith.ShRUIOp: 0,
    arith.AndIOp: -1,
}  # fmt: skip
#: resizing -> those right before it that it makes one with
_CHAINED: dict[type[Operation], tuple[type[Operation], ...]] = {
    arith.TruncIOp: (arith.TruncIOp, arith.ExtSIOp, arith.ExtUIOp),
    arith.ExtSIOp: (arith.ExtSIOp, arith.ExtUIOp),
    arith.ExtUIOp: (arith.ExtUIOp,),
}
_IDEMPOTENT = (
    arith.AndIOp, arith.OrIOp, arith.MinSIOp, arith.MaxSIOp, arith.MinUIOp, arith.MaxUIOp,
)  # fmt: skip


def filled(number: float, like: SSAValue, emitter: Emitter) -> SSAValue:
    """Emit a constant of the type of `like`, scalar, tile or vector."""
    element = element_of(like)
    if isinstance(element, VectorType):
        scalar = emitter.float_constant(float(number), cast(AnyFloat, element.element_type))
        return emitter.make(cpu.SplatOp, [scalar], element)
    if isinstance(element, IntegerType):
        scalar = emitter.constant(int(number), element)
    else:
        scalar = emitter.float_constant(float(number), cast(AnyFloat, element))
    return emitter.splat(scalar, shape_of(like))


def integer_binary(op: Operation, emitter: Emitter) -> SSAValue | None:
    lhs, rhs = op.operands
    right = uniform_constant(rhs)
    if isinstance(op, _COMMUTATIVE) and right is None:
        left = uniform_constant(lhs)
        if left is not None:
            lhs, rhs, right = rhs, lhs, left
    unit = _RIGHT_UNIT.get(type(op))
    if right is not None and unit is not None:
        width = width_of(element_of(lhs))
        if (int(right) - unit) % (1 << width) == 0:
            return lhs
    if right == 0 and isinstance(op, (arith.MuliOp, arith.AndIOp)):
        return rhs
    if right == 1 and isinstance(op, (arith.RemSIOp, arith.RemUIOp)):
        return filled(0, lhs, emitter)
    if lhs is rhs:
        if isinstance(op, _IDEMPOTENT):
            return lhs
        if isinstance(op, (arith.SubiOp, arith.XOrIOp)):
            return filled(0, lhs, emitter)
    return _add_constants(op, lhs, right, emitter)


def _add_constants(
    op: Operation, lhs: SSAValue, right: float | None, emitter: Emitter
) -> SSAValue | None:
    """Reassociate `(x + a) + b` to `x + (a + b)` if `a + b` does not wrap; the result wraps only if an addition did."""
    inner = lhs.owner
    if not isinstance(op, arith.AddiOp) or right is None or not isinstance(inner, arith.AddiOp):
        return None
    more = uniform_constant(inner.rhs)
    if more is None:
        return None
    total, width = int(right) + int(more), width_of(element_of(lhs))
    if not -(1 << width - 1) <= total < 1 << width - 1:
        return None
    result = emitter.binary(arith.AddiOp, inner.lhs, filled(total, lhs, emitter))
    if WRAPS in op.attributes or WRAPS in inner.attributes:
        defining_op(result).attributes[WRAPS] = UnitAttr()
    return result


def float_binary(op: Operation, emitter: Emitter) -> SSAValue | None:
    lhs, rhs = op.operands
    right = uniform_constant(rhs)
    if isinstance(op, arith.SubfOp) and _is_largest_of(lhs, rhs):
        return emitter.insert(arith.SubfOp(lhs, lhs))
    if isinstance(op, _COMMUTATIVE) and right is None:
        left = uniform_constant(lhs)
        if left is not None:
            lhs, right = rhs, left
    if right is None:
        return None
    if isinstance(op, (arith.MulfOp, arith.DivfOp)):
        return lhs if right == 1 else None
    negative_zero = right == 0 and math.copysign(1.0, right) < 0
    if isinstance(op, arith.AddfOp) and negative_zero:
        return lhs
    positive_zero = right == 0 and math.copysign(1.0, right) > 0
    return lhs if isinstance(op, arith.SubfOp) and positive_zero else None


def _is_largest_of(value: SSAValue, maximum: SSAValue) -> bool:
    """Whether `maximum` is that of `value` and minus infinity: their difference is 0, or NaN as that of `value` and itself."""
    op = maximum.owner
    if not isinstance(op, arith.MaxnumfOp):
        return False
    return any(
        one is value and uniform_constant(other) == -math.inf
        for one, other in ((op.lhs, op.rhs), (op.rhs, op.lhs))
    )


def exponential(op: Operation, emitter: Emitter) -> SSAValue | None:
    """`exp(x - x)` is `x - x + 1`: 1, or NaN where `x` is not finite."""
    difference = op.operands[0]
    inner = difference.owner
    if not isinstance(inner, arith.SubfOp) or inner.lhs is not inner.rhs:
        return None
    return emitter.insert(arith.AddfOp(difference, filled(1.0, difference, emitter)))


def negation(op: Operation, emitter: Emitter) -> SSAValue | None:
    inner = op.operands[0].owner
    return inner.operands[0] if isinstance(inner, arith.NegfOp) else None


def comparison(op: Operation, emitter: Emitter) -> SSAValue | None:
    if not isinstance(op, tile.CmpIOp):
        return None
    predicate = op.predicate.data
    if op.lhs is op.rhs:
        return filled(int(predicate in _TRUE_WHEN_EQUAL), op.result, emitter)
    if predicate != "ne" or uniform_constant(op.rhs) != 0:
        return None
    if element_of(op.lhs) == IntegerType(1):
        return op.lhs
    inner = op.lhs.owner  # `ext(i1) != 0` is the i1 value
    widened = isinstance(inner, (arith.ExtUIOp, arith.ExtSIOp))
    if widened and element_of(inner.operands[0]) == IntegerType(1):
        return inner.operands[0]
    return None


def selection(op: Operation, emitter: Emitter) -> SSAValue | None:
    if not isinstance(op, tile.SelectOp):
        return None
    if op.lhs is op.rhs:
        return op.lhs
    condition = uniform_constant(op.condition)
    if condition is not None:
        return op.lhs if condition else op.rhs
    truth = element_of(op.lhs) == IntegerType(1)
    if truth and (uniform_constant(op.lhs), uniform_constant(op.rhs)) == (1, 0):
        return op.condition
    return None


def integer_resize(op: Operation, emitter: Emitter) -> SSAValue | None:
    """Fold chains of integer extensions and truncations."""
    inner, kind = op.operands[0].owner, element_of(op.results[0])
    if not isinstance(inner, _CHAINED[type(op)]):
        return None
    return emitter.resize(inner.operands[0], kind, not isinstance(inner, arith.ExtUIOp))


def float_resize(op: Operation, emitter: Emitter) -> SSAValue | None:
    """Fold repeated widening, and widening followed by the inverse narrowing."""
    inner = op.operands[0].owner
    if not isinstance(inner, arith.ExtFOp):
        return None
    source, result = inner.operands[0], op.results[0].type
    if isinstance(op, arith.ExtFOp):
        return emitter.insert(arith.ExtFOp(source, result))
    return source if source.type == result else None


def bitcast(op: Operation, emitter: Emitter) -> SSAValue | None:
    source, result = op.operands[0], op.results[0].type
    if source.type == result:
        return source
    if isinstance(source.owner, tile.BitcastOp):
        return emitter.insert(tile.BitcastOp(operands=[source.owner.source], result_types=[result]))
    return None


def pointer_sum(op: Operation, emitter: Emitter) -> SSAValue | None:
    return op.operands[0] if uniform_constant(op.operands[1]) == 0 else None


RULES: dict[type[Operation], Rule] = {
    **dict.fromkeys((*_RIGHT_UNIT, *_IDEMPOTENT, arith.RemSIOp, arith.RemUIOp), integer_binary),
    **dict.fromkeys((arith.AddfOp, arith.SubfOp, arith.MulfOp, arith.DivfOp), float_binary),
    **dict.fromkeys((math_dialect.ExpOp, math_dialect.Exp2Op), exponential),
    arith.NegfOp: negation,
    tile.CmpIOp: comparison,
    tile.SelectOp: selection,
    **dict.fromkeys((arith.TruncIOp, arith.ExtSIOp, arith.ExtUIOp), integer_resize),
    **dict.fromkeys((arith.ExtFOp, arith.TruncFOp), float_resize),
    tile.BitcastOp: bitcast,
    tile.AddPtrOp: pointer_sum,
}


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
