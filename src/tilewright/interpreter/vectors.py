"""Interpret the operations of the `cpu` dialect that have no regions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.ir import Operation

from tilewright import dtypes
from tilewright.dialects import cpu, tile
from tilewright.errors import InterpreterError, OutOfBoundsError
from tilewright.interpreter import Executor
from tilewright.interpreter.arrays import numpy_dtype
from tilewright.interpreter.registry import Attributes, Kinds, implements, kind_of, plain
from tilewright.interpreter.tiles import counts, dot, on_values
from tilewright.ir.types import SHORT_NAMES


def _lanes(kinds: Kinds) -> int:
    return int(kinds[0].shape[0])


@implements("cpu.splat")
def _splat(ctx: Any, attributes: Any, kinds: Kinds, value: Any) -> Any:
    return [on_values(value, lambda a: np.full(_lanes(kinds), a))]


@implements("cpu.iota")
def _iota(ctx: Any, attributes: Any, kinds: Kinds, base: Any) -> Any:
    kind = numpy_dtype(kinds[0])
    with np.errstate(all="ignore"):
        return [np.asarray(base, kind) + np.arange(_lanes(kinds), dtype=kind)]


@implements("cpu.lane_mask")
def _lane_mask(ctx: Any, attributes: Any, kinds: Kinds, count: Any) -> Any:
    return [np.arange(_lanes(kinds)) < int(count)]


@implements("cpu.slice")
def _slice(ctx: Any, attributes: Attributes, kinds: Kinds, value: Any) -> Any:
    start = attributes["start"]
    if not kinds[0].shape:
        return [on_values(value, lambda a: a[start])]
    return [on_values(value, lambda a: a[start : start + _lanes(kinds)])]


@implements("cpu.splice")
def _splice(ctx: Any, attributes: Attributes, kinds: Kinds, lhs: Any, rhs: Any) -> Any:
    start = attributes["start"]
    return [np.concatenate([np.asarray(lhs), np.asarray(rhs)])[start : start + _lanes(kinds)]]


@implements("cpu.shuffle_xor")
def _shuffle_xor(ctx: Any, attributes: Attributes, kinds: Kinds, value: Any) -> Any:
    picks = np.arange(_lanes(kinds)) ^ attributes["mask"]
    return [on_values(value, lambda a: a[picks])]


@implements("cpu.all_true")
def _all_true(ctx: Any, attributes: Any, kinds: Kinds, mask: Any) -> Any:
    return [np.bool_(np.all(mask))]


@implements("cpu.from_elements")
def _concat(ctx: Any, attributes: Any, kinds: Kinds, *values: Any) -> Any:
    return [np.asarray(values, numpy_dtype(kinds[0]))]


@implements("cpu.transpose")
def _transpose(ctx: Any, attributes: Any, kinds: Kinds, *rows: Any) -> Any:
    return list(np.stack([np.asarray(row) for row in rows], axis=1))


@implements("cpu.vector_load")
def _load(
    ctx: Any, attributes: Any, kinds: Kinds, pointer: Any, offset: Any, mask: Any, other: Any
) -> Any:
    kind = numpy_dtype(kinds[0])
    lanes = np.int64(offset) + np.arange(_lanes(kinds))
    ctx.claims.alignment(pointer, lanes[0] * kind.itemsize, attributes["alignment"])
    return [ctx.memory.load(pointer.offset_by(lanes, kind.itemsize), mask, other, kind, ctx)]


@implements("cpu.vector_store")
def _store(
    ctx: Any, attributes: Any, kinds: Any, pointer: Any, offset: Any, value: Any, mask: Any
) -> Any:
    values = np.asarray(value)
    lanes = np.int64(offset) + np.arange(values.shape[0])
    ctx.claims.alignment(pointer, lanes[0] * values.itemsize, attributes["alignment"])
    ctx.memory.store(pointer.offset_by(lanes, values.itemsize), values, mask, ctx)
    return []


@implements("cpu.gather")
def _gather(ctx: Any, attributes: Any, kinds: Kinds, pointers: Any, mask: Any, other: Any) -> Any:
    return [ctx.memory.load(pointers, mask, other, numpy_dtype(kinds[0]), ctx)]


@implements("cpu.scatter")
def _scatter(ctx: Any, attributes: Any, kinds: Any, pointers: Any, value: Any, mask: Any) -> Any:
    ctx.memory.store(pointers, value, mask, ctx)
    return []


@implements("cpu.check_bounds")
def _check_bounds(
    ctx: Any, attributes: Attributes, kinds: Any,
    pointer: Any, offset: Any, mask: Any, program: Any, *ranges: Any,
) -> Any:  # fmt: skip
    """Raises OutOfBoundsError: here a pointer's own array is not asked for, the `ranges` are."""
    size = attributes["element_bytes"]
    addresses = pointer.addresses
    if not addresses.ndim:
        lanes = np.arange(attributes["lanes"], dtype=np.int64)
        addresses = addresses + (lanes + np.int64(0 if offset is None else offset)) * size
    outside = np.ones(addresses.shape, bool)
    for first, nbytes in zip(ranges[::2], ranges[1::2], strict=True):
        outside &= (addresses < first) | (addresses + size > first + nbytes)
    if mask is not None:
        outside &= np.asarray(mask, bool)
    if outside.any():
        raise OutOfBoundsError(
            f"{int(outside.sum())} lanes of a checked access lie outside its arrays",
            location=ctx.location,
        )
    return []


def _in_place(run: Executor, op: cpu.PrepackedOp) -> list[Any]:
    return [_matrix(run, op.pointer, op.layout.data, op.result.type)]


def _buffer_at(run: Executor, op: cpu.BufferFromPtrOp) -> list[Any]:
    kind: Any = op.result.type
    run.buffers[op.result] = _matrix(run, op.pointer, kind.layout.data, kind.tile)
    return [op.result]


def _matrix(run: Executor, pointer: Any, layout: str, kind: Any) -> np.ndarray:
    """A matrix that stands in memory from `pointer` on."""
    element = numpy_dtype(kind_of(tile.element_of(kind)))
    cells = run.value(pointer).offset_by(_layout_offsets(layout), element.itemsize)
    return run.memory.load(cells, None, None, element, run)


def _read(run: Executor, op: cpu.ReadOp) -> list[Any]:
    held = run.buffers.get(run.value(op.buffer))
    if held is None:
        raise InterpreterError("a scratch buffer is read before it is written")
    return [held]


def _write(run: Executor, op: cpu.WriteOp) -> list[Any]:
    run.buffers[run.value(op.buffer)] = run.value(op.value)
    return []


def _dot_buffers(run: Executor, op: cpu.BufferDotOp) -> list[Any]:
    a, b, acc = (run.buffers[run.value(v)] for v in (op.lhs, op.rhs, op.acc))
    kind = np.asarray(acc).dtype
    run.buffers[run.value(op.acc)] = dot(np.asarray(a), np.asarray(b), np.asarray(acc)).astype(kind)
    return []


def _histogram_buffers(run: Executor, op: cpu.HistogramBuffersOp) -> list[Any]:
    source = run.buffers[run.value(op.source)]
    mask = None if op.mask is None else run.buffers[run.value(op.mask)]
    buffer: Any = op.result.type
    (bins,) = tile.shape_of(buffer.tile)
    run.buffers[run.value(op.result)] = counts(source, mask, bins).astype(np.int32)
    return []


def _scratch_address(run: Executor, op: cpu.ScratchAddressOp) -> list[Any]:
    if run.scratch is None:
        size = plain(run.function.attributes["cpu.scratch_bytes"])
        run.scratch = run.memory.register("scratch", np.zeros(size + 64, np.uint8))
    return [run.scratch.offset_by(plain(op.offset), 1)]


def _dot_call(run: Executor, op: cpu.CallMicrokernelOp) -> list[Any]:
    # "fma 32x32x16 f32,f32,f32 8x2x16u4 row:16[32x16] panel:32[16x32] panel:32[32x32] …"
    parts = op.plan.data.split(" ")
    kinds = [numpy_dtype(dtypes.from_short_name(SHORT_NAMES[t])) for t in parts[2].split(",")]
    places = [_layout_offsets(text) for text in parts[4:7]]
    pointers = [run.value(v) for v in (op.lhs, op.rhs, op.acc)]
    cells = [p.offset_by(o, k.itemsize) for p, o, k in zip(pointers, places, kinds, strict=True)]
    a, b, acc = (run.memory.load(c, None, None, k, run) for c, k in zip(cells, kinds, strict=True))
    run.memory.store(cells[2], dot(a, b, acc).astype(kinds[2]), None, run)
    return []


@functools.cache
def _layout_offsets(text: str) -> np.ndarray:
    """Element offsets of a matrix in a buffer layout: `"panel:32[16x32]"`, `"row:16[32x16]"`, or
    `"panel:32.2[16x32]"` with two rows interleaved."""
    kind, rest = text.rstrip("@").split("+")[0].split(":")
    width, extents = rest.rstrip("]").split("[")
    rows, columns = (int(v) for v in extents.split("x"))
    i, j = np.mgrid[0:rows, 0:columns]
    w, g = (int(v) for v in (*width.split("."), "1")[:2])
    if kind == "row":
        return i * w + j
    return (j // w * rows + i // g * g) * w + j % w * g + i % g


HANDLERS: dict[type[Operation], Callable[[Executor, Any], list[Any]]] = {
    cpu.PrepackedOp: _in_place,
    cpu.ScratchOp: lambda run, op: [op.result],
    cpu.BufferFromPtrOp: _buffer_at,
    cpu.ReadOp: _read,
    cpu.WriteOp: _write,
    cpu.BufferDotOp: _dot_buffers,
    cpu.HistogramBuffersOp: _histogram_buffers,
    cpu.ScratchAddressOp: _scratch_address,
    cpu.CallMicrokernelOp: _dot_call,
}
