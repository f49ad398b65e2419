"""Scratch buffers of the `cpu` dialect, and the dots and histograms that work on them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import Operation

from tilewright import dtypes
from tilewright.dialects import cpu, tile
from tilewright.errors import InterpreterError
from tilewright.interpreter.arrays import numpy_dtype
from tilewright.interpreter.registry import kind_of, plain
from tilewright.interpreter.tiles import counts, dot

if TYPE_CHECKING:
    from tilewright.interpreter.executor import Executor


def _scratch(run: Executor, op: cpu.ScratchOp) -> list[Any]:
    return [op.result]


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


_PLAN_TYPES = {"i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "f16": "fp16", "bf16": "bf16",
               "f32": "fp32", "f64": "fp64"}  # fmt: skip


def _dot_call(run: Executor, op: cpu.CallMicrokernelOp) -> list[Any]:
    # "fma 32x32x16 f32,f32,f32 8x2x16u4 row:16[32x16] panel:32[16x32] panel:32[32x32] …"
    parts = op.plan.data.split(" ")
    kinds = [numpy_dtype(dtypes.from_short_name(_PLAN_TYPES[t])) for t in parts[2].split(",")]
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
    cpu.ScratchOp: _scratch,
    cpu.BufferFromPtrOp: _buffer_at,
    cpu.ReadOp: _read,
    cpu.WriteOp: _write,
    cpu.BufferDotOp: _dot_buffers,
    cpu.HistogramBuffersOp: _histogram_buffers,
    cpu.ScratchAddressOp: _scratch_address,
    cpu.CallMicrokernelOp: _dot_call,
}
