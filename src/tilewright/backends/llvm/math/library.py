"""Lane-by-lane calls of C's math library (`expf`, `atan2`, …): on a CPU that of the running process, on
NVIDIA GPUs libdevice."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from tilewright.backends.llvm.blocks import conditional
from tilewright.backends.llvm.context import MathContext
from tilewright.backends.llvm.types import I32, Builder, any_lane, lane_type
from tilewright.backends.llvm.types import call as call_named


def call(b: Builder, ctx: MathContext, name: str, values: list[Any]) -> Any:
    """`name` applied to every lane. Errors are those of the C library (glibc: below 1 to 2 ulp)."""
    kind = values[0].type
    element = lane_type(kind)
    symbol = name + ("f" if isinstance(element, ir.FloatType) else "")
    if ctx.on_nvidia:
        symbol = f"__nv_{symbol}"  # libdevice's
    if element is kind:
        return call_named(b, symbol, element, *values)
    result: Any = ir.Constant(kind, ir.Undefined)
    for i in range(kind.count):
        index = ir.Constant(I32, i)
        parts = [b.extract_element(v, index) for v in values]
        result = b.insert_element(result, call_named(b, symbol, element, *parts), index)
    return result


def where_any(
    b: Builder, ctx: MathContext, far: Any, name: str, values: list[Any], found: Any
) -> Any:
    """`found`, or the library's result where `far` holds; it is called for the whole vector if that is so in some lane."""

    def slow() -> list[Any]:
        return [b.select(far, call(b, ctx, name, values), found)]

    return conditional(b, any_lane(b, far), slow, [found])[0]
