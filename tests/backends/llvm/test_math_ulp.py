"""Errors of mathematical functions in units in the last place, and their special values.

fp32 is compared with fp64, fp64 with the extended precision of `np.longdouble` (where that is wider)
or with identities in it. The bounds are those that the functions' docstrings state.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from tests.rounding import rounded

import tilewright as tw
import tilewright.language as tl
from tilewright.language import libdevice

pytestmark = pytest.mark.sampled(2)

N = 4096
EXTENDED = np.finfo(np.longdouble).nmant > 52


@tw.jit
def functions_kernel(x_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(o_ptr + 0 * N + i, tl.exp(x))
    tl.store(o_ptr + 1 * N + i, tl.exp2(x))
    tl.store(o_ptr + 2 * N + i, tl.log(x))
    tl.store(o_ptr + 3 * N + i, tl.log2(x))
    tl.store(o_ptr + 4 * N + i, tl.sin(x))
    tl.store(o_ptr + 5 * N + i, tl.cos(x))
    tl.store(o_ptr + 6 * N + i, libdevice.tan(x))
    tl.store(o_ptr + 7 * N + i, tl.math.tanh(x))
    tl.store(o_ptr + 8 * N + i, tl.erf(x))
    tl.store(o_ptr + 9 * N + i, tl.sqrt(x))
    tl.store(o_ptr + 10 * N + i, tl.rsqrt(x))
    tl.store(o_ptr + 11 * N + i, tl.sigmoid(x))
    tl.store(o_ptr + 12 * N + i, tl.floor(x))
    tl.store(o_ptr + 13 * N + i, tl.ceil(x))
    tl.store(o_ptr + 14 * N + i, libdevice.trunc(x))
    tl.store(o_ptr + 15 * N + i, libdevice.rint(x))
    tl.store(o_ptr + 16 * N + i, libdevice.round(x))
    tl.store(o_ptr + 17 * N + i, tl.sqrt_rn(x))
    tl.store(o_ptr + 18 * N + i, libdevice.expm1(x))
    tl.store(o_ptr + 19 * N + i, libdevice.log1p(x))
    tl.store(o_ptr + 20 * N + i, libdevice.cbrt(x))
    tl.store(o_ptr + 21 * N + i, tl.abs(x))


def erf_of(x: np.ndarray) -> np.ndarray:
    return np.vectorize(math.erf)(x.astype(np.float64))


NAMES = [
    "exp", "exp2", "log", "log2", "sin", "cos", "tan", "tanh", "erf", "sqrt", "rsqrt", "sigmoid",
    "floor", "ceil", "trunc", "rint", "round", "sqrt_rn", "expm1", "log1p", "cbrt", "abs",
]  # fmt: skip
REFERENCES = {
    "erf": erf_of, "rsqrt": lambda x: 1 / np.sqrt(x), "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "round": lambda x: np.copysign(np.floor(abs(x) + 0.5), x), "sqrt_rn": np.sqrt,
}  # fmt: skip
EXACT = {"sqrt", "sqrt_rn", "floor", "ceil", "trunc", "rint", "round", "abs"}
BOUNDS = {"exp": 1.0, "exp2": 1.0, "log": 1.5, "log2": 2.0, "sin": 1.6, "cos": 1.6, "tanh": 2.0,
          "erf": 2.0, "rsqrt": 1.5, "sigmoid": 3.0, "cbrt": 4.0}  # fmt: skip


def ulps(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """|got - want| in units in the last place of `want` in got's type; NaN and inf must agree."""
    kind = got.dtype
    with np.errstate(all="ignore"):
        rounded = want.astype(kind)
        special = ~np.isfinite(rounded) | ~np.isfinite(got)
        spacing = np.spacing(np.maximum(abs(rounded), np.finfo(kind).tiny)).astype(want.dtype)
        error = abs(got.astype(want.dtype) - want) / spacing
    # one step across the overflow threshold is an error of one unit
    limit = np.finfo(kind).max
    agree = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    edge = (abs(got) >= limit) & (abs(rounded) >= limit) & (np.sign(got) == np.sign(rounded))
    return np.where(special, np.where(agree, 0.0, np.where(edge, 1.0, np.inf)), error)


def arguments(name: str, dtype: np.dtype) -> np.ndarray:
    """Arguments all over the function's domain, subnormals and edges among them."""
    rng = np.random.default_rng(0)
    info = np.finfo(dtype)
    wide = rng.standard_normal(N // 4) * np.exp2(rng.uniform(-40, 7, N // 4))
    reach = {"exp": 104, "exp2": 150, "expm1": 104, "sigmoid": 87}.get(name, 30)
    if dtype == np.float64:
        reach = {"exp": 746, "exp2": 1076, "expm1": 746, "sigmoid": 708}.get(name, 30)
    near = rng.uniform(-reach, reach, N // 2)
    if name == "sigmoid":  # 1 / (1 + inf) is 0 where the true value is subnormal
        wide = np.clip(wide, -reach, reach)
    if name in ("log", "log2", "sqrt", "sqrt_rn", "rsqrt", "log1p"):
        wide, near = abs(wide), np.exp2(rng.uniform(info.minexp - 20, info.maxexp, N // 2))
        near[::4] = 1 + rng.uniform(-0.4, 0.4, N // 8)
    if name in ("sin", "cos", "tan"):
        near[::8] *= 1e4
        near[1::8] *= 1e9
    rest = np.concatenate([
        rng.uniform(-2, 2, N // 4 - 64), np.arange(-16, 16) / 2, np.arange(1, 33) / 32,
    ])  # fmt: skip
    with np.errstate(all="ignore"):
        return np.concatenate([wide, near, rest]).astype(dtype)


def run(name: str, x: np.ndarray) -> np.ndarray:
    o = np.zeros((len(NAMES), len(x)), x.dtype)
    functions_kernel[(1,)](x, o, N=len(x))
    return o[NAMES.index(name)]


@pytest.mark.parametrize("name", NAMES)
def test_single(name: str) -> None:
    x = arguments(name, np.dtype(np.float32))
    with np.errstate(all="ignore"):
        want = REFERENCES.get(name, getattr(np, name, None))(x.astype(np.float64))
    error = ulps(run(name, x), want)
    bound = 0.5 if name in EXACT else BOUNDS.get(name, 1.5)
    at = int(np.argmax(error))
    if name in ("sin", "cos"):  # relative to the larger of the result and the reduction's unit
        near_zero = abs(want) < 1e-3
        bound_at = np.where(near_zero, bound * 64, bound)
        assert np.all(error <= bound_at), (error[at], x[at])
        return
    assert error[at] <= bound, (error[at], x[at])


@pytest.mark.skipif(not EXTENDED, reason="np.longdouble is no wider than fp64 here")
@pytest.mark.parametrize("name", [n for n in NAMES if n != "erf"])
def test_double(name: str) -> None:
    x = arguments(name, np.dtype(np.float64))
    with np.errstate(all="ignore"):
        want = REFERENCES.get(name, getattr(np, name, None))(x.astype(np.longdouble))
    error = ulps(run(name, x), want)
    at = int(np.argmax(error))
    bound = 0.501 if name in EXACT else BOUNDS.get(name, 1.5)
    assert error[at] <= bound, (error[at], x[at])


def test_erf_double() -> None:
    x = arguments("erf", np.dtype(np.float64))
    error = ulps(run("erf", x), erf_of(x))
    assert error.max() <= 2.0


SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 1e-45, -1e-45, 1e-40, 3e38, -3e38,
           0.5, -0.5, 2.0, 104.0]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", NAMES)
def test_special_values(name: str, dtype: type) -> None:
    with np.errstate(all="ignore"):
        x = np.array(SPECIAL, np.float64).astype(dtype)
        want = REFERENCES.get(name, getattr(np, name, None))(x.astype(np.float64)).astype(dtype)
    got = run(name, x)
    close = ulps(got, want) <= 2.5
    assert close.all(), list(zip(x[~close], got[~close], want[~close], strict=True))
    zeros = (want == 0) & (x == 0)
    np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(want[zeros]))


@tw.jit
def library_kernel(x_ptr, y_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    y = tl.load(y_ptr + i)
    a = abs(x)
    tl.store(o_ptr + 0 * N + i, libdevice.acos(x / 8))
    tl.store(o_ptr + 1 * N + i, libdevice.acosh(tl.maximum(a, 1.0)))
    tl.store(o_ptr + 2 * N + i, libdevice.asin(x / 8))
    tl.store(o_ptr + 3 * N + i, libdevice.asinh(x))
    tl.store(o_ptr + 4 * N + i, libdevice.atan(x))
    tl.store(o_ptr + 5 * N + i, libdevice.atanh(x / 8))
    tl.store(o_ptr + 6 * N + i, libdevice.cosh(x))
    tl.store(o_ptr + 7 * N + i, libdevice.sinh(x))
    tl.store(o_ptr + 8 * N + i, libdevice.erfc(x))
    tl.store(o_ptr + 9 * N + i, libdevice.lgamma(a + 0.1))
    tl.store(o_ptr + 10 * N + i, libdevice.tgamma(a + 0.1))
    tl.store(o_ptr + 11 * N + i, libdevice.log10(a))
    tl.store(o_ptr + 12 * N + i, libdevice.logb(x))
    tl.store(o_ptr + 13 * N + i, libdevice.exp10(x))
    tl.store(o_ptr + 14 * N + i, libdevice.atan2(x, y))
    tl.store(o_ptr + 15 * N + i, libdevice.copysign(x, y))
    tl.store(o_ptr + 16 * N + i, libdevice.fdim(x, y))
    tl.store(o_ptr + 17 * N + i, libdevice.fmod(x, y))
    tl.store(o_ptr + 18 * N + i, libdevice.hypot(x, y))
    tl.store(o_ptr + 19 * N + i, libdevice.nextafter(x, y))
    tl.store(o_ptr + 20 * N + i, libdevice.pow(a, y))
    tl.store(o_ptr + 21 * N + i, libdevice.remainder(x, y))
    tl.store(o_ptr + 22 * N + i, a**y)
    tl.store(o_ptr + 23 * N + i, tl.fma(x, y, x))
    tl.store(o_ptr + 24 * N + i, tl.fdiv(x, y))
    tl.store(o_ptr + 25 * N + i, tl.div_rn(x, y))
    tl.store(o_ptr + 26 * N + i, x % y)
    tl.store(o_ptr + 27 * N + i, libdevice.rcp_rn(y))
    tl.store(o_ptr + 28 * N + i, libdevice.normcdf(x))
    tl.store(o_ptr + 29 * N + i, libdevice.cospi(x))
    tl.store(o_ptr + 30 * N + i, libdevice.sinpi(x))
    tl.store(o_ptr + 31 * N + i, libdevice.rcbrt(y))
    tl.store(o_ptr + 32 * N + i, libdevice.saturatef(x))
    tl.store(o_ptr + 33 * N + i, x**3)


def _scalar(function: object) -> object:
    return np.vectorize(function, otypes=[np.float64])


LIBRARY = [
    ("acos", lambda x, y: np.arccos(x / 8), 1.5), ("acosh", lambda x, y: np.arccosh(np.maximum(abs(x), 1)), 3),
    ("asin", lambda x, y: np.arcsin(x / 8), 1.5), ("asinh", lambda x, y: np.arcsinh(x), 2),
    ("atan", lambda x, y: np.arctan(x), 1), ("atanh", lambda x, y: np.arctanh(x / 8), 2),
    ("cosh", lambda x, y: np.cosh(x), 2), ("sinh", lambda x, y: np.sinh(x), 3),
    ("erfc", lambda x, y: _scalar(math.erfc)(x), 6),
    ("lgamma", lambda x, y: _scalar(math.lgamma)(abs(x) + 0.1), None),
    ("tgamma", lambda x, y: _scalar(math.gamma)(abs(x) + 0.1), 8),
    ("log10", lambda x, y: np.log10(abs(x)), 2),
    ("logb", lambda x, y: np.floor(np.log2(abs(x))), 0), ("exp10", lambda x, y: 10.0**x, 2),
    ("atan2", np.arctan2, 2), ("copysign", np.copysign, 0),
    ("fdim", lambda x, y: np.maximum(x - y, 0), 0.5), ("fmod", np.fmod, 0), ("hypot", np.hypot, 1),
    ("nextafter", None, 0), ("pow", lambda x, y: abs(x) ** y, 1),
    ("remainder", _scalar(math.remainder), 0), ("**", lambda x, y: abs(x) ** y, 1),
    ("fma", _scalar(lambda x, y: float(Fraction(x) * Fraction(y) + Fraction(x))), 0.5), ("fdiv", np.divide, 0.5), ("div_rn", np.divide, 0.5),
    ("%", np.fmod, 0), ("rcp_rn", lambda x, y: 1 / y, 0.5),
    ("normcdf", lambda x, y: _scalar(math.erfc)(-x * math.sqrt(0.5)) / 2, None),
    ("cospi", lambda x, y: np.cos(np.pi * np.fmod(x, 2)), None),
    ("sinpi", lambda x, y: np.sin(np.pi * np.fmod(x, 2)), None),
    ("rcbrt", lambda x, y: 1 / np.cbrt(y), 3), ("saturatef", lambda x, y: np.clip(x, 0, 1), 0),
    ("x**3", lambda x, y: x**3, 1.5),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_library(dtype: type) -> None:
    """fp64 is compared with fp64, which adds half a unit (and more for compositions)."""
    rng = np.random.default_rng(1)
    x, y = (rng.uniform(-7.9, 7.9, N).astype(dtype) for _ in "xy")
    o = np.zeros((len(LIBRARY), N), dtype)
    library_kernel[(1,)](x, y, o, N=N)
    for at, (name, reference, bound) in enumerate(LIBRARY):
        if name == "nextafter":
            np.testing.assert_array_equal(o[at], np.nextafter(x, y))
            continue
        with np.errstate(all="ignore"):
            want = reference(x.astype(np.float64), y.astype(np.float64))  # type: ignore[misc]
        if bound is None:
            np.testing.assert_allclose(o[at], want, rtol=8 * np.finfo(dtype).eps, atol=1e-6)
            continue
        error = ulps(o[at], want)
        slack = 1.0 if dtype == np.float64 and bound else 0.01
        worst = int(np.argmax(error))
        assert error[worst] <= bound + slack, (name, error[worst], x[worst], y[worst])


@tw.jit
def bessel_kernel(x_ptr, o_ptr, b_ptr, l_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(o_ptr + 0 * N + i, libdevice.j0(x))
    tl.store(o_ptr + 1 * N + i, libdevice.j1(x))
    tl.store(o_ptr + 2 * N + i, libdevice.y0(abs(x)))
    tl.store(o_ptr + 3 * N + i, libdevice.y1(abs(x)))
    tl.store(b_ptr + 0 * N + i, libdevice.isnan(x))
    tl.store(b_ptr + 1 * N + i, libdevice.isinf(x))
    tl.store(b_ptr + 2 * N + i, libdevice.isfinited(x))
    tl.store(b_ptr + 3 * N + i, libdevice.signbit(x))
    tl.store(b_ptr + 4 * N + i, libdevice.finitef(x))
    small = tl.where(abs(x) < 1e6, x, 0.0)
    tl.store(l_ptr + 0 * N + i, libdevice.llrint(small))
    tl.store(l_ptr + 1 * N + i, libdevice.llround(small))
    tl.store(l_ptr + 2 * N + i, libdevice.float2int_rn(small))
    tl.store(l_ptr + 3 * N + i, libdevice.float2int_rd(small))
    tl.store(l_ptr + 4 * N + i, libdevice.float2int_ru(small))
    tl.store(l_ptr + 5 * N + i, libdevice.float2int_rz(small))


def bessel(x: float, order: int, second: bool) -> float:
    """Bessel functions by their integrals (Abramowitz and Stegun 9.1.18-22), trapezoidal rule."""
    t = np.linspace(0, np.pi, 4001)
    if not second:
        return float(np.trapezoid(np.cos(order * t - x * np.sin(t)), t) / np.pi)
    u = np.linspace(0, 8, 8001)
    with np.errstate(all="ignore"):
        tail = (np.exp(order * u) + (-1) ** order * np.exp(-order * u)) * np.exp(-x * np.sinh(u))
    return float(np.trapezoid(np.sin(x * np.sin(t) - order * t), t) / np.pi
                 - np.trapezoid(tail, u) / np.pi)  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bessel_and_predicates(dtype: type) -> None:
    x = np.array([0.3, -0.7, 1.0, 2.5, -3.5, 7.25, 12.0, -0.0, 0.5, 1.5, 2.49, -2.5, 1e30, np.inf,
                  -np.inf, np.nan], dtype)  # fmt: skip
    o, b, w = np.zeros((4, 16), dtype), np.zeros((5, 16), bool), np.zeros((6, 16), np.int64)
    bessel_kernel[(1,)](x, o, b, w, N=16)
    for at, value in enumerate(x[:7].astype(float)):
        want = [bessel(value, 0, False), bessel(value, 1, False), bessel(abs(value), 0, True),
                bessel(abs(value), 1, True)]  # fmt: skip
        np.testing.assert_allclose(o[:, at], want, atol=2e-6)
    assert o[0, 7] == 1 and o[2, 7] == -np.inf
    np.testing.assert_array_equal(b[:4], [np.isnan(x), np.isinf(x), np.isfinite(x), np.signbit(x)])
    np.testing.assert_array_equal(b[4], np.isfinite(x))
    with np.errstate(invalid="ignore"):
        small = np.where(abs(x) < 1e6, x, 0)
    away = np.copysign(np.floor(abs(small) + 0.5), small)
    want = [np.rint(small), away, np.rint(small), np.floor(small), np.ceil(small), np.trunc(small)]
    np.testing.assert_array_equal(w, np.array(want))


@tw.jit
def narrow_kernel(x_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(o_ptr + 0 * N + i, tl.exp(x))
    tl.store(o_ptr + 1 * N + i, tl.log(tl.abs(x)))
    tl.store(o_ptr + 2 * N + i, tl.sin(x))
    tl.store(o_ptr + 3 * N + i, tl.sigmoid(x))
    tl.store(o_ptr + 4 * N + i, tl.fma(x, x, x))
    tl.store(o_ptr + 5 * N + i, libdevice.atan(x))
    tl.store(o_ptr + 6 * N + i, tl.softmax(x))


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float8_e5m2", "float8_e4m3fn"])
def test_narrow_types_round_once(kind: str) -> None:
    import ml_dtypes

    dtype = np.dtype(getattr(ml_dtypes, kind, kind))
    x = np.random.default_rng(0).uniform(-4, 4, 256).astype(dtype)
    o = np.zeros((7, 256), dtype)
    narrow_kernel[(1,)](x, o, N=256)
    w = x.astype(np.float64)
    with np.errstate(all="ignore"):
        e = np.exp(w - w.max())
        rows = [np.exp(w), np.log(abs(w)), np.sin(w), 1 / (1 + np.exp(-w)), w * w + w,
                np.arctan(w), e / e.sum()]  # fmt: skip
        want = rounded(np.array(rows).astype(np.float32), dtype).astype(np.float64)
    step = 2 * float(ml_dtypes.finfo(dtype).eps)  # a tie that fp32 moves goes to a neighbour
    tiny = float(ml_dtypes.finfo(dtype).smallest_subnormal)
    np.testing.assert_allclose(o.astype(np.float64), want, rtol=step, atol=tiny)
    assert np.mean(o.astype(np.float64) == want) > 0.99


@tw.jit
def choose_kernel(x_ptr, y_ptr, o_ptr, u_ptr, w_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    y = tl.load(y_ptr + i)
    all_: tl.constexpr = tl.PropagateNan.ALL
    tl.store(o_ptr + 0 * N + i, tl.maximum(x, y))
    tl.store(o_ptr + 1 * N + i, tl.minimum(x, y))
    tl.store(o_ptr + 2 * N + i, tl.maximum(x, y, propagate_nan=all_))
    tl.store(o_ptr + 3 * N + i, tl.minimum(x, y, propagate_nan=all_))
    tl.store(o_ptr + 4 * N + i, tl.clamp(x, -1.0, 1.0))
    tl.store(o_ptr + 5 * N + i, tl.clamp(x, -1.0, 1.0, propagate_nan=all_))
    tl.store(o_ptr + 6 * N + i, tl.where(x != x, 0.0, x))
    tl.store(o_ptr + 7 * N + i, libdevice.div_rz(x, y))
    u = tl.load(u_ptr + i)
    v = tl.load(u_ptr + N - 1 - i)
    tl.store(w_ptr + i, tl.umulhi(u, v))
    tl.store(w_ptr + N + i, tl.umulhi(u, 0x51EB851F))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("word", [np.uint32, np.uint64, np.int32])
def test_choices_and_umulhi(dtype: type, word: type) -> None:
    special = np.array([0.0, 1.5, -2.5, np.inf, -np.inf, np.nan, 3.0, 1 / 3], dtype)
    x, y = (a.ravel() for a in np.meshgrid(special, special))
    x, y = x.copy(), y.copy()
    bits = 8 * np.dtype(word).itemsize
    u = np.random.default_rng(0).integers(0, 2 ** (bits - 1), 64).astype(word)
    o, w = np.zeros((8, 64), dtype), np.zeros((2, 64), word)
    if word == np.int32:
        u = np.minimum(u, np.iinfo(word).max)
    choose_kernel[(1,)](x, y, o, u, w, N=64)
    with np.errstate(all="ignore"):
        clipped = np.clip(x, -1, 1)
        quotient = x / y
        down = np.nextafter(quotient, dtype(0))
        over = abs(quotient.astype(np.longdouble)) > abs(x.astype(np.longdouble) / y)
        want = [
            np.fmax(x, y), np.fmin(x, y), np.maximum(x, y), np.minimum(x, y),
            np.where(np.isnan(x), -1, clipped), clipped, np.where(np.isnan(x), 0, x),
            np.where(over, down, quotient),
        ]  # fmt: skip
    np.testing.assert_array_equal(o, np.array(want, dtype))
    high = [int(a) * int(b) >> bits for a, b in zip(u, u[::-1], strict=True)]
    np.testing.assert_array_equal(w[0], np.array(high).astype(word))
    high = [int(a) * 0x51EB851F >> bits for a in u]
    np.testing.assert_array_equal(w[1], np.array(high).astype(word))


@tw.jit
def scalars_kernel(x_ptr, o_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0))
    at = o_ptr + tl.program_id(0)
    tl.store(at + 0 * N, tl.exp(x))
    tl.store(at + 1 * N, tl.exp2(x))
    tl.store(at + 2 * N, tl.log(x))
    tl.store(at + 3 * N, tl.log2(x))
    tl.store(at + 4 * N, tl.sin(x))
    tl.store(at + 5 * N, tl.cos(x))
    tl.store(at + 7 * N, tl.math.tanh(x))
    tl.store(at + 8 * N, tl.erf(x))
    tl.store(at + 10 * N, tl.rsqrt(x))
    tl.store(at + 15 * N, libdevice.rint(x))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_few_lanes_and_scalars(dtype: type) -> None:
    """Chunks of 1 to 16 lanes take other instructions than full registers; the errors stay small."""
    with np.errstate(all="ignore"):
        x = np.resize(np.array([*SPECIAL, 1e6, -88.5, 88.9, -104, 1e-3, 50], np.float64), 32)
        x = x.astype(dtype)
    whole = np.zeros((len(NAMES), 32), dtype)
    functions_kernel[(1,)](x, whole, N=32)
    for n in (1, 8) if dtype == np.float64 else (1, 4, 8):
        o = np.zeros((len(NAMES), n), dtype)
        for start in range(0, 32, n):
            functions_kernel[(1,)](x[start : start + n].copy(), o, N=n)
            error = ulps(o, whole[:, start : start + n].astype(np.float64))
            assert error.max() <= 2, (n, NAMES[int(error.max(1).argmax())])
    o = np.zeros((len(NAMES), 32), dtype)
    scalars_kernel[(32,)](x, o, N=32)
    rows = [0, 1, 2, 3, 4, 5, 7, 8, 10, 15]
    assert ulps(o[rows], whole[rows].astype(np.float64)).max() <= 2
