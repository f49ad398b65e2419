"""Which integer arithmetic of a function makes offsets of pointers."""

from __future__ import annotations

from xdsl.dialects import arith, func, scf
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import tile
from tilewright.interpreter.numeric_checks import WRAPPING

#: operations that pass an integer on
_MOVING = (
    tile.SplatOp, tile.BroadcastOp, tile.ExpandDimsOp, tile.ReshapeOp, tile.TransOp, tile.HintOp,
    tile.SelectOp, arith.ExtSIOp,
)  # fmt: skip


def offset_arithmetic(function: func.FuncOp) -> frozenset[Operation]:
    """The sums and products that offsets of pointers are made of.

    IR does not say which integers are signed; hashes wrap on purpose, and reach offsets through a
    remainder, a mask or a shift, where this stops.
    """
    found: set[Operation] = set()
    seen: set[SSAValue] = set()
    pending: list[SSAValue] = []
    for op in function.walk():
        if isinstance(op, tile.AddPtrOp):
            pending.append(op.offset)
        elif isinstance(op, (tile.LoadViewOp, tile.StoreViewOp)):
            pending += [*op.strides, *op.starts, *op.indices]
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        op = value.owner
        if isinstance(op, Block):
            pending += _carried(value, op)
        elif isinstance(op, (scf.ForOp, scf.IfOp)):
            ends = [r.block.last_op for r in op.regions if r.blocks]
            at = op.results.index(value)  # type: ignore[arg-type]
            pending += [end.operands[at] for end in ends if end is not None]
        elif op.name in WRAPPING:
            found.add(op)
            pending += op.operands
        elif isinstance(op, _MOVING):
            pending += op.operands
    return frozenset(found)


def _carried(value: SSAValue, block: Block) -> list[SSAValue]:
    """Where a loop's carried value starts, and what its body passes on."""
    loop, at = block.parent_op(), value.index - 1  # type: ignore[attr-defined]
    if not isinstance(loop, scf.ForOp) or at < 0:
        return []
    end = loop.body.block.last_op
    return [loop.iter_args[at], *([end.operands[at]] if end is not None else [])]
