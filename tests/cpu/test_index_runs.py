"""Loads whose indices count upwards by one in most chunks."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl


@tw.jit
def reflect_kernel(x_ptr, o_ptr, W, OUT, PAD: tl.constexpr, N: tl.constexpr):
    j = tl.program_id(0) * N + tl.arange(0, N)
    i = W - 1 - tl.abs(W - 1 - tl.abs(j - PAD))
    tl.store(o_ptr + j, tl.load(x_ptr + i, j < OUT), j < OUT)


@tw.jit
def clamp_kernel(x_ptr, o_ptr, W, OUT, PAD: tl.constexpr, N: tl.constexpr):
    j = tl.program_id(0) * N + tl.arange(0, N)
    i = tl.minimum(tl.maximum(j - PAD, 0), W - 1)
    tl.store(o_ptr + j, tl.load(x_ptr + i, j < OUT), j < OUT)


@tw.jit
def conditions_kernel(x_ptr, o_ptr, W, OUT, PAD: tl.constexpr, N: tl.constexpr):
    """The same without `where`, as Inductor writes it."""
    j = tl.program_id(0) * N + tl.arange(0, N)
    low = (j - PAD) * (j - PAD > 0).to(tl.int32)
    i = low * (low < W).to(tl.int32) + (W - 1) * (low >= W).to(tl.int32)
    tl.store(o_ptr + j, tl.load(x_ptr + i, j < OUT), j < OUT)


@tw.jit
def rows_kernel(x_ptr, o_ptr, W, OUT, PAD: tl.constexpr, N: tl.constexpr):
    """Rows of a tile of two dimensions."""
    y, j = tl.arange(0, 4)[:, None], tl.program_id(0) * N + tl.arange(0, N)[None, :]
    i = W - 1 - tl.abs(W - 1 - tl.abs(j - PAD))
    x = tl.load(x_ptr + i + y * 0, (j < OUT) & (y < 3), other=7.0)
    tl.store(o_ptr + j + y * OUT, x, (j < OUT) & (y < 1))


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.float64])
@pytest.mark.parametrize(("width", "pad"), [(100, 3), (64, 16), (300, 1), (17, 16)])
@pytest.mark.parametrize(
    ("kernel", "mode"),
    [(reflect_kernel, "reflect"), (clamp_kernel, "edge"), (conditions_kernel, "edge"), (rows_kernel, "reflect")],
)  # fmt: skip
def test_padded_rows(kernel, mode: str, width: int, pad: int, dtype: type) -> None:
    x = (np.arange(width) * 7 % 101).astype(dtype)
    want = np.pad(x, pad, mode=mode)
    o = np.zeros(len(want), dtype)
    made = kernel[(-(-len(want) // 128),)](x, o, width, len(want), pad, 128, check="bounds")
    np.testing.assert_array_equal(o, want)
    made = kernel[(-(-len(want) // 128),)](x, o, width, len(want), pad, 128)
    assert "masked.load" in made.asm["llvm"]
    assert "cpu.index_runs" in made.asm["cpu"] or "cpu.all_true" in made.asm["cpu"]


@tw.jit
def loaded_kernel(x_ptr, i_ptr, o_ptr, N: tl.constexpr):
    j = tl.arange(0, N)
    tl.store(o_ptr + j, tl.load(x_ptr + tl.load(i_ptr + j)))


def test_loaded_indices_are_not_compared() -> None:
    x, i, o = np.arange(64, dtype=np.float32), np.arange(64)[::-1].copy(), np.zeros(64, np.float32)
    made = loaded_kernel[(1,)](x, i, o, 64)
    np.testing.assert_array_equal(o, x[i])
    assert "cpu.all_true" not in made.asm["cpu"]
