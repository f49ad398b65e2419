"""Reductions, scans, histograms and sorts, natively, every element type, against NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl

pytestmark = pytest.mark.sampled(2)

INTS = [np.dtype(f"{u}int{w}") for u in ("", "u") for w in (8, 16, 32, 64)]
SMALL = [
    np.dtype(t)
    for t in (ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn, np.float16, ml_dtypes.bfloat16)
]
FLOATS = [*SMALL, np.dtype("f4"), np.dtype("f8")]
BOOL = np.dtype(bool)


def values(shape: tuple[int, ...], dtype: np.dtype, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    return rng.standard_normal(shape).astype(dtype)


def summed_type(dtype: np.dtype) -> np.dtype:
    if dtype.kind in "bi" and dtype.itemsize < 4:
        return np.dtype("i4")
    if dtype.kind == "u" and dtype.itemsize < 4:
        return np.dtype("u4")
    return dtype


@tw.jit
def sums_kernel(x_ptr, o_ptr, M: tl.constexpr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    tl.store(o_ptr + tl.arange(0, N), tl.sum(x, 0))
    tl.store(o_ptr + N + tl.arange(0, M), tl.sum(x, axis=1))
    tl.store(o_ptr + N + M, tl.sum(x))
    tl.store(o_ptr + N + M + 1 + tl.arange(0, M)[:, None], tl.sum(x, 1, keep_dims=True))
    tl.store(o_ptr + N + 2 * M + 1 + tl.arange(0, 1)[:, None], tl.sum(x, keep_dims=True))
    tl.store(o_ptr + N + 2 * M + 2 + tl.arange(0, N), tl.sum(x, axis=-2))


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        *((d, (8, 32)) for d in [BOOL, *INTS, *FLOATS]),
        *((np.dtype(t), (64, 4)) for t in ("i1", "f2", "f4", "f8")),
    ],
    ids=str,
)
def test_sums(dtype: np.dtype, shape: tuple[int, int]) -> None:
    M, N = shape
    x = values(shape, dtype)
    kind = summed_type(dtype)
    o = np.zeros(2 * N + 2 * M + 2, kind)
    sums_kernel[(1,)](x, o, M=M, N=N)
    wide = x.astype(np.float64) if dtype in FLOATS else x.astype(kind)
    acc = wide.dtype
    want = np.concatenate(
        [wide.sum(0, dtype=acc), wide.sum(1, dtype=acc), [wide.sum(dtype=acc)],
         wide.sum(1, dtype=acc), [wide.sum(dtype=acc)], wide.sum(0, dtype=acc)]
    )  # fmt: skip
    if dtype in FLOATS:
        eps = float(ml_dtypes.finfo(dtype).eps)
        np.testing.assert_allclose(o.astype(np.float64), want, rtol=2 * eps, atol=eps * 64)
    else:
        np.testing.assert_array_equal(o, want)


@tw.jit
def extremes_kernel(x_ptr, o_ptr, i_ptr, M: tl.constexpr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    tl.store(o_ptr + n, tl.max(x, 0))
    tl.store(o_ptr + N + m, tl.min(x, 1))
    big, where_big = tl.max(x, 1, return_indices=True)
    tl.store(o_ptr + N + M + m, big)
    tl.store(i_ptr + m, where_big)
    small, where_small = tl.min(x, 0, return_indices=True, return_indices_tie_break_left=True)
    tl.store(o_ptr + N + 2 * M + n, small)
    tl.store(i_ptr + M + n, where_small)
    tl.store(o_ptr + 2 * N + 2 * M, tl.max(x))
    tl.store(o_ptr + 2 * N + 2 * M + 1, tl.min(x))
    tl.store(i_ptr + M + N + n, tl.argmax(x, 0))
    tl.store(i_ptr + M + 2 * N + m, tl.argmin(x, 1))
    tl.store(i_ptr + 2 * M + 2 * N + m[:, None], tl.argmax(x, 1, keep_dims=True))
    tl.store(i_ptr + 3 * M + 2 * N, tl.argmax(x, axis=None))
    tl.store(i_ptr + 3 * M + 2 * N + 1, tl.argmin(x, axis=None))


@pytest.mark.parametrize("dtype", [BOOL, *INTS, *FLOATS], ids=str)
def test_extremes(dtype: np.dtype) -> None:
    M, N = 16, 32
    x = values((M, N), dtype)
    x[:, 20] = x[:, 3]  # ties
    x[7] = x[2]
    o, i = np.zeros(2 * N + 2 * M + 2, dtype), np.zeros(3 * M + 2 * N + 2, np.int32)
    extremes_kernel[(1,)](x, o, i, M=M, N=N)
    wide = x.astype(np.float64) if dtype in FLOATS else x
    want = [wide.max(0), wide.min(1), wide.max(1), wide.min(0), [wide.max(), wide.min()]]
    np.testing.assert_array_equal(o.astype(wide.dtype), np.concatenate(want))
    places = [
        wide.argmax(1), wide.argmin(0), wide.argmax(0), wide.argmin(1), wide.argmax(1),
        [wide.argmax(), wide.argmin()],
    ]  # fmt: skip
    np.testing.assert_array_equal(i, np.concatenate(places))


@tw.jit
def nan_kernel(x_ptr, o_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(o_ptr + 0, tl.max(x))
    tl.store(o_ptr + 1, tl.min(x))
    tl.store(o_ptr + 2, tl.max(tl.load(x_ptr + N + tl.arange(0, N))))
    tl.store(o_ptr + 3, tl.sum(x))


@pytest.mark.parametrize("dtype", FLOATS[2:], ids=str)
def test_numbers_win_over_nan(dtype: np.dtype) -> None:
    x = values((2, 32), dtype)
    x[0, 4:9] = np.nan
    x[1] = np.nan
    o = np.zeros(4, dtype)
    nan_kernel[(1,)](x, o, N=32)
    finite = x[0][~np.isnan(x[0].astype(float))].astype(float)
    np.testing.assert_array_equal(o.astype(float), [finite.max(), finite.min(), np.nan, np.nan])


@tw.jit
def take_or(a, b):
    return a | b


@tw.jit
def bits_kernel(x_ptr, o_ptr, M: tl.constexpr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    tl.store(o_ptr + tl.arange(0, N), tl.xor_sum(x, 0))
    tl.store(o_ptr + N + tl.arange(0, M), tl.xor_sum(x, 1))
    tl.store(o_ptr + N + M, tl.xor_sum(x, None))
    tl.store(o_ptr + N + M + 1 + tl.arange(0, M), tl.reduce_or(x & 3, 1))
    tl.store(o_ptr + N + 2 * M + 1 + tl.arange(0, N), tl.reduce(x, 0, take_or))


@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_bits(dtype: np.dtype) -> None:
    M, N = 8, 16
    x = values((M, N), dtype)
    o = np.zeros(2 * M + 2 * N + 1, dtype)
    bits_kernel[(1,)](x, o, M=M, N=N)
    xor, either = np.bitwise_xor.reduce, np.bitwise_or.reduce
    want = [xor(x, 0), xor(x, 1), [xor(x.ravel())], either(x & 3, 1), either(x, 0)]
    np.testing.assert_array_equal(o, np.concatenate(want).astype(dtype))


@tw.jit
def product(a, b):
    return a * b


@tw.jit
def welford(mean_a, m2_a, count_a, mean_b, m2_b, count_b):
    count = count_a + count_b
    delta = mean_b - mean_a
    share = count_b / count
    return mean_a + delta * share, m2_a + m2_b + delta * delta * count_a * share, count


@tw.jit
def larger_key(key_a, value_a, key_b, value_b):
    """A helper with two returns and a branch-free choice."""
    if key_a.dtype == tl.float32:
        first = key_a >= key_b
        return tl.where(first, key_a, key_b), tl.where(first, value_a, value_b)
    return key_a, value_a


@tw.jit
def custom_kernel(x_ptr, o_ptr, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    a = tl.arange(0, A)[:, None, None]
    b = tl.arange(0, B)[None, :, None]
    c = tl.arange(0, C)[None, None, :]
    x = tl.load(x_ptr + (a * B + b) * C + c)
    ac = tl.arange(0, A)[:, None] * C + tl.arange(0, C)[None, :]
    tl.store(o_ptr + ac, tl.reduce(x, 1, product))
    one = tl.full((A, B, C), 1.0, tl.float32)
    mean, m2, count = tl.reduce((x, tl.zeros_like(x), one), 1, welford)
    S: tl.constexpr = A * C
    tl.store(o_ptr + S + ac, mean)
    tl.store(o_ptr + 2 * S + ac, m2)
    tl.store(o_ptr + 3 * S + ac, count)
    key, place = tl.reduce((x, (b + x * 0).to(tl.int32)), 1, larger_key)
    tl.store(o_ptr + 4 * S + ac, key)
    tl.store(o_ptr + 5 * S + ac, place)
    total = tl.reduce(x, None, product)
    tl.store(o_ptr + 6 * S, total)
    bc = tl.arange(0, B)[:, None] * C + tl.arange(0, C)[None, :]
    tl.store(o_ptr + 6 * S + 1 + bc, tl.reduce(x, 0, product))


@pytest.mark.parametrize("shape", [(2, 16, 4), (4, 4, 16), (1, 32, 2), (2, 2, 1)])
def test_custom_reductions(shape: tuple[int, int, int]) -> None:
    A, B, C = shape
    x = np.random.default_rng(1).uniform(0.5, 1.5, shape).astype(np.float32)
    S = A * C
    o = np.zeros(6 * S + 1 + B * C, np.float32)
    custom_kernel[(1,)](x, o, A=A, B=B, C=C)
    w = x.astype(np.float64)
    want = [w.prod(1), w.mean(1), w.var(1) * B, np.full((A, C), B), w.max(1), w.argmax(1)]
    np.testing.assert_allclose(o[: 6 * S].reshape(6, A, C), want, rtol=2e-5, atol=1e-5)
    np.testing.assert_allclose(o[6 * S], w.prod(), rtol=2e-5)
    np.testing.assert_allclose(o[6 * S + 1 :].reshape(B, C), w.prod(0), rtol=2e-5)


@tw.jit
def scans_kernel(x_ptr, o_ptr, M: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + i)
    S: tl.constexpr = M * N
    tl.store(o_ptr + 0 * S + i, tl.cumsum(x, 0))
    tl.store(o_ptr + 1 * S + i, tl.cumsum(x, 1))
    tl.store(o_ptr + 2 * S + i, tl.cumsum(x, 1, reverse=True))
    tl.store(o_ptr + 3 * S + i, tl.cumprod(x, axis=-1))
    tl.store(o_ptr + 4 * S + i, tl.associative_scan(x, 0, tl_max, reverse=True))
    tl.store(o_ptr + 5 * S + i, tl.associative_scan(x, 1, tl_max))


@tw.jit
def tl_max(a, b):
    return tl.maximum(a, b)


@pytest.mark.parametrize("dtype", [*INTS, *FLOATS], ids=str)
def test_scans(dtype: np.dtype) -> None:
    M, N = 8, 16
    x = values((M, N), dtype)
    if dtype in FLOATS:
        x = (x.astype(float) / 4 + 1).astype(dtype)
    kind = summed_type(dtype)
    o = np.zeros((6, M, N), kind)
    scans_kernel[(1,)](x, o, M=M, N=N)
    w = x.astype(np.float64) if dtype in FLOATS else x.astype(kind)
    p = w if dtype in FLOATS else x  # products keep the type of integers
    top = np.maximum.accumulate
    want = [
        w.cumsum(0, dtype=w.dtype), w.cumsum(1, dtype=w.dtype),
        w[:, ::-1].cumsum(1, dtype=w.dtype)[:, ::-1], p.cumprod(1, dtype=p.dtype),
        top(w[::-1], 0)[::-1], top(w, 1),
    ]  # fmt: skip
    if dtype in FLOATS:
        eps = float(ml_dtypes.finfo(dtype).eps)
        np.testing.assert_allclose(
            o.astype(float), want, rtol=max(eps, 4e-7 if dtype == "f4" else 4e-15)
        )
    else:
        np.testing.assert_array_equal(o, want)


@tw.jit
def recur(a1, b1, a2, b2):
    """h -> a h + b, one after the other."""
    return a1 * a2, a2 * b1 + b2


@tw.jit
def recurrence_kernel(a_ptr, b_ptr, o_ptr, M: tl.constexpr, N: tl.constexpr, back: tl.constexpr):
    i = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    a = tl.load(a_ptr + i)
    b = tl.load(b_ptr + i)
    _, h = tl.associative_scan((a, b), 0, recur, reverse=back)
    tl.store(o_ptr + i, h)


@pytest.mark.parametrize("back", [False, True])
def test_linear_recurrence(back: bool) -> None:
    M, N = 32, 8
    rng = np.random.default_rng(0)
    a, b = rng.uniform(0.5, 1, (2, M, N)).astype(np.float32)
    o = np.zeros((M, N), np.float32)
    recurrence_kernel[(1,)](a, b, o, M=M, N=N, back=back)
    h = np.zeros(N)
    want = np.zeros((M, N))
    for m in reversed(range(M)) if back else range(M):
        h = a[m] * h + b[m]
        want[m] = h
    np.testing.assert_allclose(o, want, rtol=1e-5)


@tw.jit
def histogram_kernel(x_ptr, m_ptr, o_ptr, N: tl.constexpr, BINS: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    keep = tl.load(m_ptr + tl.arange(0, N))
    tl.store(o_ptr + tl.arange(0, BINS), tl.histogram(x, BINS))
    tl.store(o_ptr + BINS + tl.arange(0, BINS), tl.histogram(x, BINS, mask=keep))


@pytest.mark.parametrize("dtype", [np.dtype("i4"), np.dtype("u1"), np.dtype("i8")], ids=str)
@pytest.mark.parametrize("bins", [4, 256])
def test_histogram(dtype: np.dtype, bins: int) -> None:
    N = 128
    rng = np.random.default_rng(0)
    x, keep = rng.integers(0, min(bins, 256), N).astype(dtype), rng.random(N) < 0.4
    o = np.zeros((2, bins), np.int32)
    histogram_kernel[(1,)](x, keep, o, N=N, BINS=bins)
    np.testing.assert_array_equal(
        o, [np.bincount(x, minlength=bins), np.bincount(x[keep], minlength=bins)]
    )


@tw.jit
def sort_kernel(x_ptr, o_ptr, M: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + i)
    S: tl.constexpr = M * N
    tl.store(o_ptr + i, tl.sort(x))
    tl.store(o_ptr + S + i, tl.sort(x, 1, descending=True))
    few = tl.arange(0, M)[:, None] * 4 + tl.arange(0, 4)[None, :]
    tl.store(o_ptr + 2 * S + few, tl.topk(x, 4))
    line = tl.load(x_ptr + tl.arange(0, N))
    tl.store(o_ptr + 2 * S + 4 * M + tl.arange(0, N), tl.sort(line, dim=0))


@pytest.mark.parametrize(
    "dtype", [np.dtype(t) for t in ("u2", "i8", "f4")], ids=str,
)  # fmt: skip
def test_sort(dtype: np.dtype) -> None:
    M, N = 4, 16
    x = values((M, N), dtype)
    x[:, 5] = x[:, 1]
    S = M * N
    o = np.zeros(2 * S + 4 * M + N, dtype)
    sort_kernel[(1,)](x, o, M=M, N=N)
    w = x.astype(np.float64) if dtype in FLOATS else x
    up = np.sort(w, 1)
    want = [up.ravel(), up[:, ::-1].ravel(), up[:, :-5:-1].ravel(), np.sort(w[0])]
    np.testing.assert_array_equal(o.astype(w.dtype), np.concatenate(want))


@tw.jit
def long_kernel(x_ptr, o_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    value, place = tl.max(x, 0, return_indices=True)
    tl.store(o_ptr, tl.sum(x))
    tl.store(o_ptr + 1, value)
    tl.store(o_ptr + 2, place)
    tl.store(o_ptr + 3 + tl.arange(0, N), tl.cumsum(x))
    soft = tl.softmax(x)
    tl.store(o_ptr + 3 + N + tl.arange(0, N), soft)


@pytest.mark.parametrize("n", [1, 2, 64, 4096])
def test_one_dimension(n: int) -> None:
    x = np.random.default_rng(0).standard_normal(n).astype(np.float32)
    o = np.zeros(3 + 2 * n, np.float32)
    long_kernel[(1,)](x, o, N=n)
    w = x.astype(np.float64)
    np.testing.assert_allclose(o[:3], [w.sum(), w.max(), w.argmax()], rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(o[3 : 3 + n], w.cumsum(), rtol=1e-5, atol=2e-4)
    e = np.exp(w - w.max())
    np.testing.assert_allclose(o[3 + n :], e / e.sum(), rtol=1e-5)


@tw.jit
def topk_kernel(x_ptr, o_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows, lanes = tl.arange(0, M)[:, None], tl.arange(0, N)
    x = tl.load(x_ptr + rows * N + lanes)
    to = o_ptr + rows * K + tl.arange(0, K)
    tl.store(to, tl.topk(x, K))
    tl.store(to + M * K, tl.topk(x, K, descending=False))


@pytest.mark.parametrize(("rows", "extent", "k"), [(1, 64, 4), (4, 32, 16), (2, 128, 128)])
@pytest.mark.parametrize("dtype", [np.dtype(t) for t in ("u2", "i4", "i8", "f2", "f4")], ids=str)
def test_topk(dtype: np.dtype, rows: int, extent: int, k: int) -> None:
    """With equal elements, and with the values that stand for chosen ones."""
    x = values((rows, extent), dtype)
    x[:, 1::3] = x[:, :1]
    if dtype.kind == "f":
        x[:, -3:], x[:, -4] = -np.inf, np.inf
    else:
        x[:, -3:], x[:, -4] = np.iinfo(dtype).min, np.iinfo(dtype).max
    out = np.zeros((2, rows, k), dtype)
    topk_kernel[(1,)](x, out, rows, extent, k)
    rising = np.sort(x, -1)
    assert (out == np.stack([rising[:, ::-1][:, :k], rising[:, :k]])).all()


@tw.jit
def sorted_row_kernel(x_ptr, o_ptr, n, BLOCK: tl.constexpr, K: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=float("inf"))
    tl.store(o_ptr + i, tl.sort(x), mask=i < n)
    tl.store(o_ptr + n + tl.arange(0, K), tl.topk(x, K, descending=False))


@pytest.mark.parametrize(
    ("n", "block", "k"), [(300, 1024, 16), (1, 64, 1), (700, 1024, 256), (31, 32, 9)]
)
def test_sort_of_masked_rows(n: int, block: int, k: int) -> None:
    """Exchanges between chunks and within them, of rows whose last lanes are all alike."""
    x, rounded = values((n,), np.dtype("f4")), 1 << (k - 1).bit_length()
    out = np.zeros(n + rounded, np.float32)
    sorted_row_kernel[(1,)](x, out, n, block, rounded)
    w = np.sort(np.concatenate([x, np.full(block - n, np.inf, np.float32)]))
    assert (out == np.concatenate([w[:n], w[:rounded]])).all()


@tw.jit
def butterfly_kernel(
    x_ptr, o_ptr, M: tl.constexpr, N: tl.constexpr, MASK: tl.constexpr, AXIS: tl.constexpr
):
    rows, columns = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + rows * N + columns)
    if AXIS == 0:
        at = tl.broadcast_to(rows ^ MASK, (M, N))
    else:
        at = tl.broadcast_to(MASK ^ columns, (M, N))
    tl.store(o_ptr + rows * N + columns, tl.gather(x + 1, at, AXIS))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("mask", [1, 3, 4, 7, 12])
@pytest.mark.parametrize("shape", [(16, 16), (32, 256), (64, 16)])
def test_butterfly(shape: tuple[int, int], mask: int, axis: int) -> None:
    x = values(shape, np.dtype("f4"))
    out = np.zeros_like(x)
    butterfly_kernel[(1,)](x, out, *shape, mask, axis)
    order = np.arange(shape[axis]) ^ mask
    assert (out == np.take(x + 1, order, axis)).all()


@tw.jit
def widened_kernel(x_ptr, o_ptr, sums: tl.constexpr, extremes: tl.constexpr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.static_assert(tl.sum(x, 0).dtype == sums)
    tl.static_assert(tl.cumsum(x, 0).dtype == sums)
    tl.static_assert(tl.max(x, 0, return_indices=True)[0].dtype == x.dtype)
    largest = tl.max(x, 0)
    tl.static_assert(largest.dtype == extremes)
    tl.store(o_ptr, largest - 300)
    tl.store(o_ptr + 1, tl.min(x, 0) - 300)


@pytest.mark.parametrize("name", ["int1", "int8", "uint8", "int16", "uint16"])
def test_narrow_integers_widen_as_in_triton(name: str) -> None:
    """Sums keep the sign (int1 is unsigned); the largest and smallest are int32, below 0 where less is taken off."""
    x = values((16,), np.dtype(bool if name == "int1" else name))
    out = np.zeros(2, np.int32)
    sums = tl.int32 if name.startswith("int") and name != "int1" else tl.uint32
    widened_kernel[(1,)](x, out, sums=sums, extremes=tl.int32, N=16)
    np.testing.assert_array_equal(out, [int(x.max()) - 300, int(x.min()) - 300])
