"""Keep and bring back GPU memory that kernels under tuning write (`snapshot` for what is on a GPU)."""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import numpy

from tilewright.errors import UnsupportedTarget
from tilewright.runtime.devices import Place, device_of, gpu_address, stream_library
from tilewright.runtime.drivers.cuda import driver
from tilewright.runtime.drivers.cuda_api import CudaError
from tilewright.runtime.snapshot import MemoryRange, merged, range_to_keep


class GpuCopy:
    """A copy of one range of a device's memory, on the device if it fits, else on the host."""

    def __init__(self, place: Place, start: int, size: int) -> None:
        self.place, self.start, self.size = place, start, size
        self._native = driver()
        self._owned = 0
        self._held: Any = None
        self._kept = self._allocate()
        self._copy(self._kept, start)

    def _allocate(self) -> int:
        """From torch where it manages the memory, else from the driver, else on the host."""
        torch: Any = sys.modules.get("torch")
        if self.place.library == "torch" and hasattr(torch, "empty"):
            with contextlib.suppress(RuntimeError):  # out of memory
                device = f"cuda:{self.place.device}"
                self._held = torch.empty(self.size, dtype=torch.uint8, device=device)
                return self._held.data_ptr()
        with contextlib.suppress(CudaError):
            with self._native.in_context(self._native.device(self.place.device)):
                self._owned = self._native.api.handle("cuMemAlloc_v2", self.size)
            return self._owned
        self._held = ctypes.create_string_buffer(self.size)
        return ctypes.addressof(self._held)

    def _copy(self, to: int, source: int) -> None:
        with self._native.in_context(self._native.device(self.place.device)):
            self._native.api.cuMemcpyAsync(to, source, self.size, self.place.stream())

    def restore(self) -> None:
        """Write the kept bytes back, on the current stream."""
        self._copy(self.start, self._kept)

    def __del__(self) -> None:
        if getattr(self, "_owned", 0):
            with contextlib.suppress(Exception):  # the context may be lost
                self._native.synchronize(self.place.device)
                with self._native.in_context(self._native.device(self.place.device)):
                    self._native.api.cuMemFree_v2(self._owned)


def gpu_range(value: Any) -> MemoryRange | None:
    """The memory of an array; None if its extent is unknown."""
    if hasattr(value, "untyped_storage"):
        return range_to_keep(value)
    if getattr(value, "base", None) is not None and type(value).__name__ == "TensorWrapper":
        return gpu_range(value.base)
    if hasattr(value, "__cuda_array_interface__"):
        facts = value.__cuda_array_interface__
        if facts.get("shape") is None:
            return None
        address = gpu_address(value)[0]
        # an array of NumPy's whose elements are not read
        view = SimpleNamespace(__array_interface__={**facts, "data": (address, True)})
        array = numpy.asarray(view)
        low, high = numpy.lib.array_utils.byte_bounds(array) if array.size else (address, address)
        return MemoryRange(low, high - low)
    return None


def gpu_copies(values: Iterable[Any]) -> list[GpuCopy]:
    """Copies of the GPU memory of `values`; none without a driver."""
    ranges: dict[int, list[MemoryRange]] = {}
    for value in values:
        index, part = device_of(value), gpu_range(value)
        if index is not None and part is not None and part.size:
            ranges.setdefault(index, []).append(part)
    copies: list[GpuCopy] = []
    with contextlib.suppress(UnsupportedTarget):
        for index, parts in ranges.items():
            place = Place(index, stream_library())
            copies += [GpuCopy(place, part.start, part.size) for part in merged(parts)]
    return copies
