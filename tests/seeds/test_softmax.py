"""Softmax in three forms, both `CACHE_OPT` settings, 1 to 131072 columns."""

import numpy as np
import pytest

pytestmark = pytest.mark.sampled(4, full=3)

#: kernel -> block size (None: a power of two that covers the row)
KERNELS = {"fuse": None, "tile": 2**14, "online": 2**12}
EPS = {"float64": 2**-52, "float32": 2**-23, "float16": 2**-10, "bfloat16": 2**-7}


def reference(x):
    x = x.astype(np.float64)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def launch(seed, name, grid, x, y, strides, columns, cache_opt, block):
    kernel = getattr(seed, f"kernel_softmax_{name}")
    constants = {"BLOCK_SIZE": block or max(1, 1 << (columns - 1).bit_length()), "num_warps": 32}
    if name != "fuse":
        constants["CACHE_OPT"] = cache_opt
    kernel[grid](x, strides[0], y, strides[1], columns, **constants)


def tolerance(name, dtype, columns):
    """Rounding of the stored result, plus a fused row's sum in the input's own type."""
    worst = 4 * EPS[dtype] if dtype != "float64" else 1e-6
    if name == "fuse" and dtype in ("float16", "bfloat16"):
        worst = max(worst, 8 * EPS[dtype] * max(1.0, columns / 64))
    return max(worst, 2e-6 if dtype != "float64" or name != "fuse" else 1e-12)


def check(load, arrays, strides, close, name, dtype, rows, columns, cache_opt=True, block="seed"):
    seed = load("softmax")
    x = arrays.normal((rows, columns), dtype)
    y = np.zeros_like(x)
    block = KERNELS[name] if block == "seed" else block
    pair = (strides(x)[0], strides(y)[0])
    launch(seed, name, [rows], arrays.give(x), arrays.give(y), pair, columns, cache_opt, block)
    close(y, reference(x), tolerance(name, dtype, columns), atol=1e-30)


@pytest.mark.parametrize("columns", [1, 2, 17, 256, 1021])
@pytest.mark.parametrize("dtype", list(EPS))
@pytest.mark.parametrize("name", list(KERNELS))
def test_dtypes_and_small_rows(load, arrays, strides, close, name, dtype, columns):
    rows = 5 if name != "tile" else 2
    if name == "fuse" and dtype in ("float16", "bfloat16"):
        columns = min(columns, 131)
    check(load, arrays, strides, close, name, dtype, rows, columns)


@pytest.mark.parametrize("cache_opt", [True, False])
@pytest.mark.parametrize("columns", [4096, 4099, 16384, 65537, 131072])
@pytest.mark.parametrize("name", list(KERNELS))
def test_long_rows(load, numpy_arrays, strides, close, name, columns, cache_opt):
    if name == "fuse" and (not cache_opt or columns == 65537):
        pytest.skip("has no CACHE_OPT, and 131072 is the largest block")
    check(load, numpy_arrays, strides, close, name, "float32", 2, columns, cache_opt)


@pytest.mark.parametrize("cache_opt", [True, False])
@pytest.mark.parametrize("name", ["tile", "online"])
@pytest.mark.parametrize("columns", [1, 63, 64, 65, 200])
def test_small_blocks_make_many_trips(load, numpy_arrays, strides, close, name, columns, cache_opt):
    check(load, numpy_arrays, strides, close, name, "float32", 3, columns, cache_opt, block=64)


@pytest.mark.parametrize("name", list(KERNELS))
def test_rows_apart_and_memory_around(load, arrays, strides, close, name):
    seed = load("softmax")
    base, target = arrays.normal((14, 400), "float32"), np.full((7, 300), 7, np.float32)
    x, y = base[::2, 5:306], target[:, :]
    y = np.full((7, 310), 7, np.float32)[:, 4:305]
    pair = (strides(x)[0], strides(y)[0])
    launch(seed, name, (7,), arrays.give(x), arrays.give(y), pair, 301, True, 512)
    close(y, reference(x), 4e-6)
    assert (y.base[:, :4] == 7).all() and (y.base[:, 305:] == 7).all()


@pytest.mark.parametrize("name", list(KERNELS))
def test_extreme_values(load, numpy_arrays, strides, close, name):
    """Large and very negative inputs, and -inf lanes among finite ones, give no NaN."""
    seed = load("softmax")
    x = numpy_arrays.normal((4, 130), "float32")
    x[0] *= 1e4
    x[1] -= 3e38
    x[2, 3:100] = -np.inf
    x[3] = 0
    y = np.zeros_like(x)
    block = 64 if name != "fuse" else None
    launch(seed, name, (4,), x, y, (130, 130), 130, True, block)
    if name == "online":  # a lane whose first block is -inf is NaN in the kernel as written
        x, y = x[[0, 1, 3]], y[[0, 1, 3]]
    close(y, reference(x), 1e-5, atol=1e-30)


@pytest.mark.parametrize("name", ["fuse", "tile", "online"])
def test_wrappers_as_written(load, close, name):
    seed = load("softmax", stand_in=True)
    x = seed.torch.rand([5, 777], device="cuda")
    wrapper = getattr(seed, f"triton_softmax_dim1_{name}")
    close(wrapper(x), reference(np.asarray(x)), 4e-6)
    if name != "fuse":
        close(wrapper(x, cache_opt=False), reference(np.asarray(x)), 4e-6)


@pytest.mark.parametrize("name", ["fuse", "tile", "online"])
def test_wrappers_with_torch(load, close, name):
    torch = pytest.importorskip("torch")
    x = torch.rand(3, 1000)
    y = getattr(load("softmax"), f"triton_softmax_dim1_{name}")(x)
    torch.testing.assert_close(y, torch.softmax(x, dim=1), rtol=4e-6, atol=0)


def test_benchmark_as_written(load, tmp_path, capsys):
    pandas = pytest.importorskip("pandas")
    seed = load("softmax", stand_in=True)
    seed.benchmark.benchmarks.x_vals = [256]
    frame = seed.benchmark.run(print_data=True, save_path=tmp_path, return_df=True)
    assert isinstance(frame, pandas.DataFrame) and frame.shape == (1, 7)
    assert capsys.readouterr().out.startswith("softmax-time:")


@pytest.mark.parametrize("name", ["tile", "online"])
def test_autotuned(load, numpy_arrays, close, name):
    import triton

    seed = load("softmax")
    configs = [
        triton.Config({"BLOCK_SIZE": b, "CACHE_OPT": c}, num_warps=w)
        for b in (256, 1024) for c in (True, False) for w in (4, 8)
    ]  # fmt: skip
    kernel = triton.autotune(configs, key=["n_cols"])(getattr(seed, f"kernel_softmax_{name}"))
    x = numpy_arrays.normal((3, 2003), "float32")
    y = np.zeros_like(x)
    kernel[[3]](x, 2003, y, 2003, 2003)
    close(y, reference(x), 4e-6)
    assert kernel.best_config.num_warps == 4


@pytest.mark.parametrize("name", list(KERNELS))
def test_as_python(load, numpy_arrays, strides, close, monkeypatch, name):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    for dtype in ("float32", "bfloat16"):
        for cache_opt in (True, False):
            block = None if name == "fuse" else 32
            check(load, numpy_arrays, strides, close, name, dtype, 2, 67, cache_opt, block)
