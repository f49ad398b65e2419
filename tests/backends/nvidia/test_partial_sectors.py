"""CTAs on an SM of loops that access parts of sectors: few, so that L2 holds the sectors until neighbors have come."""

import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.nvidia.occupancy import CtaResources, resident_ctas
from tilewright.backends.nvidia.target import target_info


@tw.jit
def columns(x_ptr, out_ptr, n, stride, BLOCK: tl.constexpr):
    column = tl.program_id(0)
    for start in range(0, n, BLOCK):
        rows = start + tl.arange(0, BLOCK)
        at = rows * stride + column
        tl.store(out_ptr + at, tl.load(x_ptr + at, mask=rows < n) * 2, mask=rows < n)


@tw.jit
def one_tile(x_ptr, out_ptr, n, stride, BLOCK: tl.constexpr):
    rows = tl.arange(0, BLOCK)
    at = rows * stride + tl.program_id(0)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=rows < n) * 2, mask=rows < n)


def ctas(kernel, types, constants):
    """CTAs on an SM, and the bytes that a CTA takes of shared memory."""
    types = {"x_ptr": "*fp32:16", "out_ptr": "*fp32:16", "n": "i32"} | types
    plan = kernel.compile(types, constants, target="sm_90a", num_warps=4).plan
    block = CtaResources(plan.threads, max(plan.registers, 32), plan.shared_bytes)
    return resident_ctas(block, target_info("sm_90a")), plan.shared_bytes


@pytest.mark.parametrize(("block", "expected"), [(1024, 2), (4096, 2), (256, 8)])
def test_loops_down_columns_share_an_sm_with_few(block, expected):
    """64 KiB of sectors are in flight: 32 bytes for each element that is loaded."""
    found, shared = ctas(columns, {"stride": "i32:16"}, {"BLOCK": block})
    assert found == expected
    assert shared > 16 << 10


@pytest.mark.parametrize(("kernel", "types", "constants"), [
    (columns, {"stride": "i32"}, {}),  # lanes may share sectors
    (columns, {}, {"stride": 1}),
    (one_tile, {"stride": "i32:16"}, {}),
])  # fmt: skip
def test_others_share_an_sm_with_as_many_as_fit(kernel, types, constants):
    assert ctas(kernel, types, {"BLOCK": 1024, **constants})[1] == 0
