"""Functions in single precision: exponentials, logarithms, sin and cos, tanh and erf; roots, roundings and predicates in any."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, getcontext
from typing import Any

import numpy as np
from llvmlite import ir

from tilewright.backends.llvm.context import MathContext
from tilewright.backends.llvm.math import library, ptx
from tilewright.backends.llvm.math.common import Single
from tilewright.backends.llvm.types import Builder, constant, lane_type, like

# ---- exponentials and logarithms --------------------------------------------------------------------------

EXP = (5.0000000952e-01, 1.6666518840e-01, 4.1666205802e-02, 8.3688893628e-03, 1.3950491140e-03)
EXP2 = (
    6.9314720628e-01, 2.4022651347e-01, 5.5503277247e-02, 9.6180037897e-03, 1.3400296383e-03,
    1.5476329338e-04,
)  # fmt: skip
EXPM1 = (
    5.0000000442e-01, 1.6666666370e-01, 4.1666360914e-02, 8.3333893684e-03, 1.3940627248e-03,
    1.9845877990e-04,
)  # fmt: skip
LOG = (
    3.3333312604e-01, -2.5000009599e-01, 2.0002118659e-01, -1.6667995853e-01, 1.4219552355e-01,
    -1.2405588930e-01, 1.1888162325e-01, -1.1675651773e-01, 6.7466403272e-02,
)  # fmt: skip
LN2_HIGH = 0.693359375
LN2_LOW = math.log(2) - LN2_HIGH


def exp(b: Builder, ctx: MathContext, x: Any) -> Any:
    """e^x, at most 1.0 ulp: n = round(x / ln 2), a degree-6 polynomial in x - n ln 2, times 2^n."""
    s = Single(b, ctx, x.type)
    # far below, n ln 2 rounds to something else than x; far above, vscalefps overflows by itself
    bounded = s.clamp(x, -104.0, None if s.scales_in_hardware else 89.0)
    n = s.round(b.fmul(bounded, s.c(math.log2(math.e))))
    r = s.fma(n, s.c(-LN2_HIGH), bounded)
    r = s.fma(n, s.c(-LN2_LOW), r)
    p = s.poly(r, (1.0, 1.0, *EXP))
    return s.scale(p, n)


def expm1(b: Builder, ctx: MathContext, x: Any) -> Any:
    """e^x - 1, at most 1.5 ulp: 2^n p(r) + (2^n - 1) with half the powers, which do not overflow."""
    if ctx.on_nvidia:
        return library.call(b, ctx, "expm1", [x])
    s = Single(b, ctx, x.type)
    bounded = s.clamp(x, -104.0, 89.0)
    n = s.round(b.fmul(bounded, s.c(math.log2(math.e))))
    r = s.fma(n, s.c(-LN2_LOW), s.fma(n, s.c(-LN2_HIGH), bounded))
    p = s.fma(b.fmul(r, r), s.poly(r, EXPM1), r)
    half = s.scale(s.c(0.5), n)
    found = b.fmul(s.fma(half, p, b.fsub(half, s.c(0.5))), s.c(2.0))
    return s.select(b.fcmp_ordered("==", x, s.c(0.0)), x, found)  # keeps the sign of -0


def exp2(b: Builder, ctx: MathContext, x: Any) -> Any:
    """2^x, at most 1.0 ulp."""
    s = Single(b, ctx, x.type)
    bounded = s.clamp(x, -151.0, 129.0)
    n = s.round(bounded)
    r = b.fsub(bounded, n)
    return s.scale(s.poly(r, (1.0, *EXP2)), n)


def _split(s: Single, x: Any) -> tuple[Any, Any]:
    """(m - 1, exponent as float) with x = m 2^e and m in [sqrt 1/2, sqrt 2); x positive."""
    b = s.b
    tiny = s.less(x, s.c(float(np.finfo(np.float32).tiny)))
    x = s.select(tiny, b.fmul(x, s.c(float(2**23))), x)
    bits = s.as_bits(x)
    # subtracting the bits of sqrt(1/2) makes the exponent field that of m in the wanted interval
    root = int(np.array(math.sqrt(0.5), np.float32).view(np.int32))
    shifted = b.sub(bits, s.i(root))
    exponent = b.ashr(shifted, s.i(23))
    mantissa = b.sub(bits, b.shl(exponent, s.i(23)))
    e = b.sitofp(exponent, s.kind)
    e = s.select(tiny, b.fsub(e, s.c(23.0)), e)
    return b.fsub(s.as_float(mantissa), s.c(1.0)), e


def _log1p_core(s: Single, f: Any) -> Any:
    """log(1 + f) for 1 + f in [sqrt 1/2, sqrt 2)."""
    square = s.b.fmul(f, f)
    tail = s.b.fmul(s.b.fmul(square, f), s.poly(f, LOG))
    return s.b.fadd(s.fma(square, s.c(-0.5), tail), f)


def log(b: Builder, ctx: MathContext, x: Any) -> Any:
    """Natural logarithm, at most 1.5 ulp."""
    s = Single(b, ctx, x.type)
    f, e = _split(s, x)
    square = b.fmul(f, f)
    tail = b.fmul(b.fmul(square, f), s.poly(f, LOG))
    tail = s.fma(e, s.c(LN2_LOW), tail)
    tail = s.fma(square, s.c(-0.5), tail)
    result = s.fma(e, s.c(LN2_HIGH), b.fadd(tail, f))
    return s.with_edges_of_log(x, result)


def log2(b: Builder, ctx: MathContext, x: Any) -> Any:
    """Logarithm to base 2, at most 2 ulp."""
    s = Single(b, ctx, x.type)
    f, e = _split(s, x)
    natural = _log1p_core(s, f)
    high = 1.4427
    scaled = s.fma(
        natural, s.c(math.log2(math.e) - float(np.float32(high))), b.fmul(natural, s.c(high))
    )
    return s.with_edges_of_log(x, b.fadd(scaled, e))


# ---- sin and cos ------------------------------------------------------------------------------------------

SIN = (-1.6666666642e-01, 8.3333293741e-03, -1.9839330999e-04, 2.7182744872e-06)
COS = (4.1666666623e-02, -1.3888883738e-03, 2.4799515897e-05, -2.7209893462e-07)
_LIMIT = 30000.0
"""Beyond it the three-part reduction loses digits, and the C library takes over."""


def _parts() -> tuple[float, float, float]:
    """pi/2 as a sum of three fp32 numbers."""
    getcontext().prec = 60
    half_pi = Decimal("1.5707963267948966192313216916397514420985846996875529104875")
    parts = []
    for _ in range(3):
        part = float(np.float32(float(half_pi)))
        parts.append(part)
        half_pi -= Decimal(part)
    return parts[0], parts[1], parts[2]


_PARTS = _parts()


def _reduced(s: Single, x: Any) -> tuple[Any, Any]:
    """(x - n pi/2, n as integer)."""
    n = s.round(s.b.fmul(x, s.c(2 / math.pi)))
    r = x
    for part in _PARTS:
        r = s.fma(n, s.c(-part), r)
    return r, s.to_int(n)


def _quadrant(b: Builder, ctx: MathContext, x: Any, shift: int) -> Any:
    s = Single(b, ctx, x.type)
    r, n = _reduced(s, s.select(s.less(s.abs(x), s.c(_LIMIT)), x, s.c(0.0)))
    n = b.add(n, s.i(shift))
    z = b.fmul(r, r)
    sine = s.fma(b.fmul(r, z), s.poly(z, SIN), r)
    cosine = s.fma(b.fmul(z, z), s.poly(z, COS), s.fma(z, s.c(-0.5), s.c(1.0)))
    odd = b.icmp_signed("!=", b.and_(n, s.i(1)), s.i(0))
    value = s.select(odd, cosine, sine)
    sign = b.shl(b.and_(n, s.i(2)), s.i(30))
    return s.as_float(b.xor(s.as_bits(value), sign))


def _with_fallback(b: Builder, ctx: MathContext, x: Any, fast: Any, name: str) -> Any:
    """`fast` where |x| is moderate; the library for the whole vector if some lane is not."""
    s = Single(b, ctx, x.type)
    large = b.not_(s.less(s.abs(x), s.c(_LIMIT)))
    return library.where_any(b, ctx, large, name, [x], fast)


def sin(b: Builder, ctx: MathContext, x: Any) -> Any:
    """Sine, at most 1.6 ulp for |x| < 30000 (relative to the larger of |sin x| and 2^-24 n), beyond
    as the C library. On NVIDIA GPUs libdevice's, which branches around its own reduction of large arguments."""
    if ctx.on_nvidia:
        return library.call(b, ctx, "sin", [x])
    s = Single(b, ctx, x.type)
    fast = _quadrant(b, ctx, x, 0)
    fast = s.select(b.fcmp_ordered("==", x, s.c(0.0)), x, fast)  # keeps the sign of -0
    return _with_fallback(b, ctx, x, fast, "sin")


def cos(b: Builder, ctx: MathContext, x: Any) -> Any:
    """Cosine; as `sin`."""
    if ctx.on_nvidia:
        return library.call(b, ctx, "cos", [x])
    return _with_fallback(b, ctx, x, _quadrant(b, ctx, x, 1), "cos")


# ---- tanh and erf -----------------------------------------------------------------------------------------

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


# ---- of any float -----------------------------------------------------------------------------------------


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


def _by_name(*functions: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    return {function.__name__: function for function in functions}


FUNCTIONS = _by_name(exp, expm1, exp2, log, log2, sin, cos, tanh, erf, gate_exp, gate_exp2)
OF_ANY_FLOAT = _by_name(rsqrt, copysign, nextafter, isnan, isinf, isfinite)
