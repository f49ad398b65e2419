"""Functions over programs: the order in which they visit blocks, and waiting for other programs."""

from __future__ import annotations

from typing import Any

from tilewright.language import core as tl
from tilewright.language.kernel_function import KernelFunction


@KernelFunction
def swizzle2d(i: Any, j: Any, size_i: Any, size_j: Any, size_g: Any) -> Any:
    """Renumber row-major block indices so that groups of `size_g` rows are walked by columns.

    Neighboring programs then share blocks of both operands of a dot, which caches like.
    """
    place = i * size_j + j
    in_group = size_g * size_j
    group = place // in_group
    first = group * size_g
    rows = tl.minimum(size_i - first, size_g)
    place = place % in_group
    return first + place % rows, place // rows


@KernelFunction
def atomic_poll(
    pointer: Any,
    expected_value: Any,
    sem: Any = "acquire",
    scope: Any = "gpu",
    timeout_ns: Any = None,
) -> Any:
    """Wait until memory holds `expected_value` at every pointer; gives true.

    Programs start in the order of their ids on a CPU, so one may wait for earlier programs only. `sem`:
    "acquire" (default) or "relaxed". There is no clock: `timeout_ns` must be left out.
    """
    tl.static_assert(timeout_ns is None, "tl.atomic_poll has no clock: leave timeout_ns out")
    seen = tl.atomic_load(pointer, sem=sem, scope=scope) == expected_value
    while tl.min(seen.to(tl.int32)) == 0:
        seen = tl.atomic_load(pointer, sem=sem, scope=scope) == expected_value
    return seen
