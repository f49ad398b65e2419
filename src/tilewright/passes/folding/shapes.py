"""Fold broadcasts, reshapes and transpositions, and element-wise operations on splats."""

from __future__ import annotations

from xdsl.dialects.builtin import DenseArrayBase, i32, i64
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import tile
from tilewright.dialects.tile import shape_of
from tilewright.passes.analysis.edit import with_operands
from tilewright.passes.analysis.effects import is_pure_elementwise, is_volatile
from tilewright.passes.analysis.emit import Emitter
from tilewright.passes.folding.arithmetic import Rule


def spread(op: Operation, emitter: Emitter) -> SSAValue | None:
    """Any rearrangement of equal lanes is a splat; one that changes nothing is its source."""
    source, result = op.operands[0], op.results[0]
    inner = source.owner
    if isinstance(inner, tile.SplatOp):
        return emitter.splat(inner.source, shape_of(result))
    if source.type == result.type and not isinstance(op, tile.TransOp):
        return source
    if isinstance(op, tile.BroadcastOp) and isinstance(inner, tile.BroadcastOp):
        return emitter.broadcast(inner.operands[0], shape_of(result))
    if isinstance(op, tile.ReshapeOp) and isinstance(inner, (tile.ReshapeOp, tile.ExpandDimsOp)):
        return emitter.reshape(inner.operands[0], shape_of(result))
    return None


def transposition(op: Operation, emitter: Emitter) -> SSAValue | None:
    if not isinstance(op, tile.TransOp):
        return None
    order = op.permutation
    if list(order) == list(range(len(order))):
        return op.source
    inner = op.source.owner
    if isinstance(inner, tile.TransOp):
        both = [inner.permutation[d] for d in order]
        return emitter.insert(
            tile.TransOp(
                operands=[inner.source],
                result_types=[op.result.type],
                properties={"order": DenseArrayBase.from_list(i64, both)},
            )
        )
    return spread(op, emitter)


def equal_lanes(op: Operation, emitter: Emitter) -> SSAValue | None:
    """Lane-wise arithmetic on splats, done once on the scalars."""
    if len(op.results) != 1 or not op.operands or not is_pure_elementwise(op):
        return None
    scalars = []
    for value in op.operands:
        owner = value.owner
        if shape_of(value) and not isinstance(owner, tile.SplatOp):
            return None
        scalars.append(owner.source if isinstance(owner, tile.SplatOp) else value)
    result = op.results[0]
    if not shape_of(result):
        return None
    if isinstance(op, tile.HintOp):
        return None
    scalar = with_operands(op, scalars, [tile.element_of(result)])
    return emitter.splat(emitter.insert(scalar), shape_of(result))


def one_lane(op: Operation, emitter: Emitter) -> SSAValue | None:
    """An arange of one lane is a splat of its start."""
    if not isinstance(op, tile.ArangeOp) or shape_of(op.result) != (1,):
        return None
    return emitter.splat(emitter.constant(op.start.value.data, i32), (1,))


def load_once(op: Operation, emitter: Emitter) -> SSAValue | None:
    """A load of one address in all lanes, under one mask, done once."""
    if not isinstance(op, tile.LoadOp) or not shape_of(op.pointer) or is_volatile(op):
        return None
    sources = [v.owner.source for v in op.operands if isinstance(v.owner, tile.SplatOp)]
    if len(sources) < len(op.operands):
        return None
    scalar = with_operands(op, sources, [tile.element_of(op.result)])
    return emitter.splat(emitter.insert(scalar), shape_of(op.result))


def of_one(op: Operation, emitter: Emitter) -> SSAValue | None:
    """A reduction over an axis of extent 1 has nothing to combine."""
    if not isinstance(op, tile.ReduceOp) or len(op.inputs) != 1:
        return None
    (source,), result = op.inputs, shape_of(op.results[0])
    kept = result and shape_of(source)[op.axis.value.data] == 1
    return emitter.reshape(source, result) if kept else None


RULES: dict[type[Operation], Rule] = {
    tile.ArangeOp: one_lane,
    tile.LoadOp: load_once,
    tile.ReduceOp: of_one,
    tile.BroadcastOp: spread,
    tile.ExpandDimsOp: spread,
    tile.ReshapeOp: spread,
    tile.TransOp: transposition,
}
