"""`jit(any_extents=True)`: tiles whose extents are not powers of two."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.errors import KernelTypeError


def scaled_rows(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    place = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    tile = tl.load(x + place) + tl.zeros((ROWS, COLUMNS), tl.float32)
    tl.store(out + place, tile / tl.sum(tile, 1, keep_dims=True))


any_extents = tw.jit(any_extents=True)(scaled_rows)
usual = tw.jit(scaled_rows)


@pytest.mark.parametrize("shape", [(12, 96), (5, 7), (4, 8)])
def test_values(shape):
    x = np.random.default_rng(0).random(shape, np.float32)
    out = np.empty_like(x)
    any_extents[(1,)](x, out, *shape)
    np.testing.assert_allclose(out, x / x.sum(1, keepdims=True), rtol=1e-6)


def test_only_where_asked_for():
    x = np.ones((12, 96), np.float32)
    with pytest.raises(KernelTypeError, match="length 12 is not a power of two"):
        usual[(1,)](x, x, 12, 96)


def test_extents_are_positive():
    @tw.jit(any_extents=True)
    def empty(out):
        tl.store(out, tl.sum(tl.zeros((4, 0), tl.float32)))

    with pytest.raises(KernelTypeError, match="extent 0 of shape"):
        empty[(1,)](np.ones(1, np.float32))


def test_the_option_is_part_of_the_key():
    assert any_extents.cache_key != usual.cache_key


def test_products_of_three_times_a_power_of_two_run_on_tensor_cores():
    @tw.jit(any_extents=True)
    def product(a, b, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
        rows, columns, depth = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
        x = tl.load(a + rows[:, None] * K + depth[None, :])
        y = tl.load(b + depth[:, None] * N + columns[None, :])
        tl.store(out + rows[:, None] * N + columns[None, :], tl.dot(x, y))

    pointers = {name: "*fp16:16" for name in "ab"} | {"out": "*fp32:16"}
    sizes = {name: tl.constexpr(n) for name, n in (("M", 64), ("N", 96), ("K", 64))}
    ptx = product.compile(pointers | sizes, None, "sm_90a").asm["ptx"]
    assert "wgmma.mma_async.sync.aligned.m64n96k16" in ptx
