"""Tensor maps for launches: encoded by the driver once for each matrix, then found by its numbers."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.backends.base import TensorMap
from tilewright.errors import LaunchError
from tilewright.runtime.drivers.cuda_api import CudaApi, CudaError

BYTES, ALIGNMENT = 128, 64
#: of CUtensorMapDataType, by bytes: unsigned integers move anything
_DATA_TYPES = {1: 0, 2: 1, 4: 2, 8: 4}
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
_PROMOTE_256_BYTES = 3
#: matrices that one kernel remembers
_REMEMBERED = 4096


class MapLauncher:
    """A launcher that puts the kernel's tensor maps behind its arguments.

    `call` takes a grid, a stream, the arguments, and the address of each map (`"blob"` slots).
    """

    def __init__(
        self,
        api: CudaApi,
        call: Callable[..., Any],
        maps: Sequence[TensorMap],
        kinds: Sequence[str],
        kernel: str,
    ) -> None:
        self._api, self._call, self._maps, self._kernel = api, call, maps, kernel
        self._places = [i for i, kind in enumerate(kinds) if kind != "skip"]
        used = {m.argument for m in maps}
        for m in maps:
            for extent in (m.width, m.height, m.pitch):
                used.update(f for _, factors in extent.terms for f in factors)
        self._used = [self._places[i] for i in sorted(used)]
        self._known: dict[tuple[Any, ...], tuple[list[Any], list[int]]] = {}
        self._lock = threading.Lock()

    def __call__(self, grid: Any, stream: int, *values: Any) -> Any:
        key = tuple([values[i] for i in self._used])
        found = self._known.get(key)
        if found is None:
            found = self._encode(key, values)
        return self._call(grid, stream, *values, *found[1])

    def _encode(self, key: tuple[Any, ...], values: Sequence[Any]) -> tuple[list[Any], list[int]]:
        """Make and remember the maps of some arguments; they stay where they are until forgotten."""
        arguments = [values[i] for i in self._places]
        with self._lock:
            if len(self._known) >= _REMEMBERED:
                self._known = {}
            kept, addresses = [], []
            for recipe in self._maps:
                memory = ctypes.create_string_buffer(BYTES + ALIGNMENT)
                address = -(-ctypes.addressof(memory) // ALIGNMENT) * ALIGNMENT
                self._fill(address, recipe, arguments)
                kept.append(memory)
                addresses.append(address)
            self._known[key] = found = (kept, addresses)
        return found

    def _fill(self, address: int, recipe: TensorMap, arguments: Sequence[Any]) -> None:
        width, height, pitch = (
            max(1, e.value(arguments)) for e in (recipe.width, recipe.height, recipe.pitch)
        )
        sizes = (ctypes.c_uint64 * 2)(width, height)
        pitches = (ctypes.c_uint64 * 1)(pitch * recipe.element_bytes)
        box, ones = (ctypes.c_uint32 * 2)(*recipe.box), (ctypes.c_uint32 * 2)(1, 1)
        try:
            self._api.cuTensorMapEncodeTiled(
                address, _DATA_TYPES[recipe.element_bytes], 2, arguments[recipe.argument], sizes,
                pitches, box, ones, 0, _SWIZZLES[recipe.span], _PROMOTE_256_BYTES, 0,
            )  # fmt: skip
        except CudaError as error:
            raise LaunchError(
                f"{self._kernel}: the driver takes no matrix of {width} x {height} elements of "
                f"{recipe.element_bytes} bytes, lines {pitch} elements apart, at "
                f"{arguments[recipe.argument]:#x}: {error}",
                help='compile with boxes switched off: TILEWRIGHT_DISABLE="pipeline-loads"',
            ) from None
