"""Two ways to bring operands into shared memory: copies of each thread, or boxes of the TMA.

Both start the copies of an iteration into a stage and later wait for a stage; `pipeline-loads` does the
rest. Threads' copies are counted in groups, boxes by a memory barrier a stage, whose phase changes each
time round.
"""

from __future__ import annotations

from typing import Protocol

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntAttr, IntegerAttr, i1, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region, SSAValue

from tilewright.dialects import gpu
from tilewright.passes.analysis.edit import insert_before, start_of
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.analysis.remarks import Missed, Reason, report_missed
from tilewright.passes.gpu.analysis.clobbers import may_clobber
from tilewright.passes.gpu.analysis.tma_tiles import TmaTile, match_tma_tile
from tilewright.targets import Feature, TargetInfo

Mapping = dict[SSAValue, SSAValue]

TMA = "TMA tile"
"""The form of a copy by the tensor memory accelerator, in remarks."""


class CopyEngine(Protocol):
    """How the copies of one iteration are made."""

    operands: list[SSAValue]
    """What they need that the loop's body computes."""
    phases: bool
    """Whether `wait` needs to know the phase of a stage."""

    def start(self, mapping: Mapping, slot: SSAValue, active: SSAValue, before: Operation) -> None:
        """Emit the copies of the iteration that `mapping` leads to, into a stage."""
        ...

    def wait(self, slot: SSAValue, phase: SSAValue | None, ahead: int, before: Operation) -> None:
        """Emit the wait for a stage, `ahead` iterations having been started beyond it."""
        ...


class CpAsyncCopies:
    """`cp.async`: each thread copies its elements."""

    phases = False

    def __init__(self, copies: list[gpu.AsyncCopyOp]) -> None:
        self._copies = copies
        self.operands = [v for c in copies for v in c.operands]

    def start(self, mapping: Mapping, slot: SSAValue, active: SSAValue, before: Operation) -> None:
        for copy in self._copies:
            new = copy.clone(mapping)
            new.operands[len(new.operands) - 2] = slot
            new.operands[len(new.operands) - 1] = active
            insert_before(new, before)
        insert_before(gpu.AsyncCommitGroupOp.create(), before)

    def wait(self, slot: SSAValue, phase: SSAValue | None, ahead: int, before: Operation) -> None:
        pending = IntegerAttr(ahead - 1, i32)
        insert_before(gpu.AsyncWaitOp.create(properties={"pending": pending}), before)


class TmaCopies:
    """The tensor memory accelerator: one thread starts the copy of whole tiles."""

    phases = True

    def __init__(
        self, copies: list[gpu.AsyncCopyOp], boxes: list[TmaTile], stages: int, function: FuncOp
    ):
        self._copies, self._boxes = copies, boxes
        self._entry = start_of(function.body.block)
        self._places = [box.place(copy) for copy, box in zip(copies, boxes, strict=True)]
        self.operands = [v for place in self._places for v in place]
        self._shapes = [box.shape(self._entry) for box in boxes]
        self._bytes = sum(gpu.shared_layout_of(c.buffer).bytes for c in copies)
        barriers = gpu.MbarrierInitOp.create(result_types=[gpu.MbarriersType(IntAttr(stages))])
        insert_before(barriers, self._entry)
        self.barriers = barriers.result

    def give_up(self) -> None:
        """Take back what was made for copies that are not to be."""
        barriers = self.barriers.owner
        barriers.detach()  # type: ignore[union-attr]
        barriers.erase()  # type: ignore[union-attr]

    def start(self, mapping: Mapping, slot: SSAValue, active: SSAValue, before: Operation) -> None:
        elect = gpu.ElectOp.create(result_types=[i1])
        both = arith.AndIOp(elect.result, active)
        inside = Block()
        expect = gpu.MbarrierArriveExpectTxOp.create(
            operands=[self.barriers, slot],
            properties={"bytes": IntegerAttr(self._bytes, i32)},
        )
        inside.add_op(expect)
        for copy, box, shape, place in zip(
            self._copies, self._boxes, self._shapes, self._places, strict=True
        ):
            corner = [mapping.get(v, v) for v in place]
            new = gpu.TmaLoadOp.build(
                operands=[box.root, *shape, corner, copy.buffer, self.barriers, slot],
                properties={"range_checked": box.range_checked},
            )
            new.location = copy.location
            inside.add_op(new)
        inside.add_op(scf.YieldOp.create())
        branch = scf.IfOp.create(
            operands=[both.result], regions=[Region(inside), Region(Block([scf.YieldOp.create()]))]
        )
        for op in (elect, both, branch):
            insert_before(op, before)

    def wait(self, slot: SSAValue, phase: SSAValue | None, ahead: int, before: Operation) -> None:
        wait = gpu.MbarrierWaitOp.create(operands=[self.barriers, slot, phase])  # type: ignore[list-item]
        insert_before(wait, before)


def choose(
    copies: list[gpu.AsyncCopyOp], stages: int, function: FuncOp, boxes: bool, target: TargetInfo
) -> CopyEngine:
    """Boxes where the target copies them and all copies are boxes, else threads' copies.

    Boxes are read past the order of the program's own accesses (the async proxy), so nothing of what
    they read may be written by the kernel.
    """
    able = boxes and target.has(Feature.TMA)
    if not able or may_clobber(function, [copy.base for copy in copies]):
        reason = Reason.CLOBBERED if able else Reason.NO_TMA
        for copy in copies:
            report_missed(copy, TMA, Missed(reason))
        return CpAsyncCopies(copies)
    known = Facts()
    found = [match_tma_tile(copy, known) for copy in copies]
    tiles = [box for box in found if isinstance(box, TmaTile)]
    for copy, box in zip(copies, found, strict=True):
        if len(tiles) < len(copies):
            missed = box if isinstance(box, Missed) else Missed(Reason.OTHER_COPY)
            report_missed(copy, TMA, missed)
        elif isinstance(box, TmaTile) and box.guards:
            report_missed(copy, TMA, Missed(Reason.RANGE_CHECK, (str(box.guards),)))
    if len(tiles) < len(copies):
        return CpAsyncCopies(copies)
    return TmaCopies(copies, tiles, stages, function)
