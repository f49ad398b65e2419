"""Copies of GPU memory: saved and restored around timed kernels, and on the host for kernels that run as Python."""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy

from tilewright.dtypes import like
from tilewright.errors import LaunchError, UnsupportedTarget
from tilewright.runtime.devices import Place, device_of, flat, gpu_address, stream_library
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


# ---- copies on the host, for kernels that run as Python --------------------------------------------------


@contextmanager
def on_host(values: Sequence[Any], place: Place) -> Generator[tuple[Any, ...]]:
    """Replace GPU arrays by NumPy copies; write them back at the end.

    Arrays that share memory on the GPU share it on the host; whole allocations are copied if
    they are known. Raises LaunchError for an array of unknown extent.
    """
    found = [part for value in flat(values) if (part := _range(value)) is not None]
    ranges = merged([part for part in found if part.size])
    buffers = [numpy.empty(part.size, numpy.uint8) for part in ranges]
    for part, buffer in zip(ranges, buffers, strict=True):
        _copy(place, buffer.ctypes.data, part.start, part.size)
    pairs = list(zip(ranges, buffers, strict=True))
    try:
        yield tuple(_replace(value, pairs) for value in values)
    finally:
        for part, buffer in pairs:
            _copy(place, part.start, buffer.ctypes.data, part.size)


def _range(value: Any) -> MemoryRange | None:
    if device_of(value) is None:
        return None
    part = gpu_range(value)
    if part is None:
        raise LaunchError(
            f"a {type(value).__name__} on a GPU cannot be given to a kernel that runs as Python",
            help="pass torch tensors, or arrays with __cuda_array_interface__",
        )
    return part


def _replace(value: Any, pairs: Sequence[tuple[MemoryRange, Any]]) -> Any:
    if isinstance(value, tuple):
        return like(value, [_replace(item, pairs) for item in value])
    if device_of(value) is None:
        return value
    from tilewright.interpreter.arrays import numpy_dtype
    from tilewright.runtime.specialize import array_address

    address, element = array_address(value)
    kind = numpy.dtype(numpy_dtype(element))
    shape, strides = _shape(value, kind.itemsize)
    for part, buffer in pairs:
        if part.start <= address < part.start + part.size:
            offset = address - part.start
            return numpy.ndarray(shape, kind, buffer=buffer, offset=offset, strides=strides)
    return numpy.empty(shape, kind)


def _shape(value: Any, item: int) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """Shape, and strides in bytes (None: C order)."""
    base = value.base if type(value).__name__ == "TensorWrapper" else value
    if hasattr(base, "untyped_storage"):
        return tuple(base.shape), tuple(s * item for s in base.stride())
    facts = base.__cuda_array_interface__
    return tuple(facts["shape"]), facts.get("strides")


def _copy(place: Place, to: int, source: int, size: int) -> None:
    """Copy between host and device in stream order; complete on return."""
    native, stream = driver(), place.stream()
    with native.in_context(native.device(place.device)):
        native.api.cuMemcpyAsync(to, source, size, stream)
        native.api.cuStreamSynchronize(stream)
