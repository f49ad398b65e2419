"""The consumer warps of a scheduled loop: waits, releases, and the peeled iterations of a rotation.

All of it is derived from the order of the steps. The consumer waits for a stage before its first reader and for a
MMA before its first user (`wgmma.wait_group` counts the groups issued since), and releases a stage when every
MMA that reads it has completed. A rotated loop runs its early steps for iteration t and its late ones for t - 1:

    if the trip count is positive:
      prologue:         early steps of the first iteration
      steady state:     early and late steps, in the order of the schedule
      epilogue:         late steps of the last iteration
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import gpu
from tilewright.passes.analysis.edit import (
    Mapping,
    branch,
    end_of,
    initial,
    insert_before,
    replace_op,
    yielded,
)
from tilewright.passes.analysis.effects import is_pure_elementwise
from tilewright.passes.analysis.emit import Emitter
from tilewright.passes.gpu.scheduling.graph import CopyGroup
from tilewright.passes.gpu.scheduling.ring import (
    Position,
    Ring,
    advance,
    compare,
    true,
)
from tilewright.passes.gpu.scheduling.shifts import Schedule


class _InFlight:
    """An MMA of this step that may not be over."""

    def __init__(self, result: SSAValue, groups: list[tuple[CopyGroup, int]]) -> None:
        self.result = result
        self.groups = groups
        """The copy groups that it reads and the shift of their iteration."""
        self.over = False
        self.value: SSAValue | None = None
        """The result after the wait for it."""


class StepEmitter:
    """Emits steps of one or two iterations before an operation, with the waits and releases they need.

    `shifts`: of each iteration's steps, in the order of `positions` and `mappings`.
    """

    def __init__(
        self,
        schedule: Schedule,
        rings: list[Ring],
        shifts: list[int],
        positions: list[Position],
        mappings: list[Mapping],
        before: Operation,
    ) -> None:
        self.graph, self.before = schedule.graph, before
        self.ring_of = {ring.group: ring for ring in rings}
        self.positions, self.mappings = positions, mappings
        self.issued: list[_InFlight] = []
        self.landed: set[tuple[CopyGroup, int]] = set()
        self.left = {
            (group, index): _last_readers(schedule, group, shift)
            for group in self.ring_of
            for index, shift in enumerate(shifts)
        }
        """Readers of a group of copies, not complete yet, after which its stage is released; none if later ones follow."""

    def emit(self, op: Operation, shift: int) -> None:
        """One step for the iteration of its shift."""
        if isinstance(op, gpu.BarrierOp | gpu.LocalStoreOp | gpu.LocalTransposeOp):
            self._finish_readers_of_threads()
        mapping = self.mappings[shift]
        accumulator = op.acc if isinstance(op, gpu.WgmmaOp) else None
        for value in self.graph.operands_of(op):
            if value is not accumulator:
                self._wait_for(value, shift)
        read = [(g, shift) for g in dict.fromkeys(map(self.graph.group_read, op.operands)) if g]
        for key in read:
            self._wait_until_full(key)
        if accumulator is not None:
            self._map_chain(accumulator, mapping)
        copy = op.clone(mapping)
        for index, operand in enumerate(copy.operands):
            if self.graph.group_read(operand) is not None:
                copy.operands[index + 1] = self.positions[shift].stage
        insert_before(copy, self.before)
        if isinstance(copy, gpu.WgmmaOp):
            self.issued.append(_InFlight(copy.result, read))
        else:
            self._note_over(read)

    def value(self, value: SSAValue, shift: int) -> SSAValue:
        """The current value for a value of the body, after the wait if it is an MMA."""
        self._wait_for(value, shift)
        return self.mappings[shift].get(value, value)

    def finish(self) -> None:
        """Wait for every MMA that is in flight."""
        for mma in self.issued:
            if not mma.over:
                self._wait(self.issued[-1])
                return

    def _map_chain(self, value: SSAValue, mapping: Mapping) -> None:
        """Let an accumulator be the MMA itself, in flight or not."""
        root = self.graph.through_waits(value)
        if value not in mapping and root in mapping:
            mapping[value] = mapping[root]

    def _wait_for(self, value: SSAValue, shift: int) -> None:
        """Make an MMA's result available, if `value` is one (through its wait)."""
        mapping, root = self.mappings[shift], self.graph.through_waits(value)
        new = mapping.get(root)
        if root is not value and value not in mapping and new is not None:
            mapping[value] = new
        new = mapping.get(value)
        mma = next((p for p in self.issued if p.result is new), None)
        if mma is not None:
            over = self._wait(mma)
            for name in (value, root):
                mapping[name] = over

    def _wait(self, mma: _InFlight) -> SSAValue:
        if mma.value is not None:
            return mma.value
        pending = len(self.issued) - 1 - self.issued.index(mma)
        e, kind = Emitter(self.before), mma.result.type
        attribute = IntegerAttr(pending, i32)
        mma.value = e.make(gpu.WgmmaWaitOp, [mma.result], kind, pending=attribute)
        for other in self.issued[: self.issued.index(mma) + 1]:
            if not other.over:
                other.over = True
                self._note_over(other.groups)
        return mma.value

    def _finish_readers_of_threads(self) -> None:
        """MMAs that read buffers which threads wrote, up to the barrier that allows the next write."""
        for mma in reversed(self.issued):
            op = mma.result.owner
            if not mma.over and isinstance(op, gpu.WgmmaOp) and self._reads_threads(op):
                self._wait(mma)
                return

    def _reads_threads(self, op: gpu.WgmmaOp) -> bool:
        shared = [v for v in (op.lhs, op.rhs) if isinstance(v.type, gpu.SharedType)]
        return any(self.graph.group_read(v) is None for v in shared)

    def _wait_until_full(self, key: tuple[CopyGroup, int]) -> None:
        if key in self.landed:
            return
        self.landed.add(key)
        group, shift = key
        at = self.positions[shift]
        wait = gpu.MbarrierWaitOp.create(operands=[self.ring_of[group].full, at.stage, at.phase])
        insert_before(wait, self.before)

    def _note_over(self, read: list[tuple[CopyGroup, int]]) -> None:
        """Release the stages whose last reader is over."""
        for key in read:
            self.left[key] -= 1
            if self.left[key] == 0:
                group, shift = key
                empty, stage = self.ring_of[group].empty, self.positions[shift].stage
                arrive = gpu.MbarrierArriveOp.create(operands=[empty, stage, true(self.before)])
                insert_before(arrive, self.before)


def _last_readers(schedule: Schedule, group: CopyGroup, shift: int) -> int:
    """How many steps of a shift read a group, if no step of a later shift does."""
    late = sum(reader in schedule.late for reader in group.readers)
    if shift:
        return late
    return 0 if late else len(group.readers)


class Consumer:
    """Rewrites one loop for the warps that compute."""

    def __init__(self, schedule: Schedule, rings: list[Ring], stages: int) -> None:
        self.schedule, self.rings, self.stages = schedule, rings, stages
        self.graph, self.loop = schedule.graph, schedule.graph.loop
        self.body = self.graph.body
        self.arguments = list(self.body.args[1:])
        self.late = [a for a in self.arguments if schedule.shift(a) == 1]
        self.crossing = schedule.crossing if schedule.is_rotated else []
        """Values of the iteration before that the late steps take."""

    def rewrite(self, at: Position) -> Position:
        """Replace the loop; the position of its rings after it."""
        return self._rotated(at) if self.schedule.is_rotated else self._in_order(at)

    def _steps(self, shift: int, at: Position, mapping: Mapping, end: Operation) -> StepEmitter:
        """Emit the steps of that shift for one iteration, up to the end of their MMAs."""
        emitter = StepEmitter(self.schedule, self.rings, [shift], [at], [mapping], end)
        for op, found in self.schedule.order:
            if found == shift:
                emitter.emit(op, 0)
        emitter.finish()
        return emitter

    # ---- one iteration at a time ---------------------------------------------------------------------

    def _in_order(self, at: Position) -> Position:
        loop = self.loop
        inits = [*loop.iter_args, at.stage, at.phase]
        new, inner = self._new_loop(loop.lb, inits, loop)
        (counter, *arguments), end = new.body.block.args, inner.anchor
        here = Position(*arguments[-2:])
        mapping: Mapping = {self.body.args[0]: counter}
        mapping.update(zip(self.arguments, arguments, strict=False))
        emitter = self._steps(0, here, mapping, end)
        values = [emitter.value(yielded(a), 0) for a in self.arguments]
        after = advance(here, self.stages, end)
        end.operands = [*values, after.stage, after.phase]
        self._replace(list(new.results))
        return Position(*new.results[-2:])

    # ---- rotated -------------------------------------------------------------------------------------

    def _rotated(self, at: Position) -> Position:
        loop = self.loop
        none = [*loop.iter_args, at.stage, at.phase]
        runs = branch(compare("slt", loop.lb, loop.ub, loop), [], none, (), none)
        runs.location = loop.location
        end = end_of(runs.true_region.block)
        end.operands = self._peeled(at, end)
        insert_before(runs, loop)
        self._replace(list(runs.results))
        return Position(*runs.results[-2:])

    def _peeled(self, at: Position, end: Operation) -> list[SSAValue]:
        """Emit prologue, loop and epilogue; returns the results of the loop."""
        loop = self.loop
        first: Mapping = {self.body.args[0]: loop.lb}
        first.update(zip(self.arguments, loop.iter_args, strict=True))
        emitter = self._steps(0, at, first, end)
        inits = self._state(emitter, [initial(a) for a in self.late])
        next_ = advance(at, self.stages, end)
        start = Emitter(end).binary(arith.AddiOp, loop.lb, loop.step)
        new = self._steady(start, [*inits, next_.stage, next_.phase, at.stage, at.phase], end)
        *state, stage, phase, last_stage, last_phase = new.results
        last: Mapping = {}
        self._enter(last, list(state))
        emitter = self._steps(1, Position(last_stage, last_phase), last, end)
        early = dict(zip([a for a in self.arguments if a not in self.late], state, strict=False))
        values = [
            emitter.value(yielded(a), 0) if a in self.late else early[a] for a in self.arguments
        ]
        return [*values, stage, phase]

    def _steady(self, start: SSAValue, inits: list[SSAValue], before: Operation) -> scf.ForOp:
        """The loop over all iterations but the first: its early steps, and the late ones of the iteration before."""
        new, inner = self._new_loop(start, inits, before)
        (counter, *arguments), end = new.body.block.args, inner.anchor
        *state, stage, phase, last_stage, last_phase = arguments
        here, previous = Position(stage, phase), Position(last_stage, last_phase)
        late: Mapping = {}
        self._enter(late, state)
        early: Mapping = {self.body.args[0]: counter}
        early.update(zip([a for a in self.arguments if a not in self.late], state, strict=False))
        emitter = StepEmitter(
            self.schedule, self.rings, [0, 1], [here, previous], [early, late], end
        )
        remaining = sum(shift for _, shift in self.schedule.order)
        for op, shift in self.schedule.order:
            emitter.emit(op, shift)
            remaining -= shift
            if (
                shift and not remaining
            ):  # values of the previous iteration, for the early steps of this one
                self._hand_over(early, late)
        emitter.finish()
        values = self._state(emitter, [emitter.value(yielded(a), 1) for a in self.late])
        self._define_operands_late(early, end)
        after = advance(here, self.stages, end)
        end.operands = [*values, after.stage, after.phase, here.stage, here.phase]
        return new

    def _define_operands_late(self, early: Mapping, end: Operation) -> None:
        """Compute what MMAs of the next iteration read from registers behind the waits for this iteration's, whose operands
        have these registers: ptxas serializes MMAs if others are written in between (C7513). (Attention in bf16, 32 heads of
        4096 x 128, tiles of 128 x 64, NVIDIA H100: 519 -> 462 us, causal 321 -> 283 us.)"""
        for value in self.crossing:
            op = early[value].owner if value in early else None
            reads = (use.operation for use in value.uses)
            if not any(isinstance(read, gpu.WgmmaOp) and read.lhs is value for read in reads):
                continue
            if (
                isinstance(op, Operation)
                and is_pure_elementwise(op)
                and not any(r.uses for r in op.results)
            ):
                insert_before(op, end)

    def _hand_over(self, early: Mapping, late: Mapping) -> None:
        """Forward values of late steps to the arguments of the next iteration; an MMA stays in flight until an
        early step uses it."""
        for argument in self.late:
            value = self.graph.through_waits(yielded(argument))
            early[argument] = late.get(value, value)

    def _state(self, emitter: StepEmitter, late: list[SSAValue]) -> list[SSAValue]:
        """The carried values of the rotated loop: early arguments of the next iteration, values crossing the
        iteration, and late arguments of this iteration."""
        early = [emitter.value(yielded(a), 0) for a in self.arguments if a not in self.late]
        return [*early, *(emitter.value(v, 0) for v in self.crossing), *late]

    def _enter(self, mapping: Mapping, state: Sequence[SSAValue]) -> None:
        """Names of `_state` for the late steps of its iteration."""
        skipped = len(self.arguments) - len(self.late)
        names = [*self.crossing, *self.late]
        mapping.update(zip(names, state[skipped:], strict=True))

    # ---- blocks and loops ----------------------------------------------------------------------------

    def _new_loop(
        self, start: SSAValue, inits: list[SSAValue], before: Operation
    ) -> tuple[scf.ForOp, Emitter]:
        loop, names = self.loop, () if self.schedule.is_rotated else self.body.args
        bounds = [start, loop.ub, loop.step]
        return Emitter(before, loop.location).loop(bounds, inits, loop.attributes, names)

    def _replace(self, results: list[SSAValue]) -> None:
        replace_op(self.loop, results[: len(self.loop.results)])
