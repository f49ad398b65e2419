"""Loads and stores of a chunk: structured, through pointers, and of scratch buffers."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue

from tilewright.dialects import cpu, tile
from tilewright.dialects.tile import element_bytes
from tilewright.passes.analysis.emit import constant_int
from tilewright.passes.analysis.remarks import no_contiguous_dim, report_missed
from tilewright.passes.cpu.analysis import index_runs
from tilewright.passes.cpu.analysis.buffers import layout_of, tile_of
from tilewright.passes.cpu.dot_plan import BufferLayout
from tilewright.passes.cpu.nest import streaming
from tilewright.passes.cpu.nest.coordinates import Coordinates, NeedsScalar, lanes_at
from tilewright.passes.cpu.nest.emit import Emitter, Index
from tilewright.passes.cpu.nest.masks import Mask, view_mask

if TYPE_CHECKING:
    from tilewright.passes.cpu.nest.values import Body

_ACCESSES = (
    tile.LoadOp, tile.StoreOp, cpu.VectorLoadOp, cpu.VectorStoreOp, cpu.GatherOp, cpu.ScatterOp,
)  # fmt: skip

#: how far ahead loads in loops inside the chunk loop fetch
_CHUNKS_AHEAD = 4


# ---- structured accesses ----------------------------------------------------------------------


class Address:
    """Where a chunk of a structured access lies: contiguous from `offset`, or element-wise."""

    def __init__(self, offset: Index, lane_offsets: SSAValue | None, uniform: bool) -> None:
        self.offset = offset
        self.lane_offsets = lane_offsets
        self.uniform = uniform


def view_address(body: Body, op: tile.View, at: Coordinates) -> Address:
    """Element offsets from the base of a structured access at `at`."""
    emit = body.emit
    offset: Index = 0
    lane_offsets: SSAValue | None = None
    uniform = True
    starts, sizes, indices = iter(op.starts), iter(op.sizes), iter(op.indices)
    for d, kind in enumerate(tile.view_kinds(op)):
        c = at[d]
        stride_value = body.scalar(op.strides[d])
        known = constant_int(stride_value)
        stride: Index = stride_value if known is None else known
        base = c.base
        pair = (next(starts), next(sizes)) if kind == "wrapped" else None
        if pair in body.facts.unwrapped:  # the same, from where the first lane is
            start, size = map(body.scalar, pair)
            kind, base = "strided", emit.plus(emit.binary(arith.RemUIOp, start, size), base)
        if kind == "strided":
            offset = emit.plus(offset, emit.times(base, stride))
            if c.lanes > 1 and stride != 0:
                uniform = False
                if stride != 1:
                    lane_offsets = _add_lanes(emit, lane_offsets, _steps(emit, c.lanes, stride))
        elif pair is not None:
            start, size = map(body.scalar, pair)
            position = emit.value(emit.plus(emit.value(start), c.base))
            if c.lanes == 1:
                wrapped = emit.binary(arith.RemUIOp, position, size)
                offset = emit.plus(offset, emit.times(wrapped, stride))
            else:
                uniform = False
                lane = emit.make(cpu.IotaOp, [position], cpu.vector_of(i64, c.lanes))
                wrapped = emit.binary(arith.RemUIOp, lane, emit.splat(size, c.lanes))
                lane_offsets = _add_lanes(emit, lane_offsets, _scaled(emit, wrapped, stride))
        else:
            index = body.at(next(indices), (c,))
            if c.lanes == 1 or cpu.lanes_of(index) == 1:
                offset = emit.plus(offset, index)
            else:
                uniform = False
                lane_offsets = _add_lanes(emit, lane_offsets, index)
    return Address(offset, lane_offsets, uniform)


def _steps(emit: Emitter, lanes: int, stride: Index) -> SSAValue:
    """`0, stride, 2*stride, …`"""
    zero = emit.constant(0, i64)
    lane = emit.make(cpu.IotaOp, [zero], cpu.vector_of(i64, lanes))
    return _scaled(emit, lane, stride)


def _scaled(emit: Emitter, vector: SSAValue, stride: Index) -> SSAValue:
    if stride == 1:
        return vector
    factor = emit.splat(emit.value(stride), cpu.lanes_of(vector))
    return emit.binary(arith.MuliOp, vector, factor)


def _add_lanes(emit: Emitter, a: SSAValue | None, b: SSAValue) -> SSAValue:
    return b if a is None else emit.binary(arith.AddiOp, a, b)


def _lane_pointers(emit: Emitter, base: SSAValue, address: Address, lanes: int) -> SSAValue:
    pointer = emit.splat(emit.address(base, address.offset), lanes)
    if address.lane_offsets is None:
        return pointer
    return emit.make(tile.AddPtrOp, [pointer, address.lane_offsets], pointer.type)


def load(body: Body, op: tile.Load, at: Coordinates) -> SSAValue:
    """A chunk (or element) of a load."""
    if isinstance(op, tile.LoadViewOp):
        _before_claims(body, op, at)
        before = body.emit.block.last_op
        value = _load_view(body, op, at)
        _claim_order(op, body.emit, before)
        return value
    pointer = body.at(op.pointer, at)
    mask = None if op.mask is None else body.at(op.mask, at)
    other = None if op.other is None else body.at(op.other, at)
    lanes = max(cpu.lanes_of(v) for v in (pointer, mask, other) if v is not None)
    return _gather(body.emit, pointer, mask, other, tile.element_of(op.result), lanes)


def _gather(
    emit: Emitter,
    pointers: SSAValue,
    mask: SSAValue | None,
    other: SSAValue | None,
    element: Attribute,
    lanes: int,
) -> SSAValue:
    if lanes == 1:
        return emit.make(
            tile.LoadOp, _present(pointers, mask, other), element, **_segments(1, mask, other)
        )
    values = [None if v is None else emit.splat(v, lanes) for v in (pointers, mask, other)]
    return emit.make(
        cpu.GatherOp, _present(*values), cpu.vector_of(element, lanes), **_segments(1, mask, other)
    )


def _before_claims(body: Body, op: Operation, at: Coordinates) -> None:
    """Emit the mask of an access with a claimed order before it: the accesses in the mask keep their own claims."""
    if tile.AssumesAttr.name in op.attributes and isinstance(op, tile.View) and op.mask is not None:
        body.at(op.mask, at)


def _claim_order(op: Operation, emit: Emitter, before: Operation | None) -> None:
    """Let the accesses that were made of `op`, after `before`, have its place in the order."""
    if not (found := [e for e in tile.claims_of(op) if e[1] == "in_order"]):
        return
    made = emit.block.first_op if before is None else before.next_op
    while made is not None:
        for inner in made.walk():
            if isinstance(inner, _ACCESSES):
                for by, claim, values in found:
                    tile.assume(inner, by, **{claim: values})
        made = made.next_op


def _present(*values: SSAValue | None) -> list[SSAValue]:
    return [v for v in values if v is not None]


def _segments(first: int, *optional: SSAValue | None) -> dict[str, Attribute]:
    sizes = [1] * first + [0 if v is None else 1 for v in optional]
    return {"operandSegmentSizes": DenseArrayBase.from_list(i32, sizes)}


def _load_view(body: Body, op: tile.LoadViewOp, at: Coordinates) -> SSAValue:
    emit = body.emit
    lanes = lanes_at(at)
    mask = view_mask(body, op, at)
    address = view_address(body, op, at)
    base = body.scalar(op.base)
    other = None if op.other is None else body.scalar(op.other)
    element = tile.element_of(op.result)
    if (
        mask.count is None
        and address.uniform
        and (mask.bits is None or cpu.lanes_of(mask.bits) == 1)
    ):
        pointer = emit.address(base, address.offset)
        return _gather(emit, pointer, mask.bits, other, element, 1)
    if address.lane_offsets is not None or address.uniform:
        report_missed(op, "vector", no_contiguous_dim(op))
        if index_runs.ATTRIBUTE in op.attributes and address.lane_offsets is not None:
            return _load_run(emit, base, address, mask, other, element)
        pointers = _lane_pointers(emit, base, address, lanes)
        return _gather(emit, pointers, mask.value(emit), other, element, lanes)
    if (
        mask.count is not None
        and mask.bits is None
        and not isinstance(op.parent_op(), cpu.FusionGroupOp)
    ):
        return _load_checked(emit, base, address.offset, mask, other, element)
    offset = _reachable(emit, address.offset, mask)
    value = vector_load(emit, base, offset, element, lanes, mask.value(emit), other)
    return value if isinstance(op.parent_op(), cpu.FusionGroupOp) else _fetching_ahead(value)


def _reachable(emit: Emitter, offset: Index, mask: Mask) -> Index:
    """`offset`, or that of the tile's first element where no lane of a chunk is live.

    A masked access without live lanes touches nothing, but where its address is unmapped the
    processor finds out by microcode, in hundreds of cycles: rows beyond the end of an array would take longer
    than all others.
    """
    if mask.count is None:
        return offset
    return emit.select(emit.less(0, mask.count), offset, 0)


def _fetching_ahead(value: SSAValue) -> SSAValue:
    """A load inside a loop that stands in the loop over chunks, made to fetch later chunks.

    Such loads step from tile to tile of memory, and only the loop around them goes to the next chunk:
    hardware sees strides of a tile and does not foresee the adjacent lines.
    """
    load = value.owner
    if isinstance(load, cpu.VectorLoadOp):
        chunk = cpu.lanes_of(value) * element_bytes(cpu.scalar_of(value))
        load.properties["prefetch_distance"] = IntegerAttr(_CHUNKS_AHEAD * chunk, i64)
    return value


def _load_checked(
    emit: Emitter,
    base: SSAValue,
    offset: Index,
    mask: Mask,
    other: SSAValue | None,
    element: Attribute,
) -> SSAValue:
    """A load whose limit changes inside a lane-wise loop: unmasked when the chunk is all live."""
    kind = cpu.vector_of(element, mask.lanes)
    full = emit.condition(emit.at_least(emit.value(cast(Index, mask.count)), mask.lanes))
    position = emit.value(offset)
    yes, no, op = emit.branch(full, [kind])
    whole = vector_load(yes, base, position, element, mask.lanes, None, None)
    yes.yield_values([_fetching_ahead(whole)])
    offset = _reachable(no, position, mask)
    no.yield_values([vector_load(no, base, offset, element, mask.lanes, mask.value(no), other)])
    return op.results[0]


def _load_run(
    emit: Emitter,
    base: SSAValue,
    address: Address,
    mask: Mask,
    other: SSAValue | None,
    element: Attribute,
) -> SSAValue:
    """A vector where the offsets of a chunk's lanes count upwards by one, else a gather."""
    offsets, lanes = cast(SSAValue, address.lane_offsets), mask.lanes
    first = emit.make(cpu.SliceOp, [offsets], i64, start=IntegerAttr(0, 64))
    counted = emit.make(cpu.IotaOp, [first], offsets.type)
    predicate, bits = StringAttr("eq"), cpu.vector_of(i1, lanes)
    same = emit.make(tile.CmpIOp, [offsets, counted], bits, predicate=predicate)
    live = mask.value(emit)
    kind = cpu.vector_of(element, lanes)
    yes, no, op = emit.branch(emit.make(cpu.AllTrueOp, [same], i1), [kind])
    offset = yes.plus(address.offset, first)
    yes.yield_values([vector_load(yes, base, offset, element, lanes, live, other)])
    pointers = _lane_pointers(no, base, address, lanes)
    no.yield_values([_gather(no, pointers, live, other, element, lanes)])
    return op.results[0]


def vector_load(
    emit: Emitter,
    base: SSAValue,
    offset: Index,
    element: Attribute,
    lanes: int,
    mask: SSAValue | None,
    other: SSAValue | None,
    alignment: int | None = None,
) -> SSAValue:
    """Contiguous lanes (a scalar load for one)."""
    if lanes == 1:
        return _gather(emit, emit.address(base, offset), mask, other, element, 1)
    properties = _segments(2, mask, None if mask is None else other)
    properties["alignment"] = IntegerAttr(alignment or element_bytes(element), i64)
    return emit.make(
        cpu.VectorLoadOp,
        _present(base, emit.value(offset), mask, None if mask is None else other),
        cpu.vector_of(element, lanes),
        **properties,
    )


def store(body: Body, op: tile.Store, at: Coordinates) -> None:
    """A chunk (or element) of a store."""
    value = body.lanes(op.value, at)
    _before_claims(body, op, at)
    before = body.emit.block.last_op
    _store(body, op, value, at)
    _claim_order(op, body.emit, before)


def _store(body: Body, op: tile.Store, value: SSAValue, at: Coordinates) -> None:
    emit = body.emit
    lanes = lanes_at(at)
    if isinstance(op, tile.StoreOp):
        pointer = body.at(op.pointer, at)
        mask = None if op.mask is None else body.at(op.mask, at)
        _scatter(emit, pointer, value, mask, lanes)
        return
    mask = view_mask(body, op, at)
    address = view_address(body, op, at)
    base = body.scalar(op.base)
    if address.lane_offsets is not None or address.uniform:
        report_missed(op, "vector", no_contiguous_dim(op))
        pointers = _lane_pointers(emit, base, address, lanes)
        _scatter(emit, pointers, value, mask.value(emit), lanes)
        return
    offset = _reachable(emit, address.offset, mask)
    vector_store(emit, base, offset, value, mask.value(emit), streams=body.facts.streams.get(op))


def _scatter(
    emit: Emitter, pointers: SSAValue, value: SSAValue, mask: SSAValue | None, lanes: int
) -> None:
    if lanes == 1:
        emit.make(tile.StoreOp, _present(pointers, value, mask))
        return
    operands = [emit.splat(v, lanes) for v in _present(pointers, value, mask)]
    emit.make(cpu.ScatterOp, operands)


def vector_store(
    emit: Emitter,
    base: SSAValue,
    offset: Index,
    value: SSAValue,
    mask: SSAValue | None,
    alignment: int | None = None,
    streams: SSAValue | None = None,
) -> None:
    """Contiguous lanes (a scalar store for one), past the caches where `streams` (i1) holds and all lanes live."""
    if cpu.lanes_of(value) == 1:
        _scatter(emit, emit.address(base, offset), value, mask, 1)
        return
    size = element_bytes(cpu.scalar_of(value))
    plain = cpu.VectorStoreOp.create(
        operands=_present(base, emit.value(offset), value, mask),
        properties={"alignment": IntegerAttr(alignment or size, i64)},
    )
    lines = cpu.lanes_of(value) * size % streaming.LINE_BYTES == 0
    if streams is not None and mask is None and lines:
        streaming.store_chunk(emit, streams, plain)
    else:
        emit.add(plain)


# ---- scratch buffers --------------------------------------------------------------------------------


def place_in(emit: Emitter, layout: BufferLayout, row: Index, column: Index) -> Index:
    """Elements from the start of a buffer to (row, column); `BufferLayout.offset` on values."""
    if layout.kind == "row":
        return emit.plus(emit.times(row, layout.width), column)
    panel = emit.divide(column, layout.width)
    line = emit.plus(emit.times(panel, layout.rows), row)
    return emit.plus(emit.times(line, layout.width), emit.modulo(column, layout.width))


def column_step(layout: BufferLayout, lanes: int) -> int:
    """Elements between neighboring columns of a chunk; 0 when it straddles panels."""
    return 1 if layout.kind == "row" or layout.width % lanes == 0 else 0


def run_alignment(layout: BufferLayout, lanes: int) -> int:
    """Elements that the start of every chunk of a row is a multiple of."""
    return gcd(layout.width, lanes) if layout.rows > 1 or layout.kind != "row" else lanes


def _buffer_place(
    body: Body, buffer: SSAValue, at: Coordinates
) -> tuple[SSAValue, Index, int | None, Attribute, int]:
    """Base pointer, element offset, lane step (None: scalar), element, alignment of a buffer chunk."""
    emit = body.emit
    kind = buffer.type
    layout = layout_of(kind)
    shape = tile.shape_of(tile_of(buffer))
    element = tile.element_of(tile_of(buffer))
    rows: Index = 0
    row_lanes = 1
    for c, extent in zip(at[:-1], shape[:-1], strict=True):
        rows = emit.plus(emit.times(rows, extent), c.base)
        row_lanes = max(row_lanes, c.lanes)
    column = at[-1]
    batch: Index = 0
    if layout.rows and len(shape) > 2 and shape[-2] == layout.rows:
        batch = emit.divide(rows, layout.rows)
        rows = emit.modulo(rows, layout.rows)
    offset = emit.plus(emit.times(batch, layout.size), place_in(emit, layout, rows, column.base))
    size = element_bytes(element)
    if column.lanes > 1:
        step = column_step(layout, column.lanes)
    elif row_lanes > 1:
        step = layout.width if at[-2].lanes > 1 else 0
    else:
        step = None
    if step == 0:
        raise NeedsScalar("a chunk is not evenly spaced in its buffer")
    aligned = run_alignment(layout, column.lanes) * size if column.lanes > 1 else size
    return body.address_of(buffer), offset, step, element, min(64, aligned & -aligned)


def read_buffer(body: Body, buffer: SSAValue, at: Coordinates) -> SSAValue:
    """A chunk of a scratch buffer."""
    base, offset, step, element, alignment = _buffer_place(body, buffer, at)
    emit = body.emit
    lanes = lanes_at(at)
    if step is None or step == 1:
        return vector_load(emit, base, offset, element, lanes, None, None, alignment)
    pointers = _lane_pointers(emit, base, Address(offset, _steps(emit, lanes, step), False), lanes)
    return _gather(emit, pointers, None, None, element, lanes)


def write_buffer(body: Body, value: SSAValue, buffer: SSAValue, at: Coordinates) -> None:
    """Put a chunk (already made) into a scratch buffer."""
    base, offset, step, _, alignment = _buffer_place(body, buffer, at)
    emit = body.emit
    lanes = lanes_at(at)
    if step is None or step == 1:
        vector_store(emit, base, offset, emit.splat(value, lanes), None, alignment)
    else:
        place = Address(offset, _steps(emit, lanes, step), False)
        pointers = _lane_pointers(emit, base, place, lanes)
        _scatter(emit, pointers, emit.splat(value, lanes), None, lanes)


__all__ = [
    "FloatAttr", "IntegerType", "Mask", "load", "read_buffer", "store", "vector_load",
    "vector_store", "view_address", "view_mask", "write_buffer",
]  # fmt: skip
