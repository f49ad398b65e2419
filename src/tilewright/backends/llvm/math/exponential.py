"""exp, exp2, log and log2 in single precision."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilewright.backends.llvm.context import MathContext
from tilewright.backends.llvm.math import library
from tilewright.backends.llvm.math.common import Single
from tilewright.backends.llvm.types import Builder

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
