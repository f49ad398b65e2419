"""`strip-mine-tiles`: process tiles that exceed the register file in strips.

A thread holds its elements of a tile in registers, and code generation unrolls over them. Above
`elements_per_thread` elements, and where all live values exceed the register budget, they spill (and compile
time grows). This pass strip-mines loads, elementwise operations, reductions and stores of such tiles: it
writes a loop over strips ("chunks" in the code) of the tile::

    x = load p                       for i: x = load chunk i of p
    m = max x                 ->            most = max(most, x)
    store q, x - m                   m = max most
                                     for i: x = load chunk i of p
                                            store chunk i of q, x - m

Values that several strip loops use are rematerialized, loads included, in each loop. Stores and reductions
share a loop unless one depends on another's reduction. As many strips as fit into shared memory are marked,
in separate loops, so that `cache-in-shared` can keep them there between loops.

Tiles of higher rank are split into strips of whole rows (the first dimension). A reduction along a row stays
inside its strip, so that a loop over rows can normalize and store them. A flattened tile (`tl.sum(x)`) is split
into flattened strips.

Smaller tiles are strip-mined, too, where their operations would unroll to more than `max_instructions`
instructions (random numbers, library functions) or need more than `max_pressure` times the register budget,
and a single loop suffices.

Each block is analyzed separately: the function body and the bodies of loops and branches. Requires that all
large tiles of a block have the same number of rows and that only the operations above use them; other blocks
are left unchanged. Values defined in enclosing blocks are rematerialized inside the block.
A loop that carries such tiles, without reductions along them or stores, is interchanged with the strip
loop::

    for k: t = t + load p, k         for i: for k: t = t + load chunk i of p, k
    s = sum t                  ->           s = s + t
                                     s = sum s

A load is repeated, or sunk below a store, only where the two do not alias or, in the same loop, access the
same addresses elementwise (the aliasing rules: two arguments either do not alias or are elementwise equal, and
no program writes what all programs load). Runs before `reduce-num-warps` and `assign-layouts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import DenseArrayBase, i32, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import tile
from tilewright.passes.analysis.edit import end_of, erase, replace_values, with_operands
from tilewright.passes.analysis.effects import erase_dead
from tilewright.passes.analysis.emit import Emitter
from tilewright.passes.base import FunctionPass
from tilewright.passes.gpu.analysis.num_ctas import num_ctas_of, warps_of
from tilewright.passes.gpu.analysis.registers import (
    instructions,
    instructions_per_element,
    max_registers_per_thread,
    peak_live_registers,
)
from tilewright.passes.gpu.analysis.strip_plan import (
    Group,
    Plan,
    is_sum_of_rows,
    number_of_elements,
    ops_of,
)
from tilewright.passes.gpu.analysis.strips import (
    KEPT,
    CachePlan,
    Mapping,
    combined,
    is_program_variant,
    move_to_row,
    plan_cache,
)
from tilewright.targets import TargetInfo

_LANES = 32
_NEVER = 1 << 62
_OTHER_REGISTERS = 24
"""Registers for addresses, counters and the like."""
_MIN_ELEMENTS_PER_THREAD, _MAX_ELEMENTS_PER_THREAD = 8, 64
"""Elements of a chunk in each thread."""


@dataclass(frozen=True)
class StripMineTiles(FunctionPass):
    elements_per_thread: int = 64
    """Elements of a tile that a thread may hold."""
    elements_per_cta: int = 49152
    """Elements of a tile that all threads may hold: three quarters of an SM's registers."""
    strip_elements_per_thread: int = 16
    """Elements per thread and strip, registers permitting; four times as many for strips of rows, if that is
    little code."""
    max_instructions: int = 2048
    """Limit of unrolled elementwise operations per thread, for tiles of any size."""
    max_pressure: int = 2
    """Limit of peak live registers, as a multiple of a thread's registers."""
    skip_if_fits: bool = True
    """Leave tiles whole where the peak number of live registers fits."""
    mark_cacheable: bool = True
    """Mark loads that `cache-in-shared` may keep."""
    fallback_options = {"cache-in-shared": {"mark_cacheable": False}}

    def run(self, function: FuncOp, target: TargetInfo) -> None:
        planned = _Planner(self, function).plans()
        kept: CachePlan | None = None
        loops = 0
        for plan, groups in planned:
            here = CachePlan() if kept else self._kept(plan, groups, function, target)
            kept = kept or (here if here.count else None)
            for number, group in enumerate(groups):
                _Writer(group, here, loops).write(number % 2 == 1)
                loops += 1
        for _, groups in reversed(planned):
            for op in (op for group in reversed(groups) for op in group.sinks):
                erase(op)
        if planned:
            erase_dead(function.body.block)

    def _kept(
        self, plan: Plan, groups: list[Group], function: FuncOp, target: TargetInfo
    ) -> CachePlan:
        """The loads that several loops repeat, and the number of strips to cache."""
        if not self.mark_cacheable or len(groups) < 2 or num_ctas_of(function) > 1:
            return CachePlan()
        slices = [group.slice() for group in groups]
        loads = dict.fromkeys(op for ops in slices for op in ops if isinstance(op, tile.Load))
        again = [
            load
            for load in loads
            if sum(load in ops for ops in slices) > 1 and is_program_variant(load)
        ]
        shared = target.shared_bytes
        return plan_cache(again, plan.rows, plan.chunk, warps_of(function), shared)


# ---- plans of strip loops ----------------------------------------------------------------------------


class _Planner:
    """Plans the strip loops of each block of a function, innermost blocks first."""

    def __init__(self, options: StripMineTiles, function: FuncOp) -> None:
        self.options, self.function = options, function
        self.threads = _LANES * warps_of(function)
        self.ctas = num_ctas_of(function)
        self.registers = max_registers_per_thread(warps_of(function) // self.ctas)
        self.place = {op: i for i, op in enumerate(function.walk())}
        self.loops: set[Operation] = set()
        """Loops that carry tiles, which may run once a chunk as a whole."""

    def plans(self) -> list[tuple[Plan, list[Group]]]:
        """The plan and operation groups of each block, in program order."""
        found: dict[Block, tuple[Plan, list[Group]]] = {}
        for block in self._blocks():
            plan, groups = self._of_block(block)
            parent = block.parent_op()
            if groups:
                found[block] = plan, groups
            elif isinstance(parent, scf.ForOp) and parent.results:  # others are there for effects
                self.loops.add(parent)
        while True:
            planned = {block: plan for block, (plan, _) in found.items()}
            whole = [block for block, plan in planned.items() if plan.is_needed_whole(planned)]
            if not whole:
                break
            for block in whole:
                del found[block]
        return sorted(found.values(), key=lambda each: self.place[each[1][0].sinks[0]])

    def _blocks(self) -> list[Block]:
        """Blocks of the function, nested blocks first; only the function body if the kernel has dots."""
        body = self.function.body.block
        largest = max((number_of_elements(r) for op in self.place for r in op.results), default=0)
        if (
            largest
            <= min(self.options.strip_elements_per_thread, _MIN_ELEMENTS_PER_THREAD) * self.threads
        ):
            return []
        if any(isinstance(op, tile.DotOp) for op in self.place):
            return [body] if not self._has_large_elsewhere(body) else []
        inner = [
            region.block
            for op in self.place
            if isinstance(op, scf.ForOp | scf.IfOp | scf.WhileOp)
            for region in op.regions
            if region.blocks
        ]
        return [*reversed(inner), body]

    def _has_large_elsewhere(self, body: Block) -> bool:
        return any(
            number_of_elements(v) > self._limit
            for op in self.place
            if op.parent is not body
            for v in (*op.operands, *op.results)
        )

    @property
    def _limit(self) -> int:
        of_ctas = self.ctas * self.options.elements_per_cta
        return min(self.options.elements_per_thread * self.threads, of_ctas)

    def _of_block(self, block: Block) -> tuple[Plan, list[Group]]:
        loops = frozenset(self.loops)
        ops = list(ops_of(block, loops))
        words = peak_live_registers(ops, self.threads)
        carries = any(op in loops for op in ops)
        chunks = self._chunks(ops, words, carries)
        plan, groups = Plan(block, self.place, (_NEVER, *chunks)), []
        fits = self.options.skip_if_fits and words + _OTHER_REGISTERS <= self.registers
        if not fits:
            plan = Plan(block, self.place, (self._limit, *chunks), loops)
            groups = plan.groups()
        if groups or not self._is_much(ops, block):
            return plan, groups
        plan = Plan(block, self.place, (chunks[0], *chunks), loops)
        groups = plan.groups()
        return plan, groups if len(groups) == 1 else []  # no rematerialization

    def _chunks(self, ops: Sequence[Operation], words: int, carries: bool) -> tuple[int, int]:
        """Elements per strip, and per strip of rows. `words`: peak live registers per thread of `ops`."""
        largest = max((number_of_elements(r) for op in ops for r in op.results), default=1)
        share = self.options.strip_elements_per_thread
        wide = 4 * share

        def is_crowded(elements: int) -> bool:
            return words * elements * self.threads > self.registers * largest

        # loads of consecutive iterations serialize: widen strips as far as registers allow
        while (
            carries
            and self.options.skip_if_fits
            and share < _MAX_ELEMENTS_PER_THREAD
            and not is_crowded(4 * share)
        ):
            share *= 2
        while share > _MIN_ELEMENTS_PER_THREAD and is_crowded(share):
            share //= 2
        while wide > share and is_crowded(wide):
            wide //= 2
        wide = max(share, wide)
        if instructions_per_element(ops) * wide > self.options.max_instructions // 2:
            wide = min(share, self.options.strip_elements_per_thread)
        return share * self.threads, wide * self.threads

    def _is_much(self, ops: Sequence[Operation], block: Block) -> bool:
        """Whether operations exceed `max_instructions`, twice if `partition-loops` may write them twice, or `max_pressure`."""
        copies = 2 if isinstance(block.parent_op(), scf.ForOp) else 1
        if copies * instructions(ops, self.threads) > self.options.max_instructions:
            return True
        return peak_live_registers(ops, self.threads) > self.options.max_pressure * self.registers


# ---- writing loops --------------------------------------------------------------------------------------


class _Writer:
    """Writes the loop of a group."""

    def __init__(self, group: Group, kept: CachePlan, number: int) -> None:
        self.group, self.plan, self.kept = group, group.plan, kept
        self.number = number
        """Number of the loop in its claim about the order of accesses."""
        self.stores = any(isinstance(op, tile.Store) for op in group.sinks)

    def write(self, backwards: bool) -> None:
        """Insert the loops and final reductions of the group. Every other group runs `backwards`: it starts with
        the strips that the caches still hold from the preceding loop."""
        group, kept = self.group, self.kept
        if group.before is None:
            return
        e = Emitter(group.before, group.sinks[0].location)
        ops, count = group.slice(), self.plan.rows // self.plan.chunk
        reductions = [op for op in group.sinks if isinstance(op, tile.ReduceOp)]
        values: list[SSAValue] = []
        parts = [(range(kept.count), kept), (range(kept.count, count), CachePlan())]
        for numbers, kept_here in reversed(parts) if backwards else parts:
            if numbers:
                order = numbers[::-1] if backwards else numbers
                values = self._loop(e, ops, reductions, values, order, kept_here)
        self._reduce(e, reductions, values)

    def _loop(
        self,
        e: Emitter,
        ops: Sequence[Operation],
        reductions: list[tile.ReduceOp],
        so_far: list[SSAValue],
        numbers: range,
        kept: CachePlan,
    ) -> list[SSAValue]:
        """A loop over these strips, reducing onto `so_far`, the partial results of earlier loops."""
        chunk, inits = self.plan.chunk, so_far
        if reductions and not inits:  # the first strip gives the initial values
            mapping = self._chunk(e, ops, e.constant(numbers[0] * chunk), kept, (numbers[0], 0))
            inits = [mapping[v] for op in reductions for v in op.inputs]
            numbers = numbers[1:]
        if not numbers:
            return inits
        zero, one, trips = e.constant(0), e.constant(1), e.constant(len(numbers))
        loop, inner = e.loop([zero, trips, one], inits)
        number, *carried = loop.body.block.args
        if numbers.step < 0:
            number = inner.sub(inner.constant(numbers[0]), number)
        elif numbers[0]:
            number = inner.add(number, inner.constant(numbers[0]))
        start = inner.mul(number, inner.constant(chunk))
        mapping = self._chunk(inner, ops, start, kept, (numbers[0], numbers.step))
        if self.stores:
            self._claim(loop)
        yielded: list[SSAValue] = []
        for op in reductions:
            values = [mapping[v] for v in op.inputs]
            before, carried = carried[: len(values)], carried[len(values) :]
            yielded += combined(inner, op, [*before, *values])
        inner.anchor.operands = yielded
        return list(loop.results)

    def _claim(self, loop: scf.ForOp) -> None:
        """Claim the order in which the accesses of all strips ran before."""
        tile.assume(loop, StripMineTiles.name, order=[self.number])
        accesses = (op for op in loop.body.walk() if isinstance(op, (tile.Load, tile.Store)))
        for position, op in enumerate(accesses):
            tile.assume(op, StripMineTiles.name, in_order=[self.number, position])

    @staticmethod
    def _reduce(e: Emitter, reductions: list[tile.ReduceOp], tiles: list[SSAValue]) -> None:
        """Reduce the remaining strip-sized tiles."""
        for op in reductions:
            inputs, tiles = tiles[: len(op.inputs)], tiles[len(op.inputs) :]
            new = with_operands(op, inputs, [r.type for r in op.results], [op.combine.clone()])
            e.insert_op(new)
            new.location = op.location
            replace_values(op.results, new.results)

    def _chunk(
        self,
        e: Emitter,
        ops: Sequence[Operation],
        start: SSAValue,
        kept: CachePlan,
        number: tuple[int, int],
    ) -> Mapping:
        """Emit the operations for the strip that starts at element `start` (i64). `number` is its index as
        an affine function of the enclosing loop's counter: offset and factor."""
        chunk = _Chunk(self.plan, start)
        for op in ops:
            chunk.add(e, op)
            if op in kept.loads:
                made = chunk.rows[op.results[0]].owner
                mark = (kept.loads.index(op), *number, kept.count)
                if isinstance(made, Operation):
                    made.attributes[KEPT] = DenseArrayBase.from_list(i64, mark)
        return chunk.rows


class _Chunk:
    """Emits operations for the strip of rows from `start` (i64) on."""

    def __init__(self, plan: Plan, start: SSAValue) -> None:
        self.plan, self.start = plan, start
        self.rows: Mapping = {}
        """Value -> its rows in the strip."""
        self.whole: Mapping = {}
        """Values of an interchanged loop's body that are the same for all strips -> their copies."""

    def add(self, e: Emitter, op: Operation) -> None:
        """Emit one operation for the strip."""
        made = self._loop(e, op) if isinstance(op, scf.ForOp) else self._piece(e, op)
        for result, new in zip(op.results, made, strict=False):
            new.name_hint = result.name_hint
            self.rows[result] = new

    def _piece(self, e: Emitter, op: Operation) -> Sequence[SSAValue]:
        rows = self.plan.chunk
        if is_sum_of_rows(op):
            return ()
        if isinstance(op, tile.ArangeOp):
            first = e.insert(arith.TruncIOp(self.start, i32))
            first = e.add(first, e.constant(op.start.value.data, i32))
            return (e.binary(arith.AddiOp, e.splat(first, (rows,)), e.arange(rows)),)
        if isinstance(op, tile.HintOp):
            return (self.rows[op.source],)
        sources = self.plan.sources(op) or ()
        operands = [self.rows[v] if v in sources else self._copy(e, v) for v in op.operands]
        types, regions = [self._type(r) for r in op.results], [r.clone() for r in op.regions]
        new = with_operands(op, operands, types, regions)
        e.insert_op(new)
        new.location = op.location
        if isinstance(new, tile.View):
            move_to_row(Emitter(new, op.location), new, self.start)
        return new.results

    def _type(self, value: SSAValue) -> Any:
        return tile.with_shape(tile.element_of(value), self.plan.strip_shape(value))

    # ---- interchanged loops ----

    def _loop(self, e: Emitter, op: scf.ForOp) -> Sequence[SSAValue]:
        """The loop, carrying the strip of each carried tile."""
        body, rowed = op.body.block, self.plan.rowed
        inits = [
            self.rows[v] if arg in rowed else self._copy(e, v)
            for v, arg in zip(op.iter_args, body.args[1:], strict=True)
        ]
        bounds = [self._copy(e, v) for v in (op.lb, op.ub, op.step)]
        loop, inner = e.loop(bounds, inits, op.attributes, body.args)
        loop.location = inner.location = op.location
        outside = dict(self.whole)
        for old, new in zip(body.args, loop.body.block.args, strict=True):
            (self.rows if old in rowed else self.whole)[old] = new
        for each in body.ops:
            taken = self.plan.touches(each) or any(r in rowed for r in each.results)
            if taken and not isinstance(each, scf.YieldOp):
                self.add(inner, each)
        inner.anchor.operands = [
            self.rows[v] if arg in rowed else self._copy(inner, v)
            for v, arg in zip(end_of(body).operands, body.args[1:], strict=True)
        ]
        self.whole = outside
        return loop.results

    def _copy(self, e: Emitter, value: SSAValue) -> SSAValue:
        """A value that is the same for all strips; rematerialized if an interchanged loop defines it."""
        op = value.owner
        if value in self.whole or not isinstance(op, Operation) or not self.plan.in_loops(op):
            return self.whole.get(value, value)
        for operand in op.operands:
            self._copy(e, operand)
        e.clone(op, self.whole)
        return self.whole[value]
