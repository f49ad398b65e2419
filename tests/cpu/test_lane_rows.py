"""Blocks of one dimension whose lanes are rows of memory: quotients and remainders that make dimensions of them."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl


@tw.jit
def patches_kernel(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    """Patches of 16 by 16 of images of 3 channels, 64 by 96."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    place, patch, image = i % 768, i // 768 % 24, i // 18432
    row, column = 16 * (patch // 6) + place // 16 % 16, 16 * (patch % 6) + place % 16
    live = i < n
    x = tl.load(x_ptr + column + 96 * row + 6144 * (place // 256) + 18432 * image, live, other=7)
    tl.store(o_ptr + i, x + 1, live)


@tw.jit
def unpatch_kernel(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    """Stores into rows."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    place, patch, image = i % 768, i // 768 % 24, i // 18432
    row, column = 16 * (patch // 6) + place // 16 % 16, 16 * (patch % 6) + place % 16
    x = tl.load(x_ptr + i, i < n)
    tl.store(o_ptr + column + 96 * row + 6144 * (place // 256) + 18432 * image, x * 2, i < n)


@tw.jit
def digits_kernel(
    x_ptr, o_ptr, n, low, S: tl.constexpr, M: tl.constexpr, C: tl.constexpr, A: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """`i // S % M` of which the product with `C` is added to `i % A`, beside a mask of odd lanes and one from below."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = (i < n) & (i % 5 != 3) & (i >= low)
    x = tl.load(x_ptr + (i // S) % M * C + i % A, live, other=-1.0)
    tl.store(o_ptr + i, x, i < n)


@tw.jit
def rows_of_a_matrix_kernel(x_ptr, o_ptr, Y, Y_BLOCK: tl.constexpr, X_BLOCK: tl.constexpr):
    """Rows of 128 that are 8 rows of 16 each, in two dimensions."""
    y = tl.program_id(1) * Y_BLOCK + tl.arange(0, Y_BLOCK)[:, None]
    x = tl.program_id(0) * X_BLOCK + tl.arange(0, X_BLOCK)[None, :]
    live = (y < Y) & (x < 120)
    value = tl.load(x_ptr + x // 16 * 1000 + x % 16 + y * 16, live, other=3)
    tl.store(o_ptr + y * 128 + x, value, y < Y)


def _image(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((2, 3, 64, 96)).astype(np.float32)


@pytest.mark.parametrize("block", [32, 256, 512, 1024])
@pytest.mark.parametrize("missing", [0, 5, 300])
def test_patches(block: int, missing: int) -> None:
    x, n = _image(), 2 * 18432 - missing
    o = np.full(2 * 18432, -9, np.float32)
    patches_kernel[(-(-n // block),)](x, o, n, block)
    want = x.reshape(2, 3, 4, 16, 6, 16).transpose(0, 2, 4, 1, 3, 5).reshape(-1) + 1
    np.testing.assert_array_equal(o[:n], want[:n])
    assert (o[n:] == -9).all()
    back = np.full(x.size, -9, np.float32)
    unpatch_kernel[(-(-n // block),)](want, back, n, block)
    touched = np.arange(x.size).reshape(x.shape).reshape(2, 3, 4, 16, 6, 16)
    touched = touched.transpose(0, 2, 4, 1, 3, 5).reshape(-1)[:n]
    expected = np.full(x.size, -9, np.float32)
    expected[touched] = want[:n] * 2
    np.testing.assert_array_equal(back, expected)


CASES = [
    # S, M, C, A, block
    (16, 16, 224, 16, 256), (8, 4, 100, 8, 64), (32, 2, 64, 32, 256), (16, 4, 40, 64, 128), (64, 8, 3, 16, 512),
    (16, 3, 100, 16, 64), (16, 1, 5, 8, 64), (4, 8, 100, 4, 64), (256, 2, 1, 16, 64), (8, 16, -8, 128, 256),
    (16, 16, 0, 16, 512), (16, 64, 16, 16, 256), (32, 32, 100, 16, 1024), (128, 2, 77, 32, 64), (12, 4, 50, 24, 64),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("length", [2048, 1999])
def test_digits(case: tuple[int, ...], length: int) -> None:
    s, m, c, a, block = case
    x = np.arange(20000, dtype=np.float32)
    middle = x[10000:]
    i = np.arange(length)
    o = np.full(length + 8, -9, np.float32)
    digits_kernel[(-(-length // block),)](middle, o, length, 37, s, m, c, a, block)
    where = i // s % m * c + i % a
    want = np.where((i % 5 != 3) & (i >= 37), x[10000 + where], -1)
    np.testing.assert_array_equal(o[:length], want)
    assert (o[length:] == -9).all()


@pytest.mark.parametrize("block", [(4, 128), (8, 32), (1, 64)], ids=str)
def test_rows_of_a_matrix(block: tuple[int, int]) -> None:
    x = np.arange(9000, dtype=np.float32)
    o = np.full((11, 128), -9, np.float32)
    rows_of_a_matrix_kernel[(128 // block[1], -(-10 // block[0]))](x, o, 10, *block)
    y, column = np.mgrid[:10, :128]
    want = np.where(column < 120, column // 16 * 1000 + column % 16 + y * 16, 3)
    np.testing.assert_array_equal(o[:10], want)
    assert (o[10] == -9).all()


def test_patches_are_loaded_as_vectors() -> None:
    compiled = patches_kernel.compile(
        {"x_ptr": "*fp32:16", "o_ptr": "*fp32:16", "n": "i32"}, {"BLOCK": 256}, target="cpu"
    )
    assert "cpu.gather" not in compiled.asm["cpu"]
    assert "cpu.vector_load" in compiled.asm["cpu"]


@tw.jit
def transpose_kernel(x_ptr, o_ptr, Y, X, Z_BLOCK: tl.constexpr, Y_BLOCK: tl.constexpr, X_BLOCK: tl.constexpr):  # fmt: skip
    """One matrix after the other, as a tile of three dimensions."""
    z = tl.program_id(2) * Z_BLOCK + tl.arange(0, Z_BLOCK)[:, None, None]
    y = tl.program_id(1) * Y_BLOCK + tl.arange(0, Y_BLOCK)[None, :, None]
    x = tl.program_id(0) * X_BLOCK + tl.arange(0, X_BLOCK)[None, None, :]
    live = (y < Y) & (x < X)
    value = tl.load(x_ptr + y + Y * x + X * Y * z, live)
    tl.store(o_ptr + x + X * y + X * Y * z, value * 2, live)


@pytest.mark.parametrize("block", [(1, 32, 16), (1, 16, 128), (2, 16, 16), (1, 1, 16), (1, 16, 1)], ids=str)  # fmt: skip
@pytest.mark.parametrize("extents", [(48, 64), (100, 37)], ids=str)
def test_matrices_are_transposed(block: tuple[int, int, int], extents: tuple[int, int]) -> None:
    across, down = extents
    z, y, x = block
    given = np.random.default_rng(1).standard_normal((4, across, down)).astype(np.float32)
    o = np.full((4, down, across), -9, np.float32)
    transpose_kernel[(-(-across // x), -(-down // y), 4 // z)](given, o, down, across, z, y, x)
    np.testing.assert_array_equal(o, given.transpose(0, 2, 1) * 2)


def test_a_dimension_of_one_matrix_is_no_obstacle_to_transposing_in_registers() -> None:
    compiled = transpose_kernel.compile(
        {"x_ptr": "*fp32", "o_ptr": "*fp32", "Y": "i32", "X": "i32"},
        {"Z_BLOCK": 1, "Y_BLOCK": 32, "X_BLOCK": 32},
        target="cpu",
    )
    assert "cpu.transpose" in compiled.asm["cpu"]


@tw.jit
def consumers_kernel(x_ptr, sum_ptr, scan_ptr, sort_ptr, dot_ptr, turned_ptr, R: tl.constexpr, C: tl.constexpr):  # fmt: skip
    """Rows are reduced, scanned, sorted, multiplied and transposed."""
    r = tl.arange(0, R)
    c = tl.arange(0, C)
    x = tl.load(x_ptr + (c // 16 * 200 + c % 16)[None, :] + r[:, None] * 16)
    line = tl.load(x_ptr + c // 16 * 200 + c % 16)
    tl.store(sum_ptr + r, tl.sum(x, axis=1))
    tl.store(sum_ptr + R + c, tl.max(x, axis=0))
    tl.store(scan_ptr + c, tl.cumsum(line, 0))
    tl.store(sort_ptr + c, tl.sort(line))
    tl.store(dot_ptr + r[:, None] * R + r[None, :], tl.dot(x, tl.trans(x), input_precision="ieee"))
    tl.store(turned_ptr + c[:, None] * R + r[None, :], tl.trans(x))
    best = tl.full([C], -1e30, tl.float32)
    for k in range(3):
        best = tl.maximum(best, tl.load(x_ptr + k * 7 + c // 16 * 200 + c % 16))
    tl.store(sort_ptr + C + c, best)


def test_consumers() -> None:
    rows, columns = 8, 64
    given = np.random.default_rng(2).standard_normal(2000).astype(np.float32)
    c, r = np.arange(columns), np.arange(rows)
    place = c // 16 * 200 + c % 16
    x = given[place[None, :] + r[:, None] * 16]
    sums, scan = np.zeros(rows + columns, np.float32), np.zeros(columns, np.float32)
    ordered = np.zeros(2 * columns, np.float32)
    dot, turned = np.zeros((rows, rows), np.float32), np.zeros((columns, rows), np.float32)
    consumers_kernel[(1,)](given, sums, scan, ordered, dot, turned, rows, columns)
    np.testing.assert_allclose(sums[:rows], x.sum(1), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(sums[rows:], x.max(0))
    np.testing.assert_allclose(scan, np.cumsum(given[place]), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(ordered[:columns], np.sort(given[place]))
    np.testing.assert_array_equal(
        ordered[columns:], np.max([given[place + 7 * k] for k in range(3)], 0)
    )
    np.testing.assert_allclose(dot, x @ x.T, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(turned, x.T)


@tw.jit
def softmax_across_kernel(x_ptr, o_ptr, Y, R, Y_BLOCK: tl.constexpr, R_BLOCK: tl.constexpr):
    """Rows of columns: a tile of three dimensions beside maxima and sums of fewer."""
    z = tl.program_id(1)
    y = tl.program_id(0) * Y_BLOCK + tl.arange(0, Y_BLOCK)[None, :, None]
    r = tl.arange(0, R_BLOCK)[None, None, :]
    live = (y < Y) & (r < R)
    x = tl.load(x_ptr + y + Y * r + R * Y * z, live, other=0)
    x = tl.where(live, x, float("-inf"))
    e = tl.exp(x - tl.max(x, 2)[:, :, None])
    tl.store(o_ptr + r + R * y + R * Y * z, e / tl.sum(tl.where(live, e, 0), 2)[:, :, None], live)


@pytest.mark.parametrize("shape", [(48, 64, 16, 64), (49, 49, 4, 64), (33, 20, 32, 32)], ids=str)
def test_softmax_of_columns(shape: tuple[int, int, int, int]) -> None:
    columns, rows, y, r = shape
    given = np.random.default_rng(4).standard_normal((3, rows, columns)).astype(np.float32)
    o = np.full((3, columns, rows), -9, np.float32)
    softmax_across_kernel[(-(-columns // y), 3)](given, o, columns, rows, y, r)
    e = np.exp(given.transpose(0, 2, 1).astype(np.float64))
    np.testing.assert_allclose(o, e / e.sum(2, keepdims=True), rtol=1e-5)
