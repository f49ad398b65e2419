"""The tutorial's matmul: autotuned, with heuristics, both configuration lists, fused leaky_relu."""

import sys

import numpy as np
import pytest

pytestmark = pytest.mark.sampled(4, full=3)

HIP = [None, "6.0"]
DTYPES = ["float16", "bfloat16", "float32", "int8"]


def reference(a, b, activation=""):
    product = a.astype(np.float64) @ b.astype(np.float64)
    if activation == "leaky_relu":
        product = product + 1
        product = np.where(product >= 0, product, 0.01 * product)
    return product


def launch(kernel, grid, arrays, strides, a, b, c, activation="", **meta):
    (m, k), n = a.shape, b.shape[1]
    kernel[grid](
        arrays.give(a), arrays.give(b), arrays.give(c), m, n, k, *strides(a), *strides(b),
        *strides(c), ACTIVATION=activation, **meta,
    )  # fmt: skip


def grid_of(m, n):
    return lambda meta: (-(-m // meta["BLOCK_SIZE_M"]) * -(-n // meta["BLOCK_SIZE_N"]),)


def roomy(arrays, shape, dtype):
    """A matrix with allocated memory around it: the ROCm branch reads whole blocks unmasked."""
    spare = np.zeros((shape[0] + 256, shape[1] + 256), arrays.dtype(dtype))
    spare[...] = arrays.normal(spare.shape, dtype)
    return spare[: shape[0], : shape[1]]


def check(c, wanted):
    """The kernel rounds its fp32 sums to fp16."""
    error = np.abs(c.astype(np.float64) - wanted)
    assert (error <= 2e-3 * np.abs(wanted) + 2e-2).all(), error.max()


@pytest.mark.parametrize("hip", HIP)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(16, 16, 32), (37, 61, 97), (129, 65, 64), (1, 131, 33)])
@pytest.mark.parametrize("group", [1, 8])
def test_without_tuning(load, arrays, strides, hip, dtype, shape, group):
    kernel = load("tutorial_matmul", hip=hip).matmul_kernel.fn
    m, n, k = shape
    a, b = roomy(arrays, (m, k), dtype), roomy(arrays, (k, n), dtype)
    c = np.zeros((m, n), np.float16)
    meta = {"BLOCK_SIZE_M": 32, "BLOCK_SIZE_N": 32, "BLOCK_SIZE_K": 32, "GROUP_SIZE_M": group}
    activation = "leaky_relu" if n % 2 else ""
    launch(kernel, grid_of(m, n), arrays, strides, a, b, c, activation, **meta, num_stages=0)
    check(c, reference(a, b, activation))


@pytest.mark.parametrize("hip", HIP)
@pytest.mark.parametrize("k", [64, 61])
def test_tuned_over_the_whole_list(load, numpy_arrays, strides, hip, k):
    seed = load("tutorial_matmul", hip=hip)
    arrays, (m, n) = numpy_arrays, (61, 67)
    a, b = roomy(arrays, (m, k), "float16"), roomy(arrays, (k, n), "float16")
    c = np.zeros((m, n), np.float16)
    launch(seed.matmul_kernel, grid_of(m, n), arrays, strides, a, b, c, "leaky_relu")
    check(c, reference(a, b, "leaky_relu"))
    chosen = seed.matmul_kernel.get_best_config(m, n, k)
    assert chosen in seed.matmul_kernel.configs
    assert len(seed.matmul_kernel.configs) == (8 if hip is None else 5)
    assert ("waves_per_eu" in chosen.kwargs) == (hip is not None)


def test_every_configuration_is_right(load, numpy_arrays, strides):
    for hip in HIP:
        seed, arrays = load("tutorial_matmul", hip=hip), numpy_arrays
        a, b = roomy(arrays, (70, 50), "float16"), roomy(arrays, (50, 300), "float16")
        for config in seed.matmul_kernel.configs:
            c = np.zeros((70, 300), np.float16)
            meta = config.all_kwargs()
            launch(seed.matmul_kernel.fn, grid_of(70, 300), arrays, strides, a, b, c, "", **meta)
            check(c, reference(a, b))


def test_transposed_and_strided(load, arrays, strides):
    kernel = load("tutorial_matmul").matmul_kernel.fn
    a = arrays.normal((83, 45), "float32").T
    b = arrays.normal((83, 106), "float32")[:, ::2]
    c = np.zeros((53, 45), np.float16).T
    meta = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 16, "GROUP_SIZE_M": 4}
    launch(kernel, grid_of(45, 53), arrays, strides, a, b, c, **meta)
    check(c, reference(a, b))


def test_wrapper_as_written(load):
    seed = load("tutorial_matmul", stand_in=True)
    a = seed.torch.randn((48, 32), device="cuda", dtype=seed.torch.float16)
    b = seed.torch.randn((32, 80), device="cuda", dtype=seed.torch.float16)
    check(np.asarray(seed.matmul(a, b, "leaky_relu")), reference(a, b, "leaky_relu"))


def test_its_own_test_and_benchmark_with_v(load, monkeypatch, capsys):
    seed = load("tutorial_matmul", stand_in=True)
    seed.test_correctness(64, 64, 32, "float16", "float16")
    seed.benchmark.benchmarks.x_vals = [(64, 64, 64)]
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setattr(sys, "argv", ["03-matrix-multiplication.py", "-v"])
    seed.main()
    text = capsys.readouterr().out
    assert "SIZE: 64,64,64 Best tuning config: (BLOCK_SIZE_M: " in text
    assert "matmul-performance:" in text


def test_matmul_with_torch(load):
    torch = pytest.importorskip("torch")
    a, b = torch.randn(40, 64, dtype=torch.float16), torch.randn(64, 24, dtype=torch.float16)
    c = load("tutorial_matmul").matmul(a, b)
    torch.testing.assert_close(c, (a.double() @ b.double()).half(), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("hip", HIP)
def test_as_python(load, numpy_arrays, strides, hip, monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    seed, arrays = load("tutorial_matmul", hip=hip), numpy_arrays
    meta = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 16, "BLOCK_SIZE_K": 16, "GROUP_SIZE_M": 2}
    for dtype in DTYPES:
        a, b = roomy(arrays, (19, 35), dtype), roomy(arrays, (35, 18), dtype)
        c = np.zeros((19, 18), np.float16)
        launch(
            seed.matmul_kernel.fn, grid_of(19, 18), arrays, strides, a, b, c, "leaky_relu", **meta
        )
        check(c, reference(a, b, "leaky_relu"))
