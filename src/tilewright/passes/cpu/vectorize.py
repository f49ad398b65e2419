"""`vectorize`: turn each `cpu.fusion_group` into a loop nest over vectors, and scratch buffers into addresses.

Before:
    cpu.fusion_group {
      %x = tile.load_view %p, ..., limit %n ; %y = arith.addf %x, %x ; tile.store_view ...
    }

After:
    %main = <%n rounded down to 64>
    scf.for %i = 0 to %main step 64 { cpu.vector_load ; arith.addf : vector<64xf32> ; cpu.vector_store }
    scf.for %i = %main to 1024 step 64 { the same with cpu.lane_mask }

A chunk is four registers of the widest element (two on machines with 16 registers): wide enough
that four independent accumulators hide latency, narrow enough not to spill. Where a bound cuts a
tile, full chunks run unmasked in a main loop and the rest under masks. Loops of groups that only store end
where the stores do (`live_ends`). If other bounds cut a tile of several dimensions, the whole tile is tested once. A group that loads and stores through pointers that may
overlap compares their byte ranges first and has an ordered variant for when they do (docs/gpu.md, aliasing rules).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, i32, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import cpu, tile
from tilewright.dialects.tile.claims import begin_order, in_range, unwrapped
from tilewright.passes.analysis.edit import Mapping, erase, insert_before
from tilewright.passes.analysis.emit import Emitter as Inserter
from tilewright.passes.base import FunctionPass
from tilewright.passes.cpu.analysis.buffers import (
    batch_of,
    dot_layouts,
    layout_of,
    new_scratch,
    row_layout,
    tile_of,
)
from tilewright.passes.cpu.nest.alias_checks import hazards, ordered_accesses, safe_condition
from tilewright.passes.cpu.nest.coordinates import NeedsScalar
from tilewright.passes.cpu.nest.dead_lanes import (
    BufferBounds,
    DeadLanes,
    find_dead_lanes,
    keeps_all_lanes,
)
from tilewright.passes.cpu.nest.emit import Emitter, Index
from tilewright.passes.cpu.nest.loops import Nest, Shape, plan_shape
from tilewright.passes.cpu.nest.masks import End, live_ends
from tilewright.passes.cpu.nest.ordered import split_stores
from tilewright.passes.cpu.nest.prefetch import next_operands
from tilewright.passes.cpu.nest.reductions import emit_histogram
from tilewright.passes.cpu.nest.streaming import streaming_stores
from tilewright.passes.cpu.nest.values import Body, Facts
from tilewright.targets import TargetInfo


@dataclass(frozen=True)
class Vectorize(FunctionPass):
    requires: ClassVar[tuple[str, ...]] = ("form-fusion-groups", "plan-scratch")

    partition_loops: bool = True
    """Run full chunks unmasked and only the rest under masks."""
    trim_dead_lanes: bool = True
    """Compute lanes beyond every bound once instead of chunk by chunk."""
    prefetch: bool = True
    """Let dots in loops prefetch the operands of the next iteration."""

    def run(self, function: FuncOp, target: TargetInfo) -> None:
        _Lowering(function, target, self).run()


class _Lowering:
    name = Vectorize.name

    def __init__(self, function: FuncOp, target: TargetInfo, options: Vectorize) -> None:
        self.function, self.target, self.options = function, target, options
        self.entry = function.body.block
        self.orders = 0
        """Groups so far whose accesses claim an order."""
        self.ahead: dict[cpu.BufferDotOp, list[SSAValue]] = {}
        self.dead: DeadLanes | None = None
        self.chunks: dict[SSAValue, int] = {}
        """Lanes of the one chunk that stands for all dead ones, for each buffer written so."""
        self.addresses: Mapping = {}
        self.bounds = BufferBounds(self.entry)
        self.untrimmed = keeps_all_lanes(self.entry) if options.trim_dead_lanes else set()

    def run(self) -> None:
        for op in list(self.entry.ops):
            if isinstance(op, cpu.ScratchOp):
                self._place(op)
        if self.options.prefetch:
            for op in list(self.entry.walk()):
                if isinstance(op, cpu.BufferDotOp):
                    self._look_ahead(op)
        for op in list(self.entry.walk()):
            if isinstance(op, cpu.FusionGroupOp):
                self._group(op)
            elif isinstance(op, cpu.BufferFromPtrOp):
                self.addresses[op.result] = op.pointer
            elif isinstance(op, cpu.BufferDotOp):
                self._dot(op)
            elif isinstance(op, cpu.HistogramBuffersOp):
                self._histogram(op)
        for op in list(self.entry.walk()):
            if isinstance(op, cpu.ScratchOp | cpu.BufferFromPtrOp):
                erase(op)

    def _place(self, op: cpu.ScratchOp) -> None:
        kind = op.result.type
        pointer = tile.PtrType(tile.element_of(kind.tile))
        address = Inserter(op).make(cpu.ScratchAddressOp, (), pointer, offset=op.offset)
        self.addresses[op.result] = address

    def _scratch(self, kind: Any) -> SSAValue:
        """One more row-major buffer, for a tile of type `kind`."""
        size: Any = self.function.attributes["cpu.scratch_bytes"]
        op, end = new_scratch(self.entry, kind, row_layout(kind), size.value.data)
        self.function.attributes["cpu.scratch_bytes"] = IntegerAttr(end, i64)
        self._place(op)
        return op.result

    # ---- dots ----

    def _look_ahead(self, op: cpu.BufferDotOp) -> None:
        block = Block()
        found = next_operands(op, Emitter(block, op.location))
        if found is not None:
            self.ahead[op] = [v for pair in found for v in pair]
            for new in list(block.ops):
                insert_before(new, op)

    def _dot(self, op: cpu.BufferDotOp) -> None:
        block = Block()
        emit = Emitter(block, op.location)
        layouts = dot_layouts(op)
        buffers = (op.lhs, op.rhs, op.acc)
        batch = batch_of(tile_of(op.acc), layout_of(op.acc.type))
        index: Index = 0
        inner = emit
        if batch > 1:
            inner, index, _, _ = emit.loop(0, batch, 1, [])
        pointers = [
            inner.address(self.addresses[b], inner.times(index, layout.size))
            for b, layout in zip(buffers, layouts, strict=True)
        ]
        ahead = self.ahead.get(op, [])
        segments = [1, 1, 1, *([1] * 4 if ahead else [0] * 4)]
        inner.make(
            cpu.CallMicrokernelOp,
            [*pointers, *ahead],
            plan=op.plan,
            operandSegmentSizes=DenseArrayBase.from_list(i32, segments),
        )
        if batch > 1:
            inner.yield_values([])
        self._replace(op, block, [])

    def _histogram(self, op: cpu.HistogramBuffersOp) -> None:
        block = Block()
        emit_histogram(Emitter(block, op.location), op, self.addresses.__getitem__)
        self._replace(op, block, [])

    # ---- groups ----

    def _group(self, op: cpu.FusionGroupOp) -> None:
        block = Block()
        emit = Emitter(block, op.location)
        pairs = hazards(op)
        self._claim_order(op, emit)
        trims = self.options.trim_dead_lanes and op not in self.untrimmed
        self.dead = find_dead_lanes(op, self.bounds) if trims else None
        if self.dead is not None:
            self.bounds.record(op, self.dead)
        if not pairs:
            self._replace(op, block, self._nest(op, emit, compact=False))
            return
        kinds = [r.type for r in op.results]
        safe, ordered, branch = emit.branch(safe_condition(emit, pairs), kinds)
        safe.yield_values(self._nest(op, safe, compact=False))
        ordered.yield_values(self._ordered(op, ordered))
        self._replace(op, block, list(branch.results))

    def _claim_order(self, op: cpu.FusionGroupOp, emit: Emitter) -> None:
        """Write down the order that the accesses have before they are done chunk by chunk."""
        accesses = ordered_accesses(op)
        if accesses:
            emit.add(begin_order(self.name, self.orders))
        for position, access in enumerate(accesses):
            tile.assume(access, self.name, in_order=[self.orders, position])
        self.orders += bool(accesses)

    def _replace(self, op: Operation, block: Block, results: list[SSAValue]) -> None:
        for new in list(block.ops):
            insert_before(new, op)
        for old, value in zip(op.results, results, strict=True):
            old.replace_all_uses_with(value)
        op.detach()
        op.erase(safe_erase=False)

    def _ordered(self, op: cpu.FusionGroupOp, emit: Emitter) -> list[SSAValue]:
        """All loads and arithmetic first, operands of stores into scratch; then the stores."""
        groups = split_stores(op, self._scratch)
        dead, self.dead = self.dead, None
        for group in groups.indices:
            self._nest(group, emit, compact=True)
        self.dead = dead
        results = self._nest(groups.loads, emit, compact=True)
        for group in groups.stores:
            self._nest(group, emit, compact=True)
        groups.erase()
        return results

    def _nest(self, op: cpu.FusionGroupOp, emit: Emitter, compact: bool) -> list[SSAValue]:
        """Emit a group's loops; with one lane when some value cannot be made for a chunk."""
        before = emit.block.last_op
        try:
            # the ordered variant runs rarely: what counts is that it compiles fast
            shape = plan_shape(op, self.target, scalar=False, small=compact)
            shape = self._fitted(op, shape)
            return self._versions(op, emit, shape, compact)
        except NeedsScalar:
            emit.rewind(before)
            shape = self._fitted(op, plan_shape(op, self.target, scalar=True))
            return self._versions(op, emit, shape, compact)

    def _fitted(self, op: cpu.FusionGroupOp, shape: Shape) -> Shape:
        """`shape` with chunks no wider than those whose dead lanes its buffers hold once."""
        if self.dead is None:
            return shape
        inner = list(op.body.block.walk())
        read = [self.chunks.get(o.buffer) for o in inner if isinstance(o, cpu.ReadOp)]
        lanes = min([shape.lanes, *(width for width in read if width)])
        for write in inner:
            if isinstance(write, cpu.WriteOp):
                self.chunks[write.buffer] = min(lanes, self.chunks.get(write.buffer, lanes))
        return replace(shape, lanes=lanes)

    def _versions(
        self, op: cpu.FusionGroupOp, emit: Emitter, shape: Shape, compact: bool
    ) -> list[SSAValue]:
        limits, wraps = _bounds(op)
        streams = {} if compact else streaming_stores(op, emit, self.target)
        if compact or not self.options.partition_loops or not (limits or wraps):
            return Nest(op, shape, None, self.dead).build(
                Body(emit, Facts(streams=streams), self.addresses)
            )
        ends = {} if self.dead is not None else live_ends(op, shape)
        known = frozenset(
            (limit, d) for d, limit in ends.items() if d != shape.vector_dim or shape.lanes == 1
        )
        chunks = shape.extents[shape.vector_dim] > shape.lanes > 1
        bounds = {
            d: self._end(emit, shape, d, limit)
            for d, limit in ends.items()
            if chunks or (limit, d) in known
        }
        rest = {pair: extent for pair, extent in limits.items() if pair not in known}
        flat = all(e == 1 for d, e in enumerate(shape.extents) if d != shape.vector_dim)
        along = all(
            d == shape.vector_dim and extent == shape.extents[d] for (_, d), extent in rest.items()
        )
        body = Body(emit, Facts(streams=streams), self.addresses)
        if along and not (wraps or shape.backward or shape.turned):
            if chunks and rest and (flat or shape.axis is None):
                return self._main_and_tail(op, body, shape, rest, bounds)
            if flat or not rest:
                return Nest(op, shape, None, self.dead, bounds).build(body)
        return self._whole_and_cut(op, body, shape, rest, wraps, bounds)

    def _end(self, emit: Emitter, shape: Shape, dim: int, limit: SSAValue) -> End:
        """Where the loop along a dimension ends whose elements from `limit` on are dead."""
        end = emit.smallest(emit.largest(limit, 0), shape.extents[dim])
        if dim != shape.vector_dim or shape.lanes == 1:
            emit.add(in_range(self.name, [limit, emit.value(end)], 1, -1))
            return End(end, frozenset((limit,)))
        return End(emit.round_down(emit.plus(end, shape.lanes - 1), shape.lanes))

    def _whole_and_cut(
        self,
        op: cpu.FusionGroupOp,
        body: Body,
        shape: Shape,
        limits: dict[tuple[SSAValue, int], int],
        wraps: list[tuple[SSAValue, SSAValue, int]],
        ends: dict[int, End],
    ) -> list[SSAValue]:
        """One version for tiles that no bound cuts, one for the others."""
        emit = body.emit
        full: bool | SSAValue = True
        for (limit, _), extent in limits.items():
            full = emit.both(full, emit.at_least(limit, extent))
        for start, size, extent in wraps:
            full = emit.both(full, _fits(emit, start, size, extent))
        unwrapped_pairs = frozenset((start, size) for start, size, _ in wraps)
        facts = Facts(frozenset(limits), unwrapped=unwrapped_pairs, streams=body.facts.streams)
        whole, cut, branch = emit.branch(emit.condition(full), [r.type for r in op.results])
        for (limit, _), extent in limits.items():
            whole.add(in_range(self.name, [limit], extent))
        for start, size, extent in wraps:
            whole.add(unwrapped(self.name, start, size, extent))
        for version, facts_there in ((whole, facts), (cut, Facts())):
            nest = Nest(op, shape, None, self.dead, ends)
            version.yield_values(nest.build(Body(version, facts_there, self.addresses)))
        return list(branch.results)

    def _main_and_tail(
        self,
        op: cpu.FusionGroupOp,
        body: Body,
        shape: Shape,
        limits: dict[tuple[SSAValue, int], int],
        ends: dict[int, End],
    ) -> list[SSAValue]:
        """Chunks below all bounds along the chunked dimension without masks, then the rest."""
        emit = body.emit
        lowest: Index = shape.extents[shape.vector_dim]
        for limit, _ in limits:
            lowest = emit.smallest(limit, lowest)
        main = emit.round_down(emit.largest(lowest, 0), shape.lanes)
        for limit in dict.fromkeys(limit for limit, _ in limits):
            emit.add(in_range(self.name, [limit, emit.value(main)], 1, -1))
        nest = Nest(op, shape, main, self.dead, ends)
        nest.split_limits = frozenset(limit for limit, _ in limits)
        return nest.build(body)


def _bounds(
    op: cpu.FusionGroupOp,
) -> tuple[dict[tuple[SSAValue, int], int], list[tuple[SSAValue, SSAValue, int]]]:
    """Limits (with their dimension of the access, and its extent) and wrapped dimensions (start,
    size, extent) of the accesses that are not in a loop of their own."""
    limits: dict[tuple[SSAValue, int], int] = {}
    wraps: dict[tuple[SSAValue, SSAValue], int] = {}
    for access in op.body.block.ops:
        if not isinstance(access, tile.View):
            continue
        accessed = tile.accessed(access)
        extents = tile.shape_of(accessed)
        for d, limit in tile.view_limits(access).items():
            limits[limit, d] = max(extents[d], limits.get((limit, d), 0))
        starts = iter(zip(access.starts, access.sizes, strict=True))
        for d, kind in enumerate(tile.view_kinds(access)):
            if kind == "wrapped":
                pair = next(starts)
                wraps[pair] = max(extents[d], wraps.get(pair, 0))
    return limits, [(start, size, extent) for (start, size), extent in wraps.items()]


def _fits(emit: Emitter, start: SSAValue, size: SSAValue, extent: int) -> bool | SSAValue:
    """Whether `(start + i) % size` does not wrap for i < extent."""
    first = emit.binary(arith.RemUIOp, start, size)
    return emit.compare("sle", emit.plus(first, extent), size)
