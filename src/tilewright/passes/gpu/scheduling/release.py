"""Stages that warpgroups release one by one, instead of meeting at a barrier in every iteration.

The barrier of a pipelined loop orders what all warps have read from a stage before the copies that overwrite it. Only the
thread that issues those copies has to wait for that: each warp arrives at the mbarrier of the stage, and goes on.

    wait for stage i; issue the first MMA        wait for stage i; issue the first MMA
    barrier                                ->    arrive at the mbarrier of stage i - 1
    one thread: copies -> stage i - 1            one thread: wait for all arrivals; copies -> stage i - 1
    softmax ...                                  softmax ...

A warpgroup may then be ahead of another by as many iterations as copies are, so that its MMAs run beside the element-wise
operations of the other (CUTLASS: `consumer_release` of `PipelineTmaAsync`).

Requires: the barrier orders nothing but reads of the stages and the copies behind it, and each iteration arrives at one
stage. Ensures: copies to a stage start when every warp has read it.
"""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import gpu
from tilewright.ir.walk import following
from tilewright.passes.analysis.edit import erase, insert_before, start_of
from tilewright.passes.gpu.analysis.num_ctas import warps_of
from tilewright.passes.gpu.scheduling.ring import barriers, true


def release_stages(
    body: Block, barrier: Operation, stage: SSAValue, phase: SSAValue, stages: int, function: FuncOp
) -> None:
    """Replace the barrier of a pipelined body. `stage`: that of the copies behind it; `phase`: of the iteration's stage,
    which is also the number, modulo 2, of arrivals of this iteration at `stage`."""
    others = any(isinstance(op, gpu.BarrierOp) and op is not barrier for op in body.ops)
    copies = next((op for op in following(barrier) if issues_copies(op)), None)
    if others or copies is None:
        return
    empty = barriers(stages, warps_of(function), start_of(function.body.block))
    arrive = gpu.MbarrierArriveOp.create(operands=[empty, stage, true(barrier)])
    insert_before(arrive, barrier)
    wait = gpu.MbarrierWaitOp.create(operands=[empty, stage, phase])
    insert_before(wait, start_of(copies.regions[0].block))
    erase(barrier)


def issues_copies(op: Operation) -> bool:
    """Whether an operation is the branch of the thread that issues TMA loads."""
    return isinstance(op, scf.IfOp) and any(isinstance(o, gpu.TmaLoadOp) for o in op.walk())
