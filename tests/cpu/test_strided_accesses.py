"""Accesses with small constant strides, and with quotients and remainders of running indices."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.cpu.target import current_target


@tw.jit
def strided_kernel(x_ptr, o_ptr, IN: tl.constexpr, OUT: tl.constexpr, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(o_ptr + OUT * i, tl.load(x_ptr + IN * i))


@pytest.mark.parametrize(
    "dtype", [np.int8, np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.bool_]
)
@pytest.mark.parametrize("strides", [(2, 1), (3, 1), (4, 1), (-1, 1), (-2, 1), (-3, -2), (1, 2), (1, 3), (1, -4), (1, 5)])  # fmt: skip
@pytest.mark.parametrize("n", [8, 64])
def test_small_strides(dtype: type, strides: tuple[int, int], n: int) -> None:
    read, write = strides
    count = 2 * n
    reach = [abs(s) * (count - 1) + 1 for s in strides]
    x = np.arange(reach[0]).astype(dtype)
    x = np.arange(reach[0]) % 3 == 0 if dtype is np.bool_ else x
    o = np.zeros(reach[1], dtype)
    start = [0 if s > 0 else r - 1 for s, r in zip(strides, reach, strict=True)]
    strided_kernel[(2,)](x[start[0] :], o[start[1] :], read, write, n)
    want = np.zeros_like(o)
    places = start[1] + write * np.arange(count)
    want[places] = x[start[0] + read * np.arange(count)]
    np.testing.assert_array_equal(o, want)


def test_strided_accesses_are_vectors() -> None:
    x, o = np.arange(1024, dtype=np.float32), np.zeros(512, np.float32)
    kernel = strided_kernel[(1,)](x, o, 2, 1, 512)
    assert "masked.gather" not in kernel.asm["llvm"]


@tw.jit
def stack_kernel(x_ptr, a_ptr, b_ptr, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(a_ptr + 2 * i, x)
    tl.store(b_ptr + 2 * i, x + 1)


@pytest.mark.parametrize("shift", [1, 2, 4])
def test_interleaved_stores(shift: int) -> None:
    """Elements between each other, and on top of each other: then the later store wins."""
    x, o = np.arange(256, dtype=np.float32), np.zeros(520, np.float32)
    stack_kernel[(1,)](x, o, o[shift:], N=256)
    want = np.zeros_like(o)
    want[0:512:2] = x
    want[shift : shift + 512 : 2] = x + 1
    np.testing.assert_array_equal(o, want)


@tw.jit
def quotients_kernel(x_ptr, o_ptr, n, FIRST: tl.constexpr, D: tl.constexpr, A: tl.constexpr, B: tl.constexpr, N: tl.constexpr):  # fmt: skip
    i = tl.program_id(0) * N + tl.arange(0, N)
    j = i + FIRST
    tl.store(o_ptr + i, tl.load(x_ptr + (A * (j % D) + B * (j // D) + 3), i < n), i < n)


@pytest.mark.parametrize("d", [1, 3, 14, 100, 777])
@pytest.mark.parametrize("factors", [(2, 56), (-1, 800), (1, 0), (0, 5)])
def test_quotients(d: int, factors: tuple[int, int]) -> None:
    a, b = factors
    n, first = 1000, 5
    j = np.arange(n) + first
    index = a * (j % d) + b * (j // d) + 3
    lowest = min(0, int(index.min()))
    x = np.arange(int(index.max()) - lowest + 1, dtype=np.int64)
    o = np.zeros(n, np.int64)
    quotients_kernel[(8,)](x[-lowest:], o, n, first, d, a, b, N=128)
    np.testing.assert_array_equal(o, x[index - lowest])


def test_quotients_take_32_bits() -> None:
    x, o = np.arange(4096, dtype=np.float32), np.zeros(512, np.float32)
    kernel = quotients_kernel[(4,)](x, o, 512, 0, 14, 2, 56, N=128)
    assert not re.search(r"[su]rem <\d+ x i64>", kernel.asm["llvm"])


@tw.jit
def shifted_rows_kernel(
    x_ptr, o_ptr, W: tl.constexpr, DX: tl.constexpr, ROWS: tl.constexpr, N: tl.constexpr
):
    """Moves images of N by W by a row and DX columns, and scales them by row."""
    y = tl.arange(0, ROWS)[:, None]
    i = tl.program_id(0) * N + tl.arange(0, N)[None, :]
    row, column = i // W - 1, i % W - DX
    inside = (row >= 0) & (column >= 0) & (column < tl.full([1], W, tl.int64))
    x = tl.load(x_ptr + y * N * W + i - W - DX, inside, other=0)
    tl.store(o_ptr + y * N * W + i, (x + row).to(x.dtype))


@pytest.mark.parametrize("width", [2, 4, 8, 16, 32, 64])
@pytest.mark.parametrize("dtype", [np.int8, np.float32, np.float64])
@pytest.mark.parametrize("rows", [1, 2])
def test_blocks_of_several_rows(width: int, dtype: type, rows: int) -> None:
    n, dx = 64, 1
    x = np.arange(rows * n * width).reshape(rows, n, width).astype(dtype)
    o = np.zeros_like(x)
    kernel = shifted_rows_kernel[(width,)](x, o, width, dx, rows, n)
    want = np.zeros_like(x)
    want[:, 1:, dx:] = x[:, :-1, :-dx]
    want += (np.arange(n) - 1).astype(dtype)[:, None]
    np.testing.assert_array_equal(o, want)
    if width >= 8:
        assert not re.search(r"[su](div|rem) <", kernel.asm["llvm"])


@tw.jit
def rows_kernel(x_ptr, a_ptr, b_ptr, c_ptr, o_ptr, M: tl.constexpr, N: tl.constexpr):
    y, x = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    scaled = tl.load(x_ptr + x + N * y) * tl.load(a_ptr + y) + tl.load(b_ptr + y)
    tl.store(o_ptr + x + N * y, scaled * tl.load(c_ptr + y))


def test_lanes_run_along_the_tile_not_along_its_factors() -> None:
    rng = np.random.default_rng(0)
    x, (a, b, c) = rng.random((32, 128), np.float32), rng.random((3, 32), np.float32)
    o = np.zeros_like(x)
    kernel = rows_kernel[(1,)](x, a, b, c, o, 32, 128)
    np.testing.assert_allclose(o, (x * a[:, None] + b[:, None]) * c[:, None], rtol=1e-5)
    assert "masked.scatter" not in kernel.asm["llvm"]


@tw.jit
def divide_kernel(a_ptr, b_ptr, q_ptr, r_ptr, WIDEN: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(a_ptr + i), tl.load(b_ptr + i)
    if WIDEN:
        a = a.to(tl.int64)
    tl.store(q_ptr + i, a // b)
    tl.store(r_ptr + i, a % b)


def extremes(dtype: type, seed: int) -> np.ndarray:
    """Numbers of all sizes, the largest and smallest, and small ones."""
    rng, limits = np.random.default_rng(seed), np.iinfo(dtype)
    bits = rng.integers(0, limits.bits, 4000)
    found = (rng.integers(limits.min, limits.max, 4000, dtype, True) >> bits).astype(dtype)
    ends = [limits.max, limits.max - 1, limits.min, limits.min + 1, 1, 2, 3]
    return np.concatenate([rng.permutation(np.array(ends * 13, dtype)), found])[:4096].repeat(2)[
        :4096
    ]


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32])
@pytest.mark.parametrize("wide", [False, True])
def test_divisions_are_exact(dtype: type, wide: bool) -> None:
    signed = np.issubdtype(dtype, np.signedinteger)
    if wide and not signed:
        pytest.skip("widened numbers are signed")
    result = np.int64 if wide else dtype
    a, b = extremes(dtype, 1), np.random.default_rng(3).permutation(extremes(result, 2))
    b[b == 0] = 7
    q, r = np.zeros(4096, result), np.zeros(4096, result)
    divide_kernel[(1,)](a, b, q, r, wide, 4096)
    a, b = a.astype(object), b.astype(object)
    signs = [1 if (x < 0) == (y < 0) else -1 for x, y in zip(a, b, strict=True)]
    want = abs(a) // abs(b) * np.array(signs, object)
    size = 1 << np.iinfo(result).bits
    low = np.iinfo(result).min

    def stored(values: np.ndarray) -> np.ndarray:
        return np.array([(int(v) - low) % size + low for v in values], result)

    np.testing.assert_array_equal(q, stored(want))
    np.testing.assert_array_equal(r, stored(a - want * b))


@tw.jit
def reinterpreted_kernel(a_ptr, b_ptr, q_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(a_ptr + i).to(tl.int64).to(tl.uint64, bitcast=True)
    tl.store(q_ptr + i, a // tl.load(b_ptr + i))


def test_negative_numbers_are_large_without_a_sign() -> None:
    a, b = np.arange(-64, 0, dtype=np.int32), np.full(64, 10, np.uint64)
    q = np.zeros(64, np.uint64)
    reinterpreted_kernel[(1,)](a, b, q, 64)
    np.testing.assert_array_equal(q, a.astype(np.int64).view(np.uint64) // b)


@tw.jit
def narrow_offsets(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + 128 + i.to(tl.int8) * 4))


def test_offsets_of_8_bits_wrap():
    x, out = np.arange(256, dtype=np.float32), np.zeros(64, np.float32)
    narrow_offsets[(1,)](x, out, N=64)
    np.testing.assert_array_equal(out, x[128 + (np.arange(64) * 4).astype(np.int8).astype(int)])


@tw.jit
def first_lanes_kernel(x_ptr, o_ptr, n, STEP: tl.constexpr, N: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, N)
    x = tl.load(x_ptr + row * n + STEP * i, i < n - row, other=7)
    tl.store(o_ptr + row * N + i, x)


@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32, np.float64, np.bool_])
@pytest.mark.parametrize("stride", [2, 3, 4, -1, -2, -3])
@pytest.mark.parametrize("n", [1, 5, 16, 61])
def test_small_strides_of_the_first_lanes(dtype: type, stride: int, n: int) -> None:
    lanes = 64
    start = 0 if stride > 0 else -stride * lanes
    x = (np.arange(4 * lanes + 3 * n + start) % 251 % (2 if dtype is np.bool_ else 127)).astype(
        dtype
    )
    o = np.zeros((3, lanes), dtype)
    first_lanes_kernel[(3,)](x[start:], o, n, stride, lanes)
    want = np.full_like(o, 7)
    for row in range(3):
        live = np.arange(max(0, n - row))
        want[row, live] = x[start + row * n + stride * live]
    np.testing.assert_array_equal(o, want)


def test_first_lanes_with_a_stride_are_vectors() -> None:
    x, o = np.arange(256, dtype=np.float32), np.zeros((1, 64), np.float32)
    kernel = first_lanes_kernel[(1,)](x, o, 61, 2, 64)
    assert ("masked.gather" in kernel.asm["llvm"]) != current_target().has("avx512f")


@tw.jit
def padded_kernel(x_ptr, o_ptr, C: tl.constexpr, D: tl.constexpr, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    row, column = i // C, i % C
    inside = (row % D > 0) & (column >= 3) & (i // (C * D) < 5)
    x = tl.load(x_ptr + i, inside, other=-1.0)
    tl.store(o_ptr + i, x + (i // C % 7).to(tl.float32))


@pytest.mark.parametrize("c", [128, 64, 96])
def test_quotients_of_a_block_in_masks_and_values(c: int) -> None:
    d, count = 3, 4096
    x, o = np.arange(count, dtype=np.float32), np.zeros(count, np.float32)
    kernel = padded_kernel[(count // 64,)](x, o, c, d, 64)
    i = np.arange(count)
    inside = (i // c % d > 0) & (i % c >= 3) & (i // (c * d) < 5)
    np.testing.assert_array_equal(o, np.where(inside, x, -1) + (i // c % 7).astype(np.float32))
    divided = re.search(r"sdiv <\d+ x i32>", kernel.asm["llvm"]) is not None
    assert divided == (c == 96)


@tw.jit
def columns_kernel(x_ptr, m_ptr, o_ptr, rows, columns, M: tl.constexpr, N: tl.constexpr):
    y = tl.program_id(0) * M + tl.arange(0, M)[:, None]
    x = tl.program_id(1) * N + tl.arange(0, N)[None, :]
    live = (y < rows) & (x < columns)
    value = tl.load(x_ptr + x + columns * y, live) - tl.load(m_ptr + x + 0 * y, live)
    tl.store(o_ptr + y + rows * x, value, live)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
@pytest.mark.parametrize("shape", [(64, 128), (50, 77), (3, 130)])
def test_rows_that_are_stored_as_columns(dtype: type, shape: tuple[int, int]) -> None:
    rows, columns = shape
    x = np.arange(rows * columns).reshape(shape).astype(dtype)
    m = np.arange(columns).astype(dtype) * 3
    o = np.zeros((columns, rows), dtype)
    grid = (-(-rows // 32), -(-columns // 64))
    columns_kernel[grid](x, m, o, rows, columns, 32, 64)
    np.testing.assert_array_equal(o, (x - m).T)
