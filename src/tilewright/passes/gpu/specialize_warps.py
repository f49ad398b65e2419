"""`specialize-warps`: split a pipelined loop into a producer warp (TMA loads) and consumer warps (MMAs).

In a pipelined loop whose warps both copy and multiply, each MMA waits until a warp has issued the next
copies. Here one additional warp runs ahead and issues the TMA loads of an iteration as soon as their stage is
free; the program's warps only wait for stages, multiply and release stages. Two arrays of mbarriers, "full" and
"empty" with one each per stage, replace the CTA barrier:

    for i:                            producer warp:              consumer warps:
      copy -> buffer                    for i:                      for i:
      commit, wait 0, barrier     ->      wait until stage i % S      wait for stage i % S
      multiply, wait 0, barrier           is released               multiply it; wait for MMA i-1
                                          TMA loads of iteration i    release the stage of i-1
                                                                    wait 0

In a loop over tiles the producer warp iterates over the tiles as well, so that loads of the next tile are in
flight during the epilogue of this one. A kernel with one tile per program gains nothing (ADR 7) and is not split
unless `all_loops` is set.

Requires `promote-shared`. `pipeline-loads` handles the other loops: copies other than TMA loads, kernels with
operations before the loop other than pure ones (which the producer warp repeats) and loads that the loop does not
use, and accumulators too large to leave registers for one more warp.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from math import prod
from typing import Any, cast

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.ir.walk import closure, preceding
from tilewright.layouts.fragments import parse_wgmma
from tilewright.layouts.wgmma_partition import partition_wgmma
from tilewright.passes.analysis.edit import (
    Mapping,
    block_of,
    end_of,
    erase,
    insert_before,
    start_of,
)
from tilewright.passes.analysis.effects import erase_dead, has_effect, is_pure
from tilewright.passes.analysis.emit import Emitter, constant_int
from tilewright.passes.base import FunctionPass
from tilewright.passes.gpu.analysis.cluster_loops import cluster_loop
from tilewright.passes.gpu.analysis.copy_engines import TmaCopies, choose
from tilewright.passes.gpu.analysis.copy_slices import clone_slice, slice_of
from tilewright.passes.gpu.analysis.loop_carried import LoopCarriedScalars, derive_carried_counters
from tilewright.passes.gpu.analysis.loop_dots import find_single_dot
from tilewright.passes.gpu.analysis.num_ctas import num_ctas_of, warps_of
from tilewright.passes.gpu.analysis.registers import max_registers_per_thread, register_split
from tilewright.passes.gpu.pipeline_loads import (
    PipelineLoads,
    Pipeliner,
    constant,
    stages_of,
    widen,
)
from tilewright.passes.gpu.scheduling.producer import insert_producer, producer_loop, producer_warp
from tilewright.passes.gpu.scheduling.ring import Position, advance, barriers, compare, true
from tilewright.passes.gpu.select_mma import SHARED_FMA
from tilewright.targets import Feature, TargetInfo

_MOST_ACCUMULATORS = 128
"""Limit of accumulator registers per thread with one additional warp; more take a warpgroup, whose registers the
consumers get (`setmaxnreg`)."""
_OTHER_REGISTERS = 32
"""Registers per thread for other values; `wgmma` operands cannot spill, so fewer would not assemble."""
_OTHER_REGISTERS_OF_CONSUMERS = 48
"""The same after `setmaxnreg`."""
_MOST_CONSUMER_WARPS = 8
"""Consumer warps of such programs: of 12, with 160 registers each, ptxas rejects 112 accumulators (C7602)."""
_MOST_WARPS = 12


@dataclass(frozen=True)
class SpecializeWarps(FunctionPass):
    relevant_ops = ("scf.for",)
    requires = ("promote-shared", "pipeline-loads")
    fallback_options = {"lower-stores-to-tma": {"epilogue_subtiles": False}}
    all_loops: bool = False
    """Split kernels without a loop over tiles, too."""
    epilogue_subtiles: bool = True
    """As for `pipeline-loads`."""

    def run(self, function: FuncOp, target: TargetInfo) -> None:
        if num_ctas_of(function) == 1:
            _specialize(function, target, self)
            erase_dead(function.body.block)


def _specialize(function: FuncOp, target: TargetInfo, asked: SpecializeWarps) -> None:
    """Split the first loop inside a loop over tiles, or with `all_loops` the first loop, if it qualifies. Requires
    only pure operations before it."""
    if warps_of(function) % 4 or warps_of(function) > _MOST_WARPS or stages_of(function) < 2:
        return
    outer = cluster_loop(function)
    first = function.body.block if outer is None else outer.body.block
    loop, around = _first_loop(first), None
    if loop is not None and find_single_dot(loop) is None:
        inner = _first_loop(loop.body.block)
        if inner is not None and find_single_dot(inner) is not None:
            loop = derive_carried_counters(loop)
        if not loop.iter_args:
            loop, around = inner, loop
    if around is None and not asked.all_loops:
        return
    pattern = find_single_dot(loop) if loop is not None else None
    if loop is None or pattern is None or pattern.turns or pattern.done is None:
        return
    warps = warps_of(function)
    accumulators = prod(tile.shape_of(pattern.done.result)) // (32 * warps)
    found = _registers(pattern.readers[0], accumulators, warps, target)
    if found is not None:
        stages = stages_of(function)
        options = PipelineLoads(epilogue_subtiles=asked.epilogue_subtiles)
        specializer = _Specializer(loop, pattern, function, stages, options, target)
        specializer.registers = found
        specializer.divide(around, first)


def _registers(
    mma: Operation, accumulators: int, warps: int, target: TargetInfo
) -> tuple[int, ...] | None:
    """Return the registers per thread of a producer warpgroup and of the consumers; () if one additional warp leaves
    enough of them as they are; None if no producer does. `accumulators`: their registers per thread."""
    most = max_registers_per_thread(warps + 1)
    if accumulators <= min(_MOST_ACCUMULATORS, most - _OTHER_REGISTERS) and _has_room(
        mma, warps, most
    ):
        return ()
    if warps > _MOST_CONSUMER_WARPS or not target.has(Feature.REGISTER_REALLOCATION):
        return None
    split = register_split(warps)
    fits = accumulators <= split[1] - _OTHER_REGISTERS_OF_CONSUMERS and _has_room(
        mma, warps, split[1]
    )
    return split if fits else None


def _has_room(mma: Operation, warps: int, registers: int) -> bool:
    """Whether an RS operand fits into a thread's registers besides the accumulator."""
    if not isinstance(mma, gpu.WgmmaOp) or mma.instruction.data == SHARED_FMA:
        return True
    instruction = parse_wgmma(mma.instruction.data)
    m, n = tile.shape_of(mma.result)
    found = partition_wgmma(instruction, m, n, warps)
    return not instruction.through or (found is not None and found.k_steps_per_batch(registers) > 0)


def _first_loop(block: Block) -> scf.ForOp | None:
    """The first loop of a block, if only pure operations and loads that it does not use precede it."""
    loads: list[Operation] = []
    for op in block.ops:
        if isinstance(op, scf.ForOp):
            return None if _uses(op, _made_of(loads)) else op
        if isinstance(op, tile.Load) and not has_effect(op):
            loads.append(op)
        elif not is_pure(op) and not isinstance(op, gpu.LocalAllocOp | tile.AssumeOp):
            return None
    return None


def _made_of(loads: list[Operation]) -> set[Operation]:
    """Loads and their transitive users in the block."""
    return set(closure(loads, lambda op: [u.operation for r in op.results for u in r.uses]))


def _uses(loop: scf.ForOp, made: set[Operation]) -> bool:
    """Whether a loop, or anything in it, is among the users of loads."""
    return bool(made) and any(op in made for op in loop.walk())


class _Specializer(Pipeliner):
    """Replaces a loop by a producer loop and a consumer loop."""

    registers: tuple[int, ...] = ()
    """Per thread of a producer warpgroup and of the consumers; (): the producer is one warp."""

    def _worth_a_stage(self, stages: int, bytes_: int, limit: int) -> bool:
        """Always True: a second CTA per SM (which fits with two stages of 128 × 192 tiles) does not replace the
        stage that is read while another is filled; without it, kernels took twice the time."""
        return limit >= (stages + 1) * bytes_

    def divide(self, around: scf.ForOp | None, first: Block) -> None:
        """Rewrite the loop, which may be inside a loop over tiles (`around`). `first`: the entry block, or the body of
        the loop over a cluster's iterations."""
        step = constant_int(self.loop.step)
        if self.at_once or self.stages < 2 or step is None or step < 1:
            return
        if slice_of(self.loop, [v for c in self.pattern.copies for v in c.operands]) is None:
            return
        transport = choose(self.pattern.copies, self.stages, self.function, True, self.target)
        if not isinstance(transport, TmaCopies):
            return
        sliced = slice_of(self.loop, transport.operands)
        if (
            sliced is None
            or any(map(tile.has_tiles, sliced[0]))
            or any(map(tile.is_tile, sliced[1]))
        ):
            transport.give_up()
            return
        self.transport, self.late, self.lag = transport, True, 1
        self.ops, self.carried = sliced
        full: Any = transport.barriers.owner
        if full.parent is not first:
            insert_before(full, start_of(first))
        for copy in self.pattern.copies:
            widen(copy.buffer, self.stages)
        self.free = barriers(self.stages, warps_of(self.function), full)
        self.around = around
        place = around or self.loop
        self._produce(place)
        zeros = [constant(0, place), constant(0, place)]
        self.state = LoopCarriedScalars([around] if around is not None else [], zeros)
        self._consume()

    # ---- producer warp --------------------------------------------------------------------

    def _produce(self, place: Operation) -> None:
        produce = producer_warp(self.registers, place.location)
        end = end_of(produce.body.block)
        first = Position(
            constant(0, place), constant(1, place)
        )  # the stages are free to begin with
        yes = true(place)
        if self.around is None:
            self._copies({}, first, yes, end)
        else:
            self._copies_of_tiles(self.around, first, yes, end)
        insert_producer(produce, place)

    def _copies_of_tiles(
        self, around: scf.ForOp, first: Position, yes: SSAValue, end: Operation
    ) -> None:
        """The producer's loop over tiles: the scalar prologue of a tile, then its TMA loads."""
        body, e = around.body.block, Emitter(end, around.location)
        tiles, inner = e.loop(around.operands[:3], [first.stage, first.phase])
        counter, stage, phase = tiles.body.block.args
        mapping: Mapping = {body.args[0]: counter}
        before = list(takewhile(lambda op: op is not self.loop, body.ops))
        loaded = _made_of([op for op in before if isinstance(op, tile.Load)])
        for op in before:
            if op not in loaded:  # others are used by consumers only
                insert_before(op.clone(mapping), inner.anchor)
        copies = self._copies(mapping, Position(stage, phase), yes, inner.anchor)
        inner.anchor.operands = copies.results[-2:]

    def _copies(
        self, outside: Mapping, first: Position, yes: SSAValue, before: Operation
    ) -> scf.ForOp:
        """The producer's loop over iterations. `outside`: values of the loop over tiles -> their copies."""

        def issue(state: Mapping, at: Position, end: Operation) -> Mapping:
            insert_before(gpu.MbarrierWaitOp.create(operands=[self.free, at.stage, at.phase]), end)
            mapping = clone_slice(self.ops, state, end, None)
            self.transport.start(mapping, at.stage, yes, end)
            return mapping

        return producer_loop(self.loop, self.carried, outside, first, self.stages, issue, before)

    # ---- consumer warps ------------------------------------------------------------------------------

    def _consume(self) -> None:
        loop, body, pattern = self.loop, self.body, self.pattern
        inits = [constant(0, loop), *self.state.values]
        before, slot, phase = (body.insert_arg(v.type, len(body.args)) for v in inits)
        multiply, done = pattern.readers[0], cast(gpu.WgmmaWaitOp, pattern.done)
        last: Any = pattern.last_barrier  # an MMA that runs on its own has one
        barrier = next(op for op in preceding(multiply) if isinstance(op, gpu.BarrierOp))
        self.transport.wait(slot, phase, self.ahead, start_of(body))
        for op in (barrier, *pattern.copies, *pattern.commits, *pattern.waits):
            erase(op)
        multiply.operands[1] = multiply.operands[3] = slot
        done.properties["pending"] = IntegerAttr(1, i32)
        later = compare("ne", body.args[0], loop.lb, last)
        insert_before(gpu.MbarrierArriveOp.create(operands=[self.free, before, later]), last)
        erase(last)
        end = end_of(body)
        after = advance(Position(slot, phase), self.stages, end)
        end.operands = [*end.operands, slot, after.stage, after.phase]
        self._replace_loop(inits)

    def _waited(self, new: scf.ForOp, results: list[SSAValue]) -> list[SSAValue]:
        """As in the base class; in a loop over tiles, also release the last stage."""
        last = new.results[len(self.loop.results)]
        found = super()._waited(new, results)
        if self.around is not None:
            end = end_of(block_of(new))
            insert_before(gpu.MbarrierArriveOp.create(operands=[self.free, last, true(end)]), end)
        return found
