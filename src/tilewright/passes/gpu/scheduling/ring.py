"""Rings of stages: buffers that TMA loads fill and MMAs empty, with two memory barriers per stage.

A stage is *full* when its copies have landed (bytes counted by the barrier), and *empty* when every warp that reads
it has said so (PTX ISA, `mbarrier`; CUTLASS `PipelineTmaAsync`). Both sides count stages by themselves: the phase
changes whenever the stages start again.

In loops without a producer warp (`release_stages`) the barrier of a pipelined loop orders what all warps have read from a
stage before the copies that overwrite it. Only the thread that issues those copies has to wait for that: each warp
arrives at the mbarrier of the stage, and goes on.

    wait for stage i; issue the first MMA        wait for stage i; issue the first MMA
    barrier                                ->    arrive at the mbarrier of stage i - 1
    one thread: copies -> stage i - 1            one thread: wait for all arrivals; copies -> stage i - 1
    softmax ...                                  softmax ...

A warpgroup may then be ahead of another by as many iterations as copies are, so that its MMAs run beside the element-wise
operations of the other (CUTLASS: `consumer_release` of `PipelineTmaAsync`).
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntAttr, IntegerAttr, i1, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import gpu
from tilewright.ir.walk import following
from tilewright.passes.analysis.edit import erase, insert_before, start_of
from tilewright.passes.analysis.emit import Emitter
from tilewright.passes.gpu.analysis.num_ctas import warps_of
from tilewright.passes.gpu.analysis.tma_tiles import TmaTile
from tilewright.passes.gpu.scheduling.graph import CopyGroup


@dataclass(frozen=True)
class Position:
    """A stage of a ring and its phase (i32 both)."""

    stage: SSAValue
    phase: SSAValue


@dataclass(eq=False)
class Ring:
    """The barriers of one group of copies, and how each copy is a TMA tile."""

    group: CopyGroup
    tiles: list[TmaTile]
    coordinates: list[list[SSAValue]]
    """Values in the loop's body where each tile begins."""
    shapes: list[tuple[list[SSAValue], list[SSAValue]]]
    full: SSAValue
    empty: SSAValue


def barriers(stages: int, arrivals: int | None, before: Operation) -> SSAValue:
    """Memory barriers, one per stage: of bytes, or of the arrivals of that many warps."""
    count = {"arrival_count": IntegerAttr(arrivals, i32)} if arrivals is not None else {}
    kind = gpu.MbarriersType(IntAttr(stages))
    return Emitter(before).make(gpu.MbarrierInitOp, (), kind, **count)


def constant(number: int, before: Operation) -> SSAValue:
    """An i32."""
    return Emitter(before).constant(number, i32)


def true(before: Operation) -> SSAValue:
    """An i1."""
    return Emitter(before).constant(1, i1)


def compare(predicate: str, a: SSAValue, b: SSAValue, before: Operation) -> SSAValue:
    """`a predicate b` of two integers."""
    return Emitter(before).compare(predicate, a, b)


def advance(at: Position, stages: int, before: Operation) -> Position:
    """The position one iteration later."""
    emitter = Emitter(before)
    zero, one, count = (emitter.constant(n, i32) for n in (0, 1, stages))
    plus = emitter.binary(arith.AddiOp, at.stage, one)
    other = emitter.binary(arith.XOrIOp, at.phase, one)
    wraps = emitter.compare("eq", plus, count)
    return Position(emitter.select(wraps, zero, plus), emitter.select(wraps, other, at.phase))


def release_stages(
    body: Block, barrier: Operation, stage: SSAValue, phase: SSAValue, stages: int, function: FuncOp
) -> None:
    """Replace the barrier of a pipelined body. `stage`: that of the copies behind it; `phase`: of the iteration's stage,
    which is also the number, modulo 2, of arrivals of this iteration at `stage`.

    Requires: the barrier orders nothing but reads of the stages and the copies behind it, and each iteration arrives at
    one stage. Ensures: copies to a stage start when every warp has read it.
    """
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
