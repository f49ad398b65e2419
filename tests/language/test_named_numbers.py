"""Numbers that have a name take part in promotion as tensors, as in Triton, and can still be extents."""

import numpy as np
import pytest
from tests.engines import ENGINES, run

import tilewright as tw
import tilewright.language as tl


@tw.jit
def less(x, y):
    return x - y


@tw.jit
def eight():
    return 8


@tw.jit
def bytes_kernel(x_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    zero = 8
    tl.static_assert((x - zero).dtype == tl.int32)
    tl.static_assert((x - 8).dtype == tl.uint8)
    tl.static_assert((x - N).dtype == tl.uint8)
    tl.store(o_ptr + 0 * N + i, x - zero)
    tl.store(o_ptr + 1 * N + i, x - 8)
    tl.store(o_ptr + 2 * N + i, x - (2 * zero - 1))
    tl.store(o_ptr + 3 * N + i, less(x, zero))
    tl.store(o_ptr + 4 * N + i, less(x, 8))
    pair = (x, 200)
    tl.store(o_ptr + 5 * N + i, pair[0] * pair[1])
    factor = 200 if N > 4 else 3
    tl.store(o_ptr + 6 * N + i, x * factor)
    count = N
    count -= 2 * N
    tl.store(o_ptr + 7 * N + i, x + count)
    tl.store(o_ptr + 8 * N + i, tl.where(x > zero, x, zero) - 250)
    for j in tl.static_range(1):
        tl.store(o_ptr + 9 * N + i, x * (200 + j))
    tl.static_assert((x - eight()).dtype == tl.int32)
    half = N // 2
    tl.store(o_ptr + 10 * N + tl.arange(0, half), tl.arange(0, half) + zero)


@pytest.mark.parametrize("engine", ENGINES)
def test_bytes(engine):
    x = np.arange(16).astype(np.uint8) * 17
    o = run(engine, bytes_kernel, (1,), x, np.zeros((11, 16), np.int32), N=16)[1]
    w, half = x.astype(np.int32), np.arange(16) < 8
    expected = [
        w - 8, (w - 8) % 256, w - 15, w - 8, (w - 8) % 256, w * 200, w * 200, w - 16, np.maximum(w, 8) - 250,
        w * 200 % 256, np.where(half, np.arange(16) + 8, 0),
    ]  # fmt: skip
    np.testing.assert_array_equal(o, expected)


@tw.jit
def floats_kernel(x_ptr, h_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    h, x = tl.load(h_ptr + i), tl.load(x_ptr + i)
    scale = 0.1
    tl.static_assert((h * scale).dtype == tl.float32)
    tl.static_assert((h * 0.1).dtype == tl.float16)
    tl.static_assert((h * 2).dtype == tl.float16)
    tl.static_assert((x * scale).dtype == tl.float64)
    tl.store(o_ptr + i, h * scale)
    tl.store(o_ptr + N + i, h + (1 - scale))
    tl.store(o_ptr + 2 * N + i, x * scale)


@pytest.mark.parametrize("engine", ENGINES)
def test_floats(engine):
    """fp64 tensors take numbers as they are, more exactly than Triton, which rounds them to fp32."""
    x, h = np.linspace(-1, 1, 16), np.linspace(-1, 1, 16).astype(np.float16)
    o = run(engine, floats_kernel, (1,), x, h, np.zeros((3, 16)), N=16)[2]
    w = h.astype(np.float32)
    np.testing.assert_array_equal(o, [w * np.float32(0.1), w + np.float32(0.9), x * 0.1])


@tw.jit
def arithmetic_kernel(o_ptr, N: tl.constexpr):
    low, one, high = -7, 1, 2147483647
    tl.store(o_ptr + 0, low // 2)
    tl.store(o_ptr + 1, low % 3)
    tl.store(o_ptr + 2, one << 31)
    tl.store(o_ptr + 3, high + 1)
    tl.store(o_ptr + 4, N // low)
    tl.store(o_ptr + 5, high * 3)
    tl.store(o_ptr + 6, low >> 1)
    low //= 2
    tl.store(o_ptr + 7, low)
    tl.store(o_ptr + 8, (low - 3) / 4)
    tl.store(o_ptr + 9, (-7) // 2)  # no name: as in Python
    tl.store(o_ptr + 10, N * one - 20 % low)


@pytest.mark.parametrize("engine", ENGINES)
def test_arithmetic_is_that_of_int32(engine):
    o = run(engine, arithmetic_kernel, (1,), np.zeros(11, np.int64), N=16)[0]
    assert list(o) == [-3, -1, -(2**31), -(2**31), -2, 2**31 - 3, -4, -3, -1, -4, 14]
