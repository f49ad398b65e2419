"""Time two launches against each other on a GPU: alternating rounds, L2 emptied before every launch."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

_FLUSH_BYTES = 256 << 20
_CYCLES_PER_SECOND = 1.9e9
"""Of the GPU's clock, for the spin that lets launches queue up."""
_LONGEST_SPIN = 2e-2
_LAUNCH_SECONDS = 8e-5
"""Time that the L2 flush and the events add to a launch."""


@dataclass(frozen=True)
class Times:
    """Microseconds of each function: on the GPU (median), and of the CPU for a launch."""

    gpu: tuple[float, ...]
    host: tuple[float, ...]
    ratio: float
    """Median over the rounds of the first function's time over the second's."""
    low: float
    high: float
    rounds: int


def time_against(first: Callable[[], Any], second: Callable[[], Any], seconds: float) -> Times:
    """Time two launches for about `seconds`. Rounds alternate, and so does which comes first in a round."""
    functions = (first, second)
    flush = torch.empty(_FLUSH_BYTES // 4, dtype=torch.int32, device="cuda")
    host = [_host_seconds(f) for f in functions]
    longest = max(_gpu_seconds(f) for f in functions) + _LAUNCH_SECONDS
    runs = max(3, min(20, int(seconds / 14 / longest)))
    rounds = max(3, min(7, int(seconds / (2 * runs * longest))))
    samples: list[list[float]] = [[], []]
    ratios: list[float] = []
    for number in range(rounds):
        medians = [0.0, 0.0]
        for index in (0, 1) if number % 2 == 0 else (1, 0):
            found = _burst(functions[index], runs, host[index], flush)
            samples[index] += found
            medians[index] = statistics.median(found)
        ratios.append(medians[0] / medians[1])
    gpu = tuple(statistics.median(s) for s in samples)
    ratio = statistics.median(ratios)
    return Times(gpu, tuple(h * 1e6 for h in host), ratio, min(ratios), max(ratios), rounds)


def fastest(functions: Sequence[Callable[[], Any]], seconds: float) -> int:
    """The position of the function that takes the GPU the shortest time, measured for about `seconds`."""
    if len(functions) < 2:
        return 0
    flush = torch.empty(_FLUSH_BYTES // 4, dtype=torch.int32, device="cuda")
    host = [_host_seconds(f, 2) for f in functions]
    best = [_gpu_seconds(f) * 1e6 for f in functions]
    for _ in range(2):
        limit = 2 * min(best)  # more than twice the fastest: not worth a closer look
        for index, function in enumerate(functions):
            if best[index] <= limit or best[index] < 100:
                cost = best[index] * 1e-6 + _LAUNCH_SECONDS
                runs = max(2, min(10, int(seconds / (2 * len(functions) * cost))))
                found = statistics.median(_burst(function, runs, host[index], flush))
                best[index] = min(best[index], found)
    return best.index(min(best))


def _host_seconds(function: Callable[[], Any], runs: int = 8) -> float:
    """CPU time of a launch."""
    function()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(runs):
        function()
    seconds = (time.perf_counter() - start) / runs
    torch.cuda.synchronize()
    return seconds


def _gpu_seconds(function: Callable[[], Any]) -> float:
    start, end = _events(2)
    start.record()
    function()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / 1e3


def _burst(function: Callable[[], Any], runs: int, host: float, flush: Any) -> list[float]:
    """Microseconds of launches that were queued before the first began."""
    spin = min(_LONGEST_SPIN, (host + 3e-5) * runs * 1.3)
    torch.cuda._sleep(int(spin * _CYCLES_PER_SECOND))
    events: list[Sequence[Any]] = []
    for _ in range(runs):
        flush.zero_()
        start, end = _events(2)
        start.record()
        function()
        end.record()
        events.append((start, end))
    torch.cuda.synchronize()
    return [start.elapsed_time(end) * 1e3 for start, end in events]


def _events(count: int) -> list[Any]:
    return [torch.cuda.Event(enable_timing=True) for _ in range(count)]
