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
as none needs what another one reduces.

Applies to programs whose large tiles all have one dimension and one extent, outside of loops and branches,
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
from xdsl.dialects.builtin import ModuleOp, i32, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region, SSAValue

from tilewright.dialects import tile
from tilewright.passes.analysis.addresses import root_of, same_addresses
from tilewright.passes.analysis.edit import end_of, erase
from tilewright.passes.analysis.effects import (
    erase_dead,
    has_effect,
    is_lane_wise,
    is_pure,
    is_volatile,
)
from tilewright.passes.analysis.emit import Emitter
from tilewright.passes.analysis.ranges import apart
from tilewright.passes.base import Pass
from tilewright.passes.gpu.assign_layouts import warps_of

_LANES = 32
_LOADS = (tile.LoadViewOp, tile.LoadOp)
_STORES = (tile.StoreViewOp, tile.StoreOp)
_VIEWS = (tile.LoadViewOp, tile.StoreViewOp)

Mapping = dict[SSAValue, SSAValue]


@dataclass(frozen=True)
class ChunkTiles(Pass):
    """See the module docstring."""

    name: ClassVar[str] = "chunk-tiles"
    registers: int = 64
    """Elements of a tile that a thread may hold."""
    all_registers: int = 65536
    """Elements of a tile that all threads may hold: as many as a multiprocessor has registers."""
    share: int = 8
    """Elements of a chunk that each thread gets."""

    def apply(self, module: ModuleOp, target: Any) -> None:
        for function in module.body.block.ops:
            if isinstance(function, FuncOp) and function.body.blocks:
                threads = _LANES * warps_of(function)
                limit = min(self.registers * threads, self.all_registers)
                groups = _Plan(function, limit, self.share * threads).groups()
                for number, group in enumerate(groups):
                    group.write(number % 2 == 1)
                for group in reversed(groups):
                    for op in group.sinks:
                        erase(op)
                if groups:
                    erase_dead(function.body.block)


# ---- what can be done, and in which loops ---------------------------------------------------------------


class _Plan:
    def __init__(self, function: FuncOp, limit: int, chunk: int) -> None:
        self.block = function.body.block
        self.chunk = chunk
        self.extent = 0
        self.known = True
        """Nothing has been met that cannot be done in chunks."""
        for op in function.walk():
            large = [v for v in (*op.operands, *op.results) if _elements(v) > limit]
            if large and not self._allowed(op, large):
                self.known = False
        self.place = {op: i for i, op in enumerate(self.block.ops)}

    def _allowed(self, op: Operation, large: list[SSAValue]) -> bool:
        extents = {tile.shape_of(v) for v in large}
        if op.parent is not self.block or len(extents) != 1 or len(shape := extents.pop()) != 1:
            return False
        self.extent = self.extent or shape[0]
        if shape[0] != self.extent or shape[0] % self.chunk or shape[0] == self.chunk:
            return False
        tiles = [v for v in op.operands if tile.is_tile(v) and v not in large]
        match op:
            case tile.LoadOp():
                return not is_volatile(op) and not tiles
            case tile.LoadViewOp() | tile.StoreViewOp():
                return tile.view_kinds(op) != ("wrapped",) and not tiles
            case tile.StoreOp() | tile.ArangeOp() | tile.SplatOp() | tile.HintOp():
                return not tiles
            case tile.BroadcastOp():
                return True  # of one element
            case tile.ReduceOp():
                region = op.combine.block.ops
                return all(is_lane_wise(o) or isinstance(o, tile.YieldOp) for o in region)
        return is_lane_wise(op) and not tiles

    def groups(self) -> list[_Group]:
        """The loops to make; none if something is in the way."""
        if not self.known or not self.extent:
            return []
        found: list[_Group] = []
        group = _Group(self)
        for op in self.block.ops:
            large = any(_elements(v) == self.extent for v in (*op.operands, *op.results))
            sink = large and isinstance(op, (*_STORES, tile.ReduceOp))
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


def _elements(value: SSAValue) -> int:
    return prod(tile.shape_of(value)) if tile.is_tile(value) else 0


def _pointer(op: Any) -> SSAValue:
    return op.base if isinstance(op, _VIEWS) else op.pointer


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
            owners = [v.owner for v in op.operands if _elements(v) == self.plan.extent]
            pending += [owner for owner in owners if isinstance(owner, Operation)]
        return needed

    # ---- order in memory ----

    def is_legal(self) -> bool:
        """Whether loads may be done where and when the loop does them, and stores as well."""
        ops = self.slice()
        loads = [op for op in ops if isinstance(op, _LOADS)]
        stores = [op for op in ops if isinstance(op, _STORES)]
        return all(self._stays_true(load, stores) for load in loads) and all(
            _in_step(a, b) for i, a in enumerate(stores) for b in (*stores[:i], *loads)
        )

    def _stays_true(self, load: Operation, own: Sequence[Operation]) -> bool:
        """Whether nothing between a load and the loop writes what it reads."""
        place = self.plan.place
        end = place[self.before] if self.before is not None else 0
        for op, at in place.items():
            if not place[load] < at < end or op in own:
                continue
            if isinstance(op, _STORES):
                if not _apart(load, op):
                    return False
            elif not isinstance(op, (*_LOADS, tile.AssumeOp)) and has_effect(op):
                return False
        return True

    # ---- writing it ----

    def write(self, backwards: bool) -> None:
        """Put the loop, and what it reduces, before `self.before`. Every other loop goes `backwards`: it
        begins with what the caches still have from the one before."""
        if self.before is None:
            return
        e = Emitter(self.before, self.sinks[0].location)
        ops, chunk = self.slice(), self.plan.chunk
        reductions = [op for op in self.sinks if isinstance(op, tile.ReduceOp)]
        count = self.plan.extent // chunk
        inits: list[SSAValue] = []
        if reductions:  # their first chunk is what they start from
            mapping = self._chunk(e, ops, e.constant((count - 1) * chunk if backwards else 0))
            inits = [mapping[v] for op in reductions for v in op.inputs]
            count -= 1
        block = Block(arg_types=[i64, *(v.type for v in inits)])
        block.add_op(end := scf.YieldOp())
        zero, one, trips = e.constant(0), e.constant(1), e.constant(count)
        loop = scf.ForOp.create(
            operands=[zero, trips, one, *inits],
            result_types=[v.type for v in inits],
            regions=[Region(block)],
        )
        e.insert_op(loop)
        inner = Emitter(end, e.location)
        number: SSAValue = block.args[0]
        if backwards:
            number = inner.sub(inner.constant(count - 1), number)
        elif reductions:
            number = inner.add(number, one)
        mapping = self._chunk(inner, ops, inner.mul(number, inner.constant(chunk)))
        carried = list(block.args[1:])
        yielded: list[SSAValue] = []
        for op in reductions:
            values = [mapping[v] for v in op.inputs]
            so_far, carried = carried[: len(values)], carried[len(values) :]
            yielded += _combined(inner, op, [*so_far, *values], chunk)
        block.insert_op_before(scf.YieldOp.create(operands=yielded, location=e.location), end)
        erase(end)
        self._reduce(e, reductions, list(loop.results))

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

    def _chunk(self, e: Emitter, ops: Sequence[Operation], start: SSAValue) -> Mapping:
        """Everything for the chunk from element `start` (i64) on."""
        mapping: Mapping = {}
        for op in ops:
            made = self._piece(e, op, start, mapping)
            if made is not None:
                made.name_hint = op.results[0].name_hint
                mapping[op.results[0]] = made
        return mapping

    def _piece(
        self, e: Emitter, op: Operation, start: SSAValue, mapping: Mapping
    ) -> SSAValue | None:
        """One operation for a chunk: its result."""
        shape = (self.plan.chunk,)
        match op:
            case tile.ReduceOp():
                return None
            case tile.ArangeOp():
                first = e.insert(arith.TruncIOp(start, i32))
                low = e.constant(op.start.value.data, i32)
                first = e.add(first, low)
                return e.binary(arith.AddiOp, e.splat(first, shape), e.arange(shape[0]))
            case tile.HintOp():
                return mapping[op.source]
        operands = [mapping.get(v, v) for v in op.operands]
        new = type(op).create(
            operands=operands,
            result_types=[tile.with_shape(tile.element_of(r), shape) for r in op.results],
            properties=dict(op.properties),
            attributes=dict(op.attributes),
        )
        e.insert_op(new)
        new.location = op.location
        if isinstance(new, _VIEWS):
            _move(Emitter(new, op.location), new, start)
        return new.results[0] if new.results else None


def _move(e: Emitter, view: Any, start: SSAValue) -> None:
    """Let a structured access of one dimension begin at element `start`."""
    base = view.base
    if tile.view_kinds(view) == ("strided",):
        offset = e.mul(start, view.strides[0])
        base = e.insert(tile.AddPtrOp(operands=[base, offset], result_types=[base.type]))
    first = 1 + sum(len(v) for v in (view.strides, view.starts, view.sizes, view.indices))
    operands = list(view.operands)
    operands[0] = base
    for i, limit in enumerate(view.limits, first):
        operands[i] = e.sub(limit, start)
    view.operands = operands


def _combined(e: Emitter, op: tile.ReduceOp, values: list[SSAValue], chunk: int) -> list[SSAValue]:
    """The combine region of a reduction, for tiles lane by lane."""
    block = op.combine.block
    mapping: Mapping = dict(zip(block.args, values, strict=True))

    def spread(value: SSAValue) -> SSAValue:
        if value not in mapping:
            mapping[value] = e.splat(value, (chunk,))
        return mapping[value]

    for inner in block.ops:
        if inner is end_of(block):
            return [spread(v) for v in inner.operands]
        if isinstance(inner, arith.ConstantOp):
            copy = inner.clone()
            mapping[inner.result] = e.splat(e.insert(copy), (chunk,))
            continue
        copy = type(inner).create(
            operands=[spread(v) for v in inner.operands],
            result_types=[tile.with_shape(tile.element_of(r), (chunk,)) for r in inner.results],
            properties=dict(inner.properties),
            attributes=dict(inner.attributes),
        )
        e.insert_op(copy)
        mapping.update(zip(inner.results, copy.results, strict=True))
    return []


def _apart(load: Operation, store: tile.StoreViewOp | tile.StoreOp) -> bool:
    """Whether a store of anything leaves alone what `load` reads."""
    roots = root_of(_pointer(load)), root_of(_pointer(store))
    if None in roots:
        return False
    if roots[0] is roots[1]:
        return apart(load, store)
    return not tile.is_tile(store.value)  # tiles of two arguments may be lane by lane the same


def _in_step(first: Operation, second: Operation) -> bool:
    """Whether two accesses, one of them a store, may take turns chunk by chunk."""
    roots = root_of(_pointer(first)), root_of(_pointer(second))
    if None in roots:
        return False
    if roots[0] is not roots[1]:
        return True  # apart, or lane by lane the same
    kinds = [tile.view_kinds(op) for op in (first, second) if isinstance(op, _VIEWS)]
    same = kinds == [("strided",)] * 2 and same_addresses(first, second)
    return same or apart(first, second)
