"""`map_elementwise`: a function of scalars on the elements of tiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.errors import KernelTypeError
from tilewright.semantics.foreign import Foreign
from tilewright.semantics.values import TensorValue, describe, type_text

_WHAT = "tl.map_elementwise"


class Lanes(Foreign):
    """Calls for each lane."""

    def map_elementwise(self, scalar_fn: Any, *args: Any, pack: Any = 1) -> Any:
        count = self.known_int(pack, f"{_WHAT}: pack")
        if not args:
            raise KernelTypeError(f"{_WHAT} needs a tile to work on")
        values = [self.to_tensor(a) for a in args]
        shape = self.common_shape(values, _WHAT)
        if not shape:
            return self.call_function(scalar_fn, values)
        tiles = [self.broadcast_shape(v, shape) if v.shape else v for v in values]
        size = math.prod(shape)
        if count < 1 or shape[-1] % count or count & (count - 1):
            raise KernelTypeError(
                f"{_WHAT}: pack is {count}, which must be a power of two that divides the last extent of"
                f" {list(shape)}"
            )
        if count == 1:
            results = self._on_lanes(scalar_fn, tiles, shape)
            return results[0] if len(results) == 1 else results
        lanes = (size // count,)
        parts = [part for tile in tiles for part in self._neighbors(tile, count)]
        results = self._on_lanes(scalar_fn, parts, lanes)
        if len(results) % count:
            raise KernelTypeError(
                f"{_WHAT}: with pack={count} the function must give {count} values of each result, not"
                f" {len(results)} values"
            )
        joined = [
            self.reshaped(self._side_by_side(results[i : i + count]), shape, _WHAT)
            for i in range(0, len(results), count)
        ]
        return joined[0] if len(joined) == 1 else tuple(joined)

    def _neighbors(self, x: TensorValue, count: int) -> list[TensorValue]:
        """Elements 0, 1 … of each group of `count`, as flat tiles."""
        if not x.shape:
            return [x] * count
        rows = self.reshaped(x, (x.numel // count, count), _WHAT)
        return [self.subscript(rows, (slice(None), i)) for i in range(count)]

    def _side_by_side(self, parts: Sequence[TensorValue]) -> TensorValue:
        """Flat tiles as the columns of a matrix."""
        kinds = {part.dtype for part in parts}
        if len(kinds) > 1:
            raise KernelTypeError(
                f"{_WHAT}: type mismatch in packed results, {describe(list(parts))}"
            )
        columns = [self.expand_dims(part, 1) for part in parts]
        while len(columns) > 1:
            columns = [
                self.cat(a, b, dim=1) for a, b in zip(columns[::2], columns[1::2], strict=True)
            ]
        return columns[0]

    def _on_lanes(
        self, function: Any, args: Sequence[TensorValue], shape: tuple[int, ...]
    ) -> tuple[Any, ...]:
        if self._call_on_lanes is not None:
            return self._call_on_lanes(function, args, shape)
        found: list[list[TensorValue]] = []
        for at in np.ndindex(*shape):
            scalars = [self.tensor(a.handle[at], a.type.scalar) if a.shape else a for a in args]
            result = self.call_function(function, scalars)
            values = result if isinstance(result, tuple) else (result,)
            found.append([self.to_tensor(value) for value in values])
        tiles = []
        for values in zip(*found, strict=True):
            kind = values[0].type
            if any(v.type != kind for v in values):
                kinds = " and ".join(sorted({type_text(v.type) for v in values}))
                raise KernelTypeError(f"{_WHAT}: the function gives {kinds} for different elements")
            handle = np.array([v.handle for v in values]).reshape(shape)
            tiles.append(self.tensor(handle, kind.with_shape(shape)))
        return tuple(tiles)
