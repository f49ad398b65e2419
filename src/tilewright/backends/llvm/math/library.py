"""Lane-by-lane calls of C's math library (`expf`, `atan2`, …): on a CPU that of the running process, on
NVIDIA GPUs libdevice."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from tilewright.backends.llvm.context import MathContext
from tilewright.backends.llvm.math import ptx
from tilewright.backends.llvm.types import Builder, as_vector, elements
from tilewright.backends.llvm.types import call as call_named

_I32 = ir.IntType(32)


def call(b: Builder, ctx: MathContext, name: str, values: list[Any], lanes: int) -> Any:
    """`name` applied to every lane. Errors are those of the C library (glibc: below 1 to 2 ulp)."""
    kind = values[0].type
    element = kind.element if lanes > 1 else kind
    symbol = name + ("f" if isinstance(element, ir.FloatType) else "")
    if ctx.on_nvidia:
        symbol = ptx.device_name(symbol)
    found = zip(*(elements(b, v) for v in values), strict=True)
    return as_vector(b, [call_named(b, symbol, element, *parts) for parts in found])
