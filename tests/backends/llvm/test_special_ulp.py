"""Errors of libdevice's special functions in units in the last place, against mpmath."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.backends.llvm.test_math_ulp import ulps

import tilewright as tw
import tilewright.language as tl
from tilewright.language import libdevice

mp = pytest.importorskip("mpmath")
N = 256


@tw.jit
def special_kernel(x_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(o_ptr + 0 * N + i, libdevice.erfinv(x))
    tl.store(o_ptr + 1 * N + i, libdevice.erfcinv(x))
    tl.store(o_ptr + 2 * N + i, libdevice.normcdfinv(x))
    tl.store(o_ptr + 3 * N + i, libdevice.erfcx(x))
    tl.store(o_ptr + 4 * N + i, libdevice.cyl_bessel_i0(x))
    tl.store(o_ptr + 5 * N + i, libdevice.cyl_bessel_i1(x))


def inverse_erfc(y):
    """By Newton's method from an asymptotic start, in extended precision."""
    if y > 0.1:
        return mp.erfinv(1 - mp.mpf(y))
    goal = mp.log(mp.mpf(y))
    return mp.findroot(lambda z: mp.log(mp.erfc(z)) - goal, mp.sqrt(-goal) * mp.mpf("0.9"))


REFERENCES = {
    "erfinv": lambda x: mp.erfinv(mp.mpf(x)),
    "erfcinv": inverse_erfc,
    "normcdfinv": lambda x: -mp.sqrt(2) * inverse_erfc(2 * x),
    "erfcx": lambda x: (
        mp.erfc(mp.mpf(x)) * mp.exp(mp.mpf(x) ** 2)
        if x < 1e4
        else 1 / (x * mp.sqrt(mp.pi)) / (1 + 0.5 / mp.mpf(x) ** 2)
    ),
    "cyl_bessel_i0": lambda x: mp.besseli(0, mp.mpf(x)),
    "cyl_bessel_i1": lambda x: mp.besseli(1, mp.mpf(x)),
}
NAMES = list(REFERENCES)
BOUNDS = {  # fp32, fp64
    "erfinv": (3, 4), "erfcinv": (4, 5), "normcdfinv": (5, 6), "erfcx": (4, 6),
    "cyl_bessel_i0": (4, 6), "cyl_bessel_i1": (4, 6),
}  # fmt: skip


def arguments(name: str, kind: str) -> np.ndarray:
    rng = np.random.default_rng(5)
    single = kind == "float32"
    if name == "erfinv":
        near = 1 - np.exp2(-rng.uniform(1, 23 if single else 52, N // 2))
        x = np.concatenate([near, rng.uniform(-1, 1, N // 4), rng.uniform(-1, 1, N // 4) ** 9])
    elif name in ("erfcinv", "normcdfinv"):
        small = np.exp2(-rng.uniform(1, 125 if single else 1000, N // 2))
        top = 1.9 if name == "erfcinv" else 0.95
        # the inverse passes through 0 in the middle, where the argument itself is what is inexact
        middle = np.concatenate(
            [rng.uniform(0.01, top * 0.4, N // 4), rng.uniform(top * 0.6, top, N // 4)]
        )
        x = np.concatenate([small, middle])
    elif name == "erfcx":
        far = np.exp2(rng.uniform(-20, 100 if single else 900, N // 2))
        x = np.concatenate([far, rng.uniform(-2, 30, N // 2)])
    else:
        x = np.concatenate([rng.uniform(-80, 80, N // 2), rng.uniform(-9, 9, N // 2)])
        if not single:
            x[:50] *= 8.9
    return x.astype(kind)


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("name", NAMES)
def test_errors(name: str, kind: str) -> None:
    x = arguments(name, kind)
    got = np.zeros((len(NAMES), N), kind)
    special_kernel[(1,)](x, got, N=N)
    found = got[NAMES.index(name)]
    with mp.workdps(40):
        wide = [REFERENCES[name](float(v)) for v in x]
        error = np.array([
            abs(mp.mpf(float(g)) - w) / mp.mpf(float(np.spacing(abs(np.asarray(float(w), kind)))))
            for g, w in zip(found, wide, strict=True)
        ], float)  # fmt: skip
    at = int(np.argmax(error))
    bound = BOUNDS[name][kind == "float64"]
    assert error[at] <= bound, f"{error[at]:.1f} ulp at {x[at]!r}: {found[at]!r}"


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_values_at_the_edges(kind):
    x = np.zeros(N, kind)
    x[:8] = [0.0, 1.0, -1.0, 2.0, 3.0, np.inf, -np.inf, np.nan]
    got = np.zeros((len(NAMES), N), kind)
    special_kernel[(1,)](x, got, N=N)
    inf, nan = math.inf, math.nan
    i = dict(zip(NAMES, got, strict=True))
    np.testing.assert_array_equal(i["erfinv"][:8], [0, inf, -inf, nan, nan, nan, nan, nan])
    np.testing.assert_array_equal(i["erfcinv"][:8], [inf, 0, nan, -inf, nan, nan, nan, nan])
    np.testing.assert_array_equal(i["normcdfinv"][:3], [-inf, inf, nan])
    np.testing.assert_array_equal(i["erfcx"][5:8], [0, inf, nan])
    np.testing.assert_array_equal(i["cyl_bessel_i0"][[0, 5, 6, 7]], [1, inf, inf, nan])
    np.testing.assert_array_equal(i["cyl_bessel_i1"][[0, 5, 6, 7]], [0, inf, -inf, nan])
    assert (ulps(i["cyl_bessel_i0"][1:3], np.full(2, 1.2660658777520084)) < 4).all()


@tw.jit
def parts_kernel(x_ptr, n_ptr, e_ptr, l_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x, n = tl.load(x_ptr + i), tl.load(n_ptr + i)
    tl.store(e_ptr + i, libdevice.ilogb(x))
    tl.store(l_ptr + i, libdevice.ldexp(x, n))
    y, z = libdevice.ldexp(x, -3), x * 0.75
    tl.store(o_ptr + 0 * N + i, libdevice.norm3d(x, y, z))
    tl.store(o_ptr + 1 * N + i, libdevice.rnorm4d(x, y, z, y))
    tl.store(o_ptr + 2 * N + i, libdevice.rhypot(x, y))


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_exponents_and_lengths(kind):
    rng = np.random.default_rng(6)
    info = np.finfo(kind)
    x = rng.standard_normal(N) * np.exp2(rng.uniform(info.minexp - 15, info.maxexp - 2, N))
    x[:5] = [0.0, np.inf, -np.inf, np.nan, info.tiny / 4]
    x = x.astype(kind)
    n = rng.integers(2 * info.minexp, 2 * info.maxexp, N).astype(np.int32)
    n[::2] //= 16
    exponents, scaled, lengths = np.zeros(N, np.int32), np.zeros(N, kind), np.zeros((3, N), kind)
    parts_kernel[(1,)](x, n, exponents, scaled, lengths, N=N)
    least, most = np.iinfo(np.int32).min, np.iinfo(np.int32).max
    np.testing.assert_array_equal(exponents[:4], [least, most, most, least])
    np.testing.assert_array_equal(exponents[4:], np.frexp(x[4:])[1] - 1)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(scaled, np.ldexp(x, n))
    wide = x[4:].astype(np.longdouble)
    y = np.ldexp(x, -3)[4:].astype(np.longdouble)
    z = (x * np.asarray(0.75, kind))[4:].astype(np.longdouble)
    wanted = [np.sqrt(wide**2 + y**2 + z**2), 1 / np.sqrt(wide**2 + 2 * y**2 + z**2)]
    for got, want in zip(lengths, [*wanted, 1 / np.sqrt(wide**2 + y**2)], strict=True):
        normal = (abs(want) < info.max) & (abs(want) > info.tiny)
        assert ulps(got[4:][normal], want[normal]).max() <= 2
    np.testing.assert_array_equal(
        lengths[:, :4], [[0, np.inf, np.inf, np.nan], *[[np.inf, 0, 0, np.nan]] * 2]
    )


@tw.jit
def integers_kernel(x_ptr, y_ptr, o_ptr, d_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x, y = tl.load(x_ptr + i), tl.load(y_ptr + i)
    tl.store(o_ptr + 0 * N + i, libdevice.byte_perm(x, y, 0x6250))
    tl.store(o_ptr + 1 * N + i, libdevice.sad(x, y, 5).to(tl.int32))
    tl.store(o_ptr + 2 * N + i, libdevice.hadd(x, y))
    tl.store(o_ptr + 3 * N + i, libdevice.rhadd(x, y))
    tl.store(o_ptr + 4 * N + i, libdevice.mul24(x, y))
    d = libdevice.hiloint2double(x, y)
    tl.store(d_ptr + i, d)
    tl.store(o_ptr + 5 * N + i, libdevice.double2hiint(d))
    tl.store(o_ptr + 6 * N + i, libdevice.double2loint(d))


def test_integers():
    rng = np.random.default_rng(7)
    x, y = (rng.integers(-(2**31), 2**31, 64).astype(np.int32) for _ in range(2))
    got, d = np.zeros((7, 64), np.int32), np.zeros(64)
    integers_kernel[(1,)](x, y, got, d, N=64)
    a, b = x.astype(np.int64), y.astype(np.int64)
    bytes_ = np.concatenate([x.view(np.uint8).reshape(64, 4), y.view(np.uint8).reshape(64, 4)], 1)
    np.testing.assert_array_equal(got[0].view(np.uint8).reshape(64, 4), bytes_[:, [0, 5, 2, 6]])
    np.testing.assert_array_equal(got[1], (abs(a - b) + 5).astype(np.int32))
    np.testing.assert_array_equal(got[2], (a + b) >> 1)
    np.testing.assert_array_equal(got[3], (a + b + 1) >> 1)
    low = lambda v: ((v & 0xFFFFFF) ^ 0x800000) - 0x800000
    np.testing.assert_array_equal(got[4], (low(a) * low(b)).astype(np.int32))
    np.testing.assert_array_equal(d.view(np.int64), (a << 32) | (b & 0xFFFFFFFF))
    np.testing.assert_array_equal(got[5], x)
    np.testing.assert_array_equal(got[6], y)


@pytest.mark.parametrize("kernel", [special_kernel, parts_kernel, integers_kernel])
def test_compiles_for_a_gpu(kernel):
    kinds = {"n_ptr": "*i32", "e_ptr": "*i32", "d_ptr": "*fp64"}
    if kernel is integers_kernel:
        kinds |= {"x_ptr": "*i32", "y_ptr": "*i32", "o_ptr": "*i32"}
    for real in ("*fp32", "*fp64"):
        signature = {p: kinds.get(p, real) for p in kernel.arg_names if p.endswith("_ptr")}
        kernel.compile(signature, {"N": 128}, target="sm_90a")


def test_interpreter_agrees():
    x = np.linspace(-0.99, 0.99, 64).astype(np.float32)
    found = []
    for settings in ({}, {"TILEWRIGHT_INTERPRET": "1"}):
        got = np.zeros((6, 64), np.float32)
        with pytest.MonkeyPatch.context() as patch:
            for name, value in settings.items():
                patch.setenv(name, value)
            special_kernel[(1,)](x, got, N=64)
        found.append(got)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)
