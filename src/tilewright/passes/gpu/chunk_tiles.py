"""`chunk-tiles`: tiles of more elements than threads have registers are gone through in chunks.

A thread holds its elements of a tile in registers, and code for each is written out. Beyond `registers`
elements a thread that is slow to compile, and registers go to memory. This pass makes a loop over chunks
of the tile of what loads, computes element by element, reduces and stores::

    x = load p                       for i: x = load chunk i of p
    m = max x                 ->            most = max(most, x)
    store q, x - m                   m = max most
                                     for i: x = load chunk i of p
                                            store chunk i of q, x - m

What several loops need is computed, and loaded, again in each. Stores and reductions share a loop as long
as none needs what another one reduces. As many chunks as shared memory has room for are marked, in loops
of their own, so that `keep-chunks` may keep them there.

Tiles of more dimensions go in chunks of whole rows (the first dimension). What is reduced along a row
stays within its chunk, so that a loop over rows may normalise and store them.

Smaller tiles go in chunks as well where what is done to them would be more than `code` instructions (random
numbers, functions of libraries) and one loop does it all.

Applies to programs whose large tiles all have one number of rows, outside of loops and branches,
with nothing but such operations on them; others stay as they are. A load is done again, or later than
stores, only where they are apart or, in the same loop, lane by lane at the same addresses (the contract
of execution; two arguments are taken to be apart or lane by lane the same). Before `fit-warps` and
`assign-layouts`.
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
from tilewright.passes.analysis.edit import erase
from tilewright.passes.analysis.effects import (
    erase_dead,
    has_effect,
    is_lane_wise,
    is_pure,
    is_volatile,
)
from tilewright.passes.analysis.emit import Emitter, constant_int
from tilewright.passes.base import Pass
from tilewright.passes.gpu.analysis.blocks import blocks_of
from tilewright.passes.gpu.analysis.chunks import (
    KEPT,
    VIEWS,
    Kept,
    Mapping,
    combined,
    in_step,
    leaves_alone,
    move_to_row,
    of_program,
    what_to_keep,
)
from tilewright.passes.gpu.analysis.work import instructions, instructions_of_an_element
from tilewright.passes.gpu.assign_layouts import warps_of

_LANES = 32
_LOADS = (tile.LoadViewOp, tile.LoadOp)
_STORES = (tile.StoreViewOp, tile.StoreOp)


@dataclass(frozen=True)
class ChunkTiles(Pass):
    """See the module docstring."""

    name: ClassVar[str] = "chunk-tiles"
    registers: int = 64
    """Elements of a tile that a thread may hold."""
    all_registers: int = 49152
    """Elements of a tile that all threads may hold: three quarters of a multiprocessor's registers."""
    share: int = 8
    """Elements of a chunk that each thread gets; of rows four times as many, where that is little code."""
    code: int = 2048
    """Operations on single elements in a thread's code that are too many, whatever they are on."""
    keep: bool = True
    """Mark what `keep-chunks` may keep."""
    without: ClassVar[dict[str, dict[str, Any]]] = {"keep-chunks": {"keep": False}}

    def apply(self, module: ModuleOp, target: Any) -> None:
        for function in module.body.block.ops:
            if isinstance(function, FuncOp) and function.body.blocks:
                groups = self._groups(function)
                kept = self._kept(groups, function, target)
                for number, group in enumerate(groups):
                    group.write(number % 2 == 1, kept)
                for group in reversed(groups):
                    for op in group.sinks:
                        erase(op)
                if groups:
                    erase_dead(function.body.block)

    def _kept(self, groups: list[_Group], function: FuncOp, target: Any) -> Kept:
        """What several loops load, and how many chunks of it."""
        if not self.keep or len(groups) < 2 or blocks_of(function) > 1:
            return Kept()
        plan, slices = groups[0].plan, [group.slice() for group in groups]
        loads = [op for op in plan.place if isinstance(op, _LOADS)]
        again = [
            load for load in loads if sum(load in ops for ops in slices) > 1 and of_program(load)
        ]
        shared = getattr(target, "shared_bytes", 0) or 48 << 10
        return what_to_keep(again, plan.rows, plan.chunk, warps_of(function), shared)

    def _groups(self, function: FuncOp) -> list[_Group]:
        """The loops to make of a function."""
        threads = _LANES * warps_of(function)
        ops = list(function.body.block.ops)
        share, limit = self.share, min(self.registers * threads, self.all_registers)
        wide = 4 * share
        if instructions_of_an_element(ops) * wide > self.code // 2:
            wide = share
        groups = _Plan(function, limit, share * threads, wide * threads).groups()
        if groups or instructions(ops, threads) <= self.code:
            return groups
        groups = _Plan(function, share * threads, share * threads, wide * threads).groups()
        return groups if len(groups) == 1 else []  # nothing is done twice


# ---- what can be done, and in which loops ---------------------------------------------------------------


class _Plan:
    """Values are *rowed* if a chunk of them is made: they have the rows of the large tiles."""

    def __init__(self, function: FuncOp, limit: int, chunk: int, chunk_of_rows: int) -> None:
        self.block = function.body.block
        self.rows = 0
        """Of the large tiles."""
        self.chunk = chunk
        """Rows of a chunk."""
        self.rowed: set[SSAValue] = set()
        self.made: set[SSAValue] = set()
        """Large tiles, and rowed ones that are made of them."""
        self.known = True
        """Nothing has been met that cannot be done in chunks."""
        large = self._large(function, limit)
        if not self.known or not large:
            return
        inner = max(prod(tile.shape_of(v)[1:]) for v in large)
        if inner > 1:
            self.chunk = max(1, chunk_of_rows // inner)
        self.known = self.rows % self.chunk == 0 and self.rows != self.chunk
        for op in self.block.ops if self.known else ():
            if any(v in large or v in self.made for v in (*op.operands, *op.results)):
                self._take(op)
                self.made.update(() if _is_sum_of_rows(op) else op.results)
        self.place = {op: i for i, op in enumerate(self.block.ops)}

    def _large(self, function: FuncOp, limit: int) -> set[SSAValue]:
        """Tiles of more than `limit` elements and one row, of those with the most dimensions.

        All must be made in the function's block and have as many rows.
        """
        large: set[SSAValue] = set()
        for op in function.walk():
            found = [v for v in (*op.operands, *op.results) if _elements(v) > limit]
            large.update(found)
            if found and op.parent is not self.block:
                self.known = False
        rank = max((len(tile.shape_of(v)) for v in large), default=0)
        large = {v for v in large if len(tile.shape_of(v)) == rank and _rows(v) > 1}
        rows = {_rows(v) for v in large}
        self.known = self.known and len(rows) == 1
        self.rows = rows.pop() if self.known else 0
        return large

    def _take(self, op: Operation) -> None:
        """Note that an operation is done in chunks; everything that it needs the rows of must be."""
        pending = [op]
        while pending:
            current = pending.pop()
            sources = self.sources(current)
            if sources is None or any(not isinstance(v.owner, Operation) for v in sources):
                self.known = False
                return
            if not _is_sum_of_rows(current):
                self.rowed.update(current.results)
            pending += [
                v.owner for v in sources if v not in self.rowed and isinstance(v.owner, Operation)
            ]

    def sources(self, op: Operation) -> list[SSAValue] | None:
        """The operands of which a chunk of `op` needs a chunk; None if it cannot be done in chunks."""
        results = () if _is_sum_of_rows(op) else op.results
        if op.parent is not self.block or any(_rows(v) != self.rows for v in results):
            return None
        tiles = [v for v in op.operands if tile.is_tile(v)]
        match op:
            case tile.LoadViewOp() | tile.StoreViewOp():
                return self._of_view(op, tiles)
            case tile.LoadOp() if is_volatile(op):
                return None
            case tile.ArangeOp() | tile.SplatOp():
                return []
            case tile.BroadcastOp():
                return tiles if _rows(op.source) == self.rows else []
            case tile.ExpandDimsOp():
                return tiles if op.axis.value.data > 0 else None
            case tile.ReduceOp():
                region = op.combine.block.ops
                simple = all(is_lane_wise(o) or isinstance(o, tile.YieldOp) for o in region)
                return tiles if simple or not _is_sum_of_rows(op) else None
            case tile.LoadOp() | tile.StoreOp():
                pass
            case _ if not is_lane_wise(op):
                return None
        return tiles if all(_rows(v) == self.rows for v in tiles) else None

    def _of_view(self, op: Any, tiles: list[SSAValue]) -> list[SSAValue] | None:
        first, *others = tile.view_kinds(op)
        accessed: SSAValue = op.result if isinstance(op, tile.LoadViewOp) else op.value
        if first == "wrapped" or _rows(accessed) != self.rows:
            return None
        if others and first == "strided" and constant_int(op.strides[0]) == 1:
            return None  # neighbours in memory would be in different chunks
        columns = op.indices[first == "indexed" :]
        if any(tile.shape_of(v) == (self.rows,) for v in columns):
            return None
        return [v for v in tiles if v not in columns]

    def groups(self) -> list[_Group]:
        """The loops to make; none if something is in the way."""
        if not self.known or not self.rows:
            return []
        found: list[_Group] = []
        group = _Group(self)
        for op in self.block.ops:
            large = any(v in self.made for v in (*op.operands, *op.results))
            sink = large and (isinstance(op, _STORES) or _is_sum_of_rows(op))
            ends = group.feeds(op) if sink else not large and (self._outside(op) or group.feeds(op))
            if group.sinks and ends:
                group.before = op
                found.append(group)
                group = _Group(self)
            if sink:
                group.sinks.append(op)
        return found if all(g.is_legal() for g in found) else []

    @staticmethod
    def _outside(op: Operation) -> bool:
        """Whether an operation on no large tile keeps its place among those that are."""
        return not is_pure(op) or bool(op.regions)


def _is_sum_of_rows(op: Operation) -> bool:
    """Whether an operation reduces the first dimension."""
    return isinstance(op, tile.ReduceOp) and op.axis.value.data == 0


def _rows(value: SSAValue) -> int:
    """The first extent of a tile; 0 for scalars."""
    shape = tile.shape_of(value)
    return shape[0] if shape else 0


def _elements(value: SSAValue) -> int:
    return prod(tile.shape_of(value)) if tile.is_tile(value) else 0


# ---- one loop ---------------------------------------------------------------------------------------------


class _Group:
    def __init__(self, plan: _Plan) -> None:
        self.plan = plan
        self.sinks: list[Operation] = []
        """Stores and reductions."""
        self.before: Operation | None = None
        """Where the loop goes."""

    def feeds(self, op: Operation) -> bool:
        """Whether `op`, or what it needs on large tiles, uses what this loop reduces."""
        return any(v.owner in self.sinks for needed in self._slice([op]) for v in needed.operands)

    def slice(self) -> list[Operation]:
        """Everything on large tiles that the sinks need, and they themselves, in order."""
        return sorted(self._slice(self.sinks), key=self.plan.place.__getitem__)

    def _slice(self, ends: Sequence[Operation]) -> set[Operation]:
        needed: set[Operation] = set()
        pending = list(ends)
        while pending:
            op = pending.pop()
            if op in needed:
                continue
            needed.add(op)
            owners = [v.owner for v in op.operands if v in self.plan.rowed]
            pending += [owner for owner in owners if isinstance(owner, Operation)]
        return needed

    # ---- order in memory ----

    def is_legal(self) -> bool:
        """Whether loads may be done where and when the loop does them, and stores as well."""
        ops = self.slice()
        loads = [op for op in ops if isinstance(op, _LOADS)]
        stores = [op for op in ops if isinstance(op, _STORES)]
        return all(self._stays_true(load, stores) for load in loads) and all(
            in_step(a, b) for i, a in enumerate(stores) for b in (*stores[:i], *loads)
        )

    def _stays_true(self, load: Operation, own: Sequence[Operation]) -> bool:
        """Whether nothing between a load and the loop writes what it reads."""
        place = self.plan.place
        end = place[self.before] if self.before is not None else 0
        for op, at in place.items():
            if not place[load] < at < end or op in own:
                continue
            if isinstance(op, _STORES):
                if not leaves_alone(load, op):
                    return False
            elif not isinstance(op, (*_LOADS, tile.AssumeOp)) and has_effect(op):
                return False
        return True

    # ---- writing it ----

    def write(self, backwards: bool, kept: Kept) -> None:
        """Put the loops, and what they reduce, before `self.before`. Every other group goes `backwards`: it
        begins with what the caches still have from the one before."""
        if self.before is None:
            return
        e = Emitter(self.before, self.sinks[0].location)
        ops, count = self.slice(), self.plan.rows // self.plan.chunk
        reductions = [op for op in self.sinks if isinstance(op, tile.ReduceOp)]
        values: list[SSAValue] = []
        parts = [(range(kept.count), kept), (range(kept.count, count), Kept())]
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
        kept: Kept,
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
        carried = list(block.args[1:])
        yielded: list[SSAValue] = []
        for op in reductions:
            values = [mapping[v] for v in op.inputs]
            before, carried = carried[: len(values)], carried[len(values) :]
            yielded += combined(inner, op, [*before, *values])
        block.insert_op_before(scf.YieldOp.create(operands=yielded, location=e.location), end)
        erase(end)
        return list(loop.results)

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
        kept: Kept,
        number: tuple[int, int],
    ) -> Mapping:
        """Everything for the chunk from element `start` (i64) on, whose number is one and so many times
        what the loop around it counts."""
        mapping: Mapping = {}
        for op in ops:
            for result, made in zip(op.results, self._piece(e, op, start, mapping), strict=False):
                made.name_hint = result.name_hint
                mapping[result] = made
                if op in kept.loads and isinstance(made.owner, Operation):
                    mark = (kept.loads.index(op), *number, kept.count)
                    made.owner.attributes[KEPT] = DenseArrayBase.from_list(i64, mark)
        return mapping

    def _piece(
        self, e: Emitter, op: Operation, start: SSAValue, mapping: Mapping
    ) -> Sequence[SSAValue]:
        """One operation for a chunk: its results."""
        rows = self.plan.chunk
        if _is_sum_of_rows(op):
            return ()
        if isinstance(op, tile.ArangeOp):
            first = e.insert(arith.TruncIOp(start, i32))
            first = e.add(first, e.constant(op.start.value.data, i32))
            return (e.binary(arith.AddiOp, e.splat(first, (rows,)), e.arange(rows)),)
        if isinstance(op, tile.HintOp):
            return (mapping[op.source],)
        shapes = [(rows, *tile.shape_of(r)[1:]) for r in op.results]
        sources = self.plan.sources(op) or ()
        new = type(op).create(
            operands=[mapping[v] if v in sources else v for v in op.operands],
            result_types=[
                tile.with_shape(tile.element_of(r), shape)
                for r, shape in zip(op.results, shapes, strict=True)
            ],
            properties=dict(op.properties),
            attributes=dict(op.attributes),
            regions=[region.clone() for region in op.regions],
        )
        e.insert_op(new)
        new.location = op.location
        if isinstance(new, VIEWS):
            move_to_row(Emitter(new, op.location), new, start)
        return new.results
