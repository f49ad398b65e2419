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


@tw.jit
def one_row_kernel(o_ptr, Y, X_BLOCK: tl.constexpr):
    """Tiles of one row, which have no loop over rows but where it may end before the first."""
    y = tl.program_id(0) + tl.arange(0, 1)[:, None]
    x = tl.arange(0, X_BLOCK)[None, :]
    tl.store(o_ptr + y * X_BLOCK + x, tl.full((1, X_BLOCK), 1.0, tl.float32), y < Y)


def test_tiles_of_one_row() -> None:
    o = np.zeros((4, 64), np.float32)
    one_row_kernel[(4,)](o, 2, 64)
    np.testing.assert_array_equal(o[:, 0], [1, 1, 0, 0])


@tw.jit
def elsewhere_kernel(x_ptr, o_ptr, n, WAY: tl.constexpr, B: tl.constexpr):
    """What is loaded is stored along another dimension or at another place, under the same limit."""
    y, x = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    each = tl.arange(0, B)
    if WAY == "gather":
        row = tl.load(x_ptr + each, each < n, other=-3.0)
        tl.store(o_ptr + each, tl.gather(row, (each * 7 + 3) % B, 0), each < n)
    else:
        if WAY == "broadcast":
            value = tl.load(x_ptr + each, each < n, other=-3.0)[None, :] + y
        elif WAY == "flip":
            value = tl.flip(tl.load(x_ptr + y * B + x, y < n, other=-3.0), 0)
        else:
            flat = tl.arange(0, B * B)
            value = tl.reshape(tl.load(x_ptr + flat, flat < n, other=-3.0), (B, B))
        tl.store(o_ptr + y * B + x, value, y < n)


@pytest.mark.parametrize("way", ["gather", "broadcast", "flip", "reshape"])
@pytest.mark.parametrize("n", [0, 1, 3, 7, 8])
def test_loads_that_are_stored_elsewhere(way: str, n: int) -> None:
    b = 8
    x, o = np.arange(b * b, dtype=np.float32), np.zeros(b * b, np.float32)
    elsewhere_kernel[(1,)](x, o, n, way, b)
    square, each = x.reshape(b, b), np.arange(b)
    live = np.where(each < n, x[:b], -3)
    values = {
        "gather": live[(each * 7 + 3) % b],
        "broadcast": live + each[:, None],
        "flip": np.where(each[:, None] < n, square, -3)[::-1],
        "reshape": np.where(x < n, x, -3).reshape(b, b),
    }[way]
    np.testing.assert_array_equal(o[: values[:n].size], values[:n].ravel())
    assert not o[values[:n].size :].any()
