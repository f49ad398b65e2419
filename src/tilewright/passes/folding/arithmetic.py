"""Algebraic identities of integer and floating-point arithmetic, comparisons, selects and conversions.

A rule takes an operation and an emitter in front of it, and returns the value that replaces its
result, or None. All rules are exact: floating ones hold for -0.0, infinities and NaN too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, IntegerType, UnitAttr
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import tile
from tilewright.dialects.tile import WRAPS, element_of, shape_of
from tilewright.ir.types import defining_op, width_of
from tilewright.passes.analysis.emit import Emitter, uniform_constant

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
_IDEMPOTENT = (
    arith.AndIOp, arith.OrIOp, arith.MinSIOp, arith.MaxSIOp, arith.MinUIOp, arith.MaxUIOp,
)  # fmt: skip


def filled(number: float, like: SSAValue, emitter: Emitter) -> SSAValue:
    """Emit a constant of the type of `like`, scalar or tile."""
    element = element_of(like)
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
    source = op.operands[0]
    inner = source.owner
    kind = element_of(op.results[0])
    if not isinstance(kind, IntegerType):
        return None
    if isinstance(op, arith.TruncIOp) and isinstance(inner, (arith.ExtSIOp, arith.ExtUIOp)):
        return emitter.resize(inner.operands[0], kind, isinstance(inner, arith.ExtSIOp))
    if isinstance(op, arith.TruncIOp) and isinstance(inner, arith.TruncIOp):
        return emitter.resize(inner.operands[0], kind)
    if isinstance(op, arith.ExtUIOp) and isinstance(inner, arith.ExtUIOp):
        return emitter.resize(inner.operands[0], kind, signed=False)
    if isinstance(op, arith.ExtSIOp) and isinstance(inner, (arith.ExtSIOp, arith.ExtUIOp)):
        return emitter.resize(inner.operands[0], kind, isinstance(inner, arith.ExtSIOp))
    return None


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
    arith.NegfOp: negation,
    tile.CmpIOp: comparison,
    tile.SelectOp: selection,
    **dict.fromkeys((arith.TruncIOp, arith.ExtSIOp, arith.ExtUIOp), integer_resize),
    **dict.fromkeys((arith.ExtFOp, arith.TruncFOp), float_resize),
    tile.BitcastOp: bitcast,
    tile.AddPtrOp: pointer_sum,
}
