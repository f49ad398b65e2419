"""Divide the first lane of a block instead of all lanes, where all have one quotient.

`(start + lane) // size` is uniform if the number of lanes divides `start` and `size`: then no lane crosses a multiple of
`size`, and the remainder is `start % size + lane`. raise-access makes addresses so; this does it for the values and
masks that are computed from such quotients: positions in a padded image, or in parts that are concatenated.

If `size` divides `start` and the number of lanes, the lanes are rows of `size` elements each: the quotient is
`start // size` plus the row, the remainder the place in the row. Chunks within a row have one quotient.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import tile
from tilewright.dialects.address_arithmetic import Promise, access_arithmetic
from tilewright.passes.analysis.edit import erase
from tilewright.passes.analysis.emit import Emitter, constant_int
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.analysis.forms import Digit
from tilewright.passes.analysis.lane_rows import SHORT_ROW, emit_digit


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
        access_arithmetic(op).no_wrap
        for op in function.body.block.ops
        if isinstance(op, tile.View) and op.mask is None and not op.limits
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
        if start is None or extent is None or not facts.is_nonnegative(start):
            continue
        known, emitter = facts.divisor(start), Emitter(op)
        if isinstance(op, arith.RemSIOp) and size % extent == known % size == 0:
            result = lanes  # the same in all programs
        elif size % extent == 0 and known % extent == 0:
            first = _first(op, start, size, emitter)
            result = emitter.add(first, lanes) if isinstance(op, arith.RemSIOp) else first
        elif size >= SHORT_ROW and extent % size == 0 and known % size == 0:
            result = _in_rows(op, lanes, size, emitter)
            if isinstance(op, arith.DivSIOp):
                result = emitter.add(_first(op, start, size, emitter), result)
        else:
            continue
        result.name_hint = op.result.name_hint
        op.result.replace_all_uses_with(result)
        erase(op)
        return


def _first(
    op: arith.DivSIOp | arith.RemSIOp, start: SSAValue, size: int, emitter: Emitter
) -> SSAValue:
    """The result of `op` for lane 0, in all lanes."""
    scalar = emitter.binary(type(op), start, emitter.constant(size, start.type))
    return emitter.splat(scalar, tile.shape_of(op.result))


def _in_rows(
    op: arith.DivSIOp | arith.RemSIOp, lanes: SSAValue, size: int, emitter: Emitter
) -> SSAValue:
    """`lane // size` or `lane % size`, of the type of `lanes` (an arange and its broadcasts): rows of `size` lanes."""
    spread: list[Operation] = []
    while not isinstance(lanes.owner, tile.ArangeOp):
        assert isinstance(lanes.owner, Operation)
        spread.append(lanes.owner)
        lanes = lanes.owner.operands[0]
    extent, kind = tile.shape_of(lanes)[0], tile.element_of(lanes)
    divides = isinstance(op, arith.DivSIOp)
    digit = Digit(size, extent // size) if divides else Digit(1, size)
    value = emit_digit(digit, extent, kind, emitter)
    for each in reversed(spread):
        value = emitter.clone(each, {each.operands[0]: value}).results[0]
    return value


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
