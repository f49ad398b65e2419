"""`tl.dot`, natively: element types, extents, batches, accumulators, chains, layouts of operands."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl

pytestmark = pytest.mark.sampled(3, full=2)

INTS = [np.dtype(f"{u}int{w}") for u in ("", "u") for w in (8, 16, 32, 64)]
FLOATS = [
    np.dtype(t)
    for t in (ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn, "f2", ml_dtypes.bfloat16, "f4", "f8")
]


def values(shape: tuple[int, ...], dtype: np.dtype, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    return rng.standard_normal(shape).astype(dtype)


def exact(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product in fp64, or in the integers of the accumulator."""
    if a.dtype.kind in "iu":
        kind = np.int64 if a.dtype.itemsize == 8 else np.int32
        with np.errstate(over="ignore"):
            return a.astype(kind) @ b.astype(kind)
    return a.astype(np.float64) @ b.astype(np.float64)


def check(got: np.ndarray, a: np.ndarray, b: np.ndarray, start: float = 0) -> None:
    want = exact(a, b) + (np.array(start).astype(exact(a[:1], b).dtype) if start else 0)
    if a.dtype.kind in "iu":
        np.testing.assert_array_equal(got, want)
        return
    size = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64)) + abs(start)
    eps = 2.0**-52 if got.dtype == np.float64 else 2.0**-23
    assert np.all(np.abs(got - want) <= size * eps * 4 + 1e-30), np.abs(got - want).max()


@tw.jit
def dot_kernel(
    a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, prec: tl.constexpr
):
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    k = tl.arange(0, K)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * N + n[None, :])
    c = tl.dot(a, b, input_precision=prec)
    tl.store(c_ptr + m[:, None] * N + n[None, :], c)
    more = tl.load(c_ptr + M * N + m[:, None] * N + n[None, :])
    tl.store(c_ptr + M * N + m[:, None] * N + n[None, :], tl.dot(a, b, acc=more))
    more += tl.dot(a, b)
    tl.store(c_ptr + 2 * M * N + m[:, None] * N + n[None, :], more)


SHAPES = [(16, 16, 16), (32, 64, 16), (1, 16, 32), (64, 1, 8), (2, 4, 1), (128, 32, 2), (16, 8, 64)]


@pytest.mark.parametrize("dtype", [*INTS, *FLOATS], ids=str)
def test_types_and_extents(dtype: np.dtype) -> None:
    shapes = SHAPES if dtype in FLOATS[2:5] else SHAPES[1:4]
    for M, N, K in shapes:
        a, b = values((M, K), dtype, 1), values((K, N), dtype, 2)
        kind = exact(a[:1], b).dtype
        if dtype in FLOATS[:5]:
            kind = np.dtype(np.float32)
        c = np.full((3, M, N), 3, kind)
        dot_kernel[(1,)](a, b, c, M=M, N=N, K=K, prec="ieee")
        check(c[0], a, b)
        check(c[1], a, b, 3)
        check(c[2], a, b, 3)


@pytest.mark.parametrize("shape", [(256, 16, 16), (16, 256, 32), (32, 32, 256), (128, 128, 64)])
def test_large_blocks(shape: tuple[int, int, int]) -> None:
    M, N, K = shape
    for dtype in (np.dtype("f4"), np.dtype("f2"), np.dtype("i1")):
        a, b = values((M, K), dtype, 1), values((K, N), dtype, 2)
        c = np.full((3, M, N), 3, np.int32 if dtype == "i1" else np.float32)
        dot_kernel[(1,)](a, b, c, M=M, N=N, K=K, prec="ieee")
        check(c[0], a, b)
        check(c[1], a, b, 3)
        check(c[2], a, b, 3)


@pytest.mark.parametrize("prec", ["ieee", "tf32", "tf32x3", "bf16x3", "bf16x6"])
def test_precisions(prec: str) -> None:
    a, b = values((32, 32), np.dtype("f4"), 1), values((32, 32), np.dtype("f4"), 2)
    c = np.zeros((3, 32, 32), np.float32)
    dot_kernel[(1,)](a, b, c, M=32, N=32, K=32, prec=prec)
    size = np.abs(a) @ np.abs(b)
    bound = {"ieee": 2**-21, "tf32": 2**-9, "tf32x3": 2**-19, "bf16x3": 2**-14, "bf16x6": 2**-19}
    assert np.all(np.abs(c[0] - exact(a, b)) <= size * bound[prec])


@tw.jit
def half_kernel(a_ptr, b_ptr, c_ptr, N: tl.constexpr):
    i = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    a = tl.load(a_ptr + i)
    b = tl.load(b_ptr + i)
    tl.store(c_ptr + i, tl.dot(a, b, out_dtype=tl.float16))
    tl.store(
        c_ptr + N * N + i, tl.dot(a, b, tl.full((N, N), 1.5, tl.float16), out_dtype=tl.float16)
    )


def test_half_accumulator() -> None:
    a, b = values((32, 32), np.dtype("f2"), 1), values((32, 32), np.dtype("f2"), 2)
    c = np.zeros((2, 32, 32), np.float16)
    half_kernel[(1,)](a, b, c, N=32)
    size = np.abs(a.astype(float)) @ np.abs(b.astype(float)) + 1.5
    assert np.all(np.abs(c[0] - exact(a, b)) <= size * 2**-9)
    assert np.all(np.abs(c[1] - exact(a, b) - 1.5) <= size * 2**-9)


@tw.jit
def batch_kernel(
    a_ptr, b_ptr, c_ptr, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr
):
    g = tl.arange(0, B)[:, None, None]
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    k = tl.arange(0, K)
    a = tl.load(a_ptr + (g * M + m[None, :, None]) * K + k[None, None, :])
    b = tl.load(b_ptr + (g * K + k[None, :, None]) * N + n[None, None, :])
    c = tl.dot(a, b)
    tl.store(c_ptr + (g * M + m[None, :, None]) * N + n[None, None, :], c)
    four = tl.dot(tl.reshape(a, B // 2, 2, M, K), tl.reshape(b, B // 2, 2, K, N))
    again = tl.reshape(four, B, M, N)
    tl.store(c_ptr + B * M * N + (g * M + m[None, :, None]) * N + n[None, None, :], again)


@pytest.mark.parametrize("dtype", [*FLOATS[2:], np.dtype("i1")], ids=str)
def test_batches(dtype: np.dtype) -> None:
    B, M, N, K = 4, 16, 32, 8
    a, b = values((B, M, K), dtype, 1), values((B, K, N), dtype, 2)
    kinds = {"f": np.float64 if dtype == "f8" else np.float32, "i": np.int32, "V": np.float32}
    c = np.zeros((2, B, M, N), kinds[dtype.kind])
    batch_kernel[(1,)](a, b, c, B=B, M=M, N=N, K=K)
    for g in range(B):
        check(c[0, g], a[g], b[g])
        check(c[1, g], a[g], b[g])


@tw.jit
def layouts_kernel(a_ptr, b_ptr, c_ptr, sa, sb, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(a_ptr + i[:, None] * sa + i[None, :])
    b = tl.load(b_ptr + i[None, :] * sb + i[:, None])  # column-major
    out = i[:, None] * N + i[None, :]
    S: tl.constexpr = N * N
    tl.store(c_ptr + 0 * S + out, tl.dot(a, b))
    tl.store(c_ptr + 1 * S + out, tl.dot(a, b, trans_a=True))
    tl.store(c_ptr + 2 * S + out, tl.dot(a, b.T))
    tl.store(c_ptr + 3 * S + out, tl.dot(tl.trans(a), b, trans_b=True).T)
    tl.store(c_ptr + 4 * S + out, tl.dot(a * 2 + 1, b - 1))
    tl.store(c_ptr + 5 * S + out, tl.dot(tl.where(i[:, None] <= i[None, :], a, 0), b))
    first = tl.dot(a, b).to(a.dtype)
    tl.store(c_ptr + 6 * S + out, tl.dot(first, b))
    tl.store(c_ptr + 7 * S + out, tl.dot(tl.flip(a, 1), tl.broadcast_to(b[0:1, :], N, N)))


@pytest.mark.parametrize("dtype", [np.dtype("f4"), np.dtype("f2"), np.dtype("f8")], ids=str)
def test_operand_layouts(dtype: np.dtype) -> None:
    N = 32
    a_all, b_all = values((N, N + 5), dtype, 1), values((N, N + 3), dtype, 2)
    a, b = a_all[:, :N], b_all[:, :N].T
    c = np.zeros((8, N, N), np.float64 if dtype == "f8" else np.float32)
    layouts_kernel[(1,)](a_all, b_all, c, N + 5, N + 3, N=N)
    with np.errstate(over="ignore"):
        first = (a.astype(float) @ b.astype(float)).astype(dtype)
        pairs = [
            (a, b), (a.T, b), (a, b.T), (b, a),
            (a * dtype.type(2) + dtype.type(1), b - dtype.type(1)), (np.triu(a), b), (first, b),
            (a[:, ::-1], np.broadcast_to(b[:1], (N, N))),
        ]  # fmt: skip
    eps = float(np.finfo(dtype).eps) if dtype != "f8" else 1e-14
    for at, (x, y) in enumerate(pairs):
        x, y = x.astype(np.float64), y.astype(np.float64)
        size = np.abs(x) @ np.abs(y) + 1
        if at in (4, 6):  # rounded on the way
            assert np.all(np.abs(c[at] - x @ y) <= size * eps * 4), at
        else:
            assert np.all(np.abs(c[at] - x @ y) <= size * 4 * (2.0**-23 if dtype != "f8" else eps))


@tw.jit
def attention_kernel(q_ptr, k_ptr, v_ptr, o_ptr, T, D: tl.constexpr, B: tl.constexpr):
    """Two chained dots in a loop, with carried maxima, sums and accumulator."""
    rows = tl.program_id(0) * B + tl.arange(0, B)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + rows[:, None] * D + d[None, :], mask=rows[:, None] < T, other=0.0)
    top = tl.full((B,), float("-inf"), tl.float32)
    total = tl.zeros((B,), tl.float32)
    acc = tl.zeros((B, D), tl.float32)
    for start in range(0, T, B):
        columns = start + tl.arange(0, B)
        live = columns < T
        k = tl.load(k_ptr + columns[None, :] * D + d[:, None], mask=live[None, :], other=0.0)
        v = tl.load(v_ptr + columns[:, None] * D + d[None, :], mask=live[:, None], other=0.0)
        s = tl.where(live[None, :], tl.dot(q, k) * 0.25, float("-inf"))
        peak = tl.maximum(top, tl.max(s, 1))
        p = tl.exp(s - peak[:, None])
        scale = tl.exp(top - peak)
        total = total * scale + tl.sum(p, 1)
        acc = acc * scale[:, None] + tl.dot(p.to(v.dtype), v)
        top = peak
    acc = acc / total[:, None]
    tl.store(o_ptr + rows[:, None] * D + d[None, :], acc, mask=rows[:, None] < T)


@pytest.mark.parametrize("dtype", [np.dtype("f4"), np.dtype("f2"), FLOATS[3]], ids=str)
def test_attention(dtype: np.dtype) -> None:
    T, D, B = 75, 32, 32
    q, k, v = (values((T, D), dtype, s) for s in (1, 2, 3))
    o = np.zeros((T, D), np.float32)
    attention_kernel[(-(-T // B),)](q, k, v, o, T, D=D, B=B)
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    s = q @ k.T * 0.25
    p = np.exp(s - s.max(1, keepdims=True))
    want = p / p.sum(1, keepdims=True) @ v
    tolerance = {"float32": 2e-6, "float16": 2e-3, "bfloat16": 2e-2}[str(dtype)]
    np.testing.assert_allclose(o, want, atol=tolerance)


@tw.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, am, ak, bk, bn, cm, cn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        a = tl.load(
            a_ptr + m[:, None] * am + (start + k)[None, :] * ak,
            mask=(m[:, None] < M) & (start + k < K)[None, :], other=0.0,
        )  # fmt: skip
        b = tl.load(
            b_ptr + (start + k)[:, None] * bk + n[None, :] * bn,
            mask=(start + k < K)[:, None] & (n[None, :] < N), other=0.0,
        )  # fmt: skip
        acc = tl.dot(a, b, acc)
    mask = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c_ptr + m[:, None] * cm + n[None, :] * cn, acc, mask=mask)


@pytest.mark.parametrize("blocks", [(16, 16, 16), (32, 64, 32), (64, 16, 8), (128, 32, 64)])
@pytest.mark.parametrize("order", ["CC", "FF", "CF"])
def test_matmul(blocks: tuple[int, int, int], order: str) -> None:
    M, N, K = 77, 53, 91
    BM, BN, BK = blocks
    dtype = np.dtype("f4" if order != "FF" else "f2")
    a = np.asarray(values((M, K), dtype, 1), order=order[0])  # type: ignore[call-overload]
    b = np.asarray(values((K, N), dtype, 2), order=order[1])  # type: ignore[call-overload]
    c = np.zeros((M, N), np.float32)
    strides = [s // x.itemsize for x in (a, b, c) for s in x.strides]
    a_flat, b_flat = (np.lib.stride_tricks.as_strided(x, (1,), (x.itemsize,)) for x in (a, b))
    grid = (-(-M // BM), -(-N // BN))
    matmul_kernel[grid](a_flat, b_flat, c, M, N, K, *strides, BM=BM, BN=BN, BK=BK)
    check(c, a, b)


@tw.jit
def spread_kernel(x_ptr, w_ptr, o_ptr, n, step, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr):
    """The left operand is made of a vector alone: its one load has one dimension."""
    rows, k, columns = tl.arange(0, M), tl.arange(0, K), tl.arange(0, N)
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, n, K):
        x = tl.load(x_ptr + (start + k) * step)
        w = tl.load(w_ptr + (start + k)[:, None] * N + columns[None, :])
        total = tl.dot(tl.exp2(-x[None, :] * rows[:, None]), w, total)
    tl.store(o_ptr + rows[:, None] * N + columns[None, :], total)


@pytest.mark.parametrize("step", [1, 2])
def test_an_operand_spread_from_a_vector(step):
    rng = np.random.default_rng(0)
    x, w = rng.random(96 * step).astype("f4"), rng.standard_normal((96, 32)).astype("f4")
    out = np.zeros((16, 32), "f4")
    spread_kernel[1,](x, w, out, 96, step, M=16, K=32, N=32)
    left = np.exp2(-x[None, ::step].astype("f8") * np.arange(16)[:, None])
    np.testing.assert_allclose(out, left @ w.astype("f8"), rtol=1e-4, atol=1e-4)


@tw.jit
def state_kernel(
    state_ptr,
    key_ptr,
    weight_ptr,
    out_ptr,
    steps,
    M: tl.constexpr,
    K: tl.constexpr,
    W: tl.constexpr,
):
    """A carried tile that one product reads as an operand, and two products of other extents add to."""
    m, k, w = tl.arange(0, M), tl.arange(0, K), tl.arange(0, W)
    at = m[:, None] * K + k[None, :]
    state = tl.load(state_ptr + at)
    for i in range(steps):
        key = tl.load(key_ptr + i * M * K + at)
        weight = tl.load(weight_ptr + i * W * K + w[:, None] * K + k[None, :])
        scores = tl.dot(state, tl.trans(key))
        state -= tl.dot(tl.dot(state, tl.trans(weight)), weight)
        state = tl.dot(scores, key, state)
        state = tl.dot(tl.dot(state, tl.trans(weight)), weight, state)
    tl.store(out_ptr + at, state)


@pytest.mark.parametrize(("m", "k", "w"), [(32, 64, 32), (16, 64, 8), (64, 32, 16), (32, 8, 64)])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_carried_tile_that_products_read_and_add_to(m, k, w, dtype):
    rng = np.random.default_rng(0)
    state, keys, weights = (
        (rng.standard_normal(s) * 0.1).astype(dtype) for s in ((m, k), (3, m, k), (3, w, k))
    )
    out = np.zeros_like(state)
    state_kernel[(1,)](state, keys, weights, out, 3, M=m, K=k, W=w)
    wanted = state.astype(np.float64)
    for key, weight in zip(keys.astype(np.float64), weights.astype(np.float64), strict=True):
        scores = wanted @ key.T
        wanted = wanted - wanted @ weight.T @ weight + scores @ key
        wanted = wanted + wanted @ weight.T @ weight
    np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-5)
