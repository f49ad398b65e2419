"""The `cpu` dialect's operations that have no regions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.errors import OutOfBoundsError
from tilewright.interpreter.arrays import numpy_dtype
from tilewright.interpreter.registry import Attributes, Kinds, implements
from tilewright.interpreter.tiles import on_values


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


@implements("cpu.from_elements")
def _concat(ctx: Any, attributes: Any, kinds: Kinds, *values: Any) -> Any:
    return [np.asarray(values, numpy_dtype(kinds[0]))]


@implements("cpu.transpose")
def _transpose(ctx: Any, attributes: Any, kinds: Kinds, *rows: Any) -> Any:
    return list(np.stack([np.asarray(row) for row in rows], axis=1))


@implements("cpu.vector_load")
def _load(
    ctx: Any,
    attributes: Any,
    kinds: Kinds,
    pointer: Any,
    offset: Any,
    mask: Any,
    other: Any,
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
