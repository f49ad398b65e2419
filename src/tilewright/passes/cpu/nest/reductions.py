"""Accumulating a reduction over chunks, and collapsing its lanes at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue

from tilewright.dialects import cpu, tile
from tilewright.passes.analysis.edit import Mapping
from tilewright.passes.cpu.analysis.buffers import tile_of
from tilewright.passes.cpu.analysis.classify import is_elementwise
from tilewright.passes.cpu.nest.emit import Emitter

AxisOp = tile.ReduceOp | tile.ScanOp

_ZERO = {"arith.addf", "arith.addi", "arith.ori", "arith.xori", "arith.maxui"}


def simple_kind(op: AxisOp) -> str | None:
    """The one operation that the combine region applies to (left, right), else None."""
    block = op.combine.block
    ops = list(block.ops)
    if len(ops) != 2 or len(block.args) != 2:
        return None
    first, last = ops
    if list(first.operands) != list(block.args) or list(last.operands) != list(first.results):
        return None
    return first.name


def identity(op: AxisOp) -> float | int | None:
    """A value that combines with any x to x, or None when none is known."""
    kind = simple_kind(op)
    element = tile.element_of(op.inputs[0])
    if kind is None:
        return None
    if kind in _ZERO:
        return 0
    if kind in ("arith.mulf", "arith.muli"):
        return 1
    if kind in ("arith.maxnumf", "arith.minnumf"):
        return float("nan")  # the other operand wins
    if kind == "arith.maximumf":
        return float("-inf")
    if kind == "arith.minimumf":
        return float("inf")
    if isinstance(element, IntegerType):
        width = element.width.data
        if kind in ("arith.andi", "arith.minui"):
            return -1
        if kind == "arith.maxsi":
            return -(1 << (width - 1)) if width > 1 else -1
        if kind == "arith.minsi":
            return (1 << (width - 1)) - 1 if width > 1 else 0
    return None


def is_vectorizable(op: AxisOp) -> bool:
    """Whether the combine region can be applied to vectors."""
    return all(is_elementwise(o) or isinstance(o, tile.YieldOp) for o in op.combine.block.ops)


def start_value(emit: Emitter, op: AxisOp, lanes: int) -> list[SSAValue]:
    """The accumulator before the first chunk; only for operations with an identity."""
    value = identity(op)
    element = tile.element_of(op.inputs[0])
    attr: Attribute
    if isinstance(element, IntegerType):
        attr = IntegerAttr(int(value or 0), element)
    else:
        attr = FloatAttr(float(value or 0), cast(AnyFloat, element))
    scalar = emit.make(arith.ConstantOp, (), element, value=attr)
    return [emit.splat(scalar, lanes)]


def combine(
    emit: Emitter, op: AxisOp, left: list[SSAValue], right: list[SSAValue]
) -> list[SSAValue]:
    """Apply the combine region to scalars or, element-wise, to vectors."""
    mapping = _applied(emit, op, left, right)
    end = op.combine.block.last_op
    if not isinstance(end, tile.YieldOp):
        raise TypeError("a combine region without a yield")
    return [mapping.get(v, v) for v in end.values]


def _applied(emit: Emitter, op: AxisOp, left: list[SSAValue], right: list[SSAValue]) -> Mapping:
    """The values of the combine region, applied to `left` and `right`."""
    lanes = max(cpu.lanes_of(v) for v in (*left, *right))
    values = [emit.splat(v, lanes) for v in (*left, *right)]
    block = op.combine.block
    mapping: Mapping = dict(zip(block.args, values, strict=True))
    for inner in block.ops:
        if not isinstance(inner, tile.YieldOp):
            _apply(emit, inner, mapping, lanes)
    return mapping


def _apply(emit: Emitter, op: Operation, mapping: Mapping, lanes: int) -> None:
    if lanes == 1:
        emit.block.add_op(op.clone(mapping))
    else:
        operands = [emit.splat(mapping.get(v, v), lanes) for v in op.operands]
        kinds = [cpu.vector_of(r.type, lanes) for r in op.results]
        if op.name == "arith.constant":
            scalar = op.clone()
            emit.block.add_op(scalar)
            mapping[op.results[0]] = emit.splat(scalar.results[0], lanes)
            return
        copy = type(op).create(operands=operands, result_types=kinds, properties=op.properties)
        emit.block.add_op(copy)
        mapping.update(zip(op.results, copy.results, strict=True))


def collapse(emit: Emitter, op: AxisOp, values: list[SSAValue]) -> list[SSAValue]:
    """Combine the lanes of an accumulator pairwise down to one scalar each."""
    lanes = cpu.lanes_of(values[0])
    while lanes > 1:
        lanes //= 2
        low, high = ([_slice(emit, v, start, lanes) for v in values] for start in (0, lanes))
        values = combine(emit, op, low, high)
    return values


def scan_lanes(emit: Emitter, op: tile.ScanOp, values: list[SSAValue]) -> list[SSAValue]:
    """The scan of the lanes of one chunk, in `log2(lanes)` rounds: each combines lanes with those 1, 2, 4 … before.

    Lanes without such a predecessor keep their value by a mask: shifting an identity in takes slower instructions.
    """
    lanes = cpu.lanes_of(values[0])
    reverse = bool(op.reverse.value.data)
    distance = 1
    while distance < lanes:
        start = IntegerAttr(distance if reverse else lanes - distance, 64)
        before = [emit.make(cpu.SpliceOp, [v, v], v.type, start=start) for v in values]
        combined = combine(emit, op, before, values)
        values = _unless_first(emit, combined, values, distance, reverse)
        distance *= 2
    return values


def _unless_first(
    emit: Emitter, combined: list[SSAValue], values: list[SSAValue], distance: int, reverse: bool
) -> list[SSAValue]:
    """`combined`, and `values` in the lanes that have no predecessor at `distance`."""
    lanes = cpu.lanes_of(values[0])
    count = emit.constant(lanes - distance if reverse else distance, i64)
    low = emit.make(cpu.LaneMaskOp, [count], cpu.vector_of(i1, lanes))
    return [
        emit.make(tile.SelectOp, [low, *((new, old) if reverse else (old, new))], old.type)
        for new, old in zip(combined, values, strict=True)
    ]


def scan_element(
    emit: Emitter, op: tile.ScanOp, before: list[SSAValue] | None, values: list[SSAValue]
) -> tuple[list[SSAValue], list[SSAValue]]:
    """The scan at one place along its axis, and what it carries to the next place."""
    if before is not None:
        values = combine(emit, op, before, values)
    return values, values


def scan_chunk(
    emit: Emitter, op: tile.ScanOp, before: list[SSAValue] | None, values: list[SSAValue]
) -> tuple[list[SSAValue], list[SSAValue]]:
    """The scan of a chunk along its axis, and what it carries to the next chunk, in all lanes.

    A cheap combination is done twice: the carried one then waits for nothing but its predecessor.
    """
    keeps_left = _condition_of_left(op)
    if before is None or keeps_left is None:
        return _whole_chunk(emit, op, before, values)
    # maxima are rare: most chunks of a row have none that is larger than all before
    kept = emit.make(cpu.AllTrueOp, [_applied(emit, op, before, values)[keeps_left]], i1)
    types = [v.type for v in (*before, *before)]
    same, other, branch = emit.branch(kept, types)
    same.yield_values([*before, *before])
    scanned, carried = _whole_chunk(other, op, before, values)
    other.yield_values([*scanned, *carried])
    results: list[SSAValue] = [*branch.results]
    return results[: len(before)], results[len(before) :]


def _condition_of_left(op: tile.ScanOp) -> SSAValue | None:
    """The condition under which all results of a combination are its left operands, if it says so in selects."""
    *_, end = op.combine.block.ops
    inputs = op.combine.block.args
    left = inputs[: len(inputs) // 2]
    selects = [v.owner for v in end.operands]
    conditions = set[SSAValue]()
    for select, value in zip(selects, left, strict=True):
        if not isinstance(select, tile.SelectOp) or select.lhs is not value:
            return None
        conditions.add(select.condition)
    found = conditions.pop() if len(conditions) == 1 else None
    return found if found is not None and isinstance(found.owner, Operation) else None


def _whole_chunk(
    emit: Emitter, op: tile.ScanOp, before: list[SSAValue] | None, values: list[SSAValue]
) -> tuple[list[SSAValue], list[SSAValue]]:
    own = scan_lanes(emit, op, values)
    values = own if before is None else combine(emit, op, before, own)
    if before is None or any(o.name.startswith("math.") for o in op.combine.block.ops):
        return values, _last_lanes(emit, op, values)
    return values, combine(emit, op, before, _last_lanes(emit, op, own))


def _last_lanes(emit: Emitter, op: tile.ScanOp, values: list[SSAValue]) -> list[SSAValue]:
    """The lane of a chunk that the scan comes to last, in all lanes."""
    lanes = cpu.lanes_of(values[0])
    last = 0 if op.reverse.value.data else lanes - 1
    return [emit.splat(_slice(emit, v, last, 1), lanes) for v in values]


def _slice(emit: Emitter, value: SSAValue, start: int, lanes: int) -> SSAValue:
    return emit.make(
        cpu.SliceOp,
        [value],
        cpu.vector_of(cpu.scalar_of(value), lanes),
        start=IntegerAttr(start, 64),
    )


def repeated(emit: Emitter, op: AxisOp, values: list[SSAValue], times: SSAValue) -> list[SSAValue]:
    """`values` combined with themselves `times` times (i64, at least 1)."""
    kind = simple_kind(op)
    if kind not in ("arith.addf", "arith.addi"):
        return values  # idempotent
    (value,) = values
    element = cpu.scalar_of(value)
    factor: SSAValue
    if isinstance(element, IntegerType):
        factor = times
        if element.width.data < 64:
            factor = emit.make(arith.TruncIOp, [times], element)
        product: type[Operation] = arith.MuliOp
    else:
        factor = emit.make(arith.SIToFPOp, [times], element)
        product = arith.MulfOp
    return [emit.binary(product, value, emit.splat(factor, cpu.lanes_of(value)))]


_PLAIN = {"operandSegmentSizes": DenseArrayBase.from_list(i32, [1, 0, 0])}


def emit_histogram(
    emit: Emitter, op: cpu.HistogramBuffersOp, address: Callable[[SSAValue], SSAValue]
) -> None:
    """Counts of the rank-1 buffer `op.source` into `op.result`; other values are not counted."""
    (elements,) = tile.shape_of(tile_of(op.source))
    (bins,) = tile.shape_of(tile_of(op.result))
    counts = address(op.result)
    body, index, _, _ = emit.loop(0, bins, 1, [])
    zero = body.constant(0, i32)
    body.make(tile.StoreOp, [body.address(counts, index), zero])
    body.yield_values([])
    body, index, _, _ = emit.loop(0, elements, 1, [])
    value = _load(body, address(op.source), index)
    if value.type != i64:
        value = body.make(arith.ExtSIOp, [value], i64)
    counted = body.both(body.compare("sge", value, 0), body.less(value, bins))
    if op.mask is not None:
        counted = body.both(_load(body, address(op.mask), index), counted)
    inside, outside, _ = body.branch(body.condition(counted), [])
    place = inside.address(counts, value)
    old = inside.make(tile.LoadOp, [place], i32, **_PLAIN)
    more = inside.binary(arith.AddiOp, old, inside.constant(1, i32))
    inside.make(tile.StoreOp, [place, more])
    inside.yield_values([])
    outside.yield_values([])
    body.yield_values([])


def _load(emit: Emitter, base: SSAValue, index: SSAValue) -> Any:
    pointer: Any = base.type
    return emit.make(tile.LoadOp, [emit.address(base, index)], pointer.pointee, **_PLAIN)
