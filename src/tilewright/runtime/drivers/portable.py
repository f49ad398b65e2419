"""The CPU driver without native host code: the same in Python, on a thread pool.

Slower to launch (tens of microseconds) and otherwise the same: ctypes lets go of the GIL while a
kernel runs, programs are split in static contiguous parts, failed assertions are reported alike. Ctrl-C stops a
launch between two programs.
"""

from __future__ import annotations

import ctypes
import operator
import os
import struct
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

from tilewright import config
from tilewright.backends.base import Artifact, LaunchPlan
from tilewright.runtime.drivers.argument_guards import OTHER_CASE, all_hold
from tilewright.runtime.drivers.kernels import LoadedKernel, cores, load_with, thresholds
from tilewright.runtime.drivers.native_code import NativeLinker
from tilewright.runtime.native.python import BAD_GRID, READ_ONLY

#: programs that run in one call, by the estimate: Ctrl-C waits for them
_UNINTERRUPTED_NS = 10e6
_ENTRY = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p
)


class PortableDriver:
    """The interface of `CpuDriver`, without generated native code."""

    pool_kind = "python"

    def __init__(self) -> None:
        self._linker = NativeLinker()
        self._local = threading.local()
        self._executor: ThreadPoolExecutor | None = None
        self._pid = os.getpid()
        self.threads = 1
        self.refresh_threads()

    def array_address(self, array: Any) -> int:
        return array.ctypes.data

    def refresh_threads(self) -> None:
        """Choose the number of threads for the settings as they are now."""
        threads = config.current().num_threads or cores()
        if threads != self.threads or self._pid != os.getpid():
            self.threads, self._executor, self._pid = threads, None, os.getpid()

    def load(self, artifact: Artifact) -> LoadedKernel:
        """Link a kernel's object code into the process."""
        return load_with(self._linker, artifact)

    def launcher(
        self,
        kernel: LoadedKernel,
        plan: LaunchPlan,
        kinds: Sequence[str],
        conditions: Sequence[int] = (),
    ) -> tuple[Callable[..., Any], Any]:
        """See `CpuDriver.launcher`."""
        entry = _ENTRY(kernel.address)
        inline, grain, _ = thresholds(plan)

        def call(grid: tuple[int, ...], *arguments: Any) -> Any:
            total, slots = 1, []
            for extent in grid:
                total *= extent if isinstance(extent, int) else -1
            if not 1 <= len(grid) <= 3 or any(e < 0 for e in grid):
                return BAD_GRID
            if not all_hold(
                conditions, [_plain(k, v) for k, v in zip(kinds, arguments, strict=True)]
            ):
                return OTHER_CASE
            for kind, value in zip(kinds, arguments, strict=True):
                if kind == "numpy_written" and not value.flags.writeable:
                    return READ_ONLY
                if kind != "skip":
                    slots.append(slot_bits(kind, value))
            words = (*slots, *grid, *(1,) * (3 - len(grid)))
            packed = (ctypes.c_uint64 * len(words))(*words)
            threads = 1 if total <= inline else max(1, min(self.threads, total // grain))
            step = max(1, int(_UNINTERRUPTED_NS / plan.program_cost)) if plan.program_cost else 1
            return self._run(entry, packed, total, threads, plan.scratch_bytes, step)

        return call, kernel

    def _run(
        self, entry: Any, slots: Any, total: int, threads: int, scratch: int, step: int
    ) -> Any:
        fault, stopped = (ctypes.c_int64 * 3)(), threading.Event()

        def part(i: int) -> None:
            first, last = total * i // threads, total * (i + 1) // threads
            if first < last:
                memory = self._scratch(scratch)
                record = (ctypes.c_uint64 * 5)(memory, i, ctypes.addressof(fault))
                for start in range(first, last, step):  # Python sees Ctrl-C between two calls
                    if stopped.is_set():
                        break
                    end = min(start + step, last)
                    entry(ctypes.addressof(slots), start, end, ctypes.addressof(record))

        if threads == 1:
            part(0)
        else:
            if self._executor is None or self._pid != os.getpid():
                self._pid = os.getpid()
                self._executor = ThreadPoolExecutor(self.threads, "tilewright")
            others = [self._executor.submit(part, i) for i in range(1, threads)]
            try:
                part(0)
            except KeyboardInterrupt:
                stopped.set()
                wait(others)  # they use the caller's arrays
                raise
            for other in others:
                other.result()
        return (fault[1], fault[2]) if fault[0] else None

    def _scratch(self, size: int) -> int:
        """Address of this thread's scratch, 64-byte aligned."""
        if not size:
            return 0
        buffer = getattr(self._local, "buffer", None)
        if buffer is None or len(buffer) < size + 64:
            buffer = self._local.buffer = ctypes.create_string_buffer(size + 64)
        return (ctypes.addressof(buffer) + 63) & ~63


def _plain(kind: str, value: Any) -> Any:
    """A number, the address of an array."""
    return value.ctypes.data if kind in ("numpy", "numpy_written") else value


def slot_bits(kind: str, value: Any) -> int:
    """The 64 bits of an argument slot. A float beyond the range of fp32 is infinity, as in native code."""
    if kind == "fp32":
        return struct.unpack("<I", bytes(ctypes.c_float(value)))[0]
    if kind == "fp64":
        return struct.unpack("<Q", struct.pack("<d", value))[0]
    number = int(value) if kind == "bool" else operator.index(_plain(kind, value))
    return number & (1 << 64) - 1
