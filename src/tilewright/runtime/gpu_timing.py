"""Time GPU work with CUDA events, the second-level cache emptied before every run.

The work is queued after the write that empties the cache, so that what a launch costs the CPU does
not count; all runs are queued before the first is waited for. Functions that keep the CPU busy for longer
than that write lasts are timed one at a time, with the GPU idle at the start, and those that put
nothing on the GPU by the clock.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Generator
from ctypes import byref, c_float
from typing import Any

from tilewright.errors import KernelFault, UnsupportedTarget
from tilewright.runtime.devices import Place, stream_library
from tilewright.runtime.drivers.cuda import driver
from tilewright.runtime.drivers.cuda_api import CudaError
from tilewright.runtime.timing import do_bench

#: written before every run; more than any L2 (as large as Triton's, so that figures compare)
_FLUSH_BYTES = 256 << 20
#: what a kernel adds at least to the distance of two events (ms)
_KERNEL_MS = 0.0006
#: a run that keeps the CPU this long (ms) is not hidden by what is queued before it
_HIDDEN_MS = 0.08


def gpu_in_use() -> bool:
    """Whether this process has used a GPU, through a kernel of ours or through torch."""
    ours = sys.modules.get("tilewright.runtime.drivers.cuda")
    return getattr(ours, "_driver", None) is not None or bool(stream_library())


def gpu_timer() -> GpuTimer | None:
    """A timer for the current device; None where no GPU is in use."""
    if not gpu_in_use():
        return None
    try:
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
        self.api.cuEventSynchronize(end)
        self.api.cuEventElapsedTime(byref(out), start, end)
        return out.value

    def synchronize(self) -> None:
        """Wait for the device. Raises KernelFault if a kernel failed."""
        self.native.synchronize(self.device.index)

    def drop_events(self) -> None:
        for event in self._events:
            self.api.cuEventDestroy_v2(event)
        self._events.clear()

    def close(self) -> None:
        """Give everything back; where a kernel has failed there is nothing left to give."""
        with contextlib.suppress(KernelFault):
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
        """The CPU takes longer than the queue lasts: runs start one at a time on an idle GPU."""
        self.by_clock = False
        """Nothing is put on the GPU."""
        self.each = 0.0
        """Milliseconds that a run of the last round took with all that surrounds it."""

    def first(self) -> float:
        """Run once unmeasured and a few times measured; an estimate in ms. Chooses how to time."""
        self.before()
        self.fn()
        self.after()
        self.timer.synchronize()
        launched = self.timer.native.launches
        estimate = self.runs(1)[0]
        if self.timer.native.launches == launched:
            estimate = min(estimate, *self.runs(2))
            self.by_clock = estimate < self._nothing() + _KERNEL_MS
        self.host_bound = self.by_clock or self._host_time() > _HIDDEN_MS
        if self.host_bound or estimate < 10:
            estimate = min(self.runs(3 if self.host_bound else 5))
        return estimate

    def _nothing(self) -> float:
        """The least distance of two events with nothing between them, in ms."""
        timer, marks = self.timer, list[tuple[int, int]]()
        for _ in range(5):
            if self.flush:
                timer.flush()
            start = timer.mark()
            marks.append((start, timer.mark()))
        timer.synchronize()
        return min(timer.elapsed(*pair) for pair in marks)

    def _host_time(self) -> float:
        """CPU time of the call in ms."""
        self.before()
        start = time.perf_counter_ns()
        self.fn()
        host = (time.perf_counter_ns() - start) * 1e-6
        self.after()
        self.timer.synchronize()
        return host

    def runs(self, count: int) -> list[float]:
        """Milliseconds of `count` runs."""
        start = time.perf_counter_ns()
        times = [self._alone() for _ in range(count)] if self.host_bound else self._queued(count)
        self.each = (time.perf_counter_ns() - start) * 1e-6 / count
        return times

    def _queued(self, count: int) -> list[float]:
        timer, marks = self.timer, list[tuple[int, int]]()
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
        mark = None if self.by_clock else self.timer.mark()
        start = time.perf_counter_ns()
        self.fn()
        elapsed = (time.perf_counter_ns() - start) * 1e-6
        if mark is not None:
            elapsed = self.timer.elapsed(mark, self.timer.mark())
            self.timer.drop_events()
        self.after()
        return elapsed


@contextlib.contextmanager
def gpu_measurement(
    fn: Callable[[], Any], before: Callable[[], Any], after: Callable[[], Any], flush: bool
) -> Generator[GpuMeasurement | None]:
    """A `GpuMeasurement` on the current device; None where no GPU is in use."""
    timer = gpu_timer()
    if timer is None:
        yield None
        return
    try:
        yield GpuMeasurement(timer, fn, before, after, flush)
    finally:
        timer.close()


def copy_milliseconds(index: int, size: int) -> float:
    """The minimum time in which a GPU copies `size` bytes of its memory.

    Raises CudaError where they do not fit twice.
    """
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
