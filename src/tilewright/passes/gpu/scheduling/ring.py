"""Rings of stages: buffers that TMA loads fill and MMAs empty, with two memory barriers per stage.

A stage is *full* when its copies have landed (bytes counted by the barrier), and *empty* when every warp that reads
it has said so (PTX ISA, `mbarrier`; CUTLASS `PipelineTmaAsync`). Both sides count stages by themselves: the phase
changes whenever the stages start again.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntAttr, IntegerAttr, i1, i32
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import gpu
from tilewright.passes.analysis.emit import Emitter
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
