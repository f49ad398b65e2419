"""What threads write to shared memory is fenced before the tensor memory accelerator reads it."""

import re

import pytest

from tilewright import dtypes
from tilewright.generator import Contraction, MatmulConfig, Operand
from tilewright.runtime.export.matmul import argument_types
from tilewright.runtime.matmul.kernels import kernels

WRITES = re.compile(r"\tst\.shared|\tstmatrix")
STORES = re.compile(r"cp\.async\.bulk\.tensor\.\dd\.global\.shared")


@pytest.mark.parametrize(
    "config",
    [
        MatmulConfig(16, 16, 16, num_warps=1),  # mma.sync: nothing else reads asynchronously
        MatmulConfig(64, 64, 32, num_warps=2),
        MatmulConfig(64, 64, 64, num_warps=4),  # wgmma
        MatmulConfig(128, 256, 64, num_warps=8),
    ],
    ids=lambda c: c.text,
)
@pytest.mark.parametrize("out", [dtypes.float16, dtypes.float32])
def test_results_are_fenced_before_they_are_copied(config, out):
    half = Operand(dtypes.float16)
    (kernel,) = kernels(Contraction(half, half, Operand(out)), config)
    types = argument_types(kernel.program, True)
    ptx = kernel.compile(types, target="sm_90a", options=kernel.launch_options()).asm["ptx"]
    stores = [m.start() for m in STORES.finditer(ptx)]
    if not stores:
        return  # its results leave by themselves
    before = ptx[: stores[0]]
    last = max(m.start() for m in WRITES.finditer(before))
    kind = "bar.warp.sync" if config.num_warps == 1 else "bar.sync"
    fence, barrier = before.find("fence.proxy.async", last), before.rfind(kind)
    assert last < fence < barrier
