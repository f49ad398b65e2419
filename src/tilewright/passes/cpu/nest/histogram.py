"""`cpu.histogram_buffers` as two scalar loops: zero the counts, then count one element at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseArrayBase, i32, i64
from xdsl.ir import SSAValue

from tilewright.dialects import cpu, tile
from tilewright.passes.cpu.analysis.buffers import tile_of
from tilewright.passes.cpu.nest.emit import Emitter

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
