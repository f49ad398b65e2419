"""Tiles whose halves are stored one after the other (`EPILOGUE_SUBTILE`): several TMA stores to one array."""

import numpy as np
import pytest
from tests.ptx.launch import run_ptx
from tests.run_on_copies import run_on_copies
from xdsl.dialects import scf

import tilewright.language as tl
from tilewright import dtypes
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.pipeline import nvidia_passes
from tilewright.backends.nvidia.target import target_info
from tilewright.dialects import gpu
from tilewright.dtypes import constexpr
from tilewright.errors import TilewrightError
from tilewright.frontend import build
from tilewright.language.kernel_function import KernelFunction
from tilewright.passes.gpu import lower_stores_to_tma
from tilewright.passes.manager import run_pipeline

TARGET = target_info("sm_90a")


def halves(a, b, c, m, n, k, pitch, STEP: tl.constexpr):
    """Tiles of C = A @ Bᵀ in turn, in halves of their columns; `STEP` columns from one to the other. The number of the
    tile is counted a second time for the stores."""
    x = tl.make_tensor_descriptor(a, [m, k], [k, 1], [64, 32])
    y = tl.make_tensor_descriptor(b, [n, k], [k, 1], [64, 32])
    z = tl.make_tensor_descriptor(c, [m, n], [pitch, 1], [64, 32])
    across = tl.cdiv(n, 64)
    stored = tl.program_id(0) - tl.num_programs(0)
    for tile in range(tl.program_id(0), tl.cdiv(m, 64) * across, tl.num_programs(0)):
        row, column = tile // across * 64, tile % across * 64
        total = tl.zeros((64, 64), tl.float32)
        for start in range(0, k, 32):
            total = tl.dot(x.load([row, start]), y.load([column, start]).T, total)
        stored += tl.num_programs(0)
        row, column = stored // across * 64, stored % across * 64
        left, right = tl.split(tl.permute(tl.reshape(total, (64, 2, 32)), (0, 2, 1)))
        z.store([row, column], left.to(tl.float16))
        z.store([row, column + STEP], right.to(tl.float16))


def built(step=32):
    half = dtypes.pointer_type(dtypes.float16)
    signature = dict.fromkeys("abc", half) | dict.fromkeys([*"mnk", "pitch"], dtypes.int32)
    divisible = dict.fromkeys("abc", 16) | dict.fromkeys([*"mnk", "pitch"], 8)
    return build(KernelFunction(halves), {**signature, "STEP": constexpr(step)}, divisible).module


def arguments(pitch):
    draw, m, n, k = np.random.default_rng(0), 96, 64, 64
    a, b = (draw.standard_normal((rows, k)).astype(np.float16) for rows in (m, n))
    return [a, b, np.full(m * pitch + n, -3, np.float16), m, n, k, pitch]


def agrees(found, pitch, step=32):
    a, b, c, m, n, *_ = arguments(pitch)
    product = a.astype(float) @ b.T.astype(float)
    rows = np.lib.stride_tricks.as_strided(c, (m, n), (2 * pitch, 2))
    for top in (0, 64):
        for first, place in ((0, 0), (32, step)):
            for row in range(top, min(top + 64, m)):
                rows[row, place : place + 32] = product[row, first : first + 32]
    np.testing.assert_allclose(found[2].astype(float), c.astype(float), rtol=1e-2, atol=1e-1)


def lowered(step=32):
    module = built(step)
    run_pipeline(module, nvidia_passes(), TARGET)
    return module


@pytest.mark.parametrize("pitch", [64, 40])
def test_both_halves_are_stored_by_tma(pitch):
    """Rows that are 40 elements apart overlap: the second half is stored after the first."""
    module = lowered()
    assert str(module).count("gpu.tma_store %") == 2
    assert "gpu.producer_warp" in str(module)
    agrees(run_on_copies(module, arguments(pitch), (1, 1, 1)), pitch)


def test_tiles_that_overlap_are_stored_in_order():
    module = lowered(16)
    assert "gpu.tma_store %" not in str(module)


def test_the_code_agrees():
    made = backend.compile(built(), Options(num_warps=4, num_stages=2), TARGET)
    agrees(run_ptx(made, arguments(64), (1, 1, 1)), 64)


@pytest.fixture
def one_buffer(monkeypatch):
    """Shared memory has room for one half."""
    one = lower_stores_to_tma._ONE_BUFFER
    monkeypatch.setattr(lower_stores_to_tma.LowerStoresToTma, "_division", lambda *_: one)


@pytest.mark.parametrize("pitch", [64, 40])
def test_halves_are_staged_in_one_buffer(one_buffer, pitch):
    module = lowered()
    stores = [op for op in module.walk() if isinstance(op, gpu.TmaStoreOp)]
    assert len(stores) == 2 and stores[0].buffer is stores[1].buffer
    agrees(run_on_copies(module, arguments(pitch), (1, 1, 1)), pitch)
    made = backend.compile(built(), Options(num_warps=4, num_stages=2), TARGET)
    agrees(run_ptx(made, arguments(pitch), (1, 1, 1)), pitch)


def test_the_second_half_waits_until_the_first_has_been_read(one_buffer):
    module = lowered()
    (wait,) = [
        op
        for op in module.walk()
        if isinstance(op, gpu.TmaStoreWaitOp)
        and isinstance(op.parent_op(), scf.ForOp)
        and op.complete is None
    ]
    wait.detach()
    wait.erase()
    with pytest.raises((AssertionError, TilewrightError)):
        agrees(run_on_copies(module, arguments(64), (1, 1, 1)), 64)
