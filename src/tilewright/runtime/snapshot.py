"""Save and restore the memory that kernels write while they are timed.

A configuration is timed by running the kernel many times on the user's own arrays; a kernel that
works in place would leave them ruined. What is kept is raw memory, so that every dtype and any
strides work: the bytes from the lowest to the highest element of an array and, when that is not
much more, the whole allocation, because kernels are often handed a view as a base pointer.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tilewright.errors import LaunchError
from tilewright.runtime.devices import device_of, flat
from tilewright.runtime.specialize import is_array, read_only

#: allocations up to this size are kept whole even if the array is a small view of them
_WHOLE_ALLOCATION_BYTES = 64 << 20


@dataclass(frozen=True)
class MemoryRange:
    """Bytes `start … start + size` of host memory."""

    start: int
    size: int


def memory_range(value: Any) -> MemoryRange | None:
    """The host memory that a kernel can write through `value`, None for scalars and read-only arrays."""
    where = str(getattr(getattr(value, "device", None), "type", "cpu"))
    if where != "cpu" or not is_array(value) or device_of(value) is not None or read_only(value):
        return None
    return range_to_keep(value)


def range_to_keep(value: Any) -> MemoryRange | None:
    """The bytes of an array or of its allocation, wherever they are; None where they are not known."""
    from tilewright.interpreter.arrays import array_memory

    try:
        memory = array_memory(value)
    except LaunchError:
        return None
    if not memory.address:  # a `MockTensor`
        return None
    size = memory.last - memory.first
    if memory.nbytes <= max(2 * size, _WHOLE_ALLOCATION_BYTES):
        return MemoryRange(memory.base, memory.nbytes)
    return MemoryRange(memory.first, size)


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

    Memory of GPUs is kept on the GPU (`gpu_memory`). The arguments live at least as long as the
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
            from tilewright.runtime.gpu_memory import gpu_copies

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
