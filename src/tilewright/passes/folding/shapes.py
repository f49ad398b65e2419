"""Fold broadcasts, reshapes and transpositions, element-wise operations on splats, and hints."""

from __future__ import annotations

from math import lcm
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    IntegerType,
    i32,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from tilewright.dialects import tile
from tilewright.dialects.tile import shape_of
from tilewright.ir.walk import closure, sources
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


# ---- hints ------------------------------------------------------------------------------------------

_ARITHMETIC = (
    arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp, arith.ConstantOp,
    tile.AddPtrOp, tile.HintOp,
)  # fmt: skip
_DIVISOR = "tile.divisibility"


def without_hint(op: Operation, emitter: Emitter) -> SSAValue | None:
    """The source of a hint that the launch specializes on, or that becomes an attribute of a kernel argument."""
    if not isinstance(op, tile.HintOp):
        return None
    known = _known_to_launcher(op) or _of_argument(op)
    return op.source if known else None


def _known_to_launcher(op: tile.HintOp) -> bool:
    """Whether this is an `aligned` hint of what is computed from kernel arguments alone.

    Launches specialize on the divisibility of arguments, and tensor maps are encoded from arguments that passes
    recognize by their identity.
    """
    return op.kind.data == tile.ALIGNED and all(
        isinstance(value.owner.parent_op(), FuncOp)
        if isinstance(value, BlockArgument)
        else isinstance(value.owner, _ARITHMETIC)
        for value in closure([op.source], sources)
    )


def _of_argument(op: tile.HintOp) -> bool:
    """Move the promise that an integer argument is a multiple of a number, if every program makes it, to the argument:
    passes that recognize arguments by their identity then know it."""
    argument, function = op.source, op.parent_op()
    if op.kind.data != "multiple_of" or not isinstance(argument.type, IntegerType):
        return False
    if not isinstance(function, FuncOp) or not isinstance(argument, BlockArgument):
        return False
    if argument.owner is not function.body.block:
        return False
    value = int(op.values.get_values()[0])
    if function.arg_attrs is None or value < 1:
        return False
    entries = list(function.arg_attrs.data)
    before: Any = entries[argument.index].data.get(_DIVISOR)
    divisor = lcm(value, 1 if before is None else before.value.data)
    merged = {**entries[argument.index].data, _DIVISOR: IntegerAttr(divisor, i32)}
    entries[argument.index] = DictionaryAttr(merged)
    function.properties["arg_attrs"] = ArrayAttr(entries)
    return True


RULES: dict[type[Operation], Rule] = {
    tile.ArangeOp: one_lane,
    tile.LoadOp: load_once,
    tile.ReduceOp: of_one,
    tile.BroadcastOp: spread,
    tile.ExpandDimsOp: spread,
    tile.ReshapeOp: spread,
    tile.TransOp: transposition,
    tile.HintOp: without_hint,
}
