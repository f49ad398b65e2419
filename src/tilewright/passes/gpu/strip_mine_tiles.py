"""`strip-mine-tiles`: tiles of more elements than threads have registers are gone through in chunks.

A thread holds its elements of a tile in registers, and code for each is written out. Beyond `registers`
elements a thread, where with what else is held they are more than the registers there are, these go to memory
(and it is slow to compile). This pass makes a loop over chunks
of the tile of what loads, computes element by element, reduces and stores::

    x = load p                       for i: x = load chunk i of p
    m = max x                 ->            most = max(most, x)
    store q, x - m                   m = max most
                                     for i: x = load chunk i of p
                                            store chunk i of q, x - m

What several loops need is computed, and loaded, again in each. Stores and reductions share a loop as long
as none needs what another one reduces. As many chunks as shared memory has room for are marked, in loops
of their own, so that `cache-in-shared` may keep them there.

Tiles of more dimensions go in chunks of whole rows (the first dimension). What is reduced along a row
stays within its chunk, so that a loop over rows may normalise and store them.

Smaller tiles go in chunks as well where what is done to them would be more than `code` instructions (random
numbers, functions of libraries), or more than `crowd` times the registers there are, and one loop does it all.

Each block of the program is looked at by itself: its body, those of its loops and branches. In a block the
large tiles must all have one number of rows, and nothing but such operations may be done to them; other
blocks stay as they are. What a block needs of the ones around it is computed, and loaded, again within it.
A loop that carries such tiles, and does with them what needs neither sums of their rows nor stores, is
exchanged with the loop over chunks::

    for k: t = t + load p, k         for i: for k: t = t + load chunk i of p, k
    s = sum t                  ->           s = s + t
                                     s = sum s

A load is done again, or later than stores, only where they are apart or, in the same loop, element-wise at
the same addresses (the aliasing rules; two arguments are taken to be apart or element-wise the
same, and what all programs load is written by none). Before `reduce-num-warps` and `assign-layouts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, i32, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region, SSAValue

from tilewright.dialects import tile
from tilewright.passes.analysis.edit import end_of, erase
from tilewright.passes.analysis.effects import erase_dead
from tilewright.passes.analysis.emit import Emitter
from tilewright.passes.base import Pass
from tilewright.passes.gpu.analysis.num_ctas import num_ctas_of
from tilewright.passes.gpu.analysis.register_pressure import (
    instructions,
    instructions_per_element,
    peak_live_registers,
)
from tilewright.passes.gpu.analysis.registers import max_registers_per_thread
from tilewright.passes.gpu.analysis.strip_plan import (
    LOADS,
    STORES,
    Group,
    Plan,
    is_sum_of_rows,
    ops_of,
)
from tilewright.passes.gpu.analysis.strips import (
    KEPT,
    VIEWS,
    CachePlan,
    Mapping,
    combined,
    is_program_variant,
    move_to_row,
    plan_cache,
)
from tilewright.passes.gpu.assign_layouts import warps_of
from tilewright.targets import TargetInfo

_LANES = 32
_NEVER = 1 << 62
_OTHER_REGISTERS = 24
"""Registers for addresses, counters and the like."""
_MIN_ELEMENTS_PER_THREAD, _MAX_ELEMENTS_PER_THREAD = 8, 64
"""Elements of a chunk in each thread."""


@dataclass(frozen=True)
class StripMineTiles(Pass):
    """See the module docstring."""

    name: ClassVar[str] = "strip-mine-tiles"
    elements_per_thread: int = 64
    """Elements of a tile that a thread may hold."""
    elements_per_cta: int = 49152
    """Elements of a tile that all threads may hold: three quarters of an SM's registers."""
    strip_elements_per_thread: int = 16
    """Elements of a chunk that each thread gets, where it has registers for them; of rows four times as many,
    where that is little code."""
    max_instructions: int = 2048
    """Operations on single elements in a thread's code that are too many, whatever they are on."""
    max_pressure: int = 2
    """Registers that tiles would need at once, of those that a thread has, that are too many."""
    skip_if_fits: bool = True
    """Leave tiles whole where all that is held at once fits into the registers."""
    mark_cacheable: bool = True
    """Mark what `cache-in-shared` may keep."""
    fallback_options: ClassVar[dict[str, dict[str, Any]]] = {
        "cache-in-shared": {"mark_cacheable": False}
    }

    def apply(self, module: ModuleOp, target: TargetInfo) -> None:
        for function in module.body.block.ops:
            if not isinstance(function, FuncOp) or not function.body.blocks:
                continue
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
        """What several loops load, and how many chunks of it."""
        if not self.mark_cacheable or len(groups) < 2 or num_ctas_of(function) > 1:
            return CachePlan()
        slices = [group.slice() for group in groups]
        loads = dict.fromkeys(op for ops in slices for op in ops if isinstance(op, LOADS))
        again = [
            load
            for load in loads
            if sum(load in ops for ops in slices) > 1 and is_program_variant(load)
        ]
        shared = target.shared_bytes
        return plan_cache(again, plan.rows, plan.chunk, warps_of(function), shared)


# ---- what is done in chunks ----------------------------------------------------------------------------


class _Planner:
    """Finds the loops to make in each block of a function, the innermost first."""

    def __init__(self, options: StripMineTiles, function: FuncOp) -> None:
        self.options, self.function = options, function
        self.threads = _LANES * warps_of(function)
        self.ctas = num_ctas_of(function)
        self.registers = max_registers_per_thread(warps_of(function) // self.ctas)
        self.place = {op: i for i, op in enumerate(function.walk())}
        self.loops: set[Operation] = set()
        """Loops that carry tiles, which may run once a chunk as a whole."""

    def plans(self) -> list[tuple[Plan, list[Group]]]:
        """What is to be done, in the order of the program."""
        found: dict[Block, tuple[Plan, list[Group]]] = {}
        for block in self._blocks():
            plan, groups = self._of_block(block)
            parent = block.parent_op()
            if groups:
                found[block] = plan, groups
            elif isinstance(parent, scf.ForOp):
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
        """Blocks of the function, those within others first: of programs with products only its own."""
        body = self.function.body.block
        largest = max((_elements(r) for op in self.place for r in op.results), default=0)
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
            _elements(v) > self._limit
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
        if groups or not self._is_much(block):
            return plan, groups
        plan = Plan(block, self.place, (chunks[0], *chunks))
        groups = plan.groups()
        return plan, groups if len(groups) == 1 else []  # nothing is done twice

    def _chunks(self, ops: Sequence[Operation], words: int, carries: bool) -> tuple[int, int]:
        """Elements of a chunk, and of one of rows: `words` are what a thread needs for all of `ops`."""
        largest = max((_elements(r) for op in ops for r in op.results), default=1)
        share = self.options.strip_elements_per_thread
        wide = 4 * share

        def is_crowded(elements: int) -> bool:
            return words * elements * self.threads > self.registers * largest

        # each load of a loop waits for the one before: as many at once as there is room for
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

    def _is_much(self, block: Block) -> bool:
        """Whether what a block does is much code, or needs far more registers than there are."""
        ops = list(block.ops)
        if instructions(ops, self.threads) > self.options.max_instructions:
            return True
        return peak_live_registers(ops, self.threads) > self.options.max_pressure * self.registers


def _elements(value: SSAValue) -> int:
    return prod(tile.shape_of(value)) if tile.is_tile(value) else 0


# ---- writing loops --------------------------------------------------------------------------------------


class _Writer:
    """Writes the loop of a group."""

    def __init__(self, group: Group, kept: CachePlan, number: int) -> None:
        self.group, self.plan, self.kept = group, group.plan, kept
        self.number = number
        """Of the loop, in what it claims of the order of its accesses."""
        self.stores = any(isinstance(op, STORES) for op in group.sinks)

    def write(self, backwards: bool) -> None:
        """Put the loops, and what they reduce, where the group goes. Every other group goes `backwards`: it
        begins with what the caches still have from the one before."""
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
        """A loop over these chunks; `so_far`: what others came to. Returns what all come to."""
        chunk, inits = self.plan.chunk, so_far
        if reductions and not inits:  # their first chunk is what they start from
            mapping = self._chunk(e, ops, e.constant(numbers[0] * chunk), kept, (numbers[0], 0))
            inits = [mapping[v] for op in reductions for v in op.inputs]
            numbers = numbers[1:]
        if not numbers:
            return inits
        block = Block(arg_types=[i64, *(v.type for v in inits)])
        block.add_op(end := scf.YieldOp())
        zero, one, trips = e.constant(0), e.constant(1), e.constant(len(numbers))
        loop = scf.ForOp.create(
            operands=[zero, trips, one, *inits],
            result_types=[v.type for v in inits],
            regions=[Region(block)],
        )
        e.insert_op(loop)
        inner = Emitter(end, e.location)
        number: SSAValue = block.args[0]
        if numbers.step < 0:
            number = inner.sub(inner.constant(numbers[0]), number)
        elif numbers[0]:
            number = inner.add(number, inner.constant(numbers[0]))
        start = inner.mul(number, inner.constant(chunk))
        mapping = self._chunk(inner, ops, start, kept, (numbers[0], numbers.step))
        if self.stores:
            self._claim(loop)
        carried = list(block.args[1:])
        yielded: list[SSAValue] = []
        for op in reductions:
            values = [mapping[v] for v in op.inputs]
            before, carried = carried[: len(values)], carried[len(values) :]
            yielded += combined(inner, op, [*before, *values])
        block.insert_op_before(scf.YieldOp.create(operands=yielded, location=e.location), end)
        erase(end)
        return list(loop.results)

    def _claim(self, loop: scf.ForOp) -> None:
        """Write down the order that the accesses of all chunks had."""
        tile.assume(loop, StripMineTiles.name, order=[self.number])
        accesses = (op for op in loop.body.walk() if isinstance(op, (*LOADS, *STORES)))
        for position, op in enumerate(accesses):
            tile.assume(op, StripMineTiles.name, in_order=[self.number, position])

    @staticmethod
    def _reduce(e: Emitter, reductions: list[tile.ReduceOp], tiles: list[SSAValue]) -> None:
        """Reductions of what is left: a chunk."""
        for op in reductions:
            inputs, tiles = tiles[: len(op.inputs)], tiles[len(op.inputs) :]
            new = tile.ReduceOp.create(
                operands=inputs,
                result_types=[r.type for r in op.results],
                properties=dict(op.properties),
                attributes=dict(op.attributes),
                regions=[op.combine.clone()],
            )
            e.insert_op(new)
            new.location = op.location
            for old, result in zip(op.results, new.results, strict=True):
                result.name_hint = old.name_hint
                old.replace_all_uses_with(result)

    def _chunk(
        self,
        e: Emitter,
        ops: Sequence[Operation],
        start: SSAValue,
        kept: CachePlan,
        number: tuple[int, int],
    ) -> Mapping:
        """Everything for the chunk from element `start` (i64) on, whose number is one and so many times
        what the loop around it counts."""
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
    """What is made of operations for the chunk of rows from `start` (i64) on."""

    def __init__(self, plan: Plan, start: SSAValue) -> None:
        self.plan, self.start = plan, start
        self.rows: Mapping = {}
        """Value -> those rows of it."""
        self.whole: Mapping = {}
        """Values that a loop makes for each of its iterations -> copies of them."""

    def add(self, e: Emitter, op: Operation) -> None:
        """One operation for the chunk."""
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
        new = type(op).create(
            operands=[self.rows[v] if v in sources else self._copy(e, v) for v in op.operands],
            result_types=[self._type(r) for r in op.results],
            properties=dict(op.properties),
            attributes=dict(op.attributes),
            regions=[region.clone() for region in op.regions],
        )
        e.insert_op(new)
        new.location = op.location
        if isinstance(new, VIEWS):
            move_to_row(Emitter(new, op.location), new, self.start)
        return new.results

    def _type(self, value: SSAValue) -> Any:
        shape = (self.plan.chunk, *tile.shape_of(value)[1:])
        return tile.with_shape(tile.element_of(value), shape)

    # ---- loops that run once a chunk ----

    def _loop(self, e: Emitter, op: scf.ForOp) -> Sequence[SSAValue]:
        """The loop, carrying the chunk of what it carries."""
        body, rowed = op.body.block, self.plan.rowed
        inits = [
            self.rows[v] if arg in rowed else self._copy(e, v)
            for v, arg in zip(op.iter_args, body.args[1:], strict=True)
        ]
        block = Block(arg_types=[body.args[0].type, *(v.type for v in inits)])
        block.add_op(end := scf.YieldOp())
        bounds = [self._copy(e, v) for v in (op.lb, op.ub, op.step)]
        loop = scf.ForOp.create(
            operands=[*bounds, *inits],
            result_types=[v.type for v in inits],
            regions=[Region(block)],
            attributes=dict(op.attributes),
        )
        e.insert_op(loop)
        loop.location = op.location
        outside = dict(self.whole)
        for old, new in zip(body.args, block.args, strict=True):
            new.name_hint = old.name_hint
            (self.rows if old in rowed else self.whole)[old] = new
        inner = Emitter(end, op.location)
        for each in body.ops:
            taken = self.plan.touches(each) or any(r in rowed for r in each.results)
            if taken and not isinstance(each, scf.YieldOp):
                self.add(inner, each)
        yielded = [
            self.rows[v] if arg in rowed else self._copy(inner, v)
            for v, arg in zip(end_of(body).operands, body.args[1:], strict=True)
        ]
        self.whole = outside
        block.insert_op_before(scf.YieldOp.create(operands=yielded, location=op.location), end)
        erase(end)
        return loop.results

    def _copy(self, e: Emitter, value: SSAValue) -> SSAValue:
        """A value that all chunks take alike; made again if a loop makes it that runs once a chunk."""
        op = value.owner
        if value in self.whole or not isinstance(op, Operation) or not self.plan.in_loops(op):
            return self.whole.get(value, value)
        copy = op.clone({v: self._copy(e, v) for v in op.operands})
        e.insert_op(copy)
        copy.location = op.location
        self.whole.update(zip(op.results, copy.results, strict=True))
        return self.whole[value]
