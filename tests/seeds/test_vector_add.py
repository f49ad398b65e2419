"""Vector add: one block a program, and several blocks a program with a run-time loop."""

import numpy as np
import pytest

pytestmark = pytest.mark.sampled(4, full=3)

DTYPES = ["float32", "float16", "bfloat16", "float64", "int8"]


def expected(x, y):
    if x.dtype.kind in "iu":
        return (x + y).astype(np.float64)
    return (x.astype(np.float64) + y.astype(np.float64)).astype(x.dtype).astype(np.float64)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 3, 1021, 4096, 98432, 131072])
def test_one_block(load, arrays, grid_form, close, dtype, size):
    seed = load("vector_add")
    x, y = arrays.normal(size, dtype), arrays.normal(size, dtype)
    out = np.zeros_like(x)
    form = ["tuple", "list", "callable"][size % 3]
    grid = grid_form(form, -(-size // 1024))
    seed.add_kernel[grid](arrays.give(x), arrays.give(y), arrays.give(out), size, BLOCK_SIZE=1024)
    close(out, expected(x, y), 0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("size", "blocks"), [(1, 1), (1021, 3), (65537, 7), (131072, 8)])
def test_several_blocks(load, arrays, close, dtype, size, blocks):
    seed = load("vector_add")
    x, y = arrays.normal(size, dtype), arrays.normal(size, dtype)
    out = np.zeros_like(x)
    grid = (-(-size // (256 * blocks)),)
    seed.add_kernel_several_blocks[grid](
        arrays.give(x), arrays.give(y), arrays.give(out), size, blocks, BLOCK_SIZE=256
    )
    close(out, expected(x, y), 0)


@pytest.mark.parametrize("form", ["tuple", "list", "callable"])
@pytest.mark.parametrize("block", [1, 2, 64, 4096])
def test_blocks_and_grid_forms(load, numpy_arrays, grid_form, close, form, block):
    seed, size = load("vector_add"), 521
    x, y = numpy_arrays.normal(size, "float32"), numpy_arrays.normal(size, "float32")
    out = np.full(size + 1, 7, np.float32)
    seed.add_kernel[grid_form(form, -(-size // block))](x, y, out, size, BLOCK_SIZE=block)
    close(out[:-1], expected(x, y), 0)
    assert out[-1] == 7


def test_in_place_and_unaligned(load, numpy_arrays, close):
    seed, size = load("vector_add"), 1009
    base = numpy_arrays.normal(size + 5, "float32")
    x, y = base[3 : 3 + size], numpy_arrays.normal(size, "float32")
    wanted = expected(x.copy(), y)
    seed.add_kernel[(2,)](x, y, x, size, BLOCK_SIZE=512)
    close(x, wanted, 0)


@pytest.mark.parametrize("kernel", ["add_kernel", "add_kernel_several_blocks"])
def test_autotuned(load, numpy_arrays, close, kernel):
    import triton

    seed, size = load("vector_add"), 20011
    configs = [triton.Config({"BLOCK_SIZE": b}) for b in (256, 1024)]
    tuned = triton.autotune(configs, key=["n_elements"])(getattr(seed, kernel))
    x, y = numpy_arrays.normal(size, "float32"), numpy_arrays.normal(size, "float32")
    out = np.zeros(size, np.float32)
    several = kernel.endswith("blocks")
    per_cta = (4,) if several else ()
    grid = lambda meta: (triton.cdiv(size, meta["BLOCK_SIZE"] * (4 if several else 1)),)
    tuned[grid](x, y, out, size, *per_cta)
    close(out, expected(x, y), 0)
    assert tuned.best_config in configs


def test_wrapper_and_benchmark_as_written(load, tmp_path, capsys):
    """With the NumPy-backed namespace, where "cuda" is the machine at hand."""
    seed = load("vector_add", stand_in=True)
    x, y = seed.torch.rand(98432, device="cuda"), seed.torch.rand(98432, device="cuda")
    np.testing.assert_array_equal(seed.add(x, y), np.asarray(x) + np.asarray(y))
    seed.benchmark.benchmarks.x_vals = [2**12, 2**13]
    seed.benchmark.run(print_data=True, show_plots=False, save_path=tmp_path)
    assert "vector-add-performance:" in capsys.readouterr().out
    assert (tmp_path / "vector-add-performance.png").stat().st_size > 0


def test_as_python(load, numpy_arrays, close, monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    seed, size = load("vector_add"), 301
    for dtype in DTYPES:
        x, y = numpy_arrays.normal(size, dtype), numpy_arrays.normal(size, dtype)
        out, loop = np.zeros_like(x), np.zeros_like(x)
        seed.add_kernel[[3]](x, y, out, size, BLOCK_SIZE=128)
        seed.add_kernel_several_blocks[[2]](x, y, loop, size, 2, BLOCK_SIZE=128)
        close(out, expected(x, y), 0)
        close(loop, expected(x, y), 0)
