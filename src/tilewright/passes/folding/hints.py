"""Promises about values that the launcher knows already."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from tilewright.dialects import tile
from tilewright.ir.walk import closure, sources
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
    for value in closure([op.source], sources):
        if isinstance(value, BlockArgument):
            if not isinstance(value.owner.parent_op(), FuncOp):
                return None
        elif not isinstance(value.owner, _ARITHMETIC):
            return None
    return op.source


RULES = {tile.HintOp: known_to_launcher}
