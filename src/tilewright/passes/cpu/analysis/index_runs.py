"""Gathers whose indices count upwards by one in most chunks: reflected, clamped and wrapped positions.

The index of a lane is a piecewise linear function of its number (`127 - abs(127 - abs(x - 2))`), so that no stride describes all
lanes, but the chunks within a piece lie side by side. Such a gather compares its indices when it runs: a vector is loaded where they
count upwards, and lanes are gathered elsewhere.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import UnitAttr, i1
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue

from tilewright.dialects import tile
from tilewright.passes.analysis.emit import uniform_constant

ATTRIBUTE = "cpu.index_runs"
"""On a load whose indices may count upwards by one in most chunks."""

_MANY = 8
"""Slopes from which on a function is not followed further."""
_LONG = 128
"""Elements between jumps that are several chunks."""
_SAME = (arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp, tile.ExpandDimsOp, tile.HintOp)

Slopes = frozenset[int]
_CONSTANT: Slopes = frozenset((0,))
_UNKNOWN: Slopes = frozenset()


def mark_index_runs(function: FuncOp) -> None:
    """Mark the loads that are worth a comparison of their indices."""
    known: dict[SSAValue, Slopes] = {}
    for op in function.walk():
        if isinstance(op, tile.LoadViewOp) and any(1 in _slopes(v, known) for v in op.indices):
            op.attributes[ATTRIBUTE] = UnitAttr()


def _slopes(value: SSAValue, known: dict[SSAValue, Slopes]) -> Slopes:
    """By how much neighbors differ within the pieces of a piecewise linear tile; nothing if it may be another."""
    if not tile.is_tile(value):
        return _CONSTANT
    if value not in known:
        known[value] = _UNKNOWN
        found = _slopes_of_result(value.owner, known)
        known[value] = found if len(found) <= _MANY else _UNKNOWN
    return known[value]


def _slopes_of_result(op: Any, known: dict[SSAValue, Slopes]) -> Slopes:
    if isinstance(op, Block):
        return _UNKNOWN

    def of(value: SSAValue) -> Slopes:
        return _slopes(value, known)

    match op:
        case tile.ArangeOp():
            return frozenset((1,))
        case tile.SplatOp() | arith.ConstantOp() | tile.CmpIOp() | tile.BroadcastOp():
            return _CONSTANT
        case arith.AddiOp():
            return frozenset(a + b for a, b in product(of(op.lhs), of(op.rhs)))
        case arith.SubiOp():
            return frozenset(a - b for a, b in product(of(op.lhs), of(op.rhs)))
        case arith.MuliOp():
            return _of_product(of(op.lhs), of(op.rhs), op)
        case math.AbsIOp():
            return frozenset(s * a for a in of(op.operands[0]) for s in (1, -1))
        case arith.MinSIOp() | arith.MaxSIOp():
            return of(op.lhs) | of(op.rhs)
        case tile.SelectOp():
            return of(op.lhs) | of(op.rhs)
        case arith.RemSIOp() | arith.RemUIOp():
            size = uniform_constant(op.rhs)
            long = not isinstance(size, int) or size >= _LONG
            return of(op.lhs) if long and of(op.rhs) == _CONSTANT else _UNKNOWN
        case arith.DivSIOp() | arith.DivUIOp():
            size = uniform_constant(op.rhs)
            return _CONSTANT if isinstance(size, int) and size >= _LONG else _UNKNOWN
        case _ if isinstance(op, _SAME):
            return of(op.operands[0])
        case _:
            return _UNKNOWN


def _of_product(left: Slopes, right: Slopes, op: arith.MuliOp) -> Slopes:
    """A multiple by a constant; or of a value and a condition (0 or 1), as clamps are written without `where`."""
    if left == right == _CONSTANT:
        return _CONSTANT
    for slopes, factor in ((left, op.rhs), (right, op.lhs)):
        number = uniform_constant(factor)
        if isinstance(number, int):
            return frozenset(number * a for a in slopes)
        bit = factor.owner
        if isinstance(bit, arith.ExtUIOp) and tile.element_of(bit.input) == i1:
            return slopes | _CONSTANT
    return _UNKNOWN
