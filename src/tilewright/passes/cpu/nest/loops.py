"""The loops of one group: outer dimensions element by element, one dimension in chunks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from xdsl.dialects.builtin import IntegerAttr, IntegerType, i32
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import cpu, tile
from tilewright.dialects.tile import element_bytes
from tilewright.passes.analysis.edit import Mapping, end_of
from tilewright.passes.analysis.emit import constant_int
from tilewright.passes.cpu.analysis.buffers import layout_of, tile_of
from tilewright.passes.cpu.analysis.classify import AXIS_OPS, butterfly_mask, is_virtual
from tilewright.passes.cpu.analysis.index_runs import ATTRIBUTE
from tilewright.passes.cpu.nest import memory, reductions
from tilewright.passes.cpu.nest.coordinates import ZERO, Coordinate, Coordinates, drop, row_limit
from tilewright.passes.cpu.nest.dead_lanes import DeadLanes
from tilewright.passes.cpu.nest.emit import Emitter, Index
from tilewright.passes.cpu.nest.lane_values import has_lane_values
from tilewright.passes.cpu.nest.masks import End
from tilewright.passes.cpu.nest.registers import registers_per_value
from tilewright.passes.cpu.nest.transpose_blocks import (
    down_dim,
    is_column_contiguous,
    transpose_blocks,
)
from tilewright.passes.cpu.nest.values import Body, NeedsScalar
from tilewright.targets import TargetInfo

_ONE_LANE = (tile.Atomic, tile.PrintOp)


@dataclass(frozen=True)
class Shape:
    """How a nest walks its space."""

    extents: tuple[int, ...]
    vector_dim: int
    lanes: int
    axis: int | None
    """The axis of the group's reductions or scans."""
    turned: bool = False
    """In square blocks of `lanes` by `lanes`, of which some loads are transposed in registers."""
    backward: bool = False
    """Whether the axis is walked from its end."""
    rows_inside: bool = False
    """Whether the loop over chunks is the outermost one: what depends on its lanes alone is computed once per chunk."""


def plan_shape(
    group: cpu.FusionGroupOp, target: TargetInfo, scalar: bool, small: bool = False
) -> Shape:
    """Choose the dimension that goes in chunks and the lanes of a chunk (`small`: one register)."""
    extents = group.extents
    side, across = (0, 1) if scalar or small else transpose_blocks(group, target)
    if side:
        return Shape(extents, across, side, None, turned=True)
    members = list(group.body.block.ops)
    axis_ops = [op for op in members if isinstance(op, AXIS_OPS)]
    axis = axis_ops[0].axis.value.data if axis_ops else None
    scans = [op for op in axis_ops if isinstance(op, tile.ScanOp)]
    backward = any(op.reverse.value.data for op in scans)
    candidates = [d for d, e in enumerate(extents) if e > 1]
    if (
        scalar
        or not candidates
        or any(
            isinstance(op, _ONE_LANE) or (tile.moves_lanes(op) and butterfly_mask(op) is None)
            for op in members
        )
        or not all(reductions.is_vectorizable(op) for op in axis_ops)
    ):
        dim = candidates[-1] if candidates else len(extents) - 1
        return Shape(extents, dim, 1, axis, backward=backward)
    scores = _contiguity(members, extents)
    along_scan = axis if scans else None  # other dimensions need no shifts of lanes
    dim = max(candidates, key=lambda d: (scores[d], d != along_scan, d))
    if dim == along_scan:
        limit = _scan_limit(scans, target)
    else:
        limit = _lane_limit(group, members, target, dim, small)
    lanes = 1
    while lanes * 2 <= limit and extents[dim] % (lanes * 2) == 0:
        lanes *= 2
    inside = axis is None and len(candidates) > 1 and has_lane_values(group, dim)
    return Shape(extents, dim, lanes, axis, backward=backward, rows_inside=inside)


def _contiguity(members: list[Operation], extents: tuple[int, ...]) -> list[float]:
    """For each dimension, how many elements are accessed along it, in units of the whole space.

    An access that is broadcast along a dimension takes one element per row if lanes run along that.
    """
    scores = [0.0] * len(extents)
    for op in (o for m in members for o in m.walk()):
        if isinstance(op, tile.View):
            value = tile.accessed(op)
            share = prod(tile.shape_of(value)) / prod(extents)
            for d, stride in enumerate(op.strides):
                if len(op.strides) == len(extents) and constant_int(stride) == 1:
                    scores[d] += share
        elif isinstance(op, cpu.ReadOp | cpu.WriteOp):
            shape = tile.shape_of(tile_of(op.buffer))
            if len(shape) == len(extents):
                scores[len(extents) - 1] += 0.75 * prod(shape) / prod(extents)
    return scores


def _scan_limit(scans: list[tile.ScanOp], target: TargetInfo) -> int:
    """Lanes of a chunk along a scan: one register of the narrowest value. The more lanes, the more rounds it takes."""
    bits = [8 * element_bytes(v) for op in scans for v in op.inputs]
    return max(1, target.vector_bits // max(min(bits), 32))


def _lane_limit(
    group: cpu.FusionGroupOp, members: list[Operation], target: TargetInfo, dim: int, small: bool
) -> int:
    """Lanes so that a value takes at most four registers and what is live at once fits."""
    widest = 4
    for op in (o for m in members for o in m.walk()):
        for value in op.results:
            if not tile.is_tile(value):
                continue
            element = tile.element_of(value)
            if isinstance(element, IntegerType) and element.width.data == 1:
                continue
            wider = element_bytes(element) > widest and _goes_in_chunks(value, group, dim)
            if wider and not is_virtual(op):
                widest = element_bytes(element)
    # short chunks cross fewer of the places where indices jump
    runs = any(ATTRIBUTE in op.attributes for op in members)
    registers = 1 if small or runs else registers_per_value(group, target.vector_registers)
    limit = registers * target.vector_bits // (8 * widest)
    for op in members:
        if isinstance(op, cpu.ReadOp | cpu.WriteOp) and dim == len(group.extents) - 1:
            layout = layout_of(op.buffer.type)
            if layout.kind == "panel":  # chunks stay within panels of three vectors, too
                limit = min(limit, layout.width & -layout.width)
    if dim == len(group.extents) - 1:  # and within rows, where one dimension stands for several
        limit = row_limit(members, group.extents[dim], limit)
    return max(1, limit)


def _goes_in_chunks(value: SSAValue, group: cpu.FusionGroupOp, dim: int) -> bool:
    """Whether a tile may vary along the chunked dimension."""
    shape = tile.shape_of(value)
    if len(shape) == len(group.extents):
        return shape[dim] > 1
    return group.extents[dim] in shape


class Nest:
    """Builds one version of a group's loops."""

    def __init__(
        self,
        group: cpu.FusionGroupOp,
        shape: Shape,
        split: Index | None,
        dead: DeadLanes | None = None,
        ends: dict[int, End] | None = None,
    ) -> None:
        self.group = group
        self.shape = shape
        self.split = split
        """Lanes below this need no masks along the chunked dimension (None: no such main loop)."""
        self.members = [op for op in group.body.block.ops if not isinstance(op, cpu.YieldOp)]
        self.axis_ops: list[Any] = [op for op in self.members if isinstance(op, AXIS_OPS)]
        self.finished = {r for op in self.axis_ops for r in op.results}
        self.split_limits: frozenset[SSAValue] = frozenset()
        """Limits that `split` is not above."""
        self.dead = dead
        self.ends = ends or {}
        """Where loops along dimensions end before their extents (`live_ends`)."""

    def build(self, body: Body) -> list[SSAValue]:
        """Emit the nest; returns the group's scalar results."""
        s = self.shape
        if s.turned:
            self._blocks(body)
            return []
        at: list[Coordinate] = [ZERO] * len(s.extents)
        return self._inner(body, at) if s.rows_inside else self._outer(body, self._rows(), at)

    def _end(self, dim: int) -> End:
        return self.ends.get(dim, End(self.shape.extents[dim]))

    def _rows(self) -> list[int]:
        """The dimensions that are walked element by element, but the reduced one."""
        s = self.shape
        return [d for d in range(len(s.extents)) if d not in (s.vector_dim, s.axis)]

    def _outer(self, body: Body, dims: list[int], at: list[Coordinate]) -> list[SSAValue]:
        if not dims and self.shape.rows_inside:
            self._members(body, tuple(at), None)
            return []
        if not dims:
            return self._inner(body, at)
        d, *rest = dims
        end = self._end(d)
        if end.index == 1:
            return self._outer(body, rest, at)
        emit, index, _, _ = body.emit.loop(0, end.index, 1, [])
        inside = list(at)
        inside[d] = Coordinate(index)
        facts = body.facts.with_below(end.limits, inside[d])
        self._outer(body.nested(emit, facts), rest, inside)
        emit.yield_values([])
        return []

    # ---- square blocks ----

    def _blocks(self, body: Body) -> None:
        """All square blocks, down a strip of columns and then the next strip."""
        extents, across, side = self.shape.extents, self.shape.vector_dim, self.shape.lanes
        strips, column, _, _ = body.emit.loop(0, extents[across], side, [])
        emit, row, _, _ = strips.loop(0, extents[down_dim(extents, across)], side, [])
        self._block(body.nested(strips).nested(emit), row, column)
        emit.yield_values([])
        strips.yield_values([])

    def _at(self, down: Coordinate, along: Coordinate) -> Coordinates:
        """The coordinates `down` the columns and `along` the rows that are written."""
        extents, across = self.shape.extents, self.shape.vector_dim
        at = [ZERO] * len(extents)
        at[down_dim(extents, across)], at[across] = down, along
        return tuple(at)

    def _block(self, body: Body, row: Index, column: Index) -> None:
        """One block: transposed loads read down its columns and are transposed, the rest goes by rows."""
        side = self.shape.lanes
        strip = Coordinate(column, side)
        rows = [Coordinate(body.emit.plus(row, i)) for i in range(side)]
        columns = [Coordinate(body.emit.plus(column, i)) for i in range(side)]
        for op in self.members:
            if is_column_contiguous(op, self.shape.extents, self.shape.vector_dim):
                down = Coordinate(row, side)
                with body.emit.located(op):
                    read = [
                        body.emit.splat(memory.load(body, op, self._at(down, c)), side)
                        for c in columns
                    ]
                    turned = body.emit.add(
                        cpu.TransposeOp.create(operands=read, result_types=[v.type for v in read])
                    )
                for at, value in zip(rows, turned.columns, strict=True):
                    body.bind(op.result, self._at(at, strip), value)
        for at in rows:
            self._members(body, self._at(at, strip), None)

    # ---- the chunked dimension and the reduced axis ----

    def _inner(self, body: Body, at: list[Coordinate]) -> list[SSAValue]:
        s = self.shape
        if s.axis is None or s.axis == s.vector_dim:
            carried = self._along(body, at, s.vector_dim, s.lanes)
            return self._finish(body, at, carried, collapse=True)
        self._chunks(body, at, s.vector_dim, lambda inner, where: self._axis(inner, where))
        return []

    def _axis(self, body: Body, at: list[Coordinate]) -> None:
        assert self.shape.axis is not None
        carried = self._along(body, at, self.shape.axis, 1)
        self._finish(body, at, carried, collapse=False)

    def _chunks(
        self, body: Body, at: list[Coordinate], dim: int, emit_chunk: Callable[..., None]
    ) -> None:
        extent, lanes = self.shape.extents[dim], self.shape.lanes
        inside = list(at)
        if extent == lanes:
            inside[dim] = Coordinate(0, lanes)
            emit_chunk(body, inside)
            return
        emit, index, _, _ = body.emit.loop(0, extent, lanes, [])
        inside[dim] = Coordinate(index, lanes)
        emit_chunk(body.nested(emit), inside)
        emit.yield_values([])

    def _along(self, body: Body, at: list[Coordinate], dim: int, step: int) -> list[list[SSAValue]]:
        """Run the members for every step along `dim`; returns the accumulators of `axis_ops`."""
        s = self.shape
        extent = s.extents[dim]
        lanes = step if dim == s.vector_dim else s.lanes
        start: Index = 0
        peel = any(reductions.identity(op) is None for op in self.axis_ops)
        if peel:
            carried = self._step(body, at, dim, 0, step, None)
            start = step
        else:
            carried = [reductions.start_value(body.emit, op, lanes) for op in self.axis_ops]
        end, limits = self._end(dim).index, self._end(dim).limits
        trims = self.dead is not None and not peel and extent > step
        if trims and self.dead is not None:
            emit = body.emit
            live = emit.round_down(emit.plus(emit.largest(self.dead.bound, 0), step - 1), step)
            end = emit.smallest(live, extent)
        if self.split is not None and dim == self.shape.vector_dim and not peel:
            main = self.split_limits
            carried = self._segment(body, at, dim, step, start, self.split, carried, main)
            start = self.split
        carried = self._segment(body, at, dim, step, start, end, carried, limits)
        effects = self.axis_ops or any(isinstance(op, cpu.WriteOp) for op in self.members)
        if trims and effects:
            return self._dead_chunk(body, at, dim, step, end, carried)
        return carried

    def _dead_chunk(
        self,
        body: Body,
        at: list[Coordinate],
        dim: int,
        step: int,
        end: Index,
        carried: list[list[SSAValue]],
    ) -> list[list[SSAValue]]:
        """One chunk in the name of all from `end` on, whose lanes are uniform."""
        emit, extent = body.emit, self.shape.extents[dim]
        flat = [v for values in carried for v in values]
        some, none, branch = emit.branch(
            emit.condition(emit.less(end, extent)), [v.type for v in flat]
        )
        inner = body.nested(some)
        values = self._step(inner, at, dim, end, step, None)
        _claim_uniform(some, values)
        chunks = some.divide(some.minus(extent, end), step)
        result = []
        for op, old, new in zip(self.axis_ops, carried, values, strict=True):
            counted = reductions.repeated(some, op, new, some.value(chunks))
            result.extend(reductions.combine(some, op, old, counted))
        some.yield_values(result)
        none.yield_values(flat)
        return _regroup(list(branch.results), carried)

    def _segment(
        self,
        body: Body,
        at: list[Coordinate],
        dim: int,
        step: int,
        start: Index,
        end: Index,
        carried: list[list[SSAValue]],
        limits: frozenset[SSAValue],
    ) -> list[list[SSAValue]]:
        """The steps from `start` to `end`, which is not above `limits`."""
        if isinstance(start, int) and isinstance(end, int):
            if start >= end:
                return carried
            if end - start == step:
                return self._step(body, at, dim, start, step, carried, limits)
        flat = [v for values in carried for v in values]
        emit, index, inside, loop = body.emit.loop(start, end, step, flat)
        result = self._step(
            body.nested(emit), at, dim, index, step, _regroup(inside, carried), limits
        )
        emit.yield_values([v for values in result for v in values])
        return _regroup(list(loop.results), carried)

    def _step(
        self,
        body: Body,
        at: list[Coordinate],
        dim: int,
        base: Index,
        step: int,
        carried: list[list[SSAValue]] | None,
        limits: frozenset[SSAValue] = frozenset(),
    ) -> list[list[SSAValue]]:
        """The members at one step along `dim`, all of whose lanes are below `limits`."""
        place = list(at)
        if dim == self.shape.axis and self.shape.backward:
            base = body.emit.minus(self.shape.extents[dim] - step, base)
        place[dim] = Coordinate(base, step)
        if limits:
            body = body.nested(body.emit, body.facts.with_below(limits, place[dim]))
        if self.shape.rows_inside:
            self._outer(body, self._rows(), place)
            return []
        return self._members(body, tuple(place), carried)

    def _members(
        self, body: Body, at: Coordinates, carried: list[list[SSAValue]] | None
    ) -> list[list[SSAValue]]:
        result: list[list[SSAValue]] = []
        for op in self.members:
            if isinstance(op, AXIS_OPS):
                values = [body.lanes(v, at) for v in op.inputs]
                before = None if carried is None else carried[len(result)]
                if isinstance(op, tile.ScanOp):
                    along = at[op.axis.value.data].lanes > 1
                    step = reductions.scan_chunk if along else reductions.scan_element
                    values, before = step(body.emit, op, before, values)
                    for old, new in zip(op.results, values, strict=True):
                        body.bind(old, at, new)
                    result.append(before)
                elif before is None:
                    result.append(values)
                else:
                    result.append(reductions.combine(body.emit, op, before, values))
            elif isinstance(op, cpu.WriteOp):
                if op.value not in self.finished or isinstance(op.value.owner, tile.ScanOp):
                    memory.write_buffer(body, body.at(op.value, at), op.buffer, at)
            elif isinstance(op, tile.Store):
                with body.emit.located(op):
                    memory.store(body, op, at)
            elif isinstance(op, tile.Atomic | tile.PrintOp):
                with body.emit.located(op):
                    self._one_lane(body, op, at)
            elif isinstance(op, cpu.ReadOp):
                if tile.shape_of(op.result) == self.shape.extents and _read_directly(op):
                    body.at(op.result, at)
            elif not self._waits(op) and not self._elsewhere(op):
                body.run([op], at)
        return result

    def _waits(self, op: Operation) -> bool:
        """Whether an operation only reshapes finished reductions (done after the loops)."""
        return any(v in self.finished for v in op.operands) and is_virtual(op)

    def _elsewhere(self, op: Operation) -> bool:
        """Whether an operation is over another space (a row that is broadcast, say) and is made
        where it is used."""
        return any(tile.is_tile(r) and tile.shape_of(r) != self.shape.extents for r in op.results)

    def _one_lane(self, body: Body, op: Operation, at: Coordinates) -> None:
        if isinstance(op, tile.PrintOp):
            raise_print(body, op, at)
            return
        operands = [body.at(v, at) for v in op.operands]
        kinds = [tile.element_of(r) for r in op.results]
        copy = type(op).create(operands=operands, result_types=kinds, properties=op.properties)
        body.bind(op.results[0], at, body.emit.add(copy))

    def _finish(
        self, body: Body, at: list[Coordinate], carried: list[list[SSAValue]], collapse: bool
    ) -> list[SSAValue]:
        """After the loop along the axis: results of reductions, and who was waiting for them."""
        where = tuple(at)
        scalars: Mapping = {}
        for op, values in zip(self.axis_ops, carried, strict=True):
            if isinstance(op, tile.ScanOp):
                continue
            final = reductions.collapse(body.emit, op, values) if collapse else values
            for result, value in zip(op.results, final, strict=True):
                scalars[result] = value
                if tile.is_tile(result):
                    body.bind(result, drop(where, op.axis.value.data), value)
        for op in self.members:
            if isinstance(op, cpu.WriteOp) and op.value in scalars:
                place = drop(where, self.shape.axis or 0)
                memory.write_buffer(body, scalars[op.value], op.buffer, place)
        end = end_of(self.group.body.block)
        return [scalars[v] if v in scalars else body.scalar(v) for v in end.operands]


def _claim_uniform(emit: Emitter, values: list[list[SSAValue]]) -> None:
    """Write down that lanes of a chunk are equal: what is reduced, and what goes to buffers."""
    written = [op.value for op in emit.block.ops if isinstance(op, cpu.VectorStoreOp)]
    for value in (*written, *(v for each in values for v in each)):
        if isinstance(value.owner, Operation) and value.owner.parent is emit.block:
            tile.assume(value.owner, "vectorize", uniform=())


def raise_print(body: Body, op: tile.PrintOp, at: Coordinates) -> None:
    """`tile.print` of one element, with its coordinates as leading arguments."""
    emit = body.emit
    index = [emit.value(c.base) for c in at]
    values = [body.at(v, at) for v in op.arguments]
    copy = tile.PrintOp.create(operands=[*index, *values], properties=dict(op.properties))
    copy.attributes["coordinates"] = IntegerAttr(len(index), i32)
    emit.add(copy)


def _regroup(flat: list[SSAValue], like: list[list[SSAValue]]) -> list[list[SSAValue]]:
    rest = iter(flat)
    return [[next(rest) for _ in values] for values in like]


def _read_directly(op: cpu.ReadOp) -> bool:
    """Whether some user takes the read at the nest's own coordinates."""
    return any(not is_shape_change(use.operation) for use in op.result.uses)


def is_shape_change(op: Operation) -> bool:
    return isinstance(
        op,
        tile.BroadcastOp | tile.ExpandDimsOp | tile.TransOp | tile.ReshapeOp | tile.SplitOp | tile.JoinOp,
    ) or tile.moves_lanes(op)  # fmt: skip


__all__ = ["Emitter", "NeedsScalar", "Nest", "Shape", "plan_shape"]
