"""What a launch costs: `python benchmarks/launch_overhead.py [--torch]`.

Prints nanoseconds of whole `kernel[grid](x, y, out, n, BLOCK=1024)` calls of an addition of 1000
elements in one program (medians of blocks), of their parts, of parallel launches that do nothing,
and of the torch call that does the same work.
"""

from __future__ import annotations

import dataclasses
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np

import tilewright as tw
import tilewright.language as tl
from tilewright.runtime.drivers.cpu import driver


@tw.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


@tw.jit
def mark_program(out_ptr):
    pid = tl.program_id(0)
    tl.store(out_ptr + pid, pid)


def nanoseconds(call: Callable[[], object], calls: int = 5000, rounds: int = 15) -> float:
    """Median over rounds of the mean time of one call, the cost of the loop taken off."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter_ns()
        for _ in range(calls):
            call()
        times.append((time.perf_counter_ns() - start) / calls)
    empty = []
    for _ in range(3):
        start = time.perf_counter_ns()
        for _ in range(calls):
            _nothing()
        empty.append((time.perf_counter_ns() - start) / calls)
    return statistics.median(times) - min(empty)


def _nothing() -> None:
    return None


def main() -> None:
    use_torch = "--torch" in sys.argv
    if use_torch:
        import torch

        x, y, out = torch.rand(1000), torch.rand(1000), torch.empty(1000)
        marks = torch.zeros(64, dtype=torch.int64)
    else:
        base = np.zeros(4096, np.float32)
        start = (-base.ctypes.data // 4) % 16
        x, y, out = (base[start + 1024 * i : start + 1024 * i + 1000] for i in range(3))
        marks = np.zeros(64, np.int64)
    grid = (1,)
    add_kernel[grid](x, y, out, 1000, BLOCK=1024)
    rows = {
        "kernel[(1,)](x, y, out, n, BLOCK=1024)": lambda: add_kernel[grid](
            x, y, out, 1000, BLOCK=1024
        ),
        "... with num_warps=4": lambda: add_kernel[grid](x, y, out, 1000, BLOCK=1024, num_warps=4),
        "... with a grid function": lambda: add_kernel[lambda meta: (1,)](
            x, y, out, 1000, BLOCK=1024
        ),
        "kernel[grid] alone": lambda: add_kernel[grid],
    }
    compiled = mark_program[(2,)](marks)
    # without the estimate any two programs get two threads
    plan = dataclasses.replace(compiled.plan, program_cost=0.0)
    call, keep = driver().launcher(compiled._load(), plan, ["address"])
    address = marks.data_ptr() if use_torch else marks.ctypes.data
    threads = f"{driver().threads} {driver().pool_kind} threads"
    rows["native call, 1 program"] = lambda: call((1,), address)
    rows[f"native call, 2 programs, {threads}"] = lambda: call((2,), address)
    rows[f"native call, 64 programs, {threads}"] = lambda: call((64,), address)
    if use_torch:
        rows["torch.add(x, y, out=out)"] = lambda: torch.add(x, y, out=out)
    else:
        rows["np.add(x, y, out=out)"] = lambda: np.add(x, y, out=out)
    for name, row in rows.items():
        print(f"{name:55s} {nanoseconds(row):8.0f} ns")
    del keep


if __name__ == "__main__":
    main()
