"""tanh and erf in single precision; roots, roundings and predicates in any."""

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir

from tilewright.backends.llvm.context import MathContext
from tilewright.backends.llvm.math import library, ptx
from tilewright.backends.llvm.math.common import Single
from tilewright.backends.llvm.math.exponential import exp, exp2
from tilewright.backends.llvm.types import Builder, constant, lane_type, like

TANH = (-3.3333283710e-01, 1.3331484974e-01, -5.3742936814e-02, 2.0648654344e-02, -5.7147810312e-03)
ERF_SMALL = (
    1.2837915199e-01, -3.7612508107e-01, 1.1281954125e-01, -2.6771253531e-02, 4.9995556271e-03,
    -6.0215648873e-04,
)  # fmt: skip
ERF_LARGE = (
    1.1285516938e00, 6.3562552058e-01, 1.0526222015e-01, -2.2673633909e-02, 2.9298465251e-03,
    -4.9474342893e-05, -4.5603217083e-05, 4.9400206865e-06,
)  # fmt: skip


def tanh(b: Builder, ctx: MathContext, x: Any) -> Any:
    """Hyperbolic tangent, at most 2 ulp (3 with NVIDIA's approximations of 2^x and 1/x): a polynomial near 0,
    else 1 - 2 / (e^2|x| + 1)."""
    s = Single(b, ctx, x.type)
    z = b.fmul(x, x)
    near = s.fma(b.fmul(x, z), s.poly(z, TANH), x)
    if ctx.on_nvidia:  # both have the limits that are wanted where e^2|x| overflows
        e = ptx.exp2(b, ctx, b.fmul(s.abs(x), s.c(2 / math.log(2))))
        inverse = ptx.reciprocal(b, b.fadd(e, s.c(1.0)))
        far = s.fma(inverse, s.c(-2.0), s.c(1.0))
    else:
        size = s.clamp(s.abs(x), 0.0, 10.0)
        e = exp(b, ctx, b.fadd(size, size))
        far = b.fsub(s.c(1.0), b.fdiv(s.c(2.0), b.fadd(e, s.c(1.0))))
    # near 0 the last fma loses the sign of -0
    return s.copysign(s.select(s.less(s.abs(x), s.c(0.625)), near, far), x)


def erf(b: Builder, ctx: MathContext, x: Any) -> Any:
    """Error function, at most 2 ulp: a polynomial below 0.92, else 1 - exp(-|x| p(|x|))."""
    s = Single(b, ctx, x.type)
    near = s.fma(x, s.poly(b.fmul(x, x), ERF_SMALL), x)
    size = s.clamp(s.abs(x), 0.0, 4.0)
    power = b.fneg(b.fmul(size, s.poly(size, ERF_LARGE)))
    power_of_e = ptx.exp if ctx.on_nvidia else exp
    far = s.copysign(b.fsub(s.c(1.0), power_of_e(b, ctx, power)), x)
    return s.select(s.less(s.abs(x), s.c(0.92)), near, far)


def gate_exp(b: Builder, ctx: MathContext, x: Any, power: Any) -> Any:
    """x / (1 + e^power), at most 2 ulp."""
    return b.fdiv(x, b.fadd(exp(b, ctx, power), constant(x.type, 1.0)))


def gate_exp2(b: Builder, ctx: MathContext, x: Any, power: Any) -> Any:
    """x / (1 + 2^power), at most 2 ulp."""
    return b.fdiv(x, b.fadd(exp2(b, ctx, power), constant(x.type, 1.0)))


def copysign(b: Builder, ctx: MathContext, x: Any, y: Any) -> Any:
    """x with the sign of y, exactly."""
    if ctx.on_nvidia:
        return library.call(b, ctx, "copysign", [x, y])
    return ctx.intrinsic(b, "copysign", x, y)


def nextafter(b: Builder, ctx: MathContext, x: Any, y: Any) -> Any:
    """The float next to x in the direction of y: its bits plus or minus 1."""
    if ctx.on_nvidia:
        return library.call(b, ctx, "nextafter", [x, y])
    is_double = isinstance(lane_type(x.type), ir.DoubleType)
    kind = like(x.type, ir.IntType(64 if is_double else 32))
    zero, one = constant(x.type, 0.0), constant(kind, 1)
    bits = b.bitcast(x, kind)
    grows = b.xor(b.fcmp_ordered("<", x, y), b.fcmp_ordered("<", x, zero))  # in magnitude
    moved = b.bitcast(b.select(grows, b.add(bits, one), b.sub(bits, one)), x.type)
    smallest = ctx.intrinsic(b, "copysign", b.bitcast(one, x.type), y)
    found = b.select(b.fcmp_ordered("==", x, zero), smallest, moved)
    found = b.select(b.fcmp_ordered("==", x, y), y, found)
    return b.select(b.fcmp_unordered("uno", x, y), b.fadd(x, y), found)


def rsqrt(b: Builder, ctx: MathContext, x: Any) -> Any:
    """1 / sqrt(x), two correctly rounded operations (at most 1.5 ulp)."""
    return b.fdiv(constant(x.type, 1.0), ctx.intrinsic(b, "sqrt", x))


def isnan(b: Builder, ctx: MathContext, x: Any) -> Any:
    return b.fcmp_unordered("uno", x, x)


def isinf(b: Builder, ctx: MathContext, x: Any) -> Any:
    return b.fcmp_ordered("==", ctx.intrinsic(b, "fabs", x), constant(x.type, math.inf))


def isfinite(b: Builder, ctx: MathContext, x: Any) -> Any:
    return b.fcmp_ordered("<", ctx.intrinsic(b, "fabs", x), constant(x.type, math.inf))
