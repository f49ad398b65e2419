"""Scans whose axis lies along memory: in chunks of lanes, whose last value goes on to the next chunk."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl


@tw.jit
def larger(a, i, b, j):
    """The larger value, NaN above all, and of equal ones the later place."""
    left = (a > b) | ((a != a) & (b == b)) | (((a == b) | ((a != a) & (b != b))) & (i > j))
    return tl.where(left, a, b), tl.where(left, i, j)


@tw.jit
def composed(a1, b1, a2, b2):
    """x -> a x + b, one after the other: not commutative."""
    return a1 * a2, a2 * b1 + b2


@tw.jit
def largest_kernel(x_ptr, o_ptr, i_ptr, n, N: tl.constexpr, BACK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, N)
    x = tl.load(x_ptr + row * n + i, i < n, other=float("-inf"))
    value, place = tl.associative_scan((x, i.to(tl.int64)), 0, larger, reverse=BACK)
    tl.store(o_ptr + row * n + i, value, i < n)
    tl.store(i_ptr + row * n + i, place, i < n)


def running_largest(row: np.ndarray) -> list[int]:
    """Place of the largest element so far."""
    best, places = 0, []
    for i, value in enumerate(row):
        if np.isnan(value) or (value >= row[best] and not np.isnan(row[best])):
            best = i
        places.append(best)
    return places


@pytest.mark.parametrize("n", [256, 200, 5])
@pytest.mark.parametrize("kind", ["random", "rising", "falling", "equal", "nan"])
def test_running_maxima(kind: str, n: int) -> None:
    x = np.random.default_rng(0).standard_normal((3, n)).astype(np.float32)
    x = {"rising": np.sort(x), "falling": -np.sort(-x), "equal": np.round(x)}.get(kind, x)
    if kind == "nan":
        x[0, n // 3 :: 7] = x[2, 0] = np.nan
    o, places = np.zeros_like(x), np.zeros(x.shape, np.int64)
    largest_kernel[(3,)](x, o, places, n, 256, False)
    want = np.array([running_largest(row) for row in x])
    np.testing.assert_array_equal(places, want)
    np.testing.assert_array_equal(o, np.take_along_axis(x, want, 1))


def test_running_maxima_from_the_end() -> None:
    x = np.random.default_rng(1).permutation(512).reshape(2, 256).astype(np.float32)
    o, places = np.zeros_like(x), np.zeros(x.shape, np.int64)
    largest_kernel[(2,)](x, o, places, 256, 256, True)
    np.testing.assert_array_equal(o, np.maximum.accumulate(x[:, ::-1], 1)[:, ::-1])
    np.testing.assert_array_equal(np.take_along_axis(x, places, 1), o)


@tw.jit
def compose_kernel(a_ptr, b_ptr, o_ptr, n, N: tl.constexpr, BACK: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(a_ptr + i, i < n, other=1), tl.load(b_ptr + i, i < n, other=0)
    _, h = tl.associative_scan((a, b), 0, composed, reverse=BACK)
    tl.store(o_ptr + i, h, i < n)


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("n", [128, 77])
@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
def test_the_order_of_a_combination_is_kept(dtype: type, n: int, back: bool) -> None:
    rng = np.random.default_rng(2)
    a, b = rng.integers(-3, 4, (2, n)).astype(dtype)
    o = np.zeros(n, dtype)
    compose_kernel[(1,)](a, b, o, n, 128, back)
    h, want = 0, np.zeros(n, dtype)
    size = 1 << np.iinfo(dtype).bits
    for i in reversed(range(n)) if back else range(n):
        h = (int(a[i]) * h + int(b[i])) % size
        want[i] = (h + size // 2) % size - size // 2
    np.testing.assert_array_equal(o, want)


@tw.jit
def sums_kernel(x_ptr, o_ptr, n, N: tl.constexpr, BACK: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o_ptr + i, tl.cumsum(tl.load(x_ptr + i, i < n, other=0), 0, reverse=BACK), i < n)


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.int64])
@pytest.mark.parametrize("n", [1, 100, 1024])
def test_running_sums(dtype: type, n: int, back: bool) -> None:
    x = np.random.default_rng(3).integers(-9, 9, n).astype(dtype)
    o = np.zeros(n, np.int32 if dtype is np.int16 else dtype)
    kernel = sums_kernel[(1,)](x, o, n, 1024, back)
    want = x[::-1].cumsum()[::-1] if back else x.cumsum()
    np.testing.assert_array_equal(o, want)
    assert "shufflevector" in kernel.asm["llvm"]
