"""Operations on shapes, natively, for every element width, against NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl

DTYPES = [
    np.dtype(t)
    for t in (bool, "i1", "u2", "i4", "u8", ml_dtypes.float8_e4m3fn, "f2", ml_dtypes.bfloat16,
              "f4", "f8")
]  # fmt: skip


def values(shape: tuple[int, ...], dtype: np.dtype, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 2 if dtype.kind == "b" else 100, shape).astype(dtype)


@tw.jit
def cube(A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    """Row-major offsets of an A x B x C block."""
    a = tl.arange(0, A)[:, None, None]
    b = tl.arange(0, B)[None, :, None]
    c = tl.arange(0, C)[None, None, :]
    return (a * B + b) * C + c


@tw.jit
def permute_kernel(x_ptr, o_ptr, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    x = tl.load(x_ptr + cube(A, B, C))
    S: tl.constexpr = A * B * C
    tl.store(o_ptr + 0 * S + cube(A, C, B), tl.permute(x, 0, 2, 1))
    tl.store(o_ptr + 1 * S + cube(B, A, C), tl.permute(x, (1, 0, 2)))
    tl.store(o_ptr + 2 * S + cube(B, C, A), x.permute(1, 2, 0))
    tl.store(o_ptr + 3 * S + cube(C, A, B), tl.trans(x, 2, 0, 1))
    tl.store(o_ptr + 4 * S + cube(C, B, A), tl.trans(x, 2, 1, 0))
    tl.store(o_ptr + 5 * S + cube(A, C, B), tl.trans(x))
    tl.store(o_ptr + 6 * S + tl.arange(0, S), tl.ravel(x))
    tl.store(o_ptr + 7 * S + cube(C, B, A), tl.reshape(x, C, B, A))
    rows = tl.reshape(x, (A * B, C))
    tl.store(
        o_ptr + 8 * S + tl.arange(0, C)[:, None] * (A * B) + tl.arange(0, A * B)[None, :], rows.T
    )
    tl.store(o_ptr + 9 * S + cube(A, B, C), tl.flip(x))
    tl.store(o_ptr + 10 * S + cube(A, B, C), tl.flip(x, 0))
    tl.store(o_ptr + 11 * S + cube(A, B, C), tl.flip(x, 1))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_permutations(dtype: np.dtype) -> None:
    shape = A, B, C = 2, 8, 4
    x = values(shape, dtype)
    o = np.zeros((12, x.size), dtype)
    permute_kernel[(1,)](x, o, A=A, B=B, C=C)
    want = [
        x.transpose(0, 2, 1), x.transpose(1, 0, 2), x.transpose(1, 2, 0), x.transpose(2, 0, 1),
        x.transpose(2, 1, 0), x.transpose(0, 2, 1), x, x, x.reshape(A * B, C).T, x[:, :, ::-1],
        x[::-1], x[:, ::-1],
    ]  # fmt: skip
    for at, row in enumerate(want):
        np.testing.assert_array_equal(o[at], row.ravel(), err_msg=f"row {at}")


@tw.jit
def pairs_kernel(x_ptr, y_ptr, o_ptr, M: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    wide = tl.arange(0, M)[:, None] * (2 * N) + tl.arange(0, 2 * N)[None, :]
    tall = tl.arange(0, 2 * M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + i)
    y = tl.load(y_ptr + i)
    S: tl.constexpr = 2 * M * N
    both = tl.join(x, y)
    tl.store(o_ptr + 0 * S + i[:, :, None] * 2 + tl.arange(0, 2)[None, None, :], both)
    tl.store(o_ptr + 1 * S + wide, tl.interleave(x, y))
    low, high = tl.split(tl.reshape(x, M, N // 2, 2))
    tl.store(o_ptr + 2 * S + wide, tl.cat(low, high, dim=1).broadcast_to(M, N).reshape(M, N)
             .expand_dims(2).broadcast_to(M, N, 2).reshape(M, 2 * N))  # fmt: skip
    tl.store(o_ptr + 3 * S + wide, tl.cat(x, y, dim=1))
    tl.store(o_ptr + 4 * S + tall, tl.cat(x, y, dim=0))
    back_x, back_y = both.split()
    tl.store(o_ptr + 5 * S + wide, tl.cat(back_y, back_x, dim=-1))
    row = tl.load(x_ptr + tl.arange(0, N))
    column = tl.load(y_ptr + tl.arange(0, M))
    a, b = tl.broadcast(row[None, :], column[:, None])
    tl.store(o_ptr + 6 * S + wide, tl.cat(a, b, dim=1))
    tl.store(o_ptr + 7 * S + tl.arange(0, 2 * N), tl.cat(row, row))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_pairs(dtype: np.dtype) -> None:
    M, N = 4, 16
    x, y = values((M, N), dtype, 1), values((M, N), dtype, 2)
    o = np.zeros((8, 2 * M * N), dtype)
    pairs_kernel[(1,)](x, y, o, M=M, N=N)
    halves = np.concatenate([x[:, ::2], x[:, 1::2]], 1)
    line = np.zeros(2 * M * N, dtype)
    line[: 2 * N] = np.tile(x[0], 2)
    a, b = np.broadcast_arrays(x[0][None, :], y.ravel()[:M][:, None])
    want = [
        np.stack([x, y], -1), np.stack([x, y], -1), np.repeat(halves, 2, 1),
        np.concatenate([x, y], 1), np.concatenate([x, y], 0), np.concatenate([y, x], 1),
        np.concatenate([a, b], 1), line,
    ]  # fmt: skip
    for at, row in enumerate(want):
        np.testing.assert_array_equal(o[at], row.ravel(), err_msg=f"row {at}")


@tw.jit
def pick_kernel(x_ptr, j_ptr, k_ptr, o_ptr, n, M: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + i)
    rows = tl.load(j_ptr + i)  # M x N indices below M
    columns = tl.load(k_ptr + i)  # M x N indices below N
    S: tl.constexpr = M * N
    tl.store(o_ptr + 0 * S + i, tl.gather(x, rows, 0))
    tl.store(o_ptr + 1 * S + i, tl.gather(x, columns, 1))
    few = tl.arange(0, M)[:, None] * 2 + tl.arange(0, 2)[None, :]
    two = tl.load(k_ptr + few)
    tl.store(o_ptr + 2 * S + few, tl.gather(x, two, 1))
    tl.store(o_ptr + 3 * S + tl.arange(0, N), x[1])
    tl.store(o_ptr + 4 * S + tl.arange(0, M), x[:, -1])
    tl.store(o_ptr + 5 * S, x[M - 1, n])
    tl.store(o_ptr + 6 * S + few, x[:, 2:4])
    tl.store(o_ptr + 7 * S + few, x[:, N - 1 : N - 5 : -2])
    row = tl.load(x_ptr + tl.arange(0, N))
    tl.store(o_ptr + 8 * S + tl.arange(0, N), tl.gather(row, tl.load(k_ptr + tl.arange(0, N)), 0))
    tl.store(o_ptr + 9 * S + tl.arange(0, N // 2), row[: N // 2])
    one = tl.sum(tl.where(tl.arange(0, N) == n, row.to(tl.float64), 0), keep_dims=True)
    tl.store(o_ptr + 10 * S, one.item().to(o_ptr.dtype.element_ty))
    tl.store(o_ptr + 11 * S + tl.arange(0, N), tl.squeeze(tl.unsqueeze(row, 0), 0))


@pytest.mark.parametrize(
    ("dtype", "index"),
    [*((d, "i4") for d in DTYPES), (np.dtype("f4"), "u1"), (np.dtype("f4"), "i8")],
    ids=str,
)
def test_gather_and_subscripts(dtype: np.dtype, index: str) -> None:
    M, N, n = 4, 32, 5
    x = values((M, N), dtype, 1)
    rng = np.random.default_rng(3)
    j, k = rng.integers(0, M, (M, N)).astype(index), rng.integers(0, N, (M, N)).astype(index)
    o = np.zeros((12, M * N), dtype)
    pick_kernel[(1,)](x, j, k, o, n, M=M, N=N)
    rows, columns = j.astype(np.int64), k.astype(np.int64)
    want = [
        np.take_along_axis(x, rows, 0), np.take_along_axis(x, columns, 1),
        np.take_along_axis(x, columns.ravel()[: 2 * M].reshape(M, 2), 1), x[1], x[:, -1],
        x[M - 1, n : n + 1], x[:, 2:4], x[:, N - 1 : N - 5 : -2], x[0][columns[0]], x[0][: N // 2],
        x[0][n : n + 1], x[0],
    ]  # fmt: skip
    for at, row in enumerate(want):
        got = o[at][: row.size]
        np.testing.assert_array_equal(got, row.ravel(), err_msg=f"row {at}")


@tw.jit
def make_kernel(o_ptr, v, N: tl.constexpr):
    i = tl.arange(0, N)
    kind: tl.constexpr = o_ptr.dtype.element_ty
    tl.store(o_ptr + 0 * N + i, tl.full((N,), 1, kind))
    tl.store(o_ptr + 1 * N + i, tl.zeros((N,), dtype=kind))
    tl.store(o_ptr + 2 * N + i, tl.zeros_like(tl.full([N], 1, kind)))
    tl.store(o_ptr + 3 * N + i, tl.full((N,), v, kind))
    tl.store(o_ptr + 4 * N + i, tl.arange(N, 2 * N).to(kind))
    tl.store(o_ptr + 5 * N + i, tl.full((N // 4, 2, 2), v, kind).reshape(N))
    tl.store(o_ptr + 6 * N + i, tl.broadcast_to(tl.full((1,), 1, kind), N))
    tl.store(o_ptr + 7 * N + i, tl.cast(v, kind))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_creation(dtype: np.dtype) -> None:
    N, v = 16, 7
    o = np.zeros((8, N), dtype)
    make_kernel[(1,)](o, v, N=N)
    full = np.full(N, v).astype(dtype)
    ones, zeros = np.ones(N, dtype), np.zeros(N, dtype)
    want = [ones, zeros, zeros, full, np.arange(N, 2 * N).astype(dtype), full, ones, full]
    for at, row in enumerate(want):
        np.testing.assert_array_equal(o[at], row, err_msg=f"row {at}")
