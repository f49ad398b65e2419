"""Divisions and functions of operands that are uniform along a dimension."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl


@tw.jit
def scale_kernel(x_ptr, v_ptr, o_ptr, rows, columns, SY: tl.constexpr, SX: tl.constexpr, ALONG: tl.constexpr, Y: tl.constexpr, X: tl.constexpr):  # fmt: skip
    """Multiplies by `(v / 3 + 1) ** -0.5`, `v` per column or per row."""
    y = tl.program_id(1) * Y + tl.arange(0, Y)[:, None]
    x = tl.program_id(0) * X + tl.arange(0, X)[None, :]
    mask = (y < rows) & (x < columns)
    v = tl.load(v_ptr + (x + 0 * y if ALONG == 0 else y + 0 * x), mask)
    scale = tl.rsqrt(v / 3.0 + 1.0)
    tl.store(o_ptr + SY * y + SX * x, tl.load(x_ptr + columns * y + x, mask) * scale, mask)


def scaled(rows: int, columns: int, along: int, transposed: bool, y: int = 32, x: int = 32):
    rng = np.random.default_rng(0)
    data = rng.random((rows, columns), np.float32)
    v = rng.random(columns if along == 0 else rows, np.float32)
    o = np.zeros((columns, rows) if transposed else (rows, columns), np.float32)
    strides = (1, rows) if transposed else (columns, 1)
    grid = (-(-columns // x), -(-rows // y))
    constants = {"rows": rows, "columns": columns}
    kernel = scale_kernel[grid](data, v, o, *constants.values(), *strides, along, Y=y, X=x)
    want = (
        data
        * (v / 3 + 1)[None if along == 0 else slice(None), None if along else slice(None)] ** -0.5
    )
    np.testing.assert_allclose(o.T if transposed else o, want, rtol=1e-5)
    return kernel


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("along", [0, 1])
@pytest.mark.parametrize("shape", [(64, 96), (65, 97), (3, 200), (200, 3), (1, 1)])
@pytest.mark.parametrize("block", [(32, 32), (16, 64), (1, 128), (64, 1)])
def test_results(shape, along, transposed, block) -> None:
    scaled(*shape, along, transposed, *block)


@tw.jit
def whole_kernel(x_ptr, v_ptr, o_ptr, T: tl.constexpr, Y: tl.constexpr, X: tl.constexpr):
    y, x = tl.program_id(0) * Y + tl.arange(0, Y)[:, None], tl.arange(0, X)[None, :]
    scale = tl.rsqrt(tl.load(v_ptr + x + 0 * y) / 3.0 + 1.0)
    place = y + 4 * Y * x if T else X * y + x
    tl.store(o_ptr + place, tl.load(x_ptr + X * y + x) * scale)


@pytest.mark.parametrize("transposed", [False, True])
def test_once_per_column(transposed: bool) -> None:
    rng = np.random.default_rng(0)
    data, v = rng.random((128, 64), np.float32), rng.random(64, np.float32)
    o = np.zeros((64, 128) if transposed else (128, 64), np.float32)
    kernel = whole_kernel[(4,)](data, v, o, transposed, 32, 64)
    np.testing.assert_allclose(o.T if transposed else o, data / np.sqrt(v / 3 + 1), rtol=1e-5)
    groups = kernel.asm["cpu"]
    assert len(re.findall("math.rsqrt", groups)) == 1
    if transposed:
        assert "cpu.transpose" in groups
