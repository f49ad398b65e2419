"""Functions that NVIDIA GPUs compute with approximations in hardware, executed as PTX text.

The emulator rounds `ex2.approx` and `rcp.approx` correctly, so the bounds are one or two units below those
that the functions promise.
"""

import math

import numpy as np
import pytest
from tests.ptx.launch import run_ptx

import tilewright as tw
import tilewright.language as tl
from tilewright.language.extra import libdevice


@tw.jit
def functions(x_ptr, out_ptr, NAME: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, tl.math.tanh(x) if NAME == "tanh" else tl.erf(x))


@pytest.mark.parametrize("name", ["tanh", "erf"])
def test_errors_in_ulp(name):
    x = np.concatenate(
        [np.linspace(-12, 12, 1000), 10.0 ** np.linspace(-38, 38, 20), [0.0, -0.0, np.inf, np.nan]]
    )
    x = np.concatenate([x, -x])[:2048].astype(np.float32)
    x.resize(2048)
    made = functions.compile(
        {"x_ptr": "*fp32:16", "out_ptr": "*fp32:16"}, {"NAME": name, "N": 2048}, target="sm_90a"
    )
    text = made.asm["ptx"]
    assert "ex2.approx" in text and "div." not in text
    found = run_ptx(made.artifact, [x, np.empty_like(x)], (1, 1, 1))[1]
    function = np.tanh if name == "tanh" else np.vectorize(math.erf)
    expected = function(x.astype(np.float64))
    finite = np.isfinite(expected)
    error = abs(found - expected)[finite] / np.spacing(abs(expected[finite]).astype(np.float32))
    assert error.max() <= 3
    assert np.isnan(found[np.isnan(x)]).all()
    assert (np.signbit(found) == np.signbit(x))[~np.isnan(x)].all()


@tw.jit
def approximated(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, tl.log(x))
    tl.store(out_ptr + N + i, tl.log2(x))
    tl.store(out_ptr + 2 * N + i, tl.sqrt(x))
    tl.store(out_ptr + 3 * N + i, tl.rsqrt(x))
    tl.store(out_ptr + 4 * N + i, libdevice.fast_logf(x))
    tl.store(out_ptr + 5 * N + i, libdevice.fast_log10f(x))
    tl.store(out_ptr + 6 * N + i, libdevice.fast_dividef(1.0, x))
    tl.store(out_ptr + 7 * N + i, libdevice.fast_powf(x, 0.5))
    tl.store(out_ptr + 8 * N + i, libdevice.pow(x, 3))
    tl.store(out_ptr + 9 * N + i, libdevice.pow(x, -2))
    tl.store(out_ptr + 10 * N + i, tl.sqrt_rn(x))


def test_logarithms_and_roots():
    """Largest errors in ulp (of the fast ones: relative), and the results at the edges."""
    random = np.random.default_rng(0)
    near = 1 + random.uniform(-0.5, 0.5, 1000)
    x = np.concatenate([2.0 ** random.uniform(-126, 127.9, 1000), near, 1 + near * 1e-4])[:2040]
    x = np.concatenate([x, [0.0, -0.0, 1e-40, -1.0, np.inf, -np.inf, np.nan, 1.0]]).astype(
        np.float32
    )
    types = {"x_ptr": "*fp32:16", "out_ptr": "*fp32:16"}
    made = approximated.compile(types, {"N": 2048}, target="sm_90a")
    found = run_ptx(made.artifact, [x, np.zeros(11 * 2048, np.float32)], (1, 1, 1))[1].reshape(
        11, -1
    )
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        expected = np.stack([
            np.log(wide), np.log2(wide), np.sqrt(wide), 1 / np.sqrt(wide), np.log(wide), np.log10(wide),
            1 / wide, np.sqrt(wide), wide**3, wide**-2, np.sqrt(wide),
        ])  # fmt: skip
        rounded = expected.astype(np.float32)
        usual = np.isfinite(rounded) & (abs(rounded) > 2.0**-120)
        error = np.where(usual, abs(found - expected) / np.spacing(abs(rounded)), 0)[:, :2040]
        fast = np.where(usual, abs(found - expected) / (abs(expected) + 1), 0)[:, :2040]
    assert (error.max(1)[:4] <= [1, 2, 1, 1]).all(), error.max(1)
    assert (error.max(1)[8:] <= [2, 3, 0.5]).all(), error.max(1)
    assert fast[4:8].max() <= 1e-4
    for row in found[:2]:
        assert row[2040:2042].tolist() == [-np.inf, -np.inf] and row[2044] == np.inf
        assert np.isnan(row[[2043, 2045, 2046]]).all() and row[2047] == 0


@tw.jit
def powers(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, libdevice.pow(tl.load(x_ptr + i), tl.load(y_ptr + i)))


def test_powers():
    """Errors in ulp near 1, of large and of usual results; C's results of all pairs of special values."""
    random = np.random.default_rng(0)
    x = np.concatenate(
        [1 + random.uniform(-0.4, 0.5, 1500), 2.0 ** random.uniform(-126, 127, 1500)]
    )
    logarithms = np.log2(x.astype(np.float32).astype(np.float64))
    small = np.arange(3000) % 2 == 0
    y = np.where(small, random.uniform(-9, 9, 3000), random.uniform(-126, 127.9, 3000)) / logarithms
    edges = [0.0, 1e-40, 0.5, 1.0, 2.0, 2.5, 3.0, 3e9, np.inf, np.nan, 1e38]
    edges = [*edges, *(-e for e in edges)]
    pairs = np.array([(a, b) for a in edges for b in edges])
    size = 4096
    x, y = (np.resize(np.concatenate([v, e]), size).astype(np.float32) for v, e in ((x, pairs[:, 0]), (y, pairs[:, 1])))  # fmt: skip
    types = dict.fromkeys(("x_ptr", "y_ptr", "out_ptr"), "*fp32:16")
    made = powers.compile(types, {"N": size}, target="sm_90a")
    found = run_ptx(made.artifact, [x, y, np.empty_like(x)], (1, 1, 1))[2]
    with np.errstate(all="ignore"):
        flushed = np.where(abs(x) < 2.0**-126, np.copysign(0, x), x).astype(np.float64)
        expected = flushed ** y.astype(np.float64)
        undefined = (x < 0) & (x > -np.inf) & (np.trunc(y) != y)
        expected = np.where(undefined, np.nan, expected)
    error = abs(found - expected)[:3000] / np.spacing(abs(expected[:3000]).astype(np.float32))
    assert error[small].max() <= 2 and error.max() <= 5, (error[small].max(), error.max())
    with np.errstate(all="ignore"):
        rounded = expected[3000:].astype(np.float32)
    finite = np.isfinite(rounded) & (rounded != 0)
    np.testing.assert_array_equal(np.where(finite, 0, found[3000:]), np.where(finite, 0, rounded))
    np.testing.assert_allclose(found[3000:][finite], rounded[finite], rtol=1e-6, atol=1e-44)
    known = ~np.isnan(rounded)
    assert (np.signbit(found[3000:]) == np.signbit(rounded))[known].all()


@tw.jit
def clamped(x_ptr, out_ptr, high, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.maximum(tl.minimum(tl.load(x_ptr + i), high), 0))


def test_integers_clamped_at_zero():
    """Where LLVM makes `min.relu` of two clamps."""
    x = np.arange(-128, 128, dtype=np.int32)
    made = clamped.compile(
        {"x_ptr": "*i32:16", "out_ptr": "*i32:16", "high": "i32"}, {"N": 256}, target="sm_90a"
    )
    assert "min.relu" in made.asm["ptx"]
    found = run_ptx(made.artifact, [x, np.empty_like(x), 60], (1, 1, 1))[1]
    assert found.tolist() == np.clip(x, 0, 60).tolist()


@tw.jit
def remainders(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.load(x_ptr + i) % tl.load(y_ptr + i))


def test_remainders_of_large_quotients_are_exact():
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(256) * 10.0 ** rng.integers(-9, 9, 256) for _ in range(2))
    x, y = x.astype(np.float32), y.astype(np.float32)
    types = dict.fromkeys(("x_ptr", "y_ptr", "out_ptr"), "*fp32:16")
    made = remainders.compile(types, {"N": 256}, target="sm_90a")
    found = run_ptx(made.artifact, [x, y, np.empty_like(x)], (1, 1, 1))[2]
    np.testing.assert_array_equal(found, np.fmod(x, y))


@tw.jit
def quotients(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x, y = tl.load(x_ptr + at), tl.load(y_ptr + at)
    tl.store(out_ptr + at, x / tl.sqrt(y))
    tl.store(out_ptr + N + at, x / tl.maximum(y, 1e-20))
    tl.store(out_ptr + 2 * N + at, x / (tl.sqrt(y) + 1e-8))
    tl.store(out_ptr + 3 * N + at, x / y)


def test_divisors_that_need_no_scale():
    """Roots and maxima with a constant are not compared with the bounds that they cannot exceed; edges stay right."""
    n = 128
    edges = np.array([0, np.inf, 1e-45, 1e-38, 2e-38, 8e37, 1.8e38, 3.4e38, np.nan], np.float32)
    y = np.concatenate([edges, np.exp2(np.linspace(-126, 127, n - len(edges)))]).astype(np.float32)
    x = np.resize(np.array([1, 0, -3, np.inf, 1e30, 1e-30, np.nan], np.float32), n)
    kernel = quotients.compile({name: "*fp32:16" for name in ("x_ptr", "y_ptr", "out_ptr")}, {"N": n},
                               target="sm_90a", num_warps=4)  # fmt: skip
    *_, out = run_ptx(kernel, [x, y, np.zeros(4 * n, np.float32)], (1,))
    wide = y.astype(np.float64)
    with np.errstate(all="ignore"):
        root = np.sqrt(wide)
        expected = np.concatenate(
            [x / root, x / np.fmax(wide, 1e-20), x / (root + np.float32(1e-8)), x / wide]
        )
        normal = ~(np.abs(expected) < 2.0**-120)
        normal &= np.tile(~((y > 0) & (y < 2.0**-126)), 4)  # which roots take as 0
        expected = expected.astype(np.float32)
    np.testing.assert_allclose(out[normal], expected[normal], rtol=5e-7)
    text = kernel.asm["ptx"]
    of_each = text.count("rcp.approx") // 4
    assert text.count("0f00800000") == of_each and text.count("0f7E800000") == 2 * of_each
