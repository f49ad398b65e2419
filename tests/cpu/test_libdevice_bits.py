"""libdevice's functions on bits, and `pow` with integers, natively."""

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.errors import CompilationError


@tw.jit
def bits_kernel(x_ptr, count_ptr, back_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(count_ptr + i, tl.extra.libdevice.popc(x))
    tl.store(count_ptr + N + i, tl.extra.libdevice.clz(x))
    tl.store(count_ptr + 2 * N + i, tl.extra.libdevice.ffs(x))
    tl.store(back_ptr + i, tl.extra.libdevice.brev(x))


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
def test_counting_and_reversing(dtype):
    kind = np.dtype(dtype)
    width = kind.itemsize * 8
    info = np.iinfo(kind)
    some = np.random.default_rng(1).integers(info.min, info.max, 56, dtype=kind, endpoint=True)
    x = np.concatenate([some, np.array([0, 1, 2, 3, info.min, info.max, info.max - 1, 64], kind)])
    count, back = np.zeros((3, 64), np.int32), np.zeros_like(x)
    bits_kernel[(1,)](x, count, back, N=64)
    texts = [f"{int(v) % (1 << width):0{width}b}" for v in x]
    np.testing.assert_array_equal(count[0], [t.count("1") for t in texts])
    np.testing.assert_array_equal(count[1], [len(t) - len(t.lstrip("0")) for t in texts])
    np.testing.assert_array_equal(count[2], [t[::-1].find("1") + 1 for t in texts])
    wanted = np.array([int(t[::-1], 2) for t in texts], np.dtype(f"uint{width}"))
    np.testing.assert_array_equal(back, wanted.astype(kind))


@tw.jit
def reinterpret_kernel(x_ptr, n_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    n = tl.extra.libdevice.float_as_uint(tl.load(x_ptr + i))
    tl.store(n_ptr + i, tl.extra.libdevice.float_as_int(tl.load(x_ptr + i)))
    tl.store(x_ptr + i, tl.extra.libdevice.uint_as_float(n ^ (1 << 31)))


def test_bits_as_other_types():
    x = np.random.default_rng(1).standard_normal(32).astype(np.float32)
    n, negated = np.zeros(32, np.int32), x.copy()
    reinterpret_kernel[(1,)](negated, n, N=32)
    np.testing.assert_array_equal(n, x.view(np.int32))
    np.testing.assert_array_equal(negated, -x)


@tw.jit
def pow_kernel(x_ptr, n_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.extra.libdevice.pow(tl.load(x_ptr + i), tl.load(n_ptr + i)))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_pow_with_integers(dtype):
    x = np.array([2, -2, -1, -1, 0.0, -0.0, -0.0, np.inf, -np.inf, np.nan, -1.5, 3, 0, 1, 1, -1])
    n = np.array([3, 3, 2**24 + 1, 2**24 + 2, 0, 3, -3, 1, 3, 0, -3, 2, -2, 2**30, -5, -1])
    out = np.zeros(16, dtype)
    pow_kernel[(1,)](x.astype(dtype), n.astype(np.int32), out, N=16)
    with np.errstate(all="ignore"):
        wanted = np.power(x, n.astype(np.float64)).astype(dtype)
    np.testing.assert_allclose(out, wanted, rtol=1e-3 if dtype == "float16" else 1e-6)
    np.testing.assert_array_equal(np.signbit(out[:9]), np.signbit(wanted[:9]))


@tw.jit
def popc_of_floats(x_ptr):
    tl.store(x_ptr, tl.extra.libdevice.popc(tl.load(x_ptr)))


def test_wrong_types():
    with pytest.raises(CompilationError, match="needs integers of 32 or 64 bits, got fp32"):
        popc_of_floats[(1,)](np.zeros(1, np.float32))


@tw.jit
def high_half_kernel(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, tl.extra.libdevice.mulhi(x, tl.load(y_ptr + i)))


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
def test_high_halves_of_products(dtype):
    """`mulhi` keeps the sign of signed integers, unlike `umulhi`."""
    info = np.iinfo(dtype)
    x = np.array([info.min, info.max, info.min + 3, info.max - 2, 3, 0, 1 << 30, 7], dtype)
    y, out = np.roll(x, 3), np.zeros_like(x)
    high_half_kernel[(1,)](x, y, out, N=8)
    expected = [int(a) * int(b) >> x.dtype.itemsize * 8 for a, b in zip(x, y, strict=True)]
    np.testing.assert_array_equal(out, np.array(expected, dtype))


@tw.jit
def sign_bit_kernel(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, -tl.extra.libdevice.signbit(tl.load(x_ptr + i)))


def test_sign_bits_are_integers():
    out = np.zeros(4, np.int32)
    sign_bit_kernel[(1,)](np.array([-0.0, 0.0, -1.0, np.inf], np.float32), out, N=4)
    np.testing.assert_array_equal(out, [-1, 0, -1, 0])
