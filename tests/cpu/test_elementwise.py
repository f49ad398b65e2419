"""Elementwise operations and casts, every element type, against NumPy."""

from __future__ import annotations

import os

import ml_dtypes
import numpy as np
import pytest
from tests.rounding import rounded

import tilewright as tw
import tilewright.language as tl

pytestmark = pytest.mark.sampled(4, full=2)

INTS = [np.dtype(f"{u}int{w}") for u in ("", "u") for w in (8, 16, 32, 64)]
SMALL_FLOATS = [
    np.dtype(t)
    for t in (ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn, np.float16, ml_dtypes.bfloat16)
]
FLOATS = [*SMALL_FLOATS, np.dtype(np.float32), np.dtype(np.float64)]
ALL = [np.dtype(bool), *INTS, *FLOATS]
N = 64
ON_GPU = os.environ.get("TILEWRIGHT_TEST_DEVICE") == "cuda"


def values(dtype: np.dtype, seed: int = 0, n: int = N) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype.kind == "b":
        return rng.random(n) < 0.5
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        out = rng.integers(info.min, info.max, n, dtype=dtype, endpoint=True)
        out[:3] = [info.min, info.max, 1]
        return out
    out = (rng.standard_normal(n) * 8).astype(dtype)
    out[:2] = np.array([0.0, -0.0], dtype)
    return out


@tw.jit
def int_kernel(x_ptr, y_ptr, s_ptr, o_ptr, c_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    y = tl.load(y_ptr + i)
    s = tl.load(s_ptr + i)
    tl.store(o_ptr + 0 * N + i, x + y)
    tl.store(o_ptr + 1 * N + i, x - y)
    tl.store(o_ptr + 2 * N + i, x * y)
    tl.store(o_ptr + 3 * N + i, x // y)
    tl.store(o_ptr + 4 * N + i, x % y)
    tl.store(o_ptr + 5 * N + i, x & y)
    tl.store(o_ptr + 6 * N + i, x | y)
    tl.store(o_ptr + 7 * N + i, x ^ y)
    tl.store(o_ptr + 8 * N + i, x << s)
    tl.store(o_ptr + 9 * N + i, x >> s)
    tl.store(o_ptr + 10 * N + i, ~x)
    tl.store(o_ptr + 11 * N + i, tl.minimum(x, y))
    tl.store(o_ptr + 12 * N + i, tl.maximum(x, y))
    tl.store(o_ptr + 13 * N + i, tl.where(x < y, x, s))
    tl.store(o_ptr + 14 * N + i, tl.abs(x))
    tl.store(c_ptr + 0 * N + i, x < y)
    tl.store(c_ptr + 1 * N + i, x <= y)
    tl.store(c_ptr + 2 * N + i, x > y)
    tl.store(c_ptr + 3 * N + i, x >= y)
    tl.store(c_ptr + 4 * N + i, x == y)
    tl.store(c_ptr + 5 * N + i, x != y)


@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_integers(dtype: np.dtype) -> None:
    x, y = values(dtype, 1), values(dtype, 2)
    y[y == 0] = 3
    y[10:20] = x[10:20] | 1
    if dtype.kind == "i":
        y[y == -1] = 2
    s = (np.arange(N) % (dtype.itemsize * 8)).astype(dtype)
    o, c = np.zeros((15, N), dtype), np.zeros((6, N), bool)
    int_kernel[(1,)](x, y, s, o, c, N=N)
    with np.errstate(all="ignore"):
        quotient = (
            np.array([int(abs(int(a)) // abs(int(b))) * (1 if (a < 0) == (b < 0) else -1)
                      for a, b in zip(x, y, strict=True)], dtype=object).astype(dtype)
        )  # fmt: skip
        want = [
            x + y, x - y, x * y, quotient, x - quotient * y, x & y, x | y, x ^ y, x << s, x >> s,
            ~x, np.minimum(x, y), np.maximum(x, y), np.where(x < y, x, s), np.abs(x),
        ]  # fmt: skip
    for at, row in enumerate(want):
        np.testing.assert_array_equal(o[at], row, err_msg=f"row {at}")
    np.testing.assert_array_equal(c, [x < y, x <= y, x > y, x >= y, x == y, x != y])


@tw.jit
def float_kernel(x_ptr, y_ptr, o_ptr, c_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    y = tl.load(y_ptr + i)
    tl.store(o_ptr + 0 * N + i, x + y)
    tl.store(o_ptr + 1 * N + i, x - y)
    tl.store(o_ptr + 2 * N + i, x * y)
    tl.store(o_ptr + 3 * N + i, x / y)
    tl.store(o_ptr + 4 * N + i, -x)
    tl.store(o_ptr + 5 * N + i, tl.abs(x))
    tl.store(o_ptr + 6 * N + i, tl.minimum(x, y))
    tl.store(o_ptr + 7 * N + i, tl.maximum(x, y))
    tl.store(o_ptr + 8 * N + i, tl.where(x < y, x, y))
    tl.store(o_ptr + 9 * N + i, tl.floor(x))
    tl.store(o_ptr + 10 * N + i, tl.ceil(x))
    tl.store(o_ptr + 11 * N + i, tl.sqrt(tl.abs(x)))
    tl.store(o_ptr + 12 * N + i, x * 2 + 1)
    tl.store(o_ptr + 13 * N + i, tl.clamp(x, -y.abs(), y.abs()))
    tl.store(c_ptr + 0 * N + i, x < y)
    tl.store(c_ptr + 1 * N + i, x <= y)
    tl.store(c_ptr + 2 * N + i, x > y)
    tl.store(c_ptr + 3 * N + i, x >= y)
    tl.store(c_ptr + 4 * N + i, x == y)
    tl.store(c_ptr + 5 * N + i, x != y)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_floats(dtype: np.dtype) -> None:
    x, y = values(dtype, 1), values(dtype, 2)
    y[y == 0] = 3
    y[10:14] = x[10:14]
    y[14] = np.nan
    o, c = np.zeros((14, N), dtype), np.zeros((6, N), bool)
    float_kernel[(1,)](x, y, o, c, N=N)
    wide = np.float64 if dtype == np.float64 else np.float32
    xx, yy = x.astype(wide), y.astype(wide)

    def once(a: np.ndarray) -> np.ndarray:
        return a.astype(dtype).astype(wide)

    ordered = np.where(np.isnan(yy), xx, yy)
    want = [
        xx + yy, xx - yy, xx * yy, xx / yy, -xx, abs(xx), np.fmin(xx, yy), np.fmax(xx, yy),
        np.where(xx < yy, xx, yy), np.floor(xx), np.ceil(xx), np.sqrt(abs(xx)),
        once(xx * 2) + 1, np.clip(xx, -abs(ordered), abs(ordered)),
    ]  # fmt: skip
    for at, row in enumerate(want):
        got, expected = o[at].astype(wide), once(row)
        if at in (12, 13):  # may be contracted; a NaN bound is not defined
            keep = ~np.isnan(yy)
            got, expected = got[keep], expected[keep]
            eps = float(ml_dtypes.finfo(dtype).eps)
            np.testing.assert_allclose(got, expected, rtol=eps, atol=4 * eps)
            continue
        if at == 3 and ON_GPU:  # a plain division of fp32 may be 2 ulp off there
            np.testing.assert_allclose(got, expected, rtol=2.0**-22)
            continue
        np.testing.assert_array_equal(got, expected, err_msg=f"row {at}")
    np.testing.assert_array_equal(c, [xx < yy, xx <= yy, xx > yy, xx >= yy, xx == yy, xx != yy])


@tw.jit
def cast_kernel(x_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o_ptr + i, tl.load(x_ptr + i).to(o_ptr.dtype.element_ty))


@tw.jit
def casts_kernel(x_ptr, outputs, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    for o_ptr in outputs:
        tl.store(o_ptr + i, x.to(o_ptr.dtype.element_ty))


def castable(source: np.dtype, dest: np.dtype, x: np.ndarray) -> np.ndarray:
    """Which values have a specified result."""
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        if source in FLOATS and dest.kind in "iu":
            return (wide > (-100 if dest.kind == "i" else -1)) & (wide < 100)
    return np.ones(len(x), bool)


@pytest.mark.parametrize("source", ALL, ids=str)
def test_casts(source: np.dtype) -> None:
    x = values(source, 3)
    outputs = [np.zeros(N, d) for d in ALL]
    casts_kernel[(1,)](x, tuple(outputs), N=N)
    for dest, o in zip(ALL, outputs, strict=True):
        keep = castable(source, dest, x)
        with np.errstate(all="ignore"):
            if (source in SMALL_FLOATS) != (dest in SMALL_FLOATS) and sum(
                d in FLOATS for d in (source, dest)
            ) < 2:
                middle = np.float64 if dest in SMALL_FLOATS[2:] else np.float32
                want = rounded(x.astype(middle), dest)
            else:
                want = rounded(x, dest)
        got, want = o[keep], want[keep]
        if dest in FLOATS:
            got, want = got.astype(np.float64), want.astype(np.float64)
        np.testing.assert_array_equal(got, want, err_msg=f"{source} -> {dest}")


@pytest.mark.parametrize("source", [np.dtype("i8"), np.dtype("u8"), np.dtype("i4")], ids=str)
def test_integers_round_once(source: np.dtype) -> None:
    """Just beside the middle of two neighbours, where fp32 or fp64 in between would move them."""
    top = 8 * source.itemsize - 2
    x = [sign * ((1 << e) + (m << (e - 7)) + (1 << (e - 8)) + nudge)
         for e in range(12, top, 3) for m in (0, 1, 126) for nudge in (-1, 0, 1)
         for sign in ((1, -1) if source.kind == "i" else (1,))]  # fmt: skip
    x = np.resize(np.array(x, source), 512)
    o = np.zeros(512, ml_dtypes.bfloat16)
    cast_kernel[(1,)](x, o, N=512)

    def nearest(value: int) -> int:
        unit = 1 << max(abs(value).bit_length() - 8, 0)
        low, rest = divmod(abs(value), unit)
        low += 2 * rest > unit or (2 * rest == unit and low & 1)
        return low * unit if value > 0 else -low * unit

    assert [int(float(v)) for v in o] == [nearest(int(v)) for v in x]


@tw.jit
def rtz_kernel(x_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(o_ptr + i, x.to(o_ptr.dtype.element_ty, fp_downcast_rounding="rtz"))


def towards_zero(x: np.ndarray, dest: np.dtype) -> np.ndarray:
    """The nearest value of `dest` that is no larger than x, by search among its codes."""
    codes = np.arange(1 << (8 * dest.itemsize - 1)).astype(f"u{dest.itemsize}").view(dest)
    with np.errstate(all="ignore"):  # NaN codes
        positive = codes.astype(np.float64)
    positive = positive[np.isfinite(positive)]
    size = np.abs(x.astype(np.float64))
    below = positive[np.searchsorted(positive, np.where(np.isnan(size), 0, size), "right") - 1]
    infinite = rounded(np.array(np.inf), dest).astype(np.float64)
    below = np.where(np.isinf(size), infinite, np.where(np.isnan(size), np.nan, below))
    return np.copysign(below, x.astype(np.float64))


@pytest.mark.parametrize("dest", ["f4", "i4"])
def test_rounding_says_nothing_of_the_same_type(dest):
    x = np.arange(8).astype(dest)
    o = np.zeros_like(x)
    rtz_kernel[1,](x, o, N=8)
    assert np.array_equal(o, x)


@pytest.mark.parametrize("dest", SMALL_FLOATS, ids=str)
def test_round_to_zero(dest: np.dtype) -> None:
    edges = np.array([1e6, -1e6, 449, 465, -479, 1e-9, -1e-9, 65519, -65520, np.inf, -np.inf,
                      np.nan, 0.0, -0.0])  # fmt: skip
    x = np.resize(np.concatenate([edges, values(np.dtype(np.float64), 5) * 1e3]), N)
    x[-8:] *= 1e-6
    for source in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16):
        if np.dtype(source).itemsize <= dest.itemsize:
            continue
        with np.errstate(all="ignore"):
            start = x.astype(source)
        o = np.zeros(N, dest)
        rtz_kernel[(1,)](start, o, N=N)
        np.testing.assert_array_equal(o.astype(np.float64), towards_zero(start, dest))


@pytest.mark.parametrize("dest", FLOATS[:5], ids=str)
def test_narrowing_rounds_once(dest: np.dtype) -> None:
    """fp64 just beside the midpoint of two narrow neighbours: no double rounding by way of fp32."""
    low = (np.arange(1, N + 1) / 8 + 1).astype(dest).astype(np.float64)
    step = np.array([np.spacing(np.float64(1))] * N)
    ulp = np.exp2(np.floor(np.log2(low))) * float(ml_dtypes.finfo(dest).eps)
    for nudge in (-step, 0 * step, step):
        x = (low + ulp / 2) * (1 + nudge)
        o = np.zeros(N, dest)
        cast_kernel[(1,)](x, o, N=N)
        even = np.floor(low / ulp) % 2 == 0
        want = np.where((nudge < 0) | ((nudge == 0) & even), low, low + ulp)
        np.testing.assert_array_equal(o.astype(np.float64), want)


@tw.jit
def overflow_kernel(x_ptr, o_ptr, n, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    kind: tl.constexpr = o_ptr.dtype.element_ty
    y = x.to(kind)
    tl.store(o_ptr + i, tl.where((x > -100) & (x < 100), y, 0))
    tl.store(o_ptr + N + i, y // n.to(kind))
    tl.store(o_ptr + 2 * N + i, y % n.to(kind))
    tl.store(o_ptr + 3 * N + i, y << n.to(kind))
    tl.store(o_ptr + 4 * N, tl.load(x_ptr + n).to(kind) // n.to(kind))


@pytest.mark.parametrize("dest", INTS, ids=str)
def test_unspecified_results_do_not_trap(dest: np.dtype) -> None:
    """NaN and overflow to integers, division by zero: any value, but no fault."""
    x = np.resize([np.nan, np.inf, -np.inf, 1e30, -1e30, 3.7, 0.0, 99.9], N).astype(np.float32)
    o = np.zeros((5, N), dest)
    overflow_kernel[(1,)](x, o, 0, N=N)
    np.testing.assert_array_equal(o[0], np.resize([0, 0, 0, 0, 0, 3, 0, 99], N))


@tw.jit
def edges_kernel(x_ptr, o_ptr, D: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    d = tl.full((N,), D, x.dtype)
    tl.store(o_ptr + i, x // d)
    tl.store(o_ptr + N + i, x % d)
    tl.store(o_ptr + 2 * N + i, (x // D) + tl.load(x_ptr) // D)


@pytest.mark.parametrize("dtype", [np.dtype(t) for t in ("i1", "i4", "i8", "u1")], ids=str)
def test_division_by_constants(dtype: np.dtype) -> None:
    info = np.iinfo(dtype)
    x = np.resize(np.array([info.max, info.min, 1, 0, 5, 7, 100, 3], dtype), N)
    for divisor in {-1, 1, 3, 255, info.min, info.max} - {0}:
        if not info.min <= divisor <= info.max:
            continue
        o = np.zeros((3, N), dtype)
        edges_kernel[(1,)](x, o, D=divisor, N=N)
        quotients = [abs(int(a)) // abs(divisor) * (1 if (a < 0) == (divisor < 0) else -1)
                     for a in x]  # fmt: skip
        q = np.array(quotients, object) & (2 ** (8 * dtype.itemsize) - 1)
        q = q.astype(f"u{dtype.itemsize}").view(dtype)
        with np.errstate(all="ignore"):
            want = [q, x - q * dtype.type(divisor), q + q[0]]
        np.testing.assert_array_equal(o, want, err_msg=f"by {divisor}")


@tw.jit
def bitcast_kernel(x_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o_ptr + i, tl.load(x_ptr + i).to(o_ptr.dtype.element_ty, bitcast=True))


@pytest.mark.parametrize("dest", [d for d in ALL if d.kind != "b"], ids=str)
def test_bitcasts(dest: np.dtype) -> None:
    x = values(np.dtype(f"int{8 * dest.itemsize}"), 6)
    o = np.zeros(N, dest)
    bitcast_kernel[(1,)](x, o, N=N)
    assert o.tobytes() == x.tobytes()


@tw.jit
def bool_kernel(x_ptr, y_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    y = tl.load(y_ptr + i)
    tl.store(o_ptr + 0 * N + i, x & y)
    tl.store(o_ptr + 1 * N + i, x | y)
    tl.store(o_ptr + 2 * N + i, x ^ y)
    tl.store(o_ptr + 3 * N + i, not x)
    tl.store(o_ptr + 4 * N + i, x == y)
    tl.store(o_ptr + 5 * N + i, tl.where(x, y, True))


def test_booleans() -> None:
    x, y = values(np.dtype(bool), 1), values(np.dtype(bool), 2)
    o = np.zeros((6, N), bool)
    bool_kernel[(1,)](x, y, o, N=N)
    np.testing.assert_array_equal(o, [x & y, x | y, x ^ y, ~x, x == y, np.where(x, y, True)])
