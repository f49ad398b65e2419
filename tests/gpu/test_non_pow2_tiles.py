"""Matrix products whose blocks are no powers of two, and whose warps are 12, on a GPU."""

import pytest
from tests.gpu.errors_of_products import assert_product
from tests.non_pow2_tiles import grid, product_ir

from tilewright import dtypes
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.runtime.compiled import CompiledKernel

torch = pytest.importorskip("torch")

BLOCKS = [
    ((192, 192, 64), 12, 4), ((192, 96, 64), 12, 5), ((128, 192, 64), 8, 4), ((64, 192, 64), 12, 3),
    ((384, 64, 32), 12, 3), ((192, 64, 32), 4, 3), ((96, 96, 32), 12, 3), ((48, 96, 32), 4, 2),
    ((64, 64, 32), 8, 3), ((64, 128, 32), 16, 3),  # a warpgroup reads part of a panel's line
]  # fmt: skip


@pytest.mark.parametrize("without", [(), ("promote-shared",), ("pipeline-loads",)])
@pytest.mark.parametrize("sizes", [(384, 384, 256), (1000, 1096, 520)])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(("blocks", "warps", "stages"), BLOCKS)
def test_products(blocks, warps, stages, dtype, sizes, without):
    m, n, k = sizes
    options = Options(num_warps=warps, num_stages=stages, disable=without)
    module = product_ir(*blocks, even=k % blocks[2] == 0, dtype=getattr(dtypes, dtype))
    target = backend.target()
    kernel = CompiledKernel(
        backend.compile(module, options, target), "odd", options, target, None, False
    )
    torch.manual_seed(m)
    a, b = (
        torch.randn(*shape, device="cuda").to(getattr(torch, dtype)) for shape in ((m, k), (k, n))
    )
    c = torch.full((m, n), float("nan"), device="cuda", dtype=a.dtype)
    kernel.run(grid(m, n, blocks[:2]), a, b, c, m, n, k, k, n, n)
    # the tutorial's kernel rounds its sums to fp16
    assert_product(c, a, b, roundings=(torch.float16, a.dtype))
