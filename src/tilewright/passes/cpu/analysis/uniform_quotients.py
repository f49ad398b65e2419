"""Divide the first lane of a block instead of all lanes, where all have one quotient.

`(start + lane) // size` is uniform if the number of lanes divides `start` and `size`: then no lane crosses a multiple of
`size`, and the remainder is `start % size + lane`. raise-access makes addresses so; this does it for the values and
masks that are computed from such quotients: positions in a padded image, or in parts that are concatenated.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from tilewright.dialects import tile
from tilewright.dialects.address_arithmetic import Promise, access_arithmetic
from tilewright.passes.analysis.edit import erase
from tilewright.passes.analysis.emit import Emitter, constant_int
from tilewright.passes.analysis.facts import Facts

_VIEWS = (tile.LoadViewOp, tile.StoreViewOp)


def divide_first_lanes(function: FuncOp) -> None:
    """Rewrite signed quotients and remainders by constants that are uniform but for the lane."""
    divisions = [
        op
        for op in function.walk()
        if isinstance(op, arith.DivSIOp | arith.RemSIOp) and tile.is_tile(op.result)
    ]
    if not divisions:
        return
    # accesses of all lanes that every program makes
    certain = [
        access_arithmetic(op).sums
        for op in function.body.block.ops
        if isinstance(op, _VIEWS) and op.mask is None and not op.limits
    ]
    facts = Facts(Promise(frozenset().union(*certain)))
    for op in divisions:
        _rewrite(op, facts)


def _rewrite(op: arith.DivSIOp | arith.RemSIOp, facts: Facts) -> None:
    divisor, sum_ = _uniform(op.rhs), op.lhs.owner
    size = None if divisor is None else constant_int(divisor)
    if size is None or size <= 0 or not isinstance(sum_, arith.AddiOp):
        return
    for start_tile, lanes in ((sum_.lhs, sum_.rhs), (sum_.rhs, sum_.lhs)):
        start, extent = _uniform(start_tile), _lanes(lanes)
        if start is None or extent is None or size % extent:
            continue
        if facts.divisor(start) % extent or not facts.is_nonnegative(start):
            continue
        emitter = Emitter(op)
        scalar = emitter.binary(type(op), start, emitter.constant(size, start.type))
        first = emitter.splat(scalar, tile.shape_of(op.result))
        if isinstance(op, arith.RemSIOp):
            first = emitter.binary(arith.AddiOp, first, lanes)
        first.name_hint = op.result.name_hint
        op.result.replace_all_uses_with(first)
        erase(op)
        return


def _uniform(value: SSAValue) -> SSAValue | None:
    """The scalar that all lanes of a tile are."""
    while isinstance(value.owner, tile.BroadcastOp | tile.ExpandDimsOp | tile.ReshapeOp):
        value = value.owner.operands[0]
    return value.owner.source if isinstance(value.owner, tile.SplatOp) else None


def _lanes(value: SSAValue) -> int | None:
    """How many lanes count from 0 along one dimension of a tile."""
    while isinstance(value.owner, tile.BroadcastOp | tile.ExpandDimsOp):
        value = value.owner.operands[0]
    op = value.owner
    if not isinstance(op, tile.ArangeOp) or op.start.value.data != 0:
        return None
    return tile.shape_of(value)[0]
