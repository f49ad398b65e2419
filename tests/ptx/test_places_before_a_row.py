"""Rows without an end that a tile begins in front of: in an earlier row, which coordinates of TMA do not reach."""

import numpy as np
import pytest
from tests.engines import run

import tilewright as tw
import tilewright.language as tl


@tw.jit
def product(a, out, back, steps, N: tl.constexpr, BOUNDED: tl.constexpr):
    """`back`, which is subtracted, has no sign that is known: tiles begin 4 rows further, less `back` elements."""
    r = tl.arange(0, N)
    moved = 0
    for _ in range(steps):
        moved += back
    if BOUNDED:
        moved &= 127
    acc = tl.zeros((N, N), tl.float32)
    for k in range(0, 2):
        x = tl.load(a + 4 * 64 + k * N - moved + r[:, None] * 64 + r[None, :])
        acc = tl.dot(x, x, acc)
    tl.store(out + 4 * 64 - moved + r[:, None] * 64 + r[None, :], acc)


@pytest.mark.parametrize("engine", ["cpu", "sm_90a"])
@pytest.mark.parametrize("back", [0, 16, 64, 80])
@pytest.mark.parametrize("bounded", [False, True])
def test_tiles_begin_in_an_earlier_row(engine, back, bounded):
    rng = np.random.default_rng(back)
    a = rng.integers(-2, 3, (32, 64)).astype(np.float16)
    _, out = run(engine, product, (1,), a, np.zeros((32, 64), np.float32), back, 1, 16, bounded)
    flat, at = a.reshape(-1).astype(np.float64), 256 - back
    tiles = [flat[at + 16 * k :][: 16 * 64].reshape(16, 64)[:, :16] for k in range(2)]
    found = out.reshape(-1)[at:][: 16 * 64].reshape(16, 64)[:, :16]
    np.testing.assert_array_equal(found, sum(t @ t for t in tiles))
