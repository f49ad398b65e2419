"""Loads, stores and atomics, through pointers and structured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.interpreter.arrays import numpy_dtype
from tilewright.interpreter.memory import PointerValue
from tilewright.interpreter.registry import Attributes, Kinds, implements


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


def view_pointers(
    base: PointerValue,
    shape: tuple[int, ...],
    itemsize: int,
    kinds: Sequence[str],
    strides: Sequence[Any],
    starts: Sequence[Any],
    sizes: Sequence[Any],
    indices: Sequence[Any],
) -> PointerValue:
    """The pointers of a structured access (`tile.load_view` says what the operands mean)."""
    next_start, next_size, next_index = iter(starts), iter(sizes), iter(indices)
    offsets = np.zeros(shape, np.int64)
    for d, (kind, extent) in enumerate(zip(kinds, shape, strict=True)):
        lanes = np.arange(extent, dtype=np.int64)
        if kind == "strided":
            term = lanes * np.int64(strides[d])
        elif kind == "wrapped":
            start, size = next(next_start), next(next_size)
            term = (np.int64(start) + lanes) % np.int64(size) * np.int64(strides[d])
        else:
            term = np.asarray(next(next_index), np.int64)
        offsets += term.reshape([-1 if i == d else 1 for i in range(len(shape))])
    return base.offset_by(offsets, itemsize)


def view_mask(
    shape: tuple[int, ...], limited: Sequence[int], limits: Sequence[Any], mask: Any
) -> np.ndarray | None:
    """Which lanes a structured access touches; None for all."""
    if not limited and mask is None:
        return None
    live = np.ones(shape, bool) if mask is None else np.asarray(mask).copy()
    for d, limit in zip(limited, limits, strict=True):
        lanes = np.arange(shape[d]) < int(limit)
        live &= lanes.reshape([-1 if i == d else 1 for i in range(len(shape))])
    return live
