"""Choose the tiling of a matmul on a target by its cost model, and explain the choice.

`gpu_model` and `cpu_model` list candidates and estimate their times. The choice is deterministic.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilewright.errors import LaunchError
from tilewright.generator.cpu_model import cpu_estimate, cpu_tilings
from tilewright.generator.gpu_model import gpu_estimate, gpu_tilings
from tilewright.generator.workload import Estimate, Tiling, Workload
from tilewright.targets import TargetInfo

#: a candidate must be this much faster to beat a larger tile
_TIE = 0.01
#: and this much faster in parts of K to beat one that adds them up in registers
SPLIT_GAIN = 0.03


@dataclass(frozen=True)
class Choice:
    """The chosen tiling and its alternatives, best first."""

    work: Workload
    target: str
    best: Estimate
    others: tuple[Estimate, ...]
    reasons: tuple[str, ...]

    @property
    def tiling(self) -> Tiling:
        return self.best.tiling

    def explain(self, shown: int = 5) -> str:
        """The choice as text: reasons, then the next best candidates."""
        w = self.work
        what = f"{w.batch} x " if w.batch > 1 else ""
        lines = [
            f"{what}{w.m} x {w.n} x {w.k} {w.element} -> {w.out} on {self.target}: {self.tiling}",
            *(f"  {reason}" for reason in self.reasons),
        ]
        if self.others and shown:
            lines.append("  alternatives:")
        for other in self.others[:shown]:
            slower = other.nanoseconds / self.best.nanoseconds - 1
            lines.append(
                f"    {other.tiling}: {slower:+.0%}, {other.programs} programs in {_waves(other)}, "
                f"wave utilization {other.wave_utilization:.0%}, bound by {other.bound}"
            )
        return "\n".join(lines)


def pick(work: Workload, estimates: list[Estimate], target: str) -> Choice:
    """The fastest estimate, with split-K only if that promises 3 %; within 1 % the larger tile, then the smaller
    split-K."""
    whole = min((e.nanoseconds for e in estimates if e.tiling.split_k == 1), default=math.inf)
    fastest = min(e.nanoseconds for e in estimates)
    if fastest > (1 - SPLIT_GAIN) * whole:
        estimates = [e for e in estimates if e.tiling.split_k == 1]
        fastest = whole
    close = [e for e in estimates if e.nanoseconds <= fastest * (1 + _TIE)]

    def order(e: Estimate) -> Any:
        t = e.tiling
        area = t.block_m * t.block_n
        return (t.split_k, -area, t.block_n < 96, e.nanoseconds, t.block_m, t.block_k)

    best = min(close, key=order)
    rest = sorted((e for e in estimates if e is not best), key=lambda e: (e.nanoseconds, order(e)))
    return Choice(work, target, best, tuple(rest), _reasons(work, best, rest))


def _reasons(work: Workload, best: Estimate, rest: list[Estimate]) -> tuple[str, ...]:
    t = best.tiling
    lines = [
        f"{best.programs} programs in {_waves(best)}, wave utilization {best.wave_utilization:.0%}",
        f"a step reaches {best.mma_utilization:.0%} of the multiply-add rate; bound by {best.bound}",
        f"{best.memory_bytes / 1e6:.1f} MB through memory, about {best.nanoseconds / 1e3:.1f} µs "
        f"({best.rate(work):.3g} TFLOP/s)",
    ]
    if t.stages:
        lines.append(
            f"{t.stages} stages in {best.shared_bytes >> 10} KB of shared memory, "
            f"{best.ctas_per_sm} program{'s' if best.ctas_per_sm > 1 else ''} on an SM"
        )
    larger = [
        e
        for e in rest
        if e.tiling.block_m * e.tiling.block_n > t.block_m * t.block_n
        and e.tiling.split_k == t.split_k
        and e.wave_utilization < best.wave_utilization - 0.01
    ]
    if larger:
        e = larger[0]
        lines.append(
            f"not the larger {e.tiling.block_m}x{e.tiling.block_n}: wave utilization "
            f"{e.wave_utilization:.0%} in {_waves(e)}"
        )
    if t.multicast:
        lines.append(
            f"two SMs fetch what both need of {t.multicast.upper()} once: rows begin inside of lines"
        )
    elif t.persistent:
        lines.append(
            f"{best.waves} tiles a program: the next one's operands come during the epilogue"
        )
    if t.split_k > 1:
        lines.append(
            f"K in {t.split_k} parts: whole, there would be {best.programs // t.split_k} programs"
        )
    return (*lines, *best.notes)


def choose(
    work: Workload, target: TargetInfo, allowed: Callable[[Tiling], bool] | None = None
) -> Choice:
    """The tiling of a matmul on a target. Deterministic.

    `allowed` rejects candidates that cannot be built. Raises LaunchError if none is left.
    """
    if not target.is_gpu:
        tilings, estimate = cpu_tilings(work, target), cpu_estimate
    else:
        tilings, estimate = gpu_tilings(work, target), gpu_estimate
    tilings = [t for t in tilings if allowed is None or allowed(t)]
    if not tilings:
        raise LaunchError(f"no tiles for {work} on {target.name}")
    return pick(work, [estimate(work, t, target) for t in tilings], target.name)


def _waves(estimate: Estimate) -> str:
    """The number of waves, for explanations."""
    return f"{estimate.waves} wave{'s' if estimate.waves > 1 else ''}"
