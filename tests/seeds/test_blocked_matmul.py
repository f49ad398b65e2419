"""The blocked matmul on a two-dimensional grid with masks on every side."""

import numpy as np
import pytest

pytestmark = pytest.mark.sampled(4, full=3)

#: input dtype -> unit of the result's rounding
EPS = {"float64": 2**-23, "float32": 2**-23, "float16": 2**-23, "bfloat16": 2**-23, "int8": 0}
SHAPES = [(1, 1, 1), (16, 16, 16), (33, 17, 65), (127, 131, 61), (64, 1, 200), (128, 256, 96)]


def run(load, arrays, grid_form, dtype, shape, blocks=(32, 32, 32), form="tuple"):
    seed = load("blocked_matmul")
    m, n, k = shape
    a, b = arrays.normal((m, k), dtype), arrays.normal((k, n), dtype)
    c = np.full((m + 1, n), 7, np.float32)
    grid = grid_form(form, -(-m // blocks[0]), -(-n // blocks[1]), 1)
    seed.matmul_kernel[grid](
        arrays.give(a), arrays.give(b), arrays.give(c), m, n, k,
        BLOCK_M=blocks[0], BLOCK_N=blocks[1], BLOCK_K=blocks[2],
    )  # fmt: skip
    assert (c[m] == 7).all()
    wide = a.astype(np.float64), b.astype(np.float64)
    return c[:m], wide[0] @ wide[1], np.abs(wide[0]) @ np.abs(wide[1])


def check(given, wanted, magnitude, eps, k):
    error = np.abs(given.astype(np.float64) - wanted)
    assert (error <= eps * max(k, 8) * magnitude).all(), error.max()


@pytest.mark.parametrize("dtype", list(EPS))
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_and_dtypes(load, arrays, grid_form, dtype, shape):
    form = ["tuple", "list", "callable"][sum(shape) % 3]
    given, wanted, magnitude = run(load, arrays, grid_form, dtype, shape, form=form)
    check(given, wanted, magnitude, EPS[dtype], shape[2])


@pytest.mark.parametrize("blocks", [(16, 16, 16), (64, 16, 32), (16, 128, 64), (128, 128, 32)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_blocks(load, numpy_arrays, grid_form, blocks, dtype):
    shape = (150, 139, 101)
    given, wanted, magnitude = run(load, numpy_arrays, grid_form, dtype, shape, blocks)
    check(given, wanted, magnitude, EPS[dtype], shape[2])


def test_infinities_and_nan(load, numpy_arrays):
    seed = load("blocked_matmul")
    a, b = (numpy_arrays.normal((40, 40), "float16") for _ in range(2))
    a[3, 5], a[7, 1] = np.inf, np.nan
    c = np.zeros((40, 40), np.float32)
    seed.matmul_kernel[(2, 2)](a, b, c, 40, 40, 40, BLOCK_M=32, BLOCK_N=32, BLOCK_K=32)
    rows = np.ones(40, bool)
    rows[[3, 7]] = False
    assert np.isfinite(c[rows]).all() and np.isnan(c[7]).all() and np.isinf(c[3]).all()


def test_autotuned(load, numpy_arrays):
    import triton

    seed = load("blocked_matmul")
    configs = [
        triton.Config({"BLOCK_M": m, "BLOCK_N": 32, "BLOCK_K": 32}, num_stages=s)
        for m in (16, 64) for s in (0, 3)
    ]  # fmt: skip
    kernel = triton.autotune(configs, key=["M", "N", "K"])(seed.matmul_kernel)
    a, b = numpy_arrays.normal((61, 47), "float32"), numpy_arrays.normal((47, 53), "float32")
    c = np.zeros((61, 53), np.float32)
    grid = lambda meta: (triton.cdiv(61, meta["BLOCK_M"]), triton.cdiv(53, meta["BLOCK_N"]))
    kernel[grid](a, b, c, 61, 53, 47)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b, atol=1e-4)
    assert kernel.get_best_config(61, 53, 47).num_stages == 0


def test_as_python(load, numpy_arrays, grid_form, monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    for dtype in EPS:
        shape = (19, 33, 18)
        result = run(load, numpy_arrays, grid_form, dtype, shape, (16, 16, 16), "list")
        check(*result, EPS[dtype], shape[2])
