"""Match the copies, waits and dots that `promote-shared` leaves in a loop, or say why no pass can pipeline it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.ir.walk import following
from tilewright.passes.analysis.edit import end_of
from tilewright.passes.analysis.remarks import Missed, Reason, report_missed
from tilewright.passes.gpu.analysis.accesses import may_clobber
from tilewright.passes.gpu.analysis.buffer_views import buffer_users
from tilewright.passes.gpu.select_mma import SHARED_FMA

Reader = gpu.WgmmaOp | gpu.LocalLoadOp


@dataclass
class PipelinePattern:
    """The copies of a loop that can be started iterations ahead, and their readers."""

    copies: list[gpu.AsyncCopyOp]
    turns: list[gpu.LocalTransposeOp]
    commits: list[gpu.AsyncCommitGroupOp]
    waits: list[gpu.AsyncWaitOp]
    readers: list[Reader]
    """What reads the stages, in order."""
    last_barrier: gpu.BarrierOp | None
    """The barrier after the readers, where it is for them alone."""
    done: gpu.WgmmaWaitOp | None = None
    """The wait for the MMA, if it runs on its own."""
    several: bool = False
    """Whether more than one MMA reads the stages; each is over at the end of its iteration."""


_KINDS = (
    gpu.AsyncCopyOp, gpu.AsyncCommitGroupOp, gpu.AsyncWaitOp, gpu.WgmmaOp, gpu.WgmmaWaitOp,
    gpu.LocalLoadOp,
)  # fmt: skip


def find_pipeline_pattern(loop: scf.ForOp) -> PipelinePattern | None:
    """The multiplication of a loop whose operands are copied for it, or several."""
    return find_single_dot(loop) or _several(loop)


def find_single_dot(loop: scf.ForOp) -> PipelinePattern | None:
    """The one multiplication of a loop whose operands are copied for it, and read by nothing else."""
    found = _single_dot(loop)
    if found is None:
        return None
    known = {*found.copies, *found.turns, *found.readers}
    users = {op for copy in found.copies for op in buffer_users(copy.buffer)}
    others = [op for op in users - known if not isinstance(op, gpu.LocalDeallocOp)]
    return None if others else found


def _single_dot(loop: scf.ForOp) -> PipelinePattern | None:
    ops = list(loop.body.block.ops)
    found: dict[Any, list[Any]] = {k: [op for op in ops if isinstance(op, k)] for k in _KINDS}
    turns = [op for op in ops if isinstance(op, gpu.LocalTransposeOp)]
    copies, mmas, reads = found[gpu.AsyncCopyOp], found[gpu.WgmmaOp], found[gpu.LocalLoadOp]
    commits, waits = found[gpu.AsyncCommitGroupOp], found[gpu.AsyncWaitOp]
    if len(commits) != 1 or len(waits) != 1:
        return None
    if may_clobber(loop, [copy.base for copy in copies]):
        return None
    if not mmas:
        barrier = _barrier_after(reads[-1]) if reads and len(reads) == len(copies) else None
        return PipelinePattern(copies, turns, commits, waits, reads, barrier) if barrier else None
    if reads and len(reads) == len(copies) and not turns:
        return PipelinePattern(
            copies, turns, commits, waits, reads, None
        )  # what they feed stays as it is
    if len(mmas) != 1 or len(copies) != 2 or reads:
        return None
    done = found[gpu.WgmmaWaitOp][0]
    barrier = done.next_op
    if not isinstance(barrier, gpu.BarrierOp) or not _only_carried(done.result, loop):
        return None
    return PipelinePattern(copies, turns, commits, waits, mmas, barrier, done)


def _barrier_after(read: Operation) -> gpu.BarrierOp | None:
    """The barrier after the MMA that a read is for."""
    return next((op for op in following(read) if isinstance(op, gpu.BarrierOp)), None)


def _only_carried(value: SSAValue, loop: scf.ForOp) -> bool:
    """Whether the sums are used by nothing but the next iteration's multiplication."""
    end = end_of(loop.body.block)
    if [use.operation for use in value.uses] != [end]:
        return False
    position = list(end.operands).index(value)
    arg = loop.body.block.args[position + 1]
    return all(isinstance(use.operation, gpu.WgmmaOp) for use in arg.uses)


def _several(loop: scf.ForOp) -> PipelinePattern | None:
    """MMAs one after another, each complete at the end of the iteration, whatever is between them."""
    body = loop.body.block
    ops = list(body.ops)
    copies = [op for op in ops if isinstance(op, gpu.AsyncCopyOp)]
    waits = [op for op in ops if isinstance(op, gpu.AsyncWaitOp)]
    commits = [op for op in ops if isinstance(op, gpu.AsyncCommitGroupOp)]
    if not copies or may_clobber(loop, [copy.base for copy in copies]):
        return None
    inside = [o for op in ops for region in op.regions for o in region.walk()]
    if any(isinstance(op, (*_KINDS, gpu.LocalTransposeOp)) for op in inside):
        return None
    if any(wait.pending.value.data for wait in waits):
        return None
    buffers = {copy.buffer for copy in copies}
    users = [op for buffer in buffers for op in buffer_users(buffer)]
    users = [op for op in users if not isinstance(op, gpu.LocalDeallocOp)]  # after the loop
    readers = [op for op in ops if op in users and isinstance(op, Reader)]
    turns = [op for op in ops if isinstance(op, gpu.LocalTransposeOp) and op in users]
    known = {*copies, *readers, *turns}
    if len(buffers) != len(copies) or not readers or any(user not in known for user in users):
        return None
    if not all(_waited_for(op) for op in ops if isinstance(op, gpu.WgmmaOp)):
        return None
    return PipelinePattern(copies, turns, commits, waits, readers, None, several=True)


def _waited_for(mma: gpu.WgmmaOp) -> bool:
    """Whether an MMA is over in the iteration that starts it."""
    if mma.instruction.data == SHARED_FMA:
        return True
    wait = next((op for op in following(mma) if isinstance(op, gpu.WgmmaWaitOp)), None)
    return wait is not None and wait.pending.value.data == 0


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
