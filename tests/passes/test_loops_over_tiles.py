"""Programs that take one tile after another: pipelines go on where they stopped, on every pass."""

import numpy as np
import pytest
from tests.run_on_copies import run_on_copies
from xdsl.dialects.builtin import IntegerAttr, i32

import tilewright.language as tl
from tilewright import dtypes
from tilewright.backends.nvidia.codegen import emit_module
from tilewright.backends.nvidia.pipeline import nvidia_passes
from tilewright.backends.nvidia.target import target_info
from tilewright.dtypes import constexpr
from tilewright.frontend import build
from tilewright.language.kernel_function import KernelFunction
from tilewright.passes.manager import run_pipeline

pytestmark = pytest.mark.sampled(6, full=6)

TARGET = target_info("sm_90a")
M, N = 128, 192


def tiles(a, b, c, k, programs, BK: tl.constexpr, N: tl.constexpr, TILES: tl.constexpr):
    """One loop over tiles of 64 × 64."""
    for number in range(tl.program_id(0), TILES, programs):
        rm = number // (N // 64) * 64 + tl.arange(0, 64)
        rn = number % (N // 64) * 64 + tl.arange(0, 64)
        total = tl.zeros((64, 64), tl.float32)
        for start in range(0, k, BK):
            rk = start + tl.arange(0, BK)
            x = tl.load(a + rm[:, None] * k + rk[None, :])
            y = tl.load(b + rk[:, None] * N + rn[None, :])
            total = tl.dot(x, y, total)
        tl.store(c + rm[:, None] * N + rn[None, :], total.to(tl.float16))


def rows_and_columns(a, b, c, k, programs, BK: tl.constexpr, N: tl.constexpr, TILES: tl.constexpr):
    """Two loops over tiles, one in the other."""
    for row in range(0, TILES // (N // 64)):
        for column in range(tl.program_id(0), N // 64, programs):
            rm, rn = row * 64 + tl.arange(0, 64), column * 64 + tl.arange(0, 64)
            total = tl.zeros((64, 64), tl.float32)
            for start in range(0, k, BK):
                rk = start + tl.arange(0, BK)
                x = tl.load(a + rm[:, None] * k + rk[None, :])
                y = tl.load(b + rk[:, None] * N + rn[None, :])
                total = tl.dot(x, y, total)
            tl.store(c + rm[:, None] * N + rn[None, :], total.to(tl.float16))


def some_tiles(a, b, c, k, programs, BK: tl.constexpr, N: tl.constexpr, TILES: tl.constexpr):
    """A branch between the loops."""
    for number in range(0, TILES):
        if number % programs == tl.program_id(0):
            rm = number // (N // 64) * 64 + tl.arange(0, 64)
            rn = number % (N // 64) * 64 + tl.arange(0, 64)
            total = tl.zeros((64, 64), tl.float32)
            for start in range(0, k, BK):
                rk = start + tl.arange(0, BK)
                x = tl.load(a + rm[:, None] * k + rk[None, :])
                y = tl.load(b + rk[:, None] * N + rn[None, :])
                total = tl.dot(x, y, total)
            tl.store(c + rm[:, None] * N + rn[None, :], total.to(tl.float16))


def lowered(kernel, stages, disabled):
    half = dtypes.pointer_type(dtypes.float16)
    signature = {"a": half, "b": half, "c": half, "k": dtypes.int32, "programs": dtypes.int32,
                 "BK": constexpr(32), "N": constexpr(N), "TILES": constexpr(M // 64 * (N // 64))}  # fmt: skip
    module = build(KernelFunction(kernel), signature, dict.fromkeys("abck", 16)).module
    function = module.body.block.first_op
    function.attributes["gpu.num_stages"] = IntegerAttr(stages, i32)
    run_pipeline(module, nvidia_passes(), TARGET, disabled=disabled)
    return module


@pytest.mark.parametrize(
    "disabled", [(), ("lower-stores-to-tma",), ("specialize-warps",), ("pipeline-loads",)], ids=str
)
@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("kernel", [tiles, rows_and_columns, some_tiles])
def test_iterations_of_any_number(kernel, stages, disabled):
    module = lowered(kernel, stages, disabled)
    boxed = "pipeline-loads" not in disabled
    assert ("gpu.tma_load" in str(module)) == boxed
    assert ("gpu.producer_warp" in str(module)) == (
        kernel is tiles and boxed and "specialize-warps" not in disabled
    )
    rng = np.random.default_rng(stages)
    for k in (0, 32, 64, 160, 224):
        a, b = (rng.standard_normal(s).astype(np.float16) for s in ((M, k), (k, N)))
        c = np.full((M, N), np.nan, np.float16)
        found = run_on_copies(module, [a, b, c, k, 2], (2, 1, 1))[2]
        wanted = a.astype(np.float64) @ b.astype(np.float64)
        np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=2e-3, atol=2e-2)
    emit_module(module, TARGET)
