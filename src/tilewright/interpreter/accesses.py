"""Interpret loads, stores and atomics: through pointers, and structured (`*_view`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.ir import Operation

from tilewright.dialects import gpu, tile
from tilewright.errors import OutOfBoundsError
from tilewright.interpreter import Executor
from tilewright.interpreter.arrays import numpy_dtype
from tilewright.interpreter.memory import PointerValue
from tilewright.interpreter.registry import Attributes, Kinds, implements, kind_of


@implements("tile.addptr")
def _addptr(ctx: Any, attributes: Any, kinds: Kinds, pointer: Any, offset: Any) -> Any:
    return [pointer.offset_by(offset, kinds[0].scalar.element_ty.itemsize)]


@implements("tile.load")
def _load(ctx: Any, attributes: Any, kinds: Kinds, pointer: Any, mask: Any, other: Any) -> Any:
    if kinds[0].scalar.is_ptr():
        addresses = ctx.memory.load(pointer, mask, None, np.dtype(np.int64), ctx)
        return [ctx.memory.pointer(addresses)]
    return [ctx.memory.load(pointer, mask, other, numpy_dtype(kinds[0]), ctx)]


@implements("tile.store")
def _store(ctx: Any, attributes: Any, kinds: Any, pointer: Any, value: Any, mask: Any) -> Any:
    stored = value.addresses if isinstance(value, PointerValue) else value
    ctx.memory.store(pointer, stored, mask, ctx)
    return []


@implements("tile.atomic_rmw")
def _atomic(
    ctx: Any, attributes: Attributes, kinds: Any, pointer: Any, value: Any, mask: Any
) -> Any:
    sem = attributes.get("sem", "acq_rel")
    return [ctx.memory.atomic(attributes["kind"], pointer, value, mask, ctx, sem)]


@implements("tile.atomic_cas")
def _compare_and_swap(
    ctx: Any, attributes: Attributes, kinds: Any, pointer: Any, compare: Any, value: Any
) -> Any:
    sem = attributes.get("sem", "acq_rel")
    return [ctx.memory.compare_and_swap(pointer, compare, value, ctx, sem)]


# ---- structured accesses ----------------------------------------------------------------------------


def view_lanes(
    run: Executor, op: Any, shape: tuple[int, ...]
) -> tuple[PointerValue, np.ndarray | None]:
    """Pointers of a structured access (`tile.load_view` says what the operands mean), and the lanes that it touches
    (None: all)."""

    def along(values: Any, dim: int) -> np.ndarray:
        return np.asarray(values).reshape([-1 if i == dim else 1 for i in range(len(shape))])

    starts, sizes, indices = (map(run.value, group) for group in (op.starts, op.sizes, op.indices))
    offsets = np.zeros(shape, np.int64)
    for d, (kind, stride) in enumerate(zip(tile.view_kinds(op), op.strides, strict=True)):
        if kind == "indexed":
            term = np.asarray(next(indices), np.int64)
        else:
            lanes = np.arange(shape[d], dtype=np.int64)
            if kind == "wrapped":
                lanes = (np.int64(next(starts)) + lanes) % np.int64(next(sizes))
            term = lanes * np.int64(run.value(stride))
        offsets += along(term, d)
    itemsize = kind_of(op.base.type).element_ty.itemsize
    pointers = run.value(op.base).offset_by(offsets, itemsize)
    limits = tile.view_limits(op)
    if not limits and op.mask is None:
        return pointers, None
    live = np.ones(shape, bool) if op.mask is None else np.array(run.value(op.mask))
    for d, limit in limits.items():
        live &= along(np.arange(shape[d]) < int(run.value(limit)), d)
    return pointers, live


def _prefetch(run: Executor, op: gpu.PrefetchOp) -> list[Any]:
    count = int(run.value(op.count))
    if count <= 0 or not run.decides(run.value(op.pred)):
        return []
    base: Any = op.base.type
    first = int(run.value(op.base).addresses)
    end = first + count * kind_of(base).element_ty.itemsize
    found = run.memory.find(first)
    if count > op.extent.value.data or found is None or end > found.end:
        raise OutOfBoundsError(
            f"gpu.prefetch fetches outside every known array in program {run.program}:"
            f" {count} elements from {first:#x} on",
            location=run.location,
        )
    return []


HANDLERS: dict[type[Operation], Callable[[Executor, Any], list[Any]]] = {gpu.PrefetchOp: _prefetch}
