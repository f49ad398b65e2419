"""Keep and bring back the memory that kernels under tuning write.

A configuration is timed by running the kernel many times on the user's own arrays; a kernel that
works in place would leave them ruined. What is kept is raw memory, so that every dtype and any
strides work: the bytes from the lowest to the highest element of an array and, when that is not
much more, the whole allocation, because kernels are often handed a view as a base pointer.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tilewright.runtime.devices import device_of, flat

#: allocations up to this size are kept whole even if the array is a small view of them
_WHOLE_ALLOCATION_BYTES = 64 << 20


@dataclass(frozen=True)
class MemoryRange:
    """Bytes `start … start + size` of host memory."""

    start: int
    size: int


def element_range(
    address: int, shape: Iterable[int], strides: Iterable[int], item: int
) -> MemoryRange:
    """From the lowest to the highest byte of an array; `strides` in bytes, `item` bytes an element."""
    low = high = 0
    for extent, stride in zip(shape, strides, strict=True):
        if extent == 0:
            return MemoryRange(address, 0)
        reach = (extent - 1) * stride
        low, high = low + min(reach, 0), high + max(reach, 0)
    return MemoryRange(address + low, high - low + item)


def _numpy_range(array: Any) -> MemoryRange:
    own = element_range(array.ctypes.data, array.shape, array.strides, array.itemsize)
    root = array
    while type(root.base) is type(array):
        root = root.base
    whole = element_range(root.ctypes.data, root.shape, root.strides, root.itemsize)
    covers = whole.start <= own.start and own.start + own.size <= whole.start + whole.size
    return whole if covers and whole.size <= max(2 * own.size, _WHOLE_ALLOCATION_BYTES) else own


def torch_range(tensor: Any) -> MemoryRange:
    item = tensor.element_size()
    own = element_range(tensor.data_ptr(), tensor.shape, [s * item for s in tensor.stride()], item)
    storage = tensor.untyped_storage()
    whole = MemoryRange(storage.data_ptr(), storage.nbytes())
    return whole if whole.size <= max(2 * own.size, _WHOLE_ALLOCATION_BYTES) else own


def memory_range(value: Any) -> MemoryRange | None:
    """The host memory a kernel can write through `value`, None for scalars and read-only arrays.

    Understands NumPy arrays, torch CPU tensors (and subclasses, parameters) and writable objects
    with `__dlpack__` on the CPU.
    """
    if device_of(value) is not None:
        return None
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    tensor_type = getattr(torch, "Tensor", None)
    if isinstance(tensor_type, type) and isinstance(value, tensor_type):
        return torch_range(value.detach()) if value.device.type == "cpu" else None
    if numpy is not None and isinstance(value, numpy.ndarray):
        return _numpy_range(value) if value.flags.writeable else None
    if hasattr(value, "base") and hasattr(value, "data_ptr"):  # a TensorWrapper
        return memory_range(value.base)
    if hasattr(value, "__dlpack__") and not isinstance(value, (int, float)):
        return _dlpack_range(value)
    return None


def _dlpack_range(value: Any) -> MemoryRange | None:
    import numpy

    try:
        view = numpy.from_dlpack(value)
    except (BufferError, TypeError, RuntimeError, AttributeError):
        return None
    return element_range(view.ctypes.data, view.shape, view.strides, view.itemsize)


def merged(ranges: list[MemoryRange]) -> list[MemoryRange]:
    """The same bytes without overlaps (in-place kernels get one array twice).

    Ranges that only touch stay apart: they may be separate allocations, which a GPU does not copy at once.
    """
    merged: list[MemoryRange] = []
    for part in sorted(ranges, key=lambda r: (r.start, -r.size)):
        last = merged[-1] if merged else None
        if last is not None and part.start < last.start + last.size:
            end = max(last.start + last.size, part.start + part.size)
            merged[-1] = MemoryRange(last.start, end - last.start)
        else:
            merged.append(part)
    return merged


class Snapshot:
    """A copy of the memory of some arguments; `restore()` writes it back, any number of times.

    Memory of GPUs is kept on the GPU (`gpu_snapshot`). The arguments live at least as long as the
    snapshot: memory that had gone back to the allocator meanwhile would be overwritten.
    """

    def __init__(self, values: Iterable[Any]) -> None:
        self._values = values = list(flat(values))
        found = [memory_range(value) for value in values]
        self._host = [
            (part, ctypes.string_at(part.start, part.size))
            for part in merged([part for part in found if part is not None and part.size])
        ]
        on_gpu = [value for value in values if device_of(value) is not None]
        self._device: list[Any] = []
        if on_gpu:
            from tilewright.runtime.gpu_snapshot import gpu_copies

            self._device = gpu_copies(on_gpu)

    @property
    def nbytes(self) -> int:
        """Bytes copied by each `restore()`."""
        device = sum(copy.size for copy in self._device)
        return sum(part.size for part, _ in self._host) + device

    def restore(self) -> None:
        """Write the kept bytes back."""
        for part, kept in self._host:
            ctypes.memmove(part.start, kept, part.size)
        for copy in self._device:
            copy.restore()
