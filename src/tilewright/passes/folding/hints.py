"""Promises about values that the launcher knows already."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from tilewright.dialects import tile
from tilewright.passes.analysis.emit import Emitter

_ARITHMETIC = (
    arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp, arith.ConstantOp,
    tile.AddPtrOp, tile.HintOp,
)  # fmt: skip


def known_to_launcher(op: Operation, emitter: Emitter) -> SSAValue | None:
    """The source of an `aligned` hint that is computed from kernel arguments alone.

    Launches specialize on the divisibility of arguments, and tensor maps are encoded from arguments that passes
    recognize by their identity.
    """
    if not isinstance(op, tile.HintOp) or op.kind.data != tile.ALIGNED:
        return None
    pending, seen = [op.source], set[SSAValue]()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value, BlockArgument):
            if not isinstance(value.owner.parent_op(), FuncOp):
                return None
        elif isinstance(value.owner, _ARITHMETIC):
            pending += value.owner.operands
        else:
            return None
    return op.source


RULES = {tile.HintOp: known_to_launcher}
