"""Shifts by the width or more, which torch defines and Triton's language does not.

torch's operators on a CPU shift all bits out: `x << 8` of an int8 is 0, `x >> 8` is 0 or, of negative numbers, -1; amounts
below zero count as large ones. Inductor's Triton kernels contain a plain shift. In kernels for the CPU the amount is
checked; a constant amount leaves nothing of that.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from tilewright.integrations.inductor.replacements import Replacement

_TRITON = "torch._inductor.codegen.triton"


def _checked(name: str) -> Callable[[Any, Any], Any]:
    def make(_: Any, original: Callable[[Any, Any], str]) -> Any:
        def shift(value: Any, amount: Any) -> str:
            text, dtype = original(value, amount), getattr(value, "dtype", None)
            if dtype is None or not _on_cpu():
                return text
            bits = 8 * dtype.itemsize
            inside = f"({amount} >= 0) & ({amount} < {bits})"
            beyond = f"{value} >> {bits - 1}" if name == "right" and dtype.is_signed else "0"
            return f"tl.where({inside}, {text}, {beyond})"

        return staticmethod(shift)

    return make


def _on_cpu() -> bool:
    """Whether the kernel that is generated now is for the CPU."""
    graph = sys.modules["torch._inductor.virtualized"].V.graph
    return graph.get_current_device_or_throw().type == "cpu"


REPLACEMENTS = (
    Replacement(_TRITON, "TritonOverrides.bitwise_left_shift", _checked("left")),
    Replacement(_TRITON, "TritonOverrides.bitwise_right_shift", _checked("right")),
)
