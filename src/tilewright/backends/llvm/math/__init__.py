"""Functions of floats as polynomials over vectors; whatever has none here calls C's math library.

`llvm.exp` and its like are never emitted on vectors: LLVM breaks them into one library call a lane.
Largest errors over all inputs, in units in the last place, are in each function's docstring and
checked by the tests; the coefficients come from `scripts/fit_math.py`.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from tilewright.backends.llvm.context import MathContext
from tilewright.backends.llvm.math import directed, double, library, ptx, single, through_double
from tilewright.backends.llvm.types import Builder, constant, lane_type

PREDICATES = ("isnan", "isinf", "isfinite")

_SINGLE = {**through_double.FUNCTIONS, **single.FUNCTIONS}
_ANY = {**directed.FUNCTIONS, **single.OF_ANY_FLOAT}
_INTRINSICS = {
    "sqrt": "sqrt", "sqrt_rn": "sqrt", "fabs": "fabs", "floor": "floor", "ceil": "ceil", "trunc": "trunc",
    "rint": "roundeven", "nearbyint": "roundeven", "fma": "fma",
}  # fmt: skip
"""Functions of LLVM's, by their names in C."""


def call(b: Builder, ctx: MathContext, name: str, values: list[Any]) -> Any:
    """`name` (its C name without suffix) of fp32 or fp64 scalars or vectors."""
    kind = values[0].type
    element = lane_type(kind)
    if ctx.on_nvidia and isinstance(element, ir.FloatType) and name in ptx.SINGLE:
        return ptx.SINGLE[name](b, ctx, *values)
    name = name.removeprefix("fast_")  # approximations that only NVIDIA GPUs have
    if name in ("divide", "div_rn"):
        return b.fdiv(*values)
    if name in _INTRINSICS:
        return ctx.intrinsic(b, _INTRINSICS[name], *values)
    if name in _ANY:
        return _ANY[name](b, ctx, *values)
    if isinstance(element, ir.FloatType) and name in _SINGLE:
        return _SINGLE[name](b, ctx, *values)
    if not ctx.on_nvidia and isinstance(element, ir.DoubleType) and name in double.FUNCTIONS:
        return double.FUNCTIONS[name](b, ctx, *values)
    if name == "exp10" and not ctx.on_nvidia:  # C has none
        return call(b, ctx, "pow", [constant(kind, 10.0), *values])
    return library.call(b, ctx, name, values)
