"""Changing the shape of tiles, and indexing them."""

from __future__ import annotations

import math
from typing import Any

from tilewright import dtypes as t
from tilewright.dtypes import unwrap_constexpr
from tilewright.errors import KernelTypeError, UnsupportedSyntax
from tilewright.semantics.atomics import Atomics
from tilewright.semantics.values import TensorValue, describe, evaluate, type_text


def _unpack(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """`f(x, 2, 3)` and `f(x, (2, 3))` mean the same."""
    if len(values) == 1:
        only = unwrap_constexpr(values[0])
        if isinstance(only, tuple | list):
            return tuple(only)
    return values


class Shapes(Atomics):
    """`reshape`, `trans`, `expand_dims`, `join` … and subscripts."""

    def reshape(self, input: Any, *shape: Any, can_reorder: Any = False) -> TensorValue:
        x = self.to_tensor(input)
        extents = self.shape_argument(_unpack(shape), "tl.reshape")
        return self.reshaped(x, extents, "tl.reshape")

    def view(self, input: Any, *shape: Any) -> TensorValue:
        return self.reshape(input, *shape)

    def ravel(self, x: Any, can_reorder: Any = False) -> TensorValue:
        value = self.to_tensor(x)
        return self.reshaped(value, (value.numel,), "tl.ravel")

    def reshaped(self, x: TensorValue, shape: tuple[int, ...], what: str) -> TensorValue:
        """`reshape` without the power-of-two rule; scalars are one element."""
        if x.shape == shape:
            return x
        if math.prod(shape) != x.numel:
            raise KernelTypeError(
                f"{what}: {type_text(x.type)} has {x.numel} elements, but shape {list(shape)} has"
                f" {math.prod(shape)}"
            )
        if not shape:
            return self.item(x)
        if not x.shape:
            return self.splat(x, shape)
        return self.emit("tile.reshape", [x], x.type.with_shape(shape))

    def expand_dims(self, input: Any, axis: Any) -> TensorValue:
        x = self.to_tensor(input)
        axes = self.known_ints(axis, "tl.expand_dims: axis")
        rank = x.ndim + len(axes)
        places = sorted(self.dimension(a, rank, "tl.expand_dims") for a in axes)
        if len(set(places)) != len(places):
            raise KernelTypeError(
                f"tl.expand_dims: axes {list(axes)} repeat (duplicate axes, normalized axes = {places})"
            )
        for place in places:
            x = self._insert_axis(x, place)
        return x

    def _insert_axis(self, x: TensorValue, axis: int) -> TensorValue:
        if not x.shape:
            return self.splat(x, (1,))
        shape = (*x.shape[:axis], 1, *x.shape[axis:])
        return self.emit("tile.expand_dims", [x], x.type.with_shape(shape), axis=axis)

    def unsqueeze(self, input: Any, dim: Any) -> TensorValue:
        return self.expand_dims(input, dim)

    def squeeze(self, input: Any, dim: Any) -> TensorValue:
        x = self.tile_argument(input, "tl.squeeze")
        axis = self.dimension(dim, x.ndim, "tl.squeeze")
        if x.shape[axis] != 1:
            raise KernelTypeError(f"tl.squeeze: dimension {axis} of {type_text(x.type)} is not 1")
        return self.reshaped(x, x.shape[:axis] + x.shape[axis + 1 :], "tl.squeeze")

    def broadcast(self, input: Any, other: Any) -> tuple[TensorValue, TensorValue]:
        a, b = self.broadcast_all([self.to_tensor(input), self.to_tensor(other)], "tl.broadcast")
        return a, b

    def broadcast_to(self, input: Any, *shape: Any) -> TensorValue:
        extents = self.shape_argument(_unpack(shape), "tl.broadcast_to")
        return self.broadcast_same_rank(self.to_tensor(input), extents, "tl.broadcast_to: a value")

    def trans(self, input: Any, *dims: Any) -> TensorValue:
        dims = _unpack(dims)
        x = self.tile_argument(input, "tl.trans")
        if not dims:
            if x.ndim < 2:
                raise KernelTypeError(
                    f"tl.trans needs two dimensions or more, got {type_text(x.type)}"
                )
            order = (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)
            return self._permuted(x, order)
        return self.permute(x, *dims)

    def permute(self, input: Any, *dims: Any) -> TensorValue:
        x = self.tile_argument(input, "tl.permute")
        order = self.known_ints(_unpack(dims), "tl.permute: dims")
        order = tuple(d % x.ndim if -x.ndim <= d < x.ndim else d for d in order)
        if sorted(order) != list(range(x.ndim)):
            raise KernelTypeError(
                f"tl.permute: {list(order)} is not a permutation of the {x.ndim} dimensions of"
                f" {type_text(x.type)}"
            )
        return self._permuted(x, order)

    def _permuted(self, x: TensorValue, order: tuple[int, ...]) -> TensorValue:
        if order == tuple(range(x.ndim)):
            return x
        shape = tuple(x.shape[d] for d in order)
        return self.emit("tile.trans", [x], x.type.with_shape(shape), order=order)

    # ---- joining and splitting -----------------------------------------------------------------

    def join(self, a: Any, b: Any) -> TensorValue:
        x, y = self._same_kind(a, b, "tl.join")
        x, y = self.broadcast_all([x, y], "tl.join")
        shape = (*x.shape, 2)
        if not x.shape:
            x, y = self.splat(x, (1,)), self.splat(y, (1,))
        joined = self.emit("tile.join", [x, y], x.type.with_shape((*x.shape, 2)))
        return self.reshaped(joined, shape, "tl.join")

    def split(self, a: Any) -> tuple[TensorValue, TensorValue]:
        x = self.tile_argument(a, "tl.split")
        if x.shape[-1] != 2:
            raise KernelTypeError(
                f"tl.split needs a last dimension of 2, got {type_text(x.type)}",
                help="reshape to [..., 2] first",
            )
        shape = x.shape[:-1]
        if not shape:
            x = self.reshaped(x, (1, 2), "tl.split")
        kind = x.type.with_shape(x.shape[:-1])
        handles = self.builder.op("tile.split", [x.handle], (kind, kind))
        low, high = (self.reshaped(self.tensor(h, kind), shape, "tl.split") for h in handles)
        return low, high

    def interleave(self, a: Any, b: Any) -> TensorValue:
        joined = self.join(a, b)
        if joined.ndim == 1:
            return joined
        shape = (*joined.shape[:-2], joined.shape[-2] * 2)
        return self.reshaped(joined, shape, "tl.interleave")

    def cat(self, input: Any, other: Any, can_reorder: Any = False, dim: Any = 0) -> TensorValue:
        x, y = self._same_kind(input, other, "tl.cat")
        for value in (x, y):
            self.tile_argument(value, "tl.cat")
        axis = self.dimension(dim, x.ndim, "tl.cat")
        rest = [s[:axis] + s[axis + 1 :] for s in (x.shape, y.shape)]
        if rest[0] != rest[1]:
            raise KernelTypeError(
                f"tl.cat along dimension {axis}: {type_text(x.type)} and {type_text(y.type)} differ"
                " elsewhere"
            )
        extent = x.shape[axis] + y.shape[axis]
        shape = (*x.shape[:axis], extent, *x.shape[axis + 1 :])
        return self.emit("tile.cat", [x, y], x.type.with_shape(shape), axis=axis)

    def _same_kind(self, a: Any, b: Any, what: str) -> tuple[TensorValue, TensorValue]:
        x, y = self.to_tensor(a), self.to_tensor(b)
        if x.dtype != y.dtype:
            raise KernelTypeError(
                f"{what}: {describe(x)} and {describe(y)} have different element types",
                help="convert one of them with .to(...)",
            )
        return x, y

    def flip(self, x: Any, dim: Any = None) -> TensorValue:
        value = self.tile_argument(x, "tl.flip")
        axis = self.dimension(-1 if unwrap_constexpr(dim) is None else dim, value.ndim, "tl.flip")
        extent = value.shape[axis]
        return self._take(value, axis, extent - 1, extent, -1)

    # ---- indexing ------------------------------------------------------------------------------

    def gather(self, src: Any, index: Any, axis: Any) -> TensorValue:
        x, places = self.tile_argument(src, "tl.gather"), self.tile_argument(index, "tl.gather")
        place = self.dimension(axis, x.ndim, "tl.gather")
        if not places.dtype.is_int() or places.dtype.is_bool():
            raise KernelTypeError(f"tl.gather: index must be integers, got {describe(places)}")
        others = [s[:place] + s[place + 1 :] for s in (x.shape, places.shape)]
        if x.ndim != places.ndim or others[0] != others[1]:
            raise KernelTypeError(
                f"tl.gather along dimension {place}: {describe(x)} and index {describe(places)}"
                " must agree in all other dimensions"
            )
        wide = t.int64 if places.dtype.primitive_bitwidth == 64 else t.int32
        return self._gathered(x, self.convert(places, wide), place)

    def _gathered(self, x: TensorValue, index: TensorValue, axis: int) -> TensorValue:
        return self.emit("tile.gather", [x, index], x.type.with_shape(index.shape), axis=axis)

    def _take(
        self, x: TensorValue, axis: int, start: Any, count: int, step: int = 1
    ) -> TensorValue:
        """`count` elements along `axis` from `start` (a number or a scalar tensor) on."""
        lanes = self.lanes(0, count)
        index = (lanes if step == 1 else lanes * step) + start
        shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
        index = self.broadcast_shape(self._place(index, axis, x.ndim), shape)
        return self._gathered(x, index, axis)

    def subscript(self, x: Any, key: Any) -> Any:
        """`x[key]`: `:`, None, `...`, integers (constant or scalar tensors) and constant slices."""
        if not isinstance(x, TensorValue):
            return x[unwrap_constexpr(key)]
        key = unwrap_constexpr(key)
        items = [unwrap_constexpr(k) for k in (key if isinstance(key, tuple | list) else (key,))]
        items = self._without_ellipsis(x, items)
        if not x.ndim:  # as in Triton, `scalar[:, None]` is `scalar[None]`
            items = [i for i in items if not (isinstance(i, slice) and i == slice(None))]
        named = sum(item is not None for item in items)
        if named > x.ndim:
            pointer = x.dtype.is_ptr() and not x.ndim
            raise KernelTypeError(
                f"unsupported tensor index: {named} indices for a value with {x.ndim} dimensions"
                f" ({type_text(x.type)})",
                help="memory is read with tl.load(pointer + offsets), written with tl.store"
                if pointer
                else "",
            )
        axis = 0
        for item in items:
            if item is None:
                x = self._insert_axis(x, axis)
                axis += 1
            elif isinstance(item, slice):
                x = self._sliced(x, axis, item)
                axis += 1
            else:
                x = self._element(x, axis, item)
        return x

    def _without_ellipsis(self, x: TensorValue, items: list[Any]) -> list[Any]:
        if not any(item is Ellipsis for item in items):
            return items
        place = next(i for i, item in enumerate(items) if item is Ellipsis)
        rest = items[:place] + items[place + 1 :]
        missing = x.ndim - sum(item is not None for item in rest)
        return items[:place] + [slice(None)] * missing + items[place + 1 :]

    def _sliced(self, x: TensorValue, axis: int, item: slice) -> TensorValue:
        parts = [unwrap_constexpr(p) for p in (item.start, item.stop, item.step)]
        if any(isinstance(p, TensorValue) for p in parts):
            raise KernelTypeError(
                "a slice needs constant bounds, because the result's shape must be constant",
                help="index with a tile through tl.gather, or move the pointer and load again",
            )
        extent = x.shape[axis]
        text = ":".join("" if p is None else repr(p) for p in parts)
        positions = range(*evaluate(text, slice(*parts).indices, extent))
        if len(positions) == extent and positions.step == 1:
            return x
        count = len(positions)
        if not count or count & (count - 1):
            raise KernelTypeError(
                f"a slice of {count} elements of {type_text(x.type)}: extents are powers of two"
            )
        return self._take(x, axis, positions.start, count, positions.step)

    def _element(self, x: TensorValue, axis: int, item: Any) -> TensorValue:
        extent = x.shape[axis]
        if isinstance(item, TensorValue):
            if item.shape or not item.dtype.is_int():
                raise UnsupportedSyntax(
                    f"a tile cannot be indexed with {describe(item)}",
                    help="use tl.gather(x, index, axis) for a tile of indices",
                )
        else:
            number = self.known_int(item, "an index")
            if not -extent <= number < extent:
                raise KernelTypeError(
                    f"index {number} is out of range for dimension {axis} of {type_text(x.type)}"
                )
            item = number % extent
        row = self._take(x, axis, item, 1)
        return self.reshaped(row, x.shape[:axis] + x.shape[axis + 1 :], "an index")
