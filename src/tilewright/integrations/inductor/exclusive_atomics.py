"""Atomic additions of Inductor's kernels for a CPU: without locked instructions, on one thread.

Nothing else accesses a buffer of a graph while a kernel adds to it. A locked addition takes 20 cycles per element; a plain
one becomes a vector addition where neighboring elements go to neighboring addresses (rows of an embedding's gradient).
Kernels of users, and the captured buffers of flex_attention, keep their atomics.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from tilewright.integrations.inductor.replacements import Replacement, copied

_RELAXED, _EXCLUSIVE = ", sem='relaxed')", ", sem='exclusive')"


def _exclusive(_: Any, original: Callable[..., None]) -> Any:
    """`TritonKernel.store`, which writes exclusive additions in kernels for a CPU."""
    exclusive = copied(original, {_RELAXED: _EXCLUSIVE})

    def store(self: Any, *args: Any, **kwargs: Any) -> None:
        graph = sys.modules["torch._inductor.virtualized"].V.graph
        on_cpu = graph.get_current_device_or_throw().type == "cpu"
        (exclusive if on_cpu else original)(self, *args, **kwargs)

    return store


REPLACEMENTS = (Replacement("torch._inductor.codegen.triton", "TritonKernel.store", _exclusive),)
