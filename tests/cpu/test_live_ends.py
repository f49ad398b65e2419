"""Loops of tiles of several dimensions end where their stores do."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl

SHAPES = [(7, 134, 4, 256), (5, 64, 8, 128), (9, 100, 4, 32), (3, 10, 4, 16), (33, 784, 16, 512), (1, 1, 8, 64)]  # fmt: skip


@tw.jit
def scale_kernel(x_ptr, o_ptr, Y, X, Y_BLOCK: tl.constexpr, X_BLOCK: tl.constexpr):
    y = tl.program_id(1) * Y_BLOCK + tl.arange(0, Y_BLOCK)[:, None]
    x = tl.program_id(0) * X_BLOCK + tl.arange(0, X_BLOCK)[None, :]
    live = (x < X) & (y < Y)
    tl.store(o_ptr + x + y * X, tl.load(x_ptr + x + y * X, live) * 2 + y, live)


@tw.jit
def two_ends_kernel(x_ptr, o_ptr, p_ptr, Y, X, Y_BLOCK: tl.constexpr, X_BLOCK: tl.constexpr):
    """Stores that end at different columns, and a load that ends before both."""
    y = tl.program_id(1) * Y_BLOCK + tl.arange(0, Y_BLOCK)[:, None]
    x = tl.program_id(0) * X_BLOCK + tl.arange(0, X_BLOCK)[None, :]
    value = tl.load(x_ptr + x + y * X, (x < X - 3) & (y < Y), other=5.0)
    tl.store(o_ptr + x + y * X, value, (x < X) & (y < Y))
    tl.store(p_ptr + x + y * X, value + 1, (x < X - 1) & (y < Y))


@tw.jit
def odd_columns_kernel(x_ptr, o_ptr, Y, X, Y_BLOCK: tl.constexpr, X_BLOCK: tl.constexpr):
    """A mask beside the limits."""
    y = tl.program_id(1) * Y_BLOCK + tl.arange(0, Y_BLOCK)[:, None]
    x = tl.program_id(0) * X_BLOCK + tl.arange(0, X_BLOCK)[None, :]
    live = (x < X) & (y < Y) & (x % 2 == 1)
    tl.store(o_ptr + x + y * X, tl.load(x_ptr + x + y * X, live), live)


def _arrays(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    x = (np.arange(rows * columns) % 113).reshape(rows, columns).astype(np.float32)
    return x, np.full((rows + 1, columns), -1, np.float32)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_rows(shape: tuple[int, int, int, int]) -> None:
    rows, columns, y, x = shape
    given, o = _arrays(rows, columns)
    scale_kernel[(-(-columns // x), -(-rows // y))](given, o, rows, columns, y, x)
    np.testing.assert_array_equal(o[:rows], given * 2 + np.arange(rows)[:, None])
    assert (o[rows] == -1).all()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_stores_with_different_ends(shape: tuple[int, int, int, int]) -> None:
    rows, columns, y, x = shape
    (given, o), (_, p) = _arrays(rows, columns), _arrays(rows, columns)
    two_ends_kernel[(-(-columns // x), -(-rows // y))](given, o, p, rows, columns, y, x)
    loaded = np.where(np.arange(columns) < columns - 3, given, 5)
    np.testing.assert_array_equal(o[:rows], loaded)
    np.testing.assert_array_equal(p[:rows, :-1], loaded[:, :-1] + 1)
    assert (o[rows] == -1).all()
    assert (p[rows] == -1).all()
    assert (p[:, -1] == -1).all()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_masks_beside_limits(shape: tuple[int, int, int, int]) -> None:
    rows, columns, y, x = shape
    given, o = _arrays(rows, columns)
    odd_columns_kernel[(-(-columns // x), -(-rows // y))](given, o, rows, columns, y, x)
    odd = np.arange(columns) % 2 == 1
    np.testing.assert_array_equal(o[:rows], np.where(odd, given, -1))
    assert (o[rows] == -1).all()


def test_whole_rows_have_no_masks() -> None:
    given, o = _arrays(8, 192)
    made = scale_kernel[(1, 2)](given, o, 8, 192, 4, 256)
    fast = made.asm["cpu"].partition("} else {")[0]
    loads = [line for line in fast.splitlines() if "cpu.vector_load" in line]
    assert ["mask" in line for line in loads] == [False, True]
