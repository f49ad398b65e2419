"""Interpret operations on whole tiles: creation, shapes, reductions, scans, dots; and program ids, assertions, prints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.errors import DeviceAssertError, OutOfBoundsError
from tilewright.interpreter.arrays import numpy_dtype
from tilewright.interpreter.memory import PointerValue
from tilewright.interpreter.numbers import wide
from tilewright.interpreter.registry import Attributes, Kinds, implements


def on_values(value: Any, function: Callable[[Any], Any]) -> Any:
    """`function` on an array, or on the addresses of pointers."""
    return value.map(function) if isinstance(value, PointerValue) else function(value)


def _shape(kinds: Kinds) -> tuple[int, ...]:
    return tuple(int(e) for e in kinds[0].shape)


@implements("tile.program_id")
def _program_id(ctx: Any, attributes: Attributes, kinds: Kinds) -> Any:
    return [np.int32(ctx.program[attributes["axis"]])]


@implements("tile.num_programs")
def _num_programs(ctx: Any, attributes: Attributes, kinds: Kinds) -> Any:
    return [np.int32(ctx.grid[attributes["axis"]])]


@implements("tile.arange")
def _arange(ctx: Any, attributes: Attributes, kinds: Kinds) -> Any:
    return [np.arange(attributes["start"], attributes["end"], dtype=numpy_dtype(kinds[0]))]


def _moves(name: str, function: Callable[[Any, Any], Any], attribute: str = "") -> None:
    """`name` means `function` of the operand and an attribute, or the shape of the result."""

    def meaning(ctx: Any, attributes: Attributes, kinds: Kinds, value: Any) -> Any:
        how = attributes[attribute] if attribute else _shape(kinds)
        return [on_values(value, lambda a: function(a, how))]

    implements(name, moves=True)(meaning)


_moves("tile.splat", lambda a, shape: np.full(shape, a))
_moves("tile.broadcast", np.broadcast_to)
_moves("tile.reshape", np.reshape)
_moves("tile.expand_dims", np.expand_dims, "axis")
_moves("tile.trans", np.transpose, "order")


@implements("tile.join", moves=True)
def _join(ctx: Any, attributes: Any, kinds: Kinds, a: Any, b: Any) -> Any:
    if isinstance(a, PointerValue):
        return [PointerValue.combine(lambda x, y: np.stack([x, y], -1), [a, b])]
    return [np.stack([a, b], -1)]


@implements("tile.split", moves=True)
def _split(ctx: Any, attributes: Any, kinds: Kinds, value: Any) -> Any:
    return [on_values(value, lambda a, i=i: np.asarray(a)[..., i][()]) for i in (0, 1)]


@implements("tile.cat", moves=True)
def _cat(ctx: Any, attributes: Attributes, kinds: Kinds, a: Any, b: Any) -> Any:
    axis = attributes["axis"]
    if isinstance(a, PointerValue):
        return [PointerValue.combine(lambda x, y: np.concatenate([x, y], axis), [a, b])]
    return [np.concatenate([a, b], axis)]


@implements("tile.gather")
def _gather(ctx: Any, attributes: Attributes, kinds: Any, source: Any, index: Any) -> Any:
    source, index, axis = np.asarray(source), np.asarray(index), attributes["axis"]
    extent = source.shape[axis]
    outside = (index < -extent) | (index >= extent)  # NumPy counts negative ones from the end
    if outside.any():
        lane = np.argwhere(outside)[0]
        raise OutOfBoundsError(
            f"tl.gather reads element {index[tuple(lane)]} of {extent} along axis {axis} in"
            f" {int(outside.sum())} of {outside.size} lanes, the first at {lane.tolist()}",
            help="indices must lie inside the tile, also in lanes whose result is not used",
            location=ctx.location,
        )
    return [np.take_along_axis(source, index, axis)]


@implements("tile.histogram")
def _histogram(ctx: Any, attributes: Any, kinds: Kinds, value: Any, mask: Any) -> Any:
    return [counts(value, mask, _shape(kinds)[0]).astype(numpy_dtype(kinds[0]))]


def counts(value: Any, mask: Any, bins: int) -> np.ndarray:
    """Counts of 0 … bins-1 in `value`, where `mask` (if any) is true."""
    values = np.asarray(value)[slice(None) if mask is None else mask]
    return np.bincount(values[(values >= 0) & (values < bins)], minlength=bins)


# ---- dot --------------------------------------------------------------------------------------------


@implements("tile.dot", "cpu.dot")
def _dot(ctx: Any, attributes: Any, kinds: Kinds, a: Any, b: Any, acc: Any) -> Any:
    return [dot(np.asarray(a), np.asarray(b), np.asarray(acc)).astype(numpy_dtype(kinds[0]))]


def dot(a: np.ndarray, b: np.ndarray, acc: np.ndarray) -> np.ndarray:
    """`acc + a @ b`: floats summed in fp64, integers modulo 2^64."""
    with np.errstate(all="ignore"):
        if a.dtype.kind in "iub":
            return acc.astype(np.int64) + np.matmul(a.astype(np.int64), b.astype(np.int64))
        x, y = (wide(v).astype(np.float64) for v in (a, b))
        return wide(acc).astype(np.float64) + np.matmul(x, y)


# ---- output -----------------------------------------------------------------------------------------


@implements("tile.print")
def _print(ctx: Any, attributes: Attributes, kinds: Any, *values: Any) -> Any:
    prefix = attributes["prefix"].rstrip().rstrip(":")
    where = f"pid ({', '.join(map(str, ctx.program))})"
    if not values:
        print(f"{where} {prefix}")
    for value, signed in zip(values, attributes["signed"], strict=False):
        array = value.addresses if isinstance(value, PointerValue) else np.asarray(value)
        for index in np.ndindex(*array.shape):
            at = f" idx ({', '.join(map(str, index))})" if index else ""
            text = _printed(array[index], attributes.get("hex", False), bool(signed))
            print(f"{where}{at} {prefix + ': ' if prefix else ''}{text}")
    return []


def _printed(value: Any, hexadecimal: bool, signed: bool) -> str:
    kind = np.asarray(value).dtype
    if kind.kind in "iub":
        number = int(value)
        if number < 0 and (hexadecimal or not signed):
            number += 1 << (kind.itemsize * 8)
        return f"0x{number:0{2 * kind.itemsize}x}" if hexadecimal else str(number)
    return f"{float(value):f}" if kind != np.float64 else f"{float(value):g}"


@implements("tile.assert")
def _assert(ctx: Any, attributes: Attributes, kinds: Any, condition: Any) -> Any:
    failed = np.argwhere(~np.atleast_1d(np.asarray(condition)))
    if len(failed):
        lane = f", lane {[int(i) for i in failed[0]]}" if np.ndim(condition) else ""
        raise DeviceAssertError(
            f"device_assert failed in program {tuple(ctx.program)}{lane}: {attributes['message']}",
            location=ctx.location,
        )
    return []


@implements("tile.assume", "tile.barrier")
def _nothing(ctx: Any, attributes: Any, kinds: Any, *values: Any) -> Any:
    return []
