"""Rings of stages: buffers that TMA loads fill and products empty, with two memory barriers per stage.

A stage is *full* when its copies have landed (bytes counted by the barrier), and *empty* when every warp that reads
it has said so (PTX ISA, `mbarrier`; CUTLASS `PipelineTmaAsync`). Both sides count stages by themselves: the phase
changes whenever the stages start again.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntAttr, IntegerAttr, StringAttr, i1, i32
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.passes.analysis.edit import insert_before
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

    @property
    def operands(self) -> list[SSAValue]:
        return [v for values in self.coordinates for v in values]


def barriers(stages: int, arrivals: int | None, before: Operation) -> SSAValue:
    """Memory barriers, one per stage: of bytes, or of the arrivals of that many warps."""
    count = {"arrival_count": IntegerAttr(arrivals, i32)} if arrivals is not None else {}
    op = gpu.MbarrierInitOp.create(
        result_types=[gpu.MbarriersType(IntAttr(stages))], properties=dict(count)
    )
    insert_before(op, before)
    return op.result


def constant(number: int, before: Operation) -> SSAValue:
    """An i32."""
    op = arith.ConstantOp(IntegerAttr(number, i32))
    insert_before(op, before)
    return op.result


def true(before: Operation) -> SSAValue:
    """An i1."""
    op = arith.ConstantOp(IntegerAttr(1, i1))
    insert_before(op, before)
    return op.result


def compare(predicate: str, a: SSAValue, b: SSAValue, before: Operation) -> SSAValue:
    """`a predicate b` of two integers."""
    op = tile.CmpIOp.create(
        operands=[a, b], result_types=[i1], properties={"predicate": StringAttr(predicate)}
    )
    insert_before(op, before)
    return op.result


def advance(at: Position, stages: int, before: Operation) -> Position:
    """The position one iteration later."""
    zero, one, count = (constant(n, before) for n in (0, 1, stages))
    plus, other = arith.AddiOp(at.stage, one), arith.XOrIOp(at.phase, one)
    for op in (plus, other):
        insert_before(op, before)
    wraps = compare("eq", plus.result, count, before)
    stage = tile.SelectOp.create(operands=[wraps, zero, plus.result], result_types=[i32])
    phase = tile.SelectOp.create(operands=[wraps, other.result, at.phase], result_types=[i32])
    for op in (stage, phase):
        insert_before(op, before)
    return Position(stage.result, phase.result)
