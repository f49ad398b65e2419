"""`prefetch-loads`: prefetch the remaining register loads of a loop, one iteration ahead or several.

`pipeline-loads` and `schedule-loops` issue copies to shared memory iterations ahead. The remaining loads go to
registers: vectors and scalars such as gates and row statistics, tiles with only elementwise users, and accesses too
narrow or too irregular for asynchronous copies. Each iteration stalls on them for hundreds of cycles. This pass
loads them for the next iteration while the current one computes, into loop-carried registers:

    for i:                           x = load 0, if there is an iteration
      x = load i                     for i:
      acc = dot(f(x), b, acc)   ->     acc = dot(f(x), b, acc)
                                       x = load i + 1, if there is one

Loads of few registers are issued at the start of the preceding iteration, the others after the last use of the
value that they replace. Where an iteration of a loop with dots takes less time than a load, loads of few registers are
issued several iterations ahead: the pass moves them again.

Under a limit on registers (`maxnreg`) a vector that several threads have copies of is loaded with one element per lane, and
converted to its layout by shuffles where it is used.

Loops without dots and recurrences load ahead what addresses of large loads depend on: else each iteration takes two
latencies.

An iteration of a recurrence (`analysis/recurrences.py`) without dots may take less time than a load: such a loop is
unrolled first, so that the loads of several iterations are in flight while as many others compute. The iterations
that are left over load in their place.

A load moves if its address can be computed ahead (`analysis/copy_slices.py`) and no store of the loop goes through the
same argument; loops that wait for other programs are unchanged. Two arguments are assumed not to alias, as for
copies. Requires `assign-layouts`, which decides registers, and runs after `pipeline-loads`, which fixes the order of
loops. Ensures: no load is issued for an iteration beyond the last.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate
from math import prod
from typing import cast

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import i1
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.ir.walk import has_loops
from tilewright.layouts import Layout
from tilewright.passes.analysis.edit import (
    Mapping,
    block_of,
    end_of,
    initial,
    insert_before,
    outermost_in,
    replace_op,
    start_of,
    yielded,
)
from tilewright.passes.analysis.effects import erase_dead, is_volatile
from tilewright.passes.analysis.emit import Emitter, constant_int, is_normalized
from tilewright.passes.base import FunctionPass
from tilewright.passes.gpu.analysis.accesses import may_clobber
from tilewright.passes.gpu.analysis.copy_slices import clone_load, clone_slice, slice_of
from tilewright.passes.gpu.analysis.loop_carried import with_more_carried
from tilewright.passes.gpu.analysis.num_ctas import warps_of
from tilewright.passes.gpu.analysis.recurrences import is_recurrence
from tilewright.passes.gpu.analysis.registers import (
    LOAD_CYCLES,
    iteration_cycles,
    max_registers_per_thread,
    registers_allowed,
)
from tilewright.passes.gpu.analysis.unrolling import unroll_by
from tilewright.passes.gpu.scheduling.ring import compare
from tilewright.passes.gpu.scheduling.shifts import registers
from tilewright.targets import TargetInfo

_DOTS = (gpu.WgmmaOp, tile.DotOp)
_WAITS_FOR_OTHERS = (tile.AtomicCASOp, tile.BarrierOp)
_STANDS_FOR = (tile.SplatOp, tile.BroadcastOp, tile.ExpandDimsOp, gpu.WgmmaWaitOp)
_FEW = 4
"""Registers of a load that may be live twice, before and after its use; up to this many per loop always pay
off."""
_LARGE = 16
"""Registers of loads of which no second iteration is batched."""
_OTHER_REGISTERS = 48
"""Registers per thread for addresses, counters and temporaries."""
_LARGEST_OPERAND = 1 << 10
"""Elements of a tile that is computed again for an address."""
_WORD_BYTES, _MOST_SHUFFLES = 4, 16
"""Conversions that take more shuffles go through shared memory, between barriers."""
_FARTHEST = 2
"""Iterations that loads are ahead at most in loops with dots, as copies with three stages."""
_MAX_OPS = 320
"""Operations of the iterations whose loads are issued together: a limit of compile time."""


@dataclass(frozen=True)
class PrefetchLoads(FunctionPass):
    relevant_ops = ("scf.for",)
    requires = ("assign-layouts", "pipeline-loads")
    registers_per_thread: int = 32
    """Registers of 4 bytes that the loads of a loop may take in each thread; twice as many in a recurrence without dots whose
    loads all fit."""

    def run(self, function: FuncOp, target: TargetInfo) -> None:
        for op in list(function.walk()):
            if isinstance(op, scf.ForOp) and _waits_for_loads(op):
                self._prefetch(op, warps_of(function))
        erase_dead(function.body.block)

    def _prefetch(self, loop: scf.ForOp, warps: int) -> None:
        allowed = registers_allowed(loop, warps)
        free = allowed - _OTHER_REGISTERS - _live_registers(loop)
        most = min(self.registers_per_thread, max(_FEW, free))
        serial = _has_dots(loop) or is_recurrence(loop)
        loads = [
            op for op in loop.body.block.ops if isinstance(op, tile.Load) and _can_move(op, loop)
        ]
        limited = allowed < max_registers_per_thread(warps) and _has_dots(loop)
        if limited and sum(registers(op.result) for op in loads) > most:
            for load in loads:
                _load_by_lanes(load)
        loads = loads if serial else _indices(loop, loads)
        words = sum(registers(op.result) for op in loads)
        if serial and not _has_dots(loop) and words <= min(free, 2 * self.registers_per_thread):
            most = max(most, words)  # an iteration waits as long for one load as for all
        loads = _chosen(loads, most)
        count = _iterations(loop, loads, warps, most) if loads and serial else 1
        if count > 1:
            loop, copies = unroll_by(loop, count)
            found = [copy[load.result].owner for copy in copies for load in loads]
            loads = [op for op in found if isinstance(op, tile.Load)]
        if loads:
            few = serial and sum(registers(op.result) for op in loads) <= _FEW
            distance = _distance(loop, warps) if few else 1
            for _ in range(distance):
                loop, loads = _Prefetcher(loop, loads).run()


def _waits_for_loads(loop: scf.ForOp) -> bool:
    """Whether a loop counts up, and waits for no other program."""
    step = constant_int(loop.step)
    if step is None or step < 1:
        return False
    return not any(
        isinstance(op, _WAITS_FOR_OTHERS)
        or is_volatile(op)
        or (isinstance(op, tile.AtomicRMWOp) and op.result.first_use is not None)
        for op in loop.body.walk()
    )


def _has_dots(loop: scf.ForOp) -> bool:
    return any(isinstance(op, _DOTS) for op in loop.body.block.ops)


def _indices(loop: scf.ForOp, loads: list[tile.Load]) -> list[tile.Load]:
    """The loads that addresses of large loads depend on, which wait for them (page tables, gathers). `batch-loads` issues
    those of several iterations together where their values take few registers."""
    others = [op for op in loop.body.walk() if isinstance(op, tile.Load) and op not in loads]
    values = [op for op in (*loads, *others) if registers(op.result) > _FEW]
    if sum(registers(op.result) for op in values) < _LARGE:
        return []
    found = slice_of(loop, [v for op in values for v in op.operands])
    needed = set(found[0]) if found is not None else set[Operation]()
    return [op for op in loads if op in needed and op not in values]


def _chosen(loads: list[tile.Load], most: int) -> list[tile.Load]:
    """The loads to prefetch, smallest first, in at most that many registers."""
    chosen: set[tile.Load] = set()
    for load in sorted(loads, key=lambda op: registers(op.result)):
        most -= registers(load.result)
        if most < 0:
            break
        chosen.add(load)
    return [load for load in loads if load in chosen]


def _load_by_lanes(load: tile.Load) -> None:
    """Load a vector of 32-bit elements that all warps have, with one element per lane, and convert it by shuffles."""
    layout, element = gpu.layout_of(load.result), tile.element_of(load.result)
    if not isinstance(load, tile.LoadViewOp) or load.mask is not None or load.indices:
        return
    if layout is None or layout.rank != 1 or layout.repeat or any(map(any, layout.warps)):
        return
    compact, count = _by_lanes(layout), layout.registers_per_thread
    following = load.next_op
    if not compact.registers_per_thread < count <= _MOST_SHUFFLES or following is None:
        return
    if layout.groups > 1 or tile.element_bytes(element) != _WORD_BYTES:
        return
    convert = gpu.ConvertLayoutOp.create(
        operands=[load.result], result_types=[load.result.type], location=load.location
    )
    load.result.replace_all_uses_with(convert.result)
    convert.operands[0] = load.result
    loaded = cast(SSAValue, load.result)
    loaded._type = gpu.laid_out(element, compact)
    insert_before(convert, following)


def _by_lanes(layout: Layout) -> Layout:
    """The layout of a vector with consecutive elements in consecutive lanes, copied to every warp."""
    vectors = [(1 << i,) for i in range(layout.shape[0].bit_length() - 1)]
    count = len(layout.lanes)
    copies = [(0,)] * (count - len(vectors))
    return replace(
        layout,
        registers=tuple(vectors[count:]),
        lanes=(*vectors[:count], *copies),
        warps=((0,),) * len(layout.warps),
    )


def _iterations(loop: scf.ForOp, loads: list[tile.Load], warps: int, most: int) -> int:
    """Iterations of a recurrence whose loads are issued together: as many as take as long as a load."""
    if _has_dots(loop) or not is_normalized(loop) or has_loops(loop):
        return 1
    ops = list(loop.body.walk())
    cycles = iteration_cycles(ops, warps)
    words = sum(registers(load.result) for load in loads)
    trips, count = constant_int(loop.ub), 1
    while (
        count * cycles < LOAD_CYCLES
        and 2 * count * words <= most
        and 2 * count * len(ops) <= _MAX_OPS
        and (trips is None or trips % (2 * count) == 0)
    ):
        count *= 2
    return count


def _distance(loop: scf.ForOp, warps: int) -> int:
    """Iterations between a load and its use that take half as long as a load, the rest of which other warps fill, up to as many
    as copies are ahead. NVIDIA H100: an iteration of 130 cycles (int4 weights, 32x32x32) 24 % faster than with one."""
    if not _has_dots(loop) or has_loops(loop):
        return 1
    needed = LOAD_CYCLES // (2 * iteration_cycles(list(loop.body.walk()), warps))
    return max(1, min(needed, _FARTHEST))


def _live_registers(loop: scf.ForOp) -> int:
    """The peak number of live registers per thread for tiles in a loop's body; broadcast tiles do not
    count."""
    order = {op: i for i, op in enumerate(loop.body.block.ops)}
    change = [0] * (len(order) + 1)
    values = [*loop.body.block.args, *(v for op in order for v in op.results)]
    for value in values:
        if not tile.is_tile(value) or isinstance(value.owner, _STANDS_FOR):
            continue
        start = order.get(value.owner, 0) if isinstance(value.owner, Operation) else 0
        users = [outermost_in(loop.body.block, use.operation) for use in value.uses]
        change[start] += registers(value)
        change[max((order[op] for op in users), default=start)] -= registers(value)
    return max(accumulate(change))


def _can_move(load: tile.Load, loop: scf.ForOp) -> bool:
    """Whether a load gives the same an iteration earlier, and its address takes little to compute twice."""
    pointer = tile.pointer_of(load)
    if tile.is_tile(pointer) or may_clobber(loop, [pointer]):
        return False
    sliced = slice_of(loop, load.operands)
    if sliced is None:
        return False
    ops, carried = sliced
    values = [*(v for op in ops for v in op.results), *carried]
    counted = any(loop.body.block.args[0] in op.operands for op in (load, *ops))
    small = all(
        prod(tile.shape_of(v)) <= _LARGEST_OPERAND or _takes_no_registers(v)
        for v in values
        if tile.is_tile(v)
    )
    return small and (counted or bool(carried))


def _takes_no_registers(value: SSAValue) -> bool:
    """Whether a tile is a mask, or smaller tiles in another shape."""
    return tile.element_of(value) == i1 or isinstance(value.owner, _STANDS_FOR)


class _Prefetcher:
    """Rewrites one loop."""

    def __init__(self, loop: scf.ForOp, loads: list[tile.Load]) -> None:
        self.loop, self.loads = loop, loads

    def run(self) -> tuple[scf.ForOp, list[tile.Load]]:
        """Move the loads an iteration ahead; the new loop and the loads in it."""
        loop, loads = self.loop, self.loads
        results: list[SSAValue] = [load.result for load in loads]
        values = [v for load in loads for v in load.operands if v not in results]
        sliced = slice_of(loop, values)
        if sliced is None:
            return loop, []
        ops, carried = sliced
        self.ops = [op for op in loop.body.block.ops if op in {*ops, *loads}]
        first: Mapping = {loop.body.block.args[0]: loop.lb}
        first.update({arg: initial(arg) for arg in carried})
        loaded, _ = self._load(first, loop)
        after = self._following(carried, loaded)
        inits = [*(after[arg] for arg in carried), *(loaded[v] for v in results)]
        new = with_more_carried(loop, inits)
        self.loop, body = new, new.body.block
        added = list(body.args[-len(inits) :])
        state: Mapping = dict(zip(carried, added, strict=False))
        return new, self._next_iteration(carried, state, added[len(carried) :])

    def _next_iteration(
        self, carried: list[BlockArgument], state: Mapping, now: list[BlockArgument]
    ) -> list[tile.Load]:
        """Load for the next iteration, and use the values that the previous one loaded for this one."""
        body, end = self.loop.body.block, end_of(self.loop.body.block)
        first = start_of(body)
        counter = Emitter(first).binary(arith.AddiOp, body.args[0], self.loop.step)
        state = {**state, body.args[0]: counter}
        mapping, copies = self._load(state, first)
        following = self._following(carried, mapping)
        count = len(carried) + len(now)
        loaded = [mapping[load.result] for load in self.loads]
        yields = [*(following[arg] for arg in carried), *loaded]
        for i, value in enumerate(yields):
            end.operands[len(end.operands) - count + i] = value
        for load, copy, value in zip(self.loads, copies, now, strict=True):
            replace_op(load, [value])
            if registers(value) > _FEW:
                _sink(copy, value, end)
        return copies

    def _load(self, state: Mapping, before: Operation) -> tuple[Mapping, list[tile.Load]]:
        """Emit the loads of the iteration given by `state` (counter and carried values), predicated on the trip
        count; returns the mapped values and the loads."""
        counter = state[self.loop.body.block.args[0]]
        active = compare("slt", counter, self.loop.ub, before)
        mapping, copies = dict(state), dict[Operation, tile.Load]()
        for op in self.ops:
            if isinstance(op, tile.Load):
                copies[op] = clone_load(op, mapping, active, Emitter(before))
                mapping[op.result] = copies[op].results[0]
            else:
                mapping = clone_slice([op], mapping, before, active)
        return mapping, [copies[load] for load in self.loads]

    def _following(self, carried: list[BlockArgument], mapping: Mapping) -> Mapping:
        """The carried values one iteration after that of `mapping`."""
        return {arg: mapping.get(yielded(arg), yielded(arg)) for arg in carried}


def _sink(copy: Operation, old: SSAValue, end: Operation) -> None:
    """Move a load after the last use of the value that it replaces, so that they share registers."""
    if any(use.operation is not end for use in copy.results[0].uses):
        return  # the address of another load
    block = block_of(end)
    users = [outermost_in(block, use.operation) for use in old.uses]
    users = [op for op in users if op is not end]
    if not users:
        return
    order = {op: i for i, op in enumerate(block.ops)}
    last = max(users, key=lambda op: order[op])
    if order[last] < order[copy] or last.next_op is None:
        return
    insert_before(copy, last.next_op)
