"""`pipeline-loads`: copy the operands of later iterations while the tensor cores work on the current one.

A loop that copies operands to shared memory, waits, and multiplies becomes one with several stages per buffer: iteration i
multiplies stage i and issues the copies of iteration i + D. Copies are in flight, and so is one MMA, which the next
iteration does not wait for. TMA loads signal every waiting thread through an mbarrier, so one barrier per iteration suffices,
placed where the tensor cores are busy:

    for i:                               copies of iterations 0 … S-2
      copy -> buffer                     for i:
      commit, wait 0, barrier    ->        wait for stage i % S
      multiply, wait 0, barrier            issue its MMA; wait for the previous MMA, barrier
                                           copies of iteration i+S-1 -> its stage
                                         wait 0

Data copied by `cp.async` is visible to other threads only after a barrier. That barrier comes first then, the copies follow it, and an
MMA in flight costs a stage (D = S - 2), since it still reads its operands; the stage is added if it fits into shared memory.

Operands of `mma.sync` are loaded into registers (`gpu.local_load`) before the next barrier, so no MMA is in flight and
D = S - 1. The same holds for loops with several dots (attention), each of which is waited for in its own iteration: all
copies of an iteration are waited for at its start, and redundant barriers are removed (`analysis/barriers.py`):

    for i:                                 copies of iterations 0 … S-2
      copy -> k; commit, wait, barrier     for i:
      multiply, wait, barrier       ->       wait for stage i % S; issue the first MMA
      softmax                                barrier; copies of iteration i+S-1 -> stage (i-1) % S
      copy -> v; commit, wait, barrier       wait for the MMA; softmax
      multiply, wait, barrier                multiply, wait

Requires `promote-shared`. Ensures: a stage is written only after a barrier that all its readers have passed, and read only after its
copies are complete and a barrier. Copies beyond the last iteration are predicated off, and so are loads that their addresses
depend on (`analysis/copy_slices.py`). Loops that write what they copy, or what addresses are loaded from, are left alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntAttr, IntegerAttr, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.ir.walk import preceding
from tilewright.passes.analysis.edit import (
    Mapping,
    branch,
    end_of,
    erase,
    initial,
    insert_before,
    replace_op,
    start_of,
    with_operands,
    yielded,
)
from tilewright.passes.analysis.effects import erase_dead
from tilewright.passes.analysis.emit import Emitter, constant_int
from tilewright.passes.base import FunctionPass
from tilewright.passes.gpu.analysis.barriers import remove_redundant_barriers
from tilewright.passes.gpu.analysis.buffer_views import buffer_root, retype_views
from tilewright.passes.gpu.analysis.copy_engines import choose
from tilewright.passes.gpu.analysis.copy_slices import clone_slice, slice_of
from tilewright.passes.gpu.analysis.loop_carried import (
    LoopCarriedScalars,
    enclosing_regions,
    is_in_loop,
    most_iterations,
)
from tilewright.passes.gpu.analysis.loop_dots import (
    PipelinePattern,
    find_pipeline_pattern,
    find_single_dot,
    report_serial_copies,
)
from tilewright.passes.gpu.analysis.num_ctas import number_around, warps_of
from tilewright.passes.gpu.analysis.registers import LOAD_CYCLES, PARTITIONS, iteration_cycles
from tilewright.passes.gpu.analysis.shared_allocation import bytes_beside, max_scratch_bytes
from tilewright.passes.gpu.analysis.tma_stores import exchanged, exchanged_in_parts
from tilewright.passes.gpu.scheduling.cost import WARPS_PER_GROUP
from tilewright.passes.gpu.scheduling.overlap import (
    ctas_with_registers,
    leave_last_in_flight,
    overlap_dots,
    plan_overlap,
)
from tilewright.passes.gpu.scheduling.ring import compare, constant, release_stages
from tilewright.passes.gpu.select_mma import SHARED_FMA
from tilewright.passes.gpu.widen_dots import WIDENED
from tilewright.targets import TargetInfo

STAGES = "gpu.num_stages"
_RESERVE = 512
"""Bytes of shared memory reserved for mbarriers."""
_ENOUGH, _ENOUGH_BYTES = 3, 128 << 10
"""Stages, and their bytes, that suffice: the rest of shared memory stages the epilogue. A fourth stage of 48 KB gained less than
fewer slots for epilogue subtiles cost (128 x 256 tiles on an H200)."""

_MIN_CTAS, _MIN_WARPS = 2, 8
"""CTAs and warps per SM that loops with two stages leave where one was asked for."""
_FEW_WARPS = 16
"""Warps per SM below which loops whose iterations take long give up stages for more, in CTAs of fewer warps than an SM has
partitions."""


@dataclass(frozen=True)
class PipelineLoads(FunctionPass):
    relevant_ops = ("scf.for",)
    requires = ("promote-shared",)
    fallback_options = {"lower-stores-to-tma": {"epilogue_subtiles": False}}
    mma_in_flight: int = 1
    """MMAs that an iteration leaves in flight (0 or 1)."""
    tma: bool = True
    """Copy TMA tiles by TMA."""
    multiple_dots: bool = True
    """Also pipeline loops with several dots."""
    overlap_dots: bool = True
    """Let the MMAs of one iteration overlap (`scheduling/overlap.py`)."""
    release_stages: bool = True
    """Let warpgroups release stages by mbarriers, not wait for each other at a barrier (`scheduling/ring.py`)."""
    epilogue_subtiles: bool = True
    """Assume that TMA stores use epilogue subtiles (`lower-stores-to-tma`)."""
    max_shared_bytes: int = 0
    """Shared memory of all buffers in bytes (0: the target's)."""

    def run(self, function: FuncOp, target: TargetInfo) -> None:
        for op in list(function.walk()):
            stages = stages_of(function, op)
            if isinstance(op, scf.ForOp):
                found = find_pipeline_pattern(op) if self.multiple_dots else find_single_dot(op)
                most = ctas_with_registers(op, warps_of(function))
                if found and (stages > 1 or _has_room(found, function, target, most)):
                    Pipeliner(op, found, function, max(2, stages), self, target).run()
            if isinstance(op, scf.ForOp) and op.parent is not None:
                report_serial_copies(op, stages)
        erase_dead(function.body.block)


def _has_room(pattern: PipelinePattern, function: FuncOp, target: TargetInfo, most: int) -> bool:
    """Whether two stages leave shared memory for 2 CTAs per SM, or `most` by registers: `num_stages=1` is about memory."""
    buffers = [copy.buffer for copy in pattern.copies]
    stage = sum(gpu.shared_layout_of(buffer).bytes for buffer in buffers)
    ctas = target.shared_bytes // (2 * stage + bytes_beside(function, buffers) + _RESERVE)
    return ctas >= min(_MIN_CTAS, most) and ctas * warps_of(function) >= _MIN_WARPS


def stages_of(function: FuncOp, loop: Operation | None = None) -> int:
    """`num_stages` (the attribute `gpu.num_stages`; 3 without it); for a loop that does two iterations at once half as
    many are ahead."""
    stages = number_around(function, STAGES, 3)
    return 1 + stages // 2 if loop is not None and WIDENED in loop.attributes else stages


class Pipeliner:
    """Rewrites one loop."""

    def __init__(
        self,
        loop: scf.ForOp,
        pattern: PipelinePattern,
        function: FuncOp,
        stages: int,
        options: PipelineLoads,
        target: TargetInfo,
    ) -> None:
        lag = options.mma_in_flight if pattern.done is not None else 0
        stages = min(stages, max(2, most_iterations(loop)))
        self.loop, self.pattern = loop, pattern
        self.body = loop.body.block
        bytes_ = sum(gpu.shared_layout_of(c.buffer).bytes for c in pattern.copies)
        turned = sum(gpu.shared_layout_of(t.target).bytes for t in pattern.turns)
        limit = options.max_shared_bytes or target.shared_bytes - _RESERVE
        mine = [c.buffer for c in pattern.copies] + [t.target for t in pattern.turns]
        self.beside = bytes_beside(function, mine)
        limit -= (1 + lag) * turned + self.beside
        room = limit - exchanged(loop, function)
        enough = max(_ENOUGH, -(-_ENOUGH_BYTES // bytes_))
        enough = min(max(stages, min(stages + lag, _ENOUGH)), enough)
        if options.epilogue_subtiles and room < enough * bytes_:
            in_parts = limit - exchanged_in_parts(loop, function, target)
            room = max(room, min(in_parts, enough * bytes_))
        if room < stages * bytes_ <= limit - exchanged(loop, function, in_halves=True):
            room = stages * bytes_  # a stage hides more latency than an exchange in one piece
        fits = max(1, room // bytes_)
        first = pattern.readers[0]
        self.at_once = (
            pattern.done is None
            or not isinstance(first, gpu.WgmmaOp)
            or first.instruction.data == SHARED_FMA
        )
        """Whether an MMA is over when it has been made: there is nothing to wait for."""
        self.most_ctas = ctas_with_registers(loop, warps_of(function))
        self.lag = lag if not self.at_once and self._worth_a_stage(stages, bytes_, room) else 0
        self.stages = min(stages + self.lag, fits)
        while self.stages > 2 and self._wants_ctas(self.stages, bytes_, function, target):
            self.stages -= 1
        self.late = False
        """Whether copies follow the MMA, which then costs no stage."""
        self.position: int | None = None
        """Of several dots, the result of that whose MMA an iteration leaves in flight."""
        self.function, self.options, self.target = function, options, target

    def _worth_a_stage(self, stages: int, bytes_: int, limit: int) -> bool:
        """Return whether one more stage fits without reducing the number of programs per SM, if registers allow several.
        Two resident programs hide more latency than one with an MMA in flight."""
        then, now = (limit // (count * bytes_) for count in (stages + 1, stages))
        return then == now >= 1 or (then >= 1 and self.most_ctas == 1)

    def _wants_ctas(self, stages: int, bytes_: int, function: FuncOp, target: TargetInfo) -> bool:
        """Return whether one stage less lets more CTAs with `mma.sync`, or with locks, share an SM that has few warps. A copy
        one iteration ahead arrives in time where an iteration takes as long: then it is warps that hide latency."""
        warps, ops = warps_of(function), list(self.body.walk())
        in_registers = all(isinstance(reader, gpu.LocalLoadOp) for reader in self.pattern.readers)
        others = self.beside + _RESERVE
        if any(isinstance(op, tile.AtomicCASOp) for op in ops):
            others = max_scratch_bytes(function)
            others += bytes_beside(function, [c.buffer for c in self.pattern.copies], self.loop)
        elif warps >= PARTITIONS or not in_registers or iteration_cycles(ops, warps) < LOAD_CYCLES:
            return False
        ctas = target.shared_bytes // (stages * bytes_ + others)
        more = target.shared_bytes // ((stages - 1) * bytes_ + others)
        return ctas * warps < _FEW_WARPS and min(more, self.most_ctas) > ctas

    @property
    def ahead(self) -> int:
        """Number of iterations by which copies are ahead."""
        return self.stages - 1 - (0 if self.late else self.lag)

    def run(self) -> None:
        step = constant_int(self.loop.step)
        if (self.ahead < 1 and self.stages < 2) or step is None or step < 1:
            return
        if slice_of(self.loop, [v for c in self.pattern.copies for v in c.operands]) is None:
            return
        around = enclosing_regions(self.loop, self.function)
        use_tma = self.options.tma and around is not None
        self.transport = choose(
            self.pattern.copies, self.stages, self.function, use_tma, self.target, self.loop
        )
        if self.transport.phases and self.options.mma_in_flight and not self.at_once:
            self.late, self.lag = True, self.options.mma_in_flight
        sliced = slice_of(self.loop, self.transport.operands)
        if sliced is None or self.ahead < 1:
            return
        self.ops, self.carried = sliced
        overlaps = self.pattern.several and self.options.overlap_dots
        self.dots = self._dots() if overlaps else None
        unordered = self.transport.order(
            self.loop
        )  # before other operations take the place of those around
        for copy in self.pattern.copies:
            widen(copy.buffer, self.stages)
        for turn in self.pattern.turns:
            widen(turn.target, 1 + self.lag)
        regions = around or []
        if not self.transport.phases and any(not isinstance(r, scf.ForOp) for r in regions):
            regions = []  # stages begin anew
        place = regions[0] if regions else self.loop
        zeros = [constant(0, place), constant(0, place)]
        self.state = LoopCarriedScalars(regions, zeros, self.loop)
        """Next stage and phase: with TMA they continue where the previous run of the loop stopped."""
        if unordered or is_in_loop(self.loop, self.function):
            # all MMAs of the previous run of the loop are complete
            insert_before(gpu.BarrierOp.create(), self.loop)
        self._rebuild(self._prologue())

    def _dots(self) -> list[Operation] | None:
        """Order of the MMAs, for as many CTAs per SM as shared memory allows."""
        stages = sum(gpu.shared_layout_of(c.buffer).bytes for c in self.pattern.copies)
        ctas = self.target.shared_bytes // (stages * self.stages + self.beside + _RESERVE)
        return plan_overlap(self.loop, warps_of(self.function), max(1, ctas))

    # ---- operands of the copies --------------------------------------------------------------------

    def _advance(self, state: Mapping, before: Operation) -> tuple[Mapping, SSAValue]:
        """Clone the slice for `state` (counter and carried values).

        Returns the mapping of its values, and whether that iteration is in the loop.
        """
        active = compare("slt", state[self.body.args[0]], self.loop.ub, before)
        return clone_slice(self.ops, state, before, active), active

    def _next(self, mapping: Mapping, before: Operation) -> Mapping:
        """Counter and carried scalars one iteration later."""
        counter = self.body.args[0]
        following = Emitter(before).binary(arith.AddiOp, mapping[counter], self.loop.step)
        state: Mapping = {counter: following}
        for arg in self.carried:
            state[arg] = mapping.get(yielded(arg), yielded(arg))
        return state

    # ---- before the loop -----------------------------------------------------------------------------

    def _prologue(self) -> Mapping:
        """Issue the copies of the first iterations; return the state of the iteration after those."""
        loop = self.loop
        state: Mapping = {self.body.args[0]: loop.lb}
        state.update({arg: initial(arg) for arg in self.carried})
        for stage in range(self.ahead):
            mapping, active = self._advance(state, loop)
            slot = self._stage(stage, loop)
            self.transport.start(mapping, slot, active, loop)
            state = self._next(mapping, loop)
        return state

    def _stage(self, further: int, before: Operation) -> SSAValue:
        """The stage that many places after the first."""
        first = self.state.values[0]
        if constant_int(first) == 0:
            return constant(further % self.stages, before)
        e = Emitter(before)
        count = e.constant(self.stages, i32)
        plus = e.binary(arith.AddiOp, first, e.constant(further % self.stages, i32))
        wraps = e.compare("sge", plus, count)
        return e.select(wraps, e.binary(arith.SubiOp, plus, count), plus)

    # ---- the loop -------------------------------------------------------------------------------------

    def _rebuild(self, first: Mapping) -> None:
        """Carry the stages and the state of the copies; wait, issue copies, multiply."""
        loop, body, end = self.loop, self.body, end_of(self.body)
        extra = [first[body.args[0]], *(first[arg] for arg in self.carried)]
        take, phase = self.state.values
        inits = [*extra, constant(0, loop), self._stage(self.ahead, loop), take, phase]
        added = [body.insert_arg(v.type, len(body.args)) for v in inits]
        counter, *scalars, turned, put_arg, take_arg, phase = added
        state: Mapping = {
            body.args[0]: counter,
            **dict(zip(self.carried, scalars, strict=True)),
        }
        pattern = self.pattern
        after = self._order(pattern, take_arg, phase)
        mapping, active = self._advance(state, after)
        self.transport.start(mapping, put_arg, active, after)
        left = [] if self.late or pattern.last_barrier is None else [pattern.last_barrier]
        for op in (*pattern.copies, *pattern.commits, *pattern.waits, *left):
            erase(op)
        self._stages_of_operands(take_arg, turned)
        if pattern.done is not None:
            pattern.done.properties["pending"] = IntegerAttr(self.lag, i32)
        following = self._next(mapping, end)
        end.operands = [
            *end.operands,
            following[body.args[0]],
            *(following[arg] for arg in self.carried),
            self._next_turned(turned, end),
            *self._next_stages(put_arg, take_arg, phase, end),
        ]
        if pattern.several or (pattern.last_barrier is None and self.lag == 0):
            remove_redundant_barriers(body, self.barrier)
        if self.dots:
            overlap_dots(body, self.dots, self.barrier)
            if self.transport.phases and self.options.mma_in_flight:
                self.position = leave_last_in_flight(body, self.barrier)
        if pattern.several and self._releases_stages():
            release_stages(body, self.barrier, put_arg, phase, self.stages, self.function)
        self._replace_loop(inits)

    def _releases_stages(self) -> bool:
        """Whether warpgroups tell each other by mbarriers that they have read a stage (`scheduling/ring.py`). Where an
        MMA is in flight at the barrier, tensor cores are busy meanwhile."""
        many = warps_of(self.function) > WARPS_PER_GROUP
        asynchronous = isinstance(self.pattern.readers[0], gpu.WgmmaOp) and self.position is None
        return many and asynchronous and self.transport.phases and self.options.release_stages

    def _stages_of_operands(self, stage: SSAValue, turned: SSAValue) -> None:
        """Stages that MMAs read, and those of tiles transposed before them."""
        slots = {copy.buffer: stage for copy in self.pattern.copies}
        slots |= {turn.target: turned for turn in self.pattern.turns}
        for reader in self.pattern.readers:
            for index, buffer in enumerate(list(reader.operands)):
                if buffer_root(buffer) in slots:  # others are written by threads
                    reader.operands[index + 1] = slots[buffer_root(buffer)]
        for turn in self.pattern.turns:
            turn.operands[1], turn.operands[3] = stage, turned

    def _next_turned(self, turned: SSAValue, before: Operation) -> SSAValue:
        """Transposed tiles alternate between two buffers: the MMA in flight reads the other one."""
        if not (self.lag and self.pattern.turns):
            return turned
        e = Emitter(before)
        return e.binary(arith.XOrIOp, turned, e.constant(1, i32))

    def _order(self, pattern: PipelinePattern, stage: SSAValue, phase: SSAValue) -> Operation:
        """Move the wait and the barrier to their positions; return the operation before which copies are issued."""
        if pattern.several:
            return self._order_of_several(pattern, stage, phase)
        reader = (*pattern.turns, *pattern.readers)[0]
        barrier = next(op for op in preceding(reader) if isinstance(op, gpu.BarrierOp))
        first = start_of(self.body)
        self.transport.wait(stage, phase, self.ahead, first)
        if self.late and pattern.last_barrier is not None:  # which stays
            erase(barrier)
            return pattern.last_barrier.next_op or end_of(self.body)
        insert_before(barrier, first)
        self.barrier = barrier
        return reader

    def _order_of_several(
        self, pattern: PipelinePattern, stage: SSAValue, phase: SSAValue
    ) -> Operation:
        """Issue TMA loads after the issue of the first MMA, where the tensor cores are busy."""
        first = start_of(self.body)
        self.transport.wait(stage, phase, self.ahead, first)
        reader = pattern.readers[0]
        if self.transport.phases and isinstance(reader, gpu.WgmmaOp) and reader.next_op is not None:
            first = reader.next_op
        self.barrier = gpu.BarrierOp.create()
        insert_before(self.barrier, first)
        return first

    def _next_stages(
        self, put: SSAValue, take: SSAValue, phase: SSAValue, before: Operation
    ) -> list[SSAValue]:
        """Advance both stages by one, and the phase, which flips when the ring wraps. Copies that are ahead by all stages but
        one go where the iteration before has read."""
        e = Emitter(before)
        zero, one, count = (e.constant(n, i32) for n in (0, 1, self.stages))
        following, wraps = [], []
        for stage in (put, take):
            plus = e.binary(arith.AddiOp, stage, one)
            wraps.append(e.compare("eq", plus, count))
            following.append(e.select(wraps[-1], zero, plus))
        if self.transport.phases:
            phase = e.select(wraps[1], e.binary(arith.XOrIOp, phase, one), phase)
        if self.ahead == self.stages - 1:
            following[0] = take
        return [*following, phase]

    def _replace_loop(self, inits: list[SSAValue]) -> None:
        loop = self.loop
        types = [v.type for v in (*loop.results, *inits)]
        body = loop.detach_region(loop.body)
        new = with_operands(loop, [*loop.operands, *inits], types, [body])
        results: list[SSAValue] = [*new.results[: len(loop.results)], *new.results[-2:]]
        if self.lag or self.position is not None:
            results = self._waited(new, results)
        else:
            insert_before(new, loop)
        self.state.finish(results[-2:])
        replace_op(loop, results[: len(loop.results)])

    def _waited(self, new: scf.ForOp, results: list[SSAValue]) -> list[SSAValue]:
        """Wait for the last MMA inside the branch that has one.

        If accumulators that no MMA has written reached the wait, ptxas would take their initialization for a part of the MMAs, and
        serialize those.
        """
        loop = self.loop
        position = self._sum_position(new) if self.position is None else self.position
        runs = compare("slt", loop.lb, loop.ub, loop)
        wait = completed(results[position])
        results[position] = wait.result
        none = [*loop.iter_args, *self.state.values]
        op = branch(runs, [new, wait], results, (), none)
        op.location = loop.location
        insert_before(op, loop)
        return list(op.results)

    def _sum_position(self, loop: scf.ForOp) -> int:
        end = end_of(loop.body.block)
        return list(end.operands).index(cast(gpu.WgmmaWaitOp, self.pattern.done).result)


def completed(dot: SSAValue) -> gpu.WgmmaWaitOp:
    """The wait, in no block yet, for an MMA and all others in flight."""
    pending = {"pending": IntegerAttr(0, i32)}
    return gpu.WgmmaWaitOp.create(operands=[dot], properties=pending, result_types=[dot.type])


def widen(buffer: SSAValue, stages: int) -> None:
    """Give a buffer that number of stages."""
    kind: Any = buffer.type
    buffer._type = gpu.SharedType(kind.tile, kind.layout, IntAttr(stages))
    retype_views(buffer)
