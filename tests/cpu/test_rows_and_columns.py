"""Tiles whose coordinates of rows and columns are computed between the accesses that need them."""

from __future__ import annotations

import numpy as np

import tilewright as tw
import tilewright.language as tl


@tw.jit
def interpolate_kernel(x_ptr, o_ptr, H: tl.constexpr, W: tl.constexpr, M: tl.constexpr, N: tl.constexpr):  # fmt: skip
    y, x = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    fy, fx = y.to(tl.float32) / 3.0, x.to(tl.float32) / 3.0
    y0 = y // 3
    x0 = x // 3
    a = tl.load(x_ptr + y0 * W + x0)
    x1 = tl.minimum(x0 + 1, W - 1)
    b = tl.load(x_ptr + y0 * W + x1)
    row = a + (b - a) * (fx - x0.to(tl.float32))
    y1 = tl.minimum(y0 + 1, H - 1)
    c = tl.load(x_ptr + y1 * W + x0)
    d = tl.load(x_ptr + y1 * W + x1)
    below = c + (d - c) * (fx - x0.to(tl.float32))
    tl.store(o_ptr + y * N + x, row + (below - row) * (fy - y0.to(tl.float32)))


def test_coordinates_do_not_part_a_tile() -> None:
    H, W, M, N = 16, 64, 32, 128
    x = np.random.default_rng(0).random((H, W), np.float32)
    o = np.zeros((M, N), np.float32)
    kernel = interpolate_kernel[(1,)](x, o, H, W, M, N)
    fy, fx = np.arange(M)[:, None] / 3, np.arange(N)[None, :] / 3
    y0, x0 = fy.astype(int), fx.astype(int)
    y1, x1 = np.minimum(y0 + 1, H - 1), np.minimum(x0 + 1, W - 1)
    top = x[y0, x0] + (x[y0, x1] - x[y0, x0]) * (fx - x0)
    low = x[y1, x0] + (x[y1, x1] - x[y1, x0]) * (fx - x0)
    np.testing.assert_allclose(o, top + (low - top) * (fy - y0), rtol=1e-4, atol=1e-5)
    # a tile of the whole space is kept for arguments that overlap, none between groups
    assert kernel.plan.scratch_bytes < 2 * M * N * 4
