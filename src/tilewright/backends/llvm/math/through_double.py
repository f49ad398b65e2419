"""Functions of fp32 on CPUs that are computed in fp64 and rounded once: at most 0.51 ulp.

C's library takes 2 to 20 ns per element, and one call per lane. In fp64 series of few terms are exact enough, no sum needs a
second word, and nothing overflows. Vectors are split into parts of two registers, which go one after another: the
values of a wider vector would not fit in the registers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir

from tilewright.backends.llvm.blocks import conditional
from tilewright.backends.llvm.context import MathContext
from tilewright.backends.llvm.math import library
from tilewright.backends.llvm.math.common import Arithmetic
from tilewright.backends.llvm.types import (
    F64,
    I32,
    I64,
    Builder,
    Value,
    any_lane,
    by_parts,
    constant,
    like,
)

#: arctan(x) / x and arcsin(x) / x as polynomials of x^2, lowest power first (`scripts/fit_math.py`)
ATAN = (
    9.9999999999163103e-01, -3.3333333033622503e-01, 1.9999982192025673e-01, -1.4285296804476502e-01,
    1.1105987025401133e-01, -9.0530191936223567e-02, 7.5090173101820895e-02, -6.0546548011260581e-02,
    4.4157872774076477e-02, -2.6538233346712195e-02, 1.1779153021232718e-02, -3.3288472740503824e-03,
    4.4139129202567379e-04,
)  # fmt: skip
ASIN = (
    9.9999999999994227e-01, 1.6666666671177746e-01, 7.4999994187336966e-02, 4.4643147035755115e-02,
    3.0374630902448557e-02, 2.2477451688179606e-02, 1.6439910813478141e-02, 1.8768695743078441e-02,
    -3.1346875789709226e-03, 3.2191884199611588e-02,
)  # fmt: skip
#: artanh(s) / s for |s| < 0.172, 2^r / r - 1 / r for |r| <= 1/2, sin(r) / r and cos(r) for |r| <= pi / 4
ARTANH = tuple(1.0 / (2 * k + 1) for k in range(7))
EXP2M1 = tuple(math.log(2) ** k / math.factorial(k) for k in range(1, 10))
SINE = tuple((-1) ** k / math.factorial(2 * k + 1) for k in range(6))
COSINE = tuple((-1) ** k / math.factorial(2 * k) for k in range(7))
#: log(1 + f) / f for 1 + f in [sqrt 1/2, sqrt 2), without the division of ARTANH, to 2^-35
LOG1P = (
    9.9999999998746514e-01, -5.0000000035951708e-01, 3.3333334249206592e-01, -2.4999992728449305e-01,
    1.9999888139973632e-01, -1.6667024572009081e-01, 1.4290811739428991e-01, -1.2495435324992145e-01,
    1.1006038270379548e-01, -9.9459961867196620e-02, 1.0047205118889331e-01, -9.8044200677862001e-02,
    5.2358885169237791e-02,
)  # fmt: skip
#: (1 + 2 x) e^(x^2) erfc(x) as a polynomial of (x - 3.75) / (x + 3.75) for 0 <= x <= 10.3 (Shepherd and Laframboise, 1981)
ERFC = (
    1.2375126308398818e+00, -1.4024059851250248e-01, 3.5854149558778546e-03, 8.2276733587904244e-02,
    -1.0880391134323519e-01, 9.2304424265546664e-02, -5.8693613821792306e-02, 2.8361263425203329e-02,
    -9.7457076626729956e-03, 1.7607242945592355e-03, 2.9372011875832612e-04, -3.0243355970420237e-04,
    4.4334176427359592e-05, 3.2753772642812119e-05,
)  # fmt: skip
_ERFC_MIDDLE, _ERFC_END = 3.75, 10.3
#: lgamma(2 + t) / t for t in [-1/2, 3/2]; x times the rest of Stirling's series as a polynomial of 1 / x^2 for x >= 3.5;
#: sin(pi r) / r as a polynomial of r^2 for |r| <= 1/2
LGAMMA = (
    4.2278433509406127e-01, 3.2246703342616900e-01, -6.7352300393283784e-02, 2.0580807679282203e-02,
    -7.3855665398210235e-03, 2.8905387154198113e-03, -1.1926409879012636e-03, 5.0935040277582365e-04,
    -2.2328490829071093e-04, 1.0069653015717245e-04, -4.6174325503523504e-05, 1.9805027228564317e-05,
    -6.7675954434403622e-06, 1.5039873757704796e-06, -1.5554927500989438e-07,
)  # fmt: skip
STIRLING = (
    8.3333333332946152e-02, -2.7777774350712585e-03, 7.9360077107380159e-04, -5.9250529060368099e-04,
    7.7135756661929843e-04, -9.9288260544766753e-04,
)  # fmt: skip
SINPI = (
    3.1415926535896350e+00, -5.1677127799879594e+00, 2.5501640359067448e+00, -5.9926443393572859e-01,
    8.2144794670648530e-02, -7.3640054721156624e-03, 4.4749208490763595e-04,
)  # fmt: skip
_HALF_PI, _HALF_PI_REST = math.pi / 2, 6.123233995736766e-17
_ROOT_BITS = int(np.float64(math.sqrt(0.5)).view(np.int64))
_MOST_TURNS, _MOST_QUOTIENT = 30000.0, float(2**28)


class Double(Arithmetic):
    """fp64 arithmetic on scalars or vectors of one shape."""

    def __init__(self, b: Builder, ctx: MathContext, kind: ir.Type) -> None:
        super().__init__(b, ctx, kind)
        self.bits = like(kind, I64)

    def is_nan(self, x: Any) -> Any:
        return self.b.fcmp_unordered("uno", x, x)

    def trunc(self, x: Any) -> Any:
        return self.ctx.intrinsic(self.b, "trunc", x)

    def sqrt(self, x: Any) -> Any:
        return self.ctx.intrinsic(self.b, "sqrt", x)

    def power_of_two(self, n: Any) -> Any:
        """2^n for an integral n from -1022 to 1023."""
        whole = self.b.fptosi(n, like(self.kind, I32))
        biased = self.b.add(self.b.sext(whole, self.bits), constant(self.bits, 1023))
        return self.b.bitcast(self.b.shl(biased, constant(self.bits, 52)), self.kind)

    # ---- the functions that others are made of ------------------------------------------------------

    def exp2m1(self, x: Any) -> tuple[Any, Any]:
        """(2^r - 1, 2^n) with x = n + r and |r| <= 1/2; x is limited to ±512."""
        x = self.clamp(x, -512.0, 512.0)
        n = self.round(x)
        r = self.b.fsub(x, n)
        return self.b.fmul(r, self.poly(r, EXP2M1)), self.power_of_two(n)

    def exp2(self, x: Any) -> Any:
        p, scale = self.exp2m1(x)
        return self.fma(scale, p, scale)

    def expm1(self, x: Any) -> Any:
        """e^x - 1; for results that are rounded to fp32."""
        p, scale = self.exp2m1(self.b.fmul(x, self.c(math.log2(math.e))))
        return self.fma(scale, p, self.b.fsub(scale, self.c(1.0)))

    def log(self, u: Any, near: Any, base: float = math.e, exact: bool = False) -> Any:
        """Logarithm of `u`, a normal number; `near` = u - 1 where u is near 1, with all digits.

        For results that are rounded to fp32; `exact`: for exponents, which are multiplied first.
        """
        b = self.b
        mantissa, e = self.split(u)
        f = self.select(self.equal(e, self.c(0.0)), near, b.fsub(mantissa, self.c(1.0)))
        if exact:
            s = b.fdiv(f, b.fadd(f, self.c(2.0)))
            p = self.poly(b.fmul(s, s), tuple(2.0 / math.log(base) * c for c in ARTANH))
        else:
            s, p = f, self.poly(f, tuple(c / math.log(base) for c in LOG1P))
        found = self.fma(s, p, b.fmul(e, self.c(math.log(2, base))))
        return self.with_edges_of_log(u, found)

    def split(self, u: Any) -> tuple[Any, Any]:
        """(m, e) with u = m 2^e and m in [sqrt 1/2, sqrt 2), for a positive normal number u."""
        b, bits = self.b, self.b.bitcast(u, self.bits)
        exponent = b.ashr(b.sub(bits, constant(self.bits, _ROOT_BITS)), constant(self.bits, 52))
        mantissa = b.bitcast(b.sub(bits, b.shl(exponent, constant(self.bits, 52))), self.kind)
        return mantissa, b.sitofp(b.trunc(exponent, like(self.kind, I32)), self.kind)

    def log1p(self, x: Any) -> Any:
        return self.log(self.b.fadd(x, self.c(1.0)), x)

    def arctan(self, x: Any) -> Any:
        """For 0 <= x <= 1."""
        return self.b.fmul(x, self.poly(self.b.fmul(x, x), ATAN))

    def arcsin(self, x: Any) -> Any:
        """For 0 <= x <= 1/2."""
        return self.b.fmul(x, self.poly(self.b.fmul(x, x), ASIN))


_Core = Callable[..., Any]


def _in_double(name: str, core: _Core) -> Callable[..., Any]:
    """`core(Double, *fp64 values)` as a function of fp32 scalars or vectors."""

    def function(b: Builder, ctx: MathContext, *values: Any) -> Any:
        if ctx.on_nvidia:
            return library.call(b, ctx, name, [*values])

        def of_part(*part: Any) -> Any:
            wide = like(part[0].type, F64)
            found = core(Double(b, ctx, wide), *(b.fpext(v, wide) for v in part))
            return b.fptrunc(found, part[0].type)

        return by_parts(b, values, 16 if ctx.target.has("avx512f") else 8, of_part)

    return function


def _or_library(name: str, core: _Core, is_far: Callable[..., Any]) -> Callable[..., Any]:
    """`core` as a function of fp32; the library for the whole vector where `is_far(Double, *fp64 values)` in some lane."""
    fast = _in_double(name, core)

    def function(b: Builder, ctx: MathContext, *values: Any) -> Any:
        found = fast(b, ctx, *values)
        if ctx.on_nvidia:
            return found
        wide = like(values[0].type, F64)
        far = is_far(Double(b, ctx, wide), *(b.fpext(v, wide) for v in values))
        return library.where_any(b, ctx, far, name, [*values], found)

    return function


# ---- powers and logarithms ------------------------------------------------------------------------------


def _pow(d: Double, x: Any, y: Any) -> Any:
    b, zero, one = d.b, d.c(0.0), d.c(1.0)
    size = d.abs(x)
    power = b.fmul(y, d.log(size, b.fsub(size, one), 2.0, exact=True))
    found = d.exp2(power)
    # log2(1) * inf is NaN
    found = d.select(d.equal(size, one), one, found)
    integral = d.equal(d.round(y), y)
    half = b.fmul(y, d.c(0.5))
    even = d.equal(d.round(half), half)
    odd = b.and_(integral, b.not_(even))
    found = d.select(odd, d.copysign(found, x), found)
    rooted = b.and_(b.and_(d.less(x, zero), d.less(size, d.c(math.inf))), b.not_(integral))
    found = d.select(rooted, d.c(math.nan), found)
    found = d.select(b.or_(d.is_nan(x), d.is_nan(y)), d.c(math.nan), found)
    return d.select(b.or_(d.equal(y, zero), d.equal(x, one)), one, found)


def _log10(d: Double, x: Any) -> Any:
    return d.log(x, d.b.fsub(x, d.c(1.0)), 10.0)


def _exp10(d: Double, x: Any) -> Any:
    return d.exp2(d.b.fmul(x, d.c(math.log2(10))))


def _keep_zero(core: _Core) -> _Core:
    """`core` of an odd function, whose zero keeps its sign."""
    return lambda d, x: d.select(d.equal(x, d.c(0.0)), x, core(d, x))


# ---- hyperbolic functions ----------------------------------------------------------------------------------


def _sinh(d: Double, x: Any) -> Any:
    t = d.expm1(d.abs(x))
    sum_ = d.b.fadd(t, d.b.fdiv(t, d.b.fadd(t, d.c(1.0))))
    return d.copysign(d.b.fmul(sum_, d.c(0.5)), x)


def _cosh(d: Double, x: Any) -> Any:
    e = d.exp2(d.b.fmul(d.abs(x), d.c(math.log2(math.e))))
    return d.b.fmul(d.b.fadd(e, d.b.fdiv(d.c(1.0), e)), d.c(0.5))


def _asinh(d: Double, x: Any) -> Any:
    b, size = d.b, d.abs(x)
    square = b.fmul(size, size)
    root = b.fadd(d.sqrt(b.fadd(square, d.c(1.0))), d.c(1.0))
    # inf / inf is NaN
    found = d.log1p(b.fadd(size, b.fdiv(square, root)))
    return d.copysign(d.select(d.equal(size, d.c(math.inf)), size, found), x)


def _acosh(d: Double, x: Any) -> Any:
    t = d.b.fsub(x, d.c(1.0))
    found = d.log1p(d.b.fadd(t, d.sqrt(d.b.fmul(t, d.b.fadd(t, d.c(2.0))))))
    return d.select(d.less(t, d.c(0.0)), d.c(math.nan), found)


def _atanh(d: Double, x: Any) -> Any:
    size = d.abs(x)
    ratio = d.b.fdiv(d.b.fadd(size, size), d.b.fsub(d.c(1.0), size))
    return d.copysign(d.b.fmul(d.log1p(ratio), d.c(0.5)), x)


# ---- functions of distributions ------------------------------------------------------------------------------


def _erfc(d: Double, x: Any) -> Any:
    b = d.b
    size = d.clamp(d.abs(x), -_ERFC_END, _ERFC_END)  # beyond, the result is 0
    power = d.exp2(b.fmul(b.fmul(size, size), d.c(-math.log2(math.e))))
    left, right = b.fadd(size, d.c(_ERFC_MIDDLE)), d.fma(size, d.c(2.0), d.c(1.0))
    inverse = b.fdiv(d.c(1.0), b.fmul(left, right))
    t = b.fmul(b.fmul(b.fsub(size, d.c(_ERFC_MIDDLE)), right), inverse)
    tail = b.fmul(b.fmul(d.poly(t, ERFC), b.fmul(left, inverse)), power)
    return d.select(d.less(x, d.c(0.0)), b.fsub(d.c(2.0), tail), tail)


def _lgamma(d: Double, x: Any) -> Any:
    b, size = d.b, d.abs(x)
    found = _lgamma_of_positive(d, size)

    def reflected() -> list[Value]:
        """log(pi / |x sin(pi x)|) - lgamma(|x|)"""
        r = b.fsub(size, d.round(size))
        sine = d.abs(b.fmul(r, d.poly(b.fmul(r, r), SINPI)))
        product = b.fmul(size, sine)
        other = b.fsub(d.c(math.log(math.pi)), d.log(product, b.fsub(product, d.c(1.0))))
        return [d.select(negative, b.fsub(other, found), found)]

    negative = d.less(x, d.c(0.0))
    found = conditional(b, any_lane(b, negative), reflected, [found])[0]
    return d.select(d.equal(size, d.c(math.inf)), size, found)


def _lgamma_of_positive(d: Double, x: Any) -> Any:
    """Stirling's series from 3.5 on; below, of x + 1 or x + 2 less the logarithm of what that multiplies by."""
    b, one = d.b, d.c(1.0)
    shifts, shifts_twice = d.less(x, d.c(1.5)), d.less(x, d.c(0.5))
    is_near = d.less(x, d.c(3.5))
    y = b.fadd(x, d.select(shifts_twice, d.c(2.0), d.select(shifts, one, d.c(0.0))))
    factor = d.select(shifts_twice, d.fma(x, x, x), x)
    factor = d.select(b.and_(is_near, b.not_(shifts)), one, factor)
    logarithm = d.log(factor, b.fsub(factor, one))
    t = b.fsub(y, d.c(2.0))
    near = b.fsub(b.fmul(t, d.poly(t, LGAMMA)), logarithm)
    inverse = b.fdiv(one, x)
    rest = d.fma(
        inverse, d.poly(b.fmul(inverse, inverse), STIRLING), d.c(math.log(2 * math.pi) / 2)
    )
    far = d.fma(b.fsub(x, d.c(0.5)), logarithm, b.fsub(rest, x))
    return d.select(is_near, near, far)


# ---- angles ----------------------------------------------------------------------------------------------


def _atan2(d: Double, y: Any, x: Any) -> Any:
    b, height, width = d.b, d.abs(y), d.abs(x)
    steep = d.less(width, height)
    most, least = d.select(steep, height, width), d.select(steep, width, height)
    ratio = b.fdiv(least, most)
    ratio = d.select(d.equal(most, d.c(0.0)), d.c(0.0), ratio)
    ratio = d.select(d.equal(least, d.c(math.inf)), d.c(1.0), ratio)
    angle = d.arctan(ratio)
    angle = d.select(steep, b.fsub(d.c(_HALF_PI), angle), angle)
    left = d.equal(d.copysign(d.c(1.0), x), d.c(-1.0))
    angle = d.copysign(d.select(left, b.fsub(d.c(math.pi), angle), angle), y)
    return d.select(b.or_(d.is_nan(x), d.is_nan(y)), d.c(math.nan), angle)


def _atan(d: Double, x: Any) -> Any:
    size = d.abs(x)
    steep = d.less(d.c(1.0), size)
    angle = d.arctan(d.select(steep, d.b.fdiv(d.c(1.0), size), size))
    return d.copysign(d.select(steep, d.b.fsub(d.c(_HALF_PI), angle), angle), x)


def _half_arcsin(d: Double, size: Any) -> tuple[Any, Any]:
    """(arcsin(size), or of sqrt((1 - size) / 2) where size > 1/2; where that is)."""
    outer = d.less(d.c(0.5), size)
    root = d.sqrt(d.b.fmul(d.b.fsub(d.c(1.0), size), d.c(0.5)))
    return d.arcsin(d.select(outer, root, size)), outer


def _asin(d: Double, x: Any) -> Any:
    angle, outer = _half_arcsin(d, d.abs(x))
    far = d.fma(angle, d.c(-2.0), d.c(_HALF_PI))
    return d.copysign(d.select(outer, far, angle), x)


def _acos(d: Double, x: Any) -> Any:
    angle, outer = _half_arcsin(d, d.abs(x))
    near = d.b.fsub(d.c(_HALF_PI), d.copysign(angle, x))
    twice = d.b.fadd(angle, angle)
    far = d.select(d.less(x, d.c(0.0)), d.b.fsub(d.c(math.pi), twice), twice)
    return d.select(outer, far, near)


def _tan(d: Double, x: Any) -> Any:
    b = d.b
    n = d.round(b.fmul(d.select(d.less(d.abs(x), d.c(_MOST_TURNS)), x, d.c(0.0)), d.c(2 / math.pi)))
    r = d.fma(n, d.c(-_HALF_PI_REST), d.fma(n, d.c(-_HALF_PI), x))
    z = b.fmul(r, r)
    sine, cosine = b.fmul(r, d.poly(z, SINE)), d.poly(z, COSINE)
    half = b.fmul(n, d.c(0.5))
    even = d.equal(d.round(half), half)
    found = b.fdiv(d.select(even, sine, cosine), d.select(even, cosine, b.fneg(sine)))
    return d.select(d.equal(x, d.c(0.0)), x, found)


# ---- remainders and lengths --------------------------------------------------------------------------------


def _fmod(d: Double, x: Any, y: Any) -> Any:
    """Exact for quotients below 2^28: they are farther from the next integer than their rounding error."""
    n = d.trunc(d.b.fdiv(x, y))
    rest = d.copysign(d.fma(d.b.fneg(n), y, x), x)
    return d.select(d.less(d.abs(x), d.abs(y)), x, rest)


def _hypot(d: Double, x: Any, y: Any) -> Any:
    root = d.sqrt(d.fma(x, x, d.b.fmul(y, y)))
    infinite = d.b.or_(d.equal(d.abs(x), d.c(math.inf)), d.equal(d.abs(y), d.c(math.inf)))
    return d.select(infinite, d.c(math.inf), root)


_CORES: dict[str, _Core] = {
    "log1p": _keep_zero(Double.log1p), "pow": _pow, "log10": _log10,
    "exp10": _exp10, "sinh": _sinh, "cosh": _cosh, "asinh": _asinh, "acosh": _acosh, "atanh": _atanh,
    "atan": _atan, "atan2": _atan2, "asin": _asin, "acos": _acos, "hypot": _hypot,
    "erfc": _erfc, "lgamma": _lgamma,
}  # fmt: skip
FUNCTIONS = {name: _in_double(name, core) for name, core in _CORES.items()} | {
    "tan": _or_library("tan", _tan, lambda d, x: d.b.not_(d.less(d.abs(x), d.c(_MOST_TURNS)))),
    "fmod": _or_library(
        "fmod",
        _fmod,
        lambda d, x, y: d.b.fcmp_ordered(">=", d.abs(x), d.b.fmul(d.abs(y), d.c(_MOST_QUOTIENT))),
    ),
}
