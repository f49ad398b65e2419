"""Kernels that show what a parallel launch does."""

from __future__ import annotations

import tilewright as tw
import tilewright.language as tl


@tw.jit
def mark_kernel(out_ptr):
    """Writes the program's number."""
    pid = tl.program_id(0)
    tl.store(out_ptr + pid, pid.to(tl.int64))


@tw.jit
def meet_kernel(counter_ptr, met_ptr, wanted, LIMIT: tl.constexpr):
    """Counts itself, then waits until the counter shows `wanted`: 1 in `met_ptr` if it ever does."""
    pid = tl.program_id(0)
    seen = tl.atomic_add(counter_ptr, 1) + 1
    turns = 0
    while (seen < wanted) & (turns < LIMIT):
        seen = tl.atomic_add(counter_ptr, 0)
        turns += 1
    tl.store(met_ptr + pid, (seen >= wanted).to(tl.int64))
