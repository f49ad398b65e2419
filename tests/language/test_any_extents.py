"""`jit(any_extents=True)`: tiles whose extents are not powers of two."""

from __future__ import annotations

import numpy as np
import pytest
from tests.engines import run
from tests.ptx.launch import run_ptx

import tilewright as tw
import tilewright.language as tl
from tilewright.errors import CompilationError, KernelTypeError, PassError


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
    with pytest.raises(
        KernelTypeError, match=r"range must be a power of 2, but .* has 12 elements"
    ):
        usual[(1,)](x, x, 12, 96)


def test_extents_are_positive():
    @tw.jit(any_extents=True)
    def empty(out):
        tl.store(out, tl.sum(tl.zeros((4, 0), tl.float32)))

    with pytest.raises(KernelTypeError, match="extent 0 of shape"):
        empty[(1,)](np.ones(1, np.float32))


def test_networks_need_powers_of_two():
    """A network for the next smaller power of two leaves such rows in disorder."""

    @tw.jit(any_extents=True)
    def in_order(x, N: tl.constexpr):
        at = tl.arange(0, 4)[:, None] * N + tl.arange(0, N)[None, :]
        tl.store(x + at, tl.sort(tl.load(x + at)))

    x = np.random.default_rng(0).random((4, 8), np.float32)
    expected = np.sort(x)
    in_order[(1,)](x, 8)
    assert (x == expected).all()
    with pytest.raises(CompilationError, match="extent 6, which is not a power of two"):
        in_order[(1,)](x, 6)


def test_the_option_is_part_of_the_key():
    assert any_extents.cache_key != usual.cache_key


@tw.jit(any_extents=True)
def product(a, b, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows, columns, depth = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + rows[:, None] * K + depth[None, :])
    y = tl.load(b + depth[:, None] * N + columns[None, :])
    tl.store(out + rows[:, None] * N + columns[None, :], tl.dot(x, y))


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(
    ("shape", "unit"),
    [
        ((64, 40, 64), "wgmma"),
        ((192, 96, 64), "wgmma"),
        ((80, 24, 48), "mma.sync"),
        ((5, 7, 9), "fma"),
    ],
)
def test_products_on_gpus(target, shape, unit):
    m, n, k = shape
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-4, 5, x).astype(np.float16) for x in ((m, k), (k, n)))
    pointers = {name: "*fp16:16" for name in "ab"} | {"out": "*fp32:16"}
    sizes = {name: tl.constexpr(size) for name, size in zip("MNK", shape, strict=True)}
    compiled = product.compile(pointers | sizes, None, target)
    assert ("mma.sync" if unit == "wgmma" and target == "sm_80" else unit) in compiled.asm["ptx"]
    found = run_ptx(compiled.artifact, [a, b, np.zeros((m, n), np.float32)], (1,))[2]
    np.testing.assert_array_equal(found, a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize("shape", [(12, 96), (5, 7)])
def test_rows_on_gpus(shape):
    x = np.random.default_rng(2).random(shape, np.float32)
    sizes = {"ROWS": tl.constexpr(shape[0]), "COLUMNS": tl.constexpr(shape[1])}
    compiled = any_extents.compile({"x": "*fp32:16", "out": "*fp32:16"} | sizes, None, "sm_90a")
    found = run_ptx(compiled.artifact, [x, np.zeros_like(x)], (1,))[1]
    np.testing.assert_allclose(found, x / x.sum(1, keepdims=True), rtol=1e-6)


@tw.jit(any_extents=True)
def pairs(x_ptr, out_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.arange(0, ROWS)[:, None]
    x = tl.load(x_ptr + row * COLUMNS + tl.arange(0, COLUMNS)[None, :])
    place = row * (2 * COLUMNS) + tl.arange(0, 2 * COLUMNS)[None, :]
    tl.store(out_ptr + place, tl.interleave(x, x + 1))


@pytest.mark.parametrize("shape", [(4, 6), (4, 8), (12, 16), (6, 6)])
def test_reshapes_on_a_gpu_are_right_or_rejected(shape):
    """The copies of a block that a thread has are not where a reshape, linear in the bits of a place, looks for them."""
    x = np.random.default_rng(0).random(shape, np.float32)
    out = np.zeros((shape[0], 2 * shape[1]), np.float32)
    try:
        (_, found) = run("sm_80", pairs, (1,), x, out, ROWS=shape[0], COLUMNS=shape[1])
    except PassError as error:
        assert shape != (4, 8) and "has no form on a GPU" in str(error)
        return
    assert (found == np.stack([x, x + 1], -1).reshape(out.shape)).all()
