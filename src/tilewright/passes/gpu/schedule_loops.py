"""`schedule-loops`: issue copies and MMAs of a loop ahead of their iteration, by a producer warp and a rotation.

`promote-shared` leaves loops in which each step completes before the next one starts. This pass removes that
synchronization, chooses an order and an iteration shift for every step with a cost model, and inserts the
synchronization of the new order:

    for i:                                  producer warp: for i:
      copy -> k; wait; barrier                wait until the stage of k is empty, copy; the same of v
      s = q k, wait; barrier                consumer warps:
      p = softmax s                  ->       s = q k[0]; p = softmax s
      copy -> v; wait; barrier                for i from 1:
      acc = p v + acc, wait; barrier            wait k[i]; start s = q k[i]
                                                wait v[i-1]; start acc = p v[i-1] + acc
                                                wait s, release k[i]; softmax
                                                wait acc, release v[i-1]; p
                                              acc = p v[last] + acc

The MMAs of two iterations and the element-wise operations between them overlap, and the loop contains no CTA
barrier. Consecutive loops share their stages if the types agree, so the producer warp loads for the next loop while
the current one drains.

Relies on `promote-shared`. Ensures: a stage is written only after every warp has released it and read only after its
copies have completed; the result of an MMA is read only after a wait that covers it. Handles top-level loops with
several dots whose copies are all TMA tiles, with coordinates that the producer warp can compute. `specialize-warps`
and `pipeline-loads` handle the remaining loops.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.dialects import scf
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import gpu
from tilewright.ir.walk import following
from tilewright.passes.analysis.edit import erase, insert_before, start_of
from tilewright.passes.analysis.effects import erase_dead
from tilewright.passes.analysis.emit import constant_int
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.base import FunctionPass
from tilewright.passes.gpu.analysis.accesses import may_clobber
from tilewright.passes.gpu.analysis.num_ctas import num_ctas_of, warps_of
from tilewright.passes.gpu.analysis.registers import max_registers_per_thread, register_split
from tilewright.passes.gpu.analysis.shared_allocation import bytes_beside
from tilewright.passes.gpu.analysis.tma_stores import exchanged, exchanged_in_parts
from tilewright.passes.gpu.analysis.tma_tiles import TmaTile, match_tma_tile
from tilewright.passes.gpu.pipeline_loads import stages_of, widen
from tilewright.passes.gpu.scheduling.consumer import Consumer
from tilewright.passes.gpu.scheduling.cost import cycles, live_registers
from tilewright.passes.gpu.scheduling.graph import LoopGraph, loop_graph
from tilewright.passes.gpu.scheduling.producer import Producer, Slice, slice_of
from tilewright.passes.gpu.scheduling.ring import Position, Ring, barriers, constant
from tilewright.passes.gpu.scheduling.shifts import Schedule, schedules
from tilewright.targets import Feature, TargetInfo

_OTHER_REGISTERS = 32
"""Registers per thread for addresses, counters and temporaries, in addition to the schedule's estimate."""
_FEWEST_DOTS = 2
_WARPS = (8, 12)
"""Warps of programs that occupy an SM alone, where the producer warpgroup does not reduce occupancy."""
_WARPS_PER_GROUP = 4
_RESERVE_BYTES = 1024
"""Shared memory in bytes reserved for mbarriers and alignment."""


@dataclass(frozen=True)
class ScheduleLoops(FunctionPass):
    relevant_ops = ("scf.for",)
    requires = ("promote-shared", "pipeline-loads")
    fallback_options = {"lower-stores-to-tma": {"epilogue_subtiles": False}}
    all_loops: bool = False
    """Schedule loops also where two CTAs would fit on an SM without the producer warpgroup."""
    rotate: bool = True
    """Allow steps of two iterations to overlap."""
    epilogue_subtiles: bool = True
    """As for `pipeline-loads`."""

    def run(self, function: FuncOp, target: TargetInfo) -> None:
        plans = _plans(function, target, self)
        if plans:
            _rewrite(function, plans)
            erase_dead(function.body.block)


@dataclass(eq=False)
class _Plan:
    graph: LoopGraph
    tiles: list[list[TmaTile]]
    """TMA tile per copy of each group."""
    coordinates: list[list[list[SSAValue]]]
    taken: Slice
    schedule: Schedule
    stages: int


def _plans(function: FuncOp, target: TargetInfo, options: ScheduleLoops) -> list[_Plan]:
    """Plan the loops of a function, all or none: stages that the producer warp fills must not share memory with the
    buffers of a loop that is not scheduled."""
    able = target.has(Feature.TMA, Feature.REGISTER_REALLOCATION)
    if not able or num_ctas_of(function) > 1:
        return []
    warps = _WARPS if not options.all_loops else (_WARPS_PER_GROUP, *_WARPS)
    if warps_of(function) not in warps or stages_of(function) < 2:
        return []
    found: list[_Plan] = []
    for op in list(function.body.block.ops):
        if isinstance(op, scf.ForOp) and any(isinstance(o, gpu.AsyncCopyOp) for o in op.walk()):
            plan = _plan(op, function, options)
            if plan is None:
                return []
            found.append(plan)
        elif any(isinstance(o, gpu.AsyncCopyOp) for o in op.walk()):
            return []
    return found if found and _fit(found, function, target, options) else []


def _plan(loop: scf.ForOp, function: FuncOp, options: ScheduleLoops) -> _Plan | None:
    """Plan a loop; the number of stages is set later by `_fit`."""
    graph, step = loop_graph(loop), constant_int(loop.step)
    if graph is None or len(graph.dots) < _FEWEST_DOTS or step is None or step < 1:
        return None
    copies = [copy for group in graph.groups for copy in group.copies]
    if may_clobber(function, [copy.base for copy in copies]):
        return None
    known = Facts()
    tiles = [[match_tma_tile(copy, known) for copy in group.copies] for group in graph.groups]
    kept = [[tile for tile in group if isinstance(tile, TmaTile)] for group in tiles]
    schedule = _best(graph, warps_of(function), options)
    if schedule is None or sum(map(len, kept)) < len(copies):
        return None
    coordinates = [
        [tile.place(copy) for tile, copy in zip(group, copied.copies, strict=True)]
        for group, copied in zip(kept, graph.groups, strict=True)
    ]
    values = [v for group in coordinates for place in group for v in place]
    taken = slice_of(function, loop, values)
    return None if taken is None else _Plan(graph, kept, coordinates, taken, schedule, 0)


def _best(graph: LoopGraph, warps: int, options: ScheduleLoops) -> Schedule | None:
    """Return the schedule with the fewest cycles that fits the consumers' register budget, or None."""
    most = register_split(warps)[1] - _OTHER_REGISTERS
    candidates = [s for s in schedules(graph) if options.rotate or not s.is_rotated]
    fitting = [(cycles(s, warps), live_registers(s), i, s) for i, s in enumerate(candidates)]
    fitting = [entry for entry in fitting if entry[1] <= most]
    return min(fitting, key=lambda entry: entry[:3])[3] if fitting else None


def _fit(plans: list[_Plan], function: FuncOp, target: TargetInfo, options: ScheduleLoops) -> bool:
    """Set the number of stages: `num_stages`, limited by shared memory. Returns whether the plans are usable."""
    own = [buffer for plan in plans for buffer in plan.graph.group_of]
    shared = _share_stages(plans)
    per_stage = sum(
        group.bytes_per_stage
        for plan in (plans[:1] if shared else plans)
        for group in plan.graph.groups
    )
    limit = target.shared_bytes - _RESERVE_BYTES
    last = plans[-1].graph.loop
    room = limit - bytes_beside(function, own)
    after = exchanged(last, function)
    if options.epilogue_subtiles:
        after = min(after, exchanged_in_parts(last, function, target))
    stages = min(stages_of(function), (room - after) // per_stage)
    for plan in plans:
        plan.stages = stages
    bytes_per_cta = limit - room + after + stages * per_stage
    alone = 2 * bytes_per_cta > limit or any(
        _needs_an_sm(plan.graph, warps_of(function)) for plan in plans
    )
    return stages > 1 and (alone or options.all_loops)


def _needs_an_sm(graph: LoopGraph, warps: int) -> bool:
    """Return whether register use prevents a second CTA per SM. Two resident CTAs hide latency better than warp
    specialization (attention with head dimension 64: 521 vs. 470 TFLOP/s on an H200)."""
    in_order = schedules(graph)[0]
    return live_registers(in_order) + _OTHER_REGISTERS > max_registers_per_thread(2 * warps)


def _share_stages(plans: list[_Plan]) -> bool:
    """Return whether all loops have buffers of the same types, in the same order."""
    types = [
        [buffer.type for group in plan.graph.groups for buffer in group.buffers] for plan in plans
    ]
    return all(other == types[0] for other in types)


def _rewrite(function: FuncOp, plans: list[_Plan]) -> None:
    entry = start_of(function.body.block)
    while isinstance(entry, gpu.LocalAllocOp) and entry.next_op is not None:
        entry = entry.next_op
    shapes = [[[tile.shape(entry) for tile in group] for group in plan.tiles] for plan in plans]
    shared = _share_stages(plans)
    if shared:
        _join_buffers(plans)
    for buffer in [b for plan in (plans[:1] if shared else plans) for b in plan.graph.group_of]:
        _keep_allocated(buffer, plans[-1].graph.loop)
        widen(buffer, plans[0].stages)
        allocation: Any = buffer.owner
        insert_before(allocation, entry)
    producer = Producer(entry, register_split(warps_of(function)))
    rings: list[Ring] = []
    copied: Position | None = None
    read: Position | None = None
    for plan, shape in zip(plans, shapes, strict=True):
        if not rings or not shared:
            rings = _rings(plan, shape, warps_of(function), entry)
            copied = read = None
        else:
            rings = [
                Ring(group, tiles, place, copies, ring.full, ring.empty)
                for group, ring, tiles, place, copies in zip(
                    plan.graph.groups, rings, plan.tiles, plan.coordinates, shape, strict=True
                )
            ]
        loop = plan.graph.loop
        copied = producer.add(loop, rings, plan.taken, plan.stages, copied)
        at = read or Position(constant(0, loop), constant(0, loop))
        read = Consumer(plan.schedule, rings, plan.stages).rewrite(at)
    producer.finish()


def _rings(plan: _Plan, shapes: list[Any], warps: int, entry: Operation) -> list[Ring]:
    copied = zip(plan.graph.groups, plan.tiles, plan.coordinates, shapes, strict=True)
    kinds = (None, warps)  # of bytes, and of the arrivals of warps
    return [
        Ring(*group, *(barriers(plan.stages, kind, entry) for kind in kinds)) for group in copied
    ]


def _join_buffers(plans: list[_Plan]) -> None:
    """Replace the buffers of later loops by those of the first loop."""
    first = [buffer for group in plans[0].graph.groups for buffer in group.buffers]
    for plan in plans[1:]:
        graph = plan.graph
        own = [buffer for group in graph.groups for buffer in group.buffers]
        for buffer, joined in zip(own, first, strict=True):
            for use in list(buffer.uses):
                if isinstance(use.operation, gpu.LocalDeallocOp):
                    _drop_from(use.operation, buffer)
                else:
                    use.operation.operands[use.index] = joined
            allocation = buffer.owner
            if isinstance(allocation, Operation):
                erase(allocation)
        graph.group_of = {buffer: group for group in graph.groups for buffer in group.buffers}


def _keep_allocated(buffer: SSAValue, last: Operation) -> None:
    """Remove deallocations before the end of the last loop: the producer warp may still write the stages."""
    behind = {last, *following(last)}
    for use in list(buffer.uses):
        op = use.operation
        if isinstance(op, gpu.LocalDeallocOp) and op not in behind:
            _drop_from(op, buffer)


def _drop_from(op: gpu.LocalDeallocOp, buffer: SSAValue) -> None:
    left = [b for b in op.buffers if b is not buffer]
    if left:
        op.operands = left
    else:
        erase(op)
