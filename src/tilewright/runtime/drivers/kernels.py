"""Common to the CPU drivers: loaded code, and the minimum work per thread."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

from tilewright.backends.base import Artifact, LaunchPlan
from tilewright.errors import LaunchError, UnsupportedTarget
from tilewright.runtime.drivers.native_code import NativeLinker

#: below this estimate a launch uses one thread: waking others costs about as much
SERIAL_BELOW_NS = 10_000
#: a thread is worth waking for this much work
THREAD_WORTH_NS = 5_000
#: launches estimated shorter than this keep the GIL
HOLD_GIL_BELOW_NS = 2_000
_ALL_PROGRAMS = 2**62


class LoadedKernel:
    """Object code in memory. Keep it alive as long as `address` may be called."""

    def __init__(self, artifact: Artifact, address: int, tracker: Any) -> None:
        self.entry = artifact.entry
        self.label = f"'{artifact.entry}'"
        """Its name in reports."""
        self.address = address
        self._tracker = tracker


def load_with(linker: NativeLinker, artifact: Artifact) -> LoadedKernel:
    """Link a kernel's object code into the process (0.1 to 0.25 ms)."""
    try:
        tracker = linker.link(artifact.object_code, artifact.entry)
    except RuntimeError as error:
        raise UnsupportedTarget(f"kernel {artifact.entry} does not load: {error}") from error
    return LoadedKernel(artifact, tracker[artifact.entry], tracker)


def thresholds(plan: LaunchPlan) -> tuple[int, int, int]:
    """Programs run inline at most, programs worth a thread, programs run under the GIL at most.

    Where there is no estimate of a program's cost, any two programs are worth two threads, for they may be large.
    """
    if plan.cooperative:
        return 1, 1, 0
    cost = plan.program_cost
    inline = (
        _ALL_PROGRAMS if plan.serial else max(1, int(SERIAL_BELOW_NS / cost)) if cost > 0 else 1
    )
    if cost <= 0:
        return inline, 1, 0
    return inline, max(1, int(THREAD_WORTH_NS / cost)), int(HOLD_GIL_BELOW_NS / cost)


def all_at_once(call: Callable[..., Any], driver: Any, plan: LaunchPlan) -> Callable[..., Any]:
    """`call` for grids of which each program has a thread.

    Raises LaunchError for others: programs that wait for each other would wait for some that have not begun.
    """

    def launch(grid: tuple[int, ...], *arguments: Any) -> Any:
        programs = math.prod(e for e in grid if isinstance(e, int))
        threads = 1 if plan.serial else driver.threads
        if programs > threads:
            help = "launch no more programs than there are threads (TILEWRIGHT_NUM_THREADS)"
            raise LaunchError(
                f"{plan.name}: {programs} programs cannot all run at the same time, as launch_cooperative_grid asks: "
                f"{'its atomics need one thread' if plan.serial else f'there are {threads} threads'}",
                help="launch one program" if plan.serial else help,
            )
        return call(grid, *arguments)

    return launch


def cores() -> int:
    """Cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
