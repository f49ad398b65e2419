"""Tensors without dimensions that kernels for the CPU read: they get the tensor, not its element.

Inductor passes the element of such a tensor (`.item()`) to Triton's kernels, which a GPU could not read. torch 2.13 does
so in kernels for the CPU too, unless the graph's caller passed the tensor and the graph changes it. A kernel that writes its
result over one (the counter in the gradient of `scan`, `while_loop`) then adds to the address instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.integrations.inductor.replacements import Replacement


def _unless_for_cpu(_: Any, original: Callable[[Any, str], bool]) -> Any:
    def is_unspec_arg(self: Any, name: str) -> bool:
        return original(self, name) and self.get_current_device_or_throw().type != "cpu"

    return is_unspec_arg


REPLACEMENTS = (
    Replacement("torch._inductor.graph", "GraphLowering.is_unspec_arg", _unless_for_cpu),
)
