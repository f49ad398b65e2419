"""Conversions of layouts inside of warps: what the shuffles read, and machine code without a barrier for them."""

import numpy as np
import pytest
from tests.ptx.launch import run_ptx

from tilewright import dtypes
from tilewright import language as tl
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.lower.warp_shuffles import _mapped, plan_shuffles
from tilewright.backends.nvidia.target import target_info
from tilewright.dtypes import pointer_type
from tilewright.frontend import build
from tilewright.language.kernel_function import KernelFunction
from tilewright.layouts import parse_layout

LAYOUTS = (
    "32 r[] l[1 2 4 8 16] w[0 0]", "32 r[1 8 16] l[2 4 0 0 0] w[0 0]", "32 r[8 16] l[0 0 1 2 4] w[0 0]",
    "32 r[1 2] l[4 8 16 0 0] w[0 0]", "32 r[1] l[2 4 8 0 0] w[16 0]", "32 r[2] l[1 4 8 0 0] w[16 0]",
)  # fmt: skip


@pytest.mark.parametrize("source", LAYOUTS)
@pytest.mark.parametrize("target", LAYOUTS)
def test_lanes_read_the_elements_of_the_new_layout(source, target):
    old, new = parse_layout(source), parse_layout(target)
    plan = plan_shuffles(old, new)
    if old.warps != new.warps:
        assert plan is None
        return
    if source == LAYOUTS[0]:
        assert plan is not None  # one element a lane can always be read
    if plan is None:
        return
    bits, places = plan
    for warp in range(4):
        for lane in range(32):
            for register, (chosen, start) in enumerate(places):
                read = old.coordinates(chosen, start ^ _mapped(bits, lane), warp)
                assert read == new.coordinates(register, lane, warp)


def shifted(a, b, row, out):
    m, n, k = tl.arange(0, 64), tl.arange(0, 32), tl.arange(0, 16)
    s = tl.dot(tl.load(a + m[:, None] * 16 + k[None, :]), tl.load(b + k[:, None] * 32 + n[None, :]))
    tl.store(out + m[:, None] * 32 + n[None, :], s - tl.cumsum(tl.load(row + n))[None, :])


def test_a_row_of_statistics_reaches_the_sums_by_shuffles():
    types = dict.fromkeys(("a", "b"), pointer_type(dtypes.float16))
    types |= dict.fromkeys(("row", "out"), pointer_type(dtypes.float32))
    module = build(KernelFunction(shifted), types, dict.fromkeys(types, 16)).module
    options = Options(num_warps=4, disable=("lower-stores-to-tma",))
    artifact = backend.compile(module, options, target_info("sm_90a"))
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((64, 16), (16, 32)))
    row, out = rng.standard_normal(32).astype(np.float32), np.zeros((64, 32), np.float32)
    after = run_ptx(artifact, [a, b, row, out], (1, 1, 1))
    wanted = a.astype(np.float64) @ b.astype(np.float64) - np.cumsum(row)[None, :]
    np.testing.assert_allclose(np.asarray(after[3]), wanted, atol=1e-4)
    assert artifact.asm["ptx"].count("shfl.sync.idx") > 8  # one for the number of the warp
