"""Fold hints about values that the launch specializes on, and attach those about kernel arguments to these."""

from __future__ import annotations

from math import lcm
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, IntegerType, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from tilewright.dialects import tile
from tilewright.ir.walk import closure, sources
from tilewright.passes.analysis.emit import Emitter

_ARITHMETIC = (
    arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp, arith.ConstantOp,
    tile.AddPtrOp, tile.HintOp,
)  # fmt: skip
_DIVISOR = "tile.divisibility"


def without_hint(op: Operation, emitter: Emitter) -> SSAValue | None:
    """The source of a hint that says what is, or can be, known of kernel arguments."""
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


RULES = {tile.HintOp: without_hint}
