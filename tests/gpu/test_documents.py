"""The example kernels (`examples/seeds`) as written, on the GPU, against torch in higher precision."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _loader():
    path = ROOT / "examples" / "seeds_loader.py"
    spec = importlib.util.spec_from_file_location("gpu_seeds_loader", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def program(name):
    from tilewright.integrations import triton as drop_in

    module = _loader().load(name)
    drop_in.uninstall()
    return module


def error(result, expected):
    return float((result.double() - expected.double()).norm() / expected.double().norm())


@pytest.mark.parametrize("n", [1, 37, 256, 1000, 4096, 12289, 65536])
@pytest.mark.parametrize("kernel", ["fuse", "tile", "online"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_softmax(kernel, n, dtype):
    import torch

    x = torch.randn(33, n, device="cuda").to(getattr(torch, dtype))
    made = getattr(program("softmax"), f"triton_softmax_dim1_{kernel}")(x)
    assert error(made, torch.softmax(x.double(), 1)) < (1e-5 if dtype == "float32" else 1e-2)


@pytest.mark.parametrize("n", [1, 1000, 98432, 1 << 20])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "int8", "int64"])
def test_add(n, dtype):
    import torch

    kind = getattr(torch, dtype)
    x, y = ((torch.randn(n, device="cuda") * 20).to(kind) for _ in range(2))
    assert torch.equal(program("vector_add").add(x, y), x + y)


@pytest.mark.parametrize(
    "shape", [(128, 128, 128), (257, 129, 65), (512, 1024, 256), (33, 40, 1000)]
)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("config", [(128, 256, 64, 8, 3), (64, 64, 32, 4, 4), (32, 32, 32, 2, 2)])
@pytest.mark.parametrize("layout", ["nn", "nt", "tn"])
def test_matmul(shape, dtype, config, layout):
    import torch

    m, n, k = shape
    bm, bn, bk, warps, stages = config
    kind = getattr(torch, dtype)
    a, b = torch.randn(m, k, device="cuda").to(kind), torch.randn(k, n, device="cuda").to(kind)
    if layout[0] == "t":
        a = a.t().contiguous().t()
    if layout[1] == "t":
        b = b.t().contiguous().t()
    out = torch.full((m, n), float("nan"), device="cuda", dtype=torch.float16)
    kernel = program("tutorial_matmul").matmul_kernel
    while type(kernel).__name__ != "JITFunction":
        kernel = kernel.fn
    kernel[(-(-m // bm) * -(-n // bn),)](
        a, b, out, m, n, k, *a.stride(), *b.stride(), *out.stride(), BLOCK_SIZE_M=bm,
        BLOCK_SIZE_N=bn, BLOCK_SIZE_K=bk, EVEN_K=k % bk == 0, GROUP_SIZE_M=8, ACTIVATION="",
        num_warps=warps, num_stages=stages,
    )  # fmt: skip
    assert error(out, a.double() @ b.double()) < 1e-2
