"""Copies that no pass issues ahead of their iteration, and why."""

from __future__ import annotations

from xdsl.dialects import scf

from tilewright.dialects import gpu, tile
from tilewright.passes.analysis.remarks import Missed, Reason, report_missed
from tilewright.passes.gpu.analysis.accesses import may_clobber


def report_serial_copies(loop: scf.ForOp, stages: int) -> None:
    """Report the copies that the loop waits for where it issues them."""
    for op in loop.body.block.ops:
        if isinstance(op, gpu.AsyncCopyOp) and gpu.buffer_type(op.buffer).stages.data == 1:
            reason = Reason.ONE_STAGE if stages < 2 else _obstacle(loop, op)
            report_missed(op, "copy in a pipeline", Missed(reason))


def _obstacle(loop: scf.ForOp, copy: gpu.AsyncCopyOp) -> Reason:
    """Why a loop is not pipelined."""
    if may_clobber(loop, [copy.base]):
        return Reason.LOOP_WRITES
    scheduled = (gpu.WgmmaOp, gpu.AsyncCopyOp, gpu.TmaLoadOp, tile.DotOp)
    nested = [op for op in loop.body.block.ops if op.regions]
    nested = [op for op in nested if any(isinstance(o, scheduled) for o in op.walk())]
    if any(isinstance(o, scf.ForOp | scf.WhileOp) for op in nested for o in op.walk()):
        return Reason.INNER_LOOP
    return Reason.DOT_IN_BRANCH if nested else Reason.NO_PIPELINE
