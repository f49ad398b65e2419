"""Measure how long a call takes, in milliseconds (`testing.do_bench` is this function).

Sources: the argument names and the meaning of the results are those of `triton.testing.do_bench`;
the clock is `time.perf_counter_ns`, because a CPU kernel has finished when its launch returns. In a
process that uses a GPU, CUDA events are (`gpu_timing`).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

_RETURN_MODES = ("min", "max", "mean", "median", "all")
_MAX_RUNS = 100_000
_FLUSH_BYTES = 64 << 20


def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    grad_to_none: Sequence[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
    *,
    setup: Callable[[], Any] | None = None,
    teardown: Callable[[], Any] | None = None,
    flush_cache: bool | None = None,
    give_up_above: float | None = None,
) -> Any:
    """Time `fn()` and return milliseconds.

    Args:
        fn: what to time, called without arguments.
        warmup: milliseconds of unmeasured calls, after a first one that compiles.
        rep: milliseconds of measured calls; there is always at least one. On a GPU both count what
            surrounds a call, such as emptying its cache.
        grad_to_none: torch tensors whose `.grad` is dropped before each call.
        quantiles: e.g. `[0.5, 0.2, 0.8]`; the result is then a list of these quantiles (a single
            number for one quantile) and `return_mode` is not used.
        return_mode: "mean", "median", "min", "max", or "all" (a list of every measurement).
        setup, teardown: called before and after every run, outside the measured time.
        flush_cache: evict the CPU's caches, or the GPU's L2, before each measured run; without a
            choice it is done on a GPU and not on a CPU.
        give_up_above: milliseconds; a first estimate above it is the result (autotuning's cut).

    Raises:
        ValueError: unknown `return_mode`, or a quantile outside 0 … 1.
    """
    if return_mode not in _RETURN_MODES:
        raise ValueError(f"return_mode={return_mode!r}: choose one of {', '.join(_RETURN_MODES)}")
    if quantiles is not None and not all(0 <= q <= 1 for q in quantiles):
        raise ValueError(f"quantiles={list(quantiles)!r}: each must lie between 0 and 1")

    def before() -> None:
        for tensor in grad_to_none or ():
            tensor.grad = None
        if setup is not None:
            setup()

    def after() -> None:
        if teardown is not None:
            teardown()

    from tilewright.runtime.gpu_timing import gpu_measurement

    with gpu_measurement(fn, before, after, flush_cache is not False) as on_gpu:
        measurement = on_gpu or _Measurement(fn, before, after, bool(flush_cache), give_up_above)
        estimate = measurement.first()
        if give_up_above is not None and estimate > give_up_above:
            times = [estimate]
        else:
            each = max(estimate, measurement.each)
            if warmup > each:
                measurement.runs(_runs(warmup, each))
            times = measurement.runs(_runs(rep, each))
    return summarize(times, quantiles, return_mode)


def do_bench_cudagraph(
    fn: Callable[[], Any],
    rep: float = 20,
    grad_to_none: Sequence[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
) -> Any:
    """`do_bench`, by its name for CUDA graphs: launches here cost too little to need one."""
    return do_bench(
        fn, rep=rep, grad_to_none=grad_to_none, quantiles=quantiles, return_mode=return_mode
    )


def _runs(budget_ms: float, estimate_ms: float) -> int:
    return max(1, min(_MAX_RUNS, int(budget_ms / max(estimate_ms, 1e-6))))


class _Measurement:
    """Times runs of a function by the clock; `before` and `after` surround each outside the measured time."""

    each = 0.0
    """Milliseconds per run that are to be added for what surrounds it: none here."""

    def __init__(
        self,
        fn: Callable[[], Any],
        before: Callable[[], Any],
        after: Callable[[], Any],
        flush: bool,
        give_up_above: float | None,
    ) -> None:
        self.fn, self.before, self.after = fn, before, after
        self.limit = 10.0 if give_up_above is None else min(10.0, give_up_above)
        """Milliseconds: an estimate above is not refined."""
        self.flush = _cache_flusher() if flush else None

    def first(self) -> float:
        """Run once unmeasured and a few times measured; an estimate in ms."""
        self._run()
        estimate = self._run()
        return estimate if estimate > self.limit else min(estimate, *self.runs(4))

    def runs(self, count: int) -> list[float]:
        """Milliseconds of `count` runs."""
        return [self._run() for _ in range(count)]

    def _run(self) -> float:
        self.before()
        if self.flush is not None:
            self.flush()
        start = time.perf_counter_ns()
        self.fn()
        elapsed = (time.perf_counter_ns() - start) * 1e-6
        self.after()
        return elapsed


def _cache_flusher() -> Callable[[], Any]:
    import numpy as np

    buffer = np.zeros(_FLUSH_BYTES // 8, dtype=np.int64)

    def flush() -> None:
        buffer[::8] += 1

    return flush


def quantile(sorted_values: Sequence[float], q: float) -> float:
    """The `q`-quantile (0 … 1) of sorted values by linear interpolation."""
    position = q * (len(sorted_values) - 1)
    low = int(position)
    high = min(low + 1, len(sorted_values) - 1)
    part = position - low
    return sorted_values[low] * (1 - part) + sorted_values[high] * part


def summarize(times: list[float], quantiles: Sequence[float] | None, return_mode: str) -> Any:
    """The result of `do_bench` for measurements `times` (milliseconds, not empty)."""
    if quantiles is not None:
        ordered = sorted(times)
        result = [quantile(ordered, q) for q in quantiles]
        return result[0] if len(result) == 1 else result
    if return_mode == "all":
        return times
    summary = {"min": min, "max": max, "mean": statistics.fmean, "median": statistics.median}
    return summary[return_mode](times)
