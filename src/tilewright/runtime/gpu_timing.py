"""Time GPU work with CUDA events, the second-level cache emptied before every run.

The work is queued behind the write that empties the cache, so that what a launch costs the CPU does
not count; all runs are queued before the first is waited for. Functions that turn out to put
nothing on the GPU, or to keep the CPU busy for longer than the queue lasts, are timed one at a time
with the GPU idle at the start.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from ctypes import byref, c_float
from typing import Any

from tilewright.errors import UnsupportedTarget
from tilewright.runtime.drivers.cuda_api import CudaError

#: written before every run; more than any L2 (as large as Triton's, so that figures compare)
_FLUSH_BYTES = 256 << 20
#: two events with nothing between are closer than this (ms)
_NOTHING_MS = 0.003
#: a run that keeps the CPU this long (ms) is not hidden by what is queued before it
_HIDDEN_MS = 0.05


def gpu_in_use() -> bool:
    """Whether this process has used a GPU, through a kernel of ours or through torch."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    started = getattr(cuda, "is_initialized", None)
    ours = sys.modules.get("tilewright.runtime.drivers.cuda")
    return getattr(ours, "_driver", None) is not None or bool(started is not None and started())


def gpu_timer() -> GpuTimer | None:
    """A timer for the current device; None where no GPU is in use."""
    if not gpu_in_use():
        return None
    try:
        from tilewright.runtime.drivers.cuda import driver

        return GpuTimer(driver())
    except (UnsupportedTarget, CudaError):
        return None


class GpuTimer:
    """Events and the cache flush of one device. Close it when done."""

    def __init__(self, native: Any) -> None:
        self.native, self.api = native, native.api
        self.device = native.device(native.current_device())
        self._stream = self.stream_of(self.device)
        self._events: list[int] = []
        self._buffer, self._bytes = 0, _FLUSH_BYTES
        with native.in_context(self.device):
            while not self._buffer and self._bytes > 16 << 20:
                try:
                    self._buffer = self.api.handle("cuMemAlloc_v2", self._bytes)
                except CudaError:
                    self._bytes //= 2

    @staticmethod
    def stream_of(device: Any) -> int:
        """The stream that work on a device goes to now."""
        from tilewright.runtime.compiled import stream_library
        from tilewright.runtime.devices import Place

        return Place(device.index, stream_library()).stream()

    def flush(self) -> None:
        """Queue a write of more than the second-level cache."""
        if self._buffer:
            with self.native.in_context(self.device):
                self.api.cuMemsetD32Async(self._buffer, 0, self._bytes // 4, self._stream)

    def mark(self) -> int:
        """An event at this point of the stream."""
        with self.native.in_context(self.device):
            event = self.api.handle("cuEventCreate", 0)
            self._events.append(event)
            self.api.cuEventRecord(event, self._stream)
        return event

    def elapsed(self, start: int, end: int) -> float:
        """Milliseconds between two events, after both have happened."""
        out = c_float()
        try:
            self.api.cuEventSynchronize(end)
            self.api.cuEventElapsedTime(byref(out), start, end)
        except CudaError as error:
            raise self.native.fault(error.code, error.text) from None
        return out.value

    def synchronize(self) -> None:
        """Wait for the device. Raises KernelFault if a kernel failed."""
        self.native.synchronize(self.device.index)

    def drop_events(self) -> None:
        for event in self._events:
            self.api.cuEventDestroy_v2(event)
        self._events.clear()

    def close(self) -> None:
        self.drop_events()
        if self._buffer:
            with self.native.in_context(self.device):
                self.api.cuMemFree_v2(self._buffer)
            self._buffer = 0


class GpuMeasurement:
    """Times runs of a function; `before` and `after` surround each outside the measured time."""

    def __init__(
        self,
        timer: GpuTimer,
        fn: Callable[[], Any],
        before: Callable[[], Any],
        after: Callable[[], Any],
        flush: bool,
    ) -> None:
        self.timer, self.fn, self.before, self.after = timer, fn, before, after
        self.flush = flush
        self.host_bound = False

    def first(self) -> float:
        """Run once unmeasured and a few times measured; an estimate in ms. Chooses how to time."""
        self.before()
        self.fn()
        self.after()
        self.timer.synchronize()
        launched = self.timer.native.launches
        start = time.perf_counter_ns()
        estimate = self.runs(1)[0]
        host = (time.perf_counter_ns() - start) * 1e-6
        nothing = self.timer.native.launches == launched and estimate < _NOTHING_MS
        if nothing or (host > _HIDDEN_MS and self._host_time() > _HIDDEN_MS):
            self.host_bound = True
        if self.host_bound or estimate < 10:
            estimate = min(self.runs(3 if self.host_bound else 5))
        return estimate

    def _host_time(self) -> float:
        """How long the call takes the CPU, in ms."""
        self.before()
        start = time.perf_counter_ns()
        self.fn()
        host = (time.perf_counter_ns() - start) * 1e-6
        self.after()
        self.timer.synchronize()
        return host

    def runs(self, count: int) -> list[float]:
        """Milliseconds of `count` runs."""
        timer, marks = self.timer, list[tuple[int, int]]()
        if self.host_bound:
            return [self._alone() for _ in range(count)]
        for _ in range(count):
            self.before()
            if self.flush:
                timer.flush()
            start = timer.mark()
            self.fn()
            marks.append((start, timer.mark()))
            self.after()
            if len(marks) % 512 == 0:
                timer.synchronize()
        timer.synchronize()
        times = [timer.elapsed(*pair) for pair in marks]
        timer.drop_events()
        return times

    def _alone(self) -> float:
        self.before()
        if self.flush:
            self.timer.flush()
        self.timer.synchronize()
        start = time.perf_counter_ns()
        self.fn()
        self.timer.synchronize()
        elapsed = (time.perf_counter_ns() - start) * 1e-6
        self.after()
        return elapsed


def copy_milliseconds(index: int, size: int) -> float:
    """How long a GPU takes to copy `size` bytes of its memory, at best.

    Raises CudaError where there is no room for them twice.
    """
    from tilewright.runtime.drivers.cuda import driver
    from tilewright.runtime.timing import do_bench

    native = driver()
    device = native.device(index)
    with native.in_context(device):
        both = native.api.handle("cuMemAlloc_v2", 2 * size)
        try:
            stream = GpuTimer.stream_of(device)
            return do_bench(
                lambda: native.api.cuMemcpyAsync(both + size, both, size, stream),
                warmup=5,
                rep=50,
                return_mode="min",
            )
        finally:
            native.api.cuMemFree_v2(both)
