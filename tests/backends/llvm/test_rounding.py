"""libdevice's functions that round in a given direction: bit by bit what exact arithmetic gives."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.interpreter import exact
from tilewright.language import libdevice

N = 1024
DIRECTIONS = ("rn", "rz", "rd", "ru")
SPECIAL = [
    0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 3.0, 1 / 3, -1 / 3, 2.0**-30, -(2.0**30), 1e-45, -1e-44,
    1.1754943508222875e-38, 3.4028234663852886e38, -3.4028234663852886e38, 0.1, 1e-20, 7e18,
]  # fmt: skip


@tw.jit
def arithmetic_kernel(x_ptr, y_ptr, z_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x, y, z = tl.load(x_ptr + i), tl.load(y_ptr + i), tl.load(z_ptr + i)
    tl.store(o_ptr + 0 * N + i, libdevice.add_rz(x, y))
    tl.store(o_ptr + 1 * N + i, libdevice.add_rd(x, y))
    tl.store(o_ptr + 2 * N + i, libdevice.add_ru(x, y))
    tl.store(o_ptr + 3 * N + i, libdevice.mul_rz(x, y))
    tl.store(o_ptr + 4 * N + i, libdevice.mul_rd(x, y))
    tl.store(o_ptr + 5 * N + i, libdevice.mul_ru(x, y))
    tl.store(o_ptr + 6 * N + i, libdevice.div_rz(x, y))
    tl.store(o_ptr + 7 * N + i, libdevice.div_rd(x, y))
    tl.store(o_ptr + 8 * N + i, libdevice.div_ru(x, y))
    tl.store(o_ptr + 9 * N + i, libdevice.fma_rz(x, y, z))
    tl.store(o_ptr + 10 * N + i, libdevice.fma_rd(x, y, z))
    tl.store(o_ptr + 11 * N + i, libdevice.fma_ru(x, y, z))
    tl.store(o_ptr + 12 * N + i, libdevice.sqrt_rz(x))
    tl.store(o_ptr + 13 * N + i, libdevice.sqrt_rd(x))
    tl.store(o_ptr + 14 * N + i, libdevice.sqrt_ru(x))
    tl.store(o_ptr + 15 * N + i, libdevice.fma_rn(x, y, z))
    tl.store(o_ptr + 16 * N + i, libdevice.sub_rn(libdevice.mul_rn(x, y), libdevice.mul_rn(x, y)))


NAMES = [f"{f}_{d}" for f in ("add", "mul", "div", "fma", "sqrt") for d in ("rz", "rd", "ru")]


def arguments(kind: str) -> list[np.ndarray]:
    """Pairs whose results are inexact, far apart, subnormal, infinite; and special values."""
    rng = np.random.default_rng(2)
    reach = 60 if kind == "float32" else 480
    tables = []
    for seed in range(3):
        x = rng.standard_normal(N) * np.exp2(rng.uniform(-3, 3, N))
        wide = np.exp2(rng.uniform(-2.4 * reach, 2.1 * reach, N // 4))
        x[: N // 4] *= wide
        x[N // 2 : N // 2 + 200] = np.tile(SPECIAL, 10) if seed == 0 else np.repeat(SPECIAL, 10)
        tables.append(x)
    with np.errstate(all="ignore"):
        return [x.astype(kind) for x in tables]


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_arithmetic(kind):
    x, y, z = arguments(kind)
    got = np.zeros((17, N), kind)
    arithmetic_kernel[(1,)](x, y, z, got, N=N)
    for i, name in enumerate(NAMES):
        count = {"fma": 3, "sqrt": 1}.get(name[:-3].removesuffix("_"), 2)
        want = exact.meaning(name)(*(x, y, z)[:count])
        same = (got[i] == want) & (np.signbit(got[i]) == np.signbit(want))
        same |= np.isnan(got[i]) & np.isnan(want)
        at = np.flatnonzero(~same)
        shown = [(x[j], y[j], z[j], got[i][j], want[j]) for j in at[:3]]
        assert same.all(), f"{name}: {len(at)} wrong: {shown}"
    finite = np.isfinite(got[15])
    np.testing.assert_array_equal(got[15][finite], exact.meaning("fma_rn")(x, y, z)[finite])
    products = got[16][np.isfinite(got[16])]
    assert (products == 0).all()  # nothing of it was fused


def test_the_reference_brackets_the_exact_result():
    x, y, z = (v[:64] for v in arguments("float32"))
    down, up = (exact.meaning(f"fma_{d}")(x, y, z) for d in ("rd", "ru"))
    for a, b, c, low, high in zip(x, y, z, down, up, strict=True):
        true = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
        if np.isfinite(low) and np.isfinite(high):
            assert Fraction(float(low)) <= true <= Fraction(float(high))
            assert high in (low, np.nextafter(low, np.float32(np.inf)))


@tw.jit
def conversion_kernel(d_ptr, n_ptr, u_ptr, f_ptr, g_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    d, n, u = tl.load(d_ptr + i), tl.load(n_ptr + i), tl.load(u_ptr + i)
    tl.store(f_ptr + 0 * N + i, libdevice.double2float_rz(d))
    tl.store(f_ptr + 1 * N + i, libdevice.double2float_rd(d))
    tl.store(f_ptr + 2 * N + i, libdevice.double2float_ru(d))
    tl.store(f_ptr + 3 * N + i, libdevice.ll2float_rz(n))
    tl.store(f_ptr + 4 * N + i, libdevice.ll2float_rd(n))
    tl.store(f_ptr + 5 * N + i, libdevice.ll2float_ru(n))
    tl.store(f_ptr + 6 * N + i, libdevice.ull2float_rd(u))
    tl.store(f_ptr + 7 * N + i, libdevice.int2float_ru(n.to(tl.int32)))
    tl.store(g_ptr + 0 * N + i, libdevice.ll2double_rz(n))
    tl.store(g_ptr + 1 * N + i, libdevice.ll2double_rd(n))
    tl.store(g_ptr + 2 * N + i, libdevice.ll2double_ru(n))
    tl.store(g_ptr + 3 * N + i, libdevice.ull2double_ru(u))


def test_conversions():
    rng = np.random.default_rng(3)
    d = arguments("float64")[0]
    n = rng.integers(-(2**63), 2**63 - 1, N) >> rng.integers(0, 63, N)
    u = rng.integers(0, 2**64 - 1, N, dtype=np.uint64) >> rng.integers(0, 63, N).astype(np.uint64)
    f, g = np.zeros((8, N), np.float32), np.zeros((4, N), np.float64)
    conversion_kernel[(1,)](d, n, u, f, g, N=N)

    def towards(values, kind, direction):
        return np.array([exact._towards(kind, Fraction(int(v)), direction) for v in values])

    for i, direction in enumerate(("rz", "rd", "ru")):
        want = exact.meaning(f"narrow_{direction}")(d)
        np.testing.assert_array_equal(f[i], want.astype(np.float32))
        np.testing.assert_array_equal(f[3 + i], towards(n, np.float32, direction))
        np.testing.assert_array_equal(g[i], towards(n, np.float64, direction))
    np.testing.assert_array_equal(f[6], towards(u, np.float32, "rd"))
    np.testing.assert_array_equal(f[7], towards(n.astype(np.int32), np.float32, "ru"))
    np.testing.assert_array_equal(g[3], towards(u, np.float64, "ru"))


@tw.jit
def to_integer_kernel(x_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(o_ptr + 0 * N + i, libdevice.double2ll_rn(x))
    tl.store(o_ptr + 1 * N + i, libdevice.double2ll_rz(x))
    tl.store(o_ptr + 2 * N + i, libdevice.double2int_rd(x))
    tl.store(o_ptr + 3 * N + i, libdevice.double2ull_ru(x))


def test_to_integers():
    x = np.array([0.5, 1.5, 2.5, 1e9, 7.25, 0.0, 3.999, 12.0])
    got = np.zeros((4, 8), np.int64)
    to_integer_kernel[(1,)](x, got, N=8)
    np.testing.assert_array_equal(got, [np.rint(x), np.trunc(x), np.floor(x), np.ceil(x)])


@pytest.mark.parametrize("kernel", [arithmetic_kernel, conversion_kernel])
def test_compiles_to_instructions_of_a_gpu(kernel):
    names = [n for n in kernel.arg_names if n.endswith("_ptr")]
    kinds = {"d_ptr": "*fp64", "n_ptr": "*i64", "u_ptr": "*u64", "g_ptr": "*fp64"}
    signature = {name: kinds.get(name, "*fp32") for name in names}
    text = kernel.compile(signature, {"N": 128}, target="sm_90a").asm["ptx"]
    wanted = ("add.rz.f32", "fma.rp.f32", "sqrt.rm.f32", "div.rz.f32", "mul.rn.f32")
    if kernel is conversion_kernel:
        wanted = ("cvt.rp.f32.f64", "add.rz.f64")
    assert all(name in text for name in wanted)
