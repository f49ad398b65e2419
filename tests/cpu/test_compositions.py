"""Operations that meet each other: ranks from 0 to 5, shapes inside loops, masks across loop nests."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl


def values(shape: tuple[int, ...], dtype: str = "f4", seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "b":
        return rng.random(shape) < 0.5
    return rng.integers(-50, 50, shape).astype(dtype)


@tw.jit
def ranks_kernel(x_ptr, o_ptr, N: tl.constexpr):
    flat = tl.arange(0, N)
    x = tl.load(x_ptr + flat)
    five = tl.reshape(x, 2, 4, 2, 2, N // 32)
    tl.store(o_ptr + flat, tl.reshape(tl.permute(five, 4, 1, 3, 0, 2), N))
    four = tl.sum(five, 1)
    tl.store(o_ptr + N + tl.arange(0, N // 4), tl.ravel(four))
    tl.store(o_ptr + 2 * N + tl.arange(0, N // 4), tl.ravel(tl.max(five, axis=1)))
    back = tl.trans(tl.reshape(tl.max(five, axis=-1), 2, 4, 4), 2, 1, 0)
    tl.store(o_ptr + 3 * N + tl.arange(0, 32), tl.ravel(back))
    running = tl.cumsum(five, axis=1)
    tl.store(o_ptr + 4 * N + flat, tl.reshape(running, N))
    backwards = tl.cumsum(five, axis=3, reverse=True)
    tl.store(o_ptr + 5 * N + flat, tl.reshape(backwards, N))
    tl.store(o_ptr + 6 * N, tl.sum(five))
    one = tl.reshape(tl.sum(x), 1, 1)
    tl.store(o_ptr + 6 * N + 1 + tl.zeros((1, 1), tl.int32), one + 1)
    tl.store(o_ptr + 6 * N + 2 + tl.arange(0, 8)[:, None, None, None] * 0, tl.min(x))
    place = tl.argmin(five, 1)
    tl.store(o_ptr + 7 * N + tl.arange(0, N // 4), tl.ravel(place))
    column = tl.sum(tl.sum(tl.sum(five, 4), 2), 0)
    tl.store(o_ptr + 8 * N + tl.arange(0, 4)[:, None] * 2 + tl.arange(0, 2)[None, :], column)


@pytest.mark.parametrize("dtype", ["f4", "i4", "i8"])
def test_ranks(dtype: str) -> None:
    N = 128
    x, o = values((N,), dtype), np.zeros((9, N), dtype)
    ranks_kernel[(1,)](x, o, N=N)
    five = x.reshape(2, 4, 2, 2, 4)
    np.testing.assert_array_equal(o[0], five.transpose(4, 1, 3, 0, 2).ravel())
    np.testing.assert_array_equal(o[1, :32], five.sum(1).ravel())
    np.testing.assert_array_equal(o[2, :32], five.max(1).ravel())
    np.testing.assert_array_equal(
        o[3, :32], five.max(-1).reshape(2, 4, 4).transpose(2, 1, 0).ravel()
    )
    np.testing.assert_array_equal(o[4], five.cumsum(1).ravel())
    np.testing.assert_array_equal(o[5], five[:, :, :, ::-1].cumsum(3)[:, :, :, ::-1].ravel())
    np.testing.assert_array_equal(o[6, :3], [x.sum(), x.sum() + 1, x.min()])
    np.testing.assert_array_equal(o[7, :32], five.argmin(1).ravel())
    np.testing.assert_array_equal(o[8, :8], five.sum((0, 2, 4)).ravel())


@tw.jit
def masks_kernel(x_ptr, b_ptr, o_ptr, M: tl.constexpr, N: tl.constexpr):
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    i = m[:, None] * N + n[None, :]
    S: tl.constexpr = M * N
    x = tl.load(x_ptr + i)
    row_live = tl.max(x, 1) > 40
    column_any = tl.reduce_or((x > 45).to(tl.int32), 0) != 0
    some = tl.max((x > 45), 0)
    tl.store(b_ptr + n, some)
    tl.store(b_ptr + N + n, column_any)
    tl.store(b_ptr + 2 * N + m, row_live)
    tl.store(b_ptr + 3 * N + n, tl.min(x > -45, 0))
    both = row_live[:, None] & column_any[None, :]
    tl.store(b_ptr + 4 * N + i, both)
    tl.store(b_ptr + 4 * N + S + i, tl.trans(tl.trans(both) ^ (tl.trans(x) > 0)))
    tl.store(o_ptr + i, x, mask=both)
    tl.store(o_ptr + S + i, tl.load(x_ptr + i, mask=row_live[:, None], other=7))
    tl.store(o_ptr + 2 * S + i, tl.load(x_ptr + i, mask=both, other=x * 2))
    tl.store(o_ptr + 3 * S + i, tl.where(column_any[None, :], x, tl.sum(x, 1)[:, None]))
    tl.store(o_ptr + 4 * S + m, tl.sum(both, 1))
    tl.store(o_ptr + 5 * S + i, tl.cumsum(both.to(tl.int32), 1))
    flags = tl.load(b_ptr + 4 * N + i)
    tl.store(o_ptr + 6 * S + i, tl.where(tl.flip(flags, 1), 1, 0))
    joined = tl.join(both, flags)
    tl.store(o_ptr + 7 * S + m, tl.sum(tl.sum(joined.to(tl.int32), 2), 1))
    tl.store(o_ptr + 8 * S + i, 5, mask=(x > 0) == (flags != both))


@pytest.mark.parametrize("shape", [(8, 16), (32, 4), (2, 128)])
def test_masks_across_nests(shape: tuple[int, int]) -> None:
    M, N = shape
    S = M * N
    x = values(shape, "f4", 3)
    b, o = np.zeros(4 * N + 2 * S + 64, bool), np.zeros((9, S), np.float32)
    masks_kernel[(1,)](x, b, o, M=M, N=N)
    live, some = x.max(1) > 40, (x > 45).any(0)
    both = live[:, None] & some[None, :]
    np.testing.assert_array_equal(b[:N], some)
    np.testing.assert_array_equal(b[N : 2 * N], some)
    np.testing.assert_array_equal(b[3 * N : 4 * N], (x > -45).all(0))
    np.testing.assert_array_equal(b[4 * N : 4 * N + S], both.ravel())
    np.testing.assert_array_equal(b[4 * N + S : 4 * N + 2 * S], (both ^ (x > 0)).ravel())
    want = np.zeros((9, M, N), np.float32)
    want[0] = np.where(both, x, 0)
    want[1] = np.where(live[:, None], x, 7)
    want[2] = np.where(both, x, 2 * x)
    want[3] = np.where(some[None, :], x, x.sum(1)[:, None])
    want[4].ravel()[:M] = both.sum(1)
    want[5] = both.cumsum(1)
    want[6] = both[:, ::-1]
    want[7].ravel()[:M] = 2 * both.sum(1)
    want[8] = np.where(x <= 0, 5, 0)
    np.testing.assert_array_equal(o, want.reshape(9, S))


@tw.jit
def top(a, b):
    return tl.maximum(a, b)


@tw.jit
def loops_kernel(x_ptr, o_ptr, n, N: tl.constexpr):
    """Reductions, scans, gathers, sorts, histograms, joins and dots of carried tiles."""
    i = tl.arange(0, N)
    ij = i[:, None] * N + i[None, :]
    x = tl.load(x_ptr + ij)
    bins = tl.zeros((8,), tl.int32)
    line = tl.load(x_ptr + i)
    square = x
    for k in range(n):
        line = tl.gather(line, (i * 5 + k) % N, 0)
        line = line + tl.sum(square, 0)
        square = tl.trans(square) - tl.max(line)
        bins += tl.histogram((line.to(tl.int32) + k) & 7, 8)
        low, high = tl.split(tl.reshape(line, N // 2, 2))
        line = tl.cat(high, low)
        square = tl.associative_scan(square, 1, top) if k == 100 else square + k
        if k % 2 == 1:
            square = tl.cumsum(square, 0)
            line = tl.sort(line)
        square = tl.where(square > 1000, square - 1000, square)
        square = tl.where(square < -1000, 3.0, square)
        line = tl.where(tl.abs(line) > 1000, line * 0 + k, line)
    tl.store(o_ptr + ij, square)
    tl.store(o_ptr + N * N + i, line)
    tl.store(o_ptr + N * N + N + tl.arange(0, 8), bins)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_loops(n: int) -> None:
    N = 16
    x = values((N, N), "f4", 1)
    o = np.zeros(N * N + N + 8, np.float32)
    loops_kernel[(1,)](x, o, n, N=N)
    i = np.arange(N)
    line, square, bins = x[0].copy(), x.copy(), np.zeros(8, np.int64)
    for k in range(n):
        line = line[(i * 5 + k) % N]
        line = line + square.sum(0)
        square = square.T - line.max()
        bins += np.bincount((line.astype(np.int32) + k) & 7, minlength=8)
        line = np.concatenate([line[1::2], line[::2]])
        square = square + np.float32(k)
        if k % 2 == 1:
            square, line = square.cumsum(0, dtype=np.float32), np.sort(line)
        square = np.where(square > 1000, square - 1000, square)
        square = np.where(square < -1000, 3, square)
        line = np.where(abs(line) > 1000, line * 0 + k, line)
    np.testing.assert_array_equal(o, np.concatenate([square.ravel(), line, bins]))


@tw.jit
def narrow_kernel(x_ptr, o_ptr, n, M: tl.constexpr, N: tl.constexpr):
    """Narrow types kept in buffers between nests, through branches and loops."""
    i = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + i)
    y = (x * 2).to(x.dtype)
    if n > 3:
        y = tl.trans(tl.reshape(y, N, M))
    total = tl.zeros((M, N), x.dtype)
    for _ in range(n):
        total = (total + y).to(x.dtype)
        y = tl.reshape(tl.flip(y, 0), M, N)
    tl.store(o_ptr + i, total)
    tl.store(o_ptr + M * N + i, (x - tl.max(x, 1)[:, None].to(x.dtype)).to(x.dtype))
    tl.store(o_ptr + 2 * M * N + i, tl.where(tl.max(x) > tl.min(y), x, y))


@pytest.mark.parametrize(
    "dtype",
    ["i1", "u2", "i8", "f2", "f8", ml_dtypes.bfloat16, ml_dtypes.float8_e5m2],
    ids=lambda d: str(np.dtype(d)),
)
@pytest.mark.parametrize("n", [0, 2, 5])
def test_narrow_types(dtype: str, n: int) -> None:
    M, N = 8, 32
    kind = np.dtype(dtype)
    x = np.random.default_rng(0).integers(0, 3, (M, N)).astype(kind)
    o = np.zeros((3, M, N), kind)
    narrow_kernel[(1,)](x, o, n, M=M, N=N)

    def once(a: np.ndarray) -> np.ndarray:
        return a.astype(kind).astype(np.float64)

    w = x.astype(np.float64)
    y = once(w * 2)
    if n > 3:
        y = y.reshape(N, M).T
    total = np.zeros((M, N))
    for _ in range(n):
        total = once(total + y)
        y = y[::-1]
    np.testing.assert_array_equal(o[0].astype(np.float64), total)
    with np.errstate(all="ignore"):
        down = x - x.max(1)[:, None] if kind.kind in "iu" else once(w - w.max(1)[:, None])
    np.testing.assert_array_equal(o[1].astype(np.float64), down.astype(np.float64))
    np.testing.assert_array_equal(o[2].astype(np.float64), w if w.max() > y.min() else y)


@tw.jit
def pointers_kernel(x_ptr, y_ptr, o_ptr, n, M: tl.constexpr, N: tl.constexpr):
    """Tiles of pointers through loops, branches, choices and shape changes."""
    m = tl.arange(0, M)
    i = tl.arange(0, N)
    left = x_ptr + i
    right = y_ptr + i
    total = tl.zeros((N,), tl.float32)
    for k in range(n):
        picked = tl.where(i % 2 == 0, left, right)
        total += tl.load(picked)
        left, right = right + N, left + N
        if k == 2:
            left += N
    tl.store(o_ptr + i, total)
    grid = x_ptr + m[:, None] * N + i[None, :]
    tl.store(o_ptr + N + i[:, None] * M + m[None, :], tl.load(tl.trans(grid)))
    flat = tl.reshape(grid, M * N)
    tl.store(o_ptr + N + M * N + tl.arange(0, M * N), tl.load(flat, mask=tl.arange(0, M * N) > 5))
    base = x_ptr if n > 3 else y_ptr
    tl.store(o_ptr + N + 2 * M * N + i, tl.load(base + i))
    tl.store(o_ptr + 2 * N + 2 * M * N + i, tl.load(tl.broadcast_to(x_ptr + n, N)))


@pytest.mark.parametrize("n", [0, 1, 4])
def test_tiles_of_pointers(n: int) -> None:
    M, N = 4, 16
    x, y = values((8, N), "f4", 1), values((8, N), "f4", 2)
    o = np.zeros(3 * N + 2 * M * N, np.float32)
    pointers_kernel[(1,)](x, y, o, n, M=M, N=N)
    i = np.arange(N)
    total = np.zeros(N, np.float32)
    left, right = (x, 0), (y, 0)
    for k in range(n):
        total += np.where(i % 2 == 0, left[0][left[1]], right[0][right[1]])
        left, right = (right[0], right[1] + 1), (left[0], left[1] + 1)
        if k == 2:
            left = (left[0], left[1] + 1)
    flat = x[:M].ravel().copy()
    got = o[N + M * N : N + 2 * M * N]
    np.testing.assert_array_equal(o[:N], total)
    np.testing.assert_array_equal(o[N : N + M * N].reshape(N, M), x[:M].T)
    np.testing.assert_array_equal(got[6:], flat[6:])
    np.testing.assert_array_equal(o[-2 * N : -N], (x if n > 3 else y)[0])
    np.testing.assert_array_equal(o[-N:], x[0, n])
