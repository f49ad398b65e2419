"""Tensor descriptors whose address and strides are no kernel arguments: of a table, or chosen when the kernel runs."""

import numpy as np
import pytest
from tests.ptx.launch import run_ptx
from tests.run_on_copies import run_on_copies

import tilewright.language as tl
from tilewright import dtypes
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.target import target_info
from tilewright.frontend import build
from tilewright.language.kernel_function import KernelFunction

HALF, INT = dtypes.pointer_type(dtypes.float16), dtypes.pointer_type(dtypes.int32)
SIGNATURE = {"a": HALF, "b": HALF, "c": HALF, "d": HALF, "sizes": INT, "groups": dtypes.int32}


def grouped(a, b, c, d, sizes, groups):
    """C = A @ Bᵀ of each group in turn, and D = C @ Bᵀ for the last: sizes and strides are loaded."""
    tile = tl.program_id(0)
    for g in range(groups):
        m, n, k = tl.load(sizes + g * 3), tl.load(sizes + g * 3 + 1), tl.load(sizes + g * 3 + 2)
        tiles = tl.cdiv(m, 64) * tl.cdiv(n, 64)
        if tile < tiles:
            source, target = tl.where(g > 0, c, a), tl.where(g > 0, d, c)
            x = tl.make_tensor_descriptor(source, [m, k], [k, 1], [64, 32])
            y = tl.make_tensor_descriptor(b, [n, k], [k, 1], [64, 32])
            z = tl.make_tensor_descriptor(target, [m, n], [n, 1], [64, 64])
            while tile < tiles:
                row, column = tile // tl.cdiv(n, 64) * 64, tile % tl.cdiv(n, 64) * 64
                total = tl.zeros((64, 64), tl.float32)
                for start in range(0, k, 32):
                    total += tl.dot(x.load([row, start]), y.load([column, start]).T)
                z.store([row, column], total.to(tl.float16))
                tile += tl.num_programs(0)
        tl.debug_barrier()
        tile = tl.program_id(0)


def arguments():
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((72, 40), (40, 40)))
    c, d = (np.full((72, 40), -3, np.float16) for _ in "cd")
    return [a, b, c, d, np.array([72, 40, 40, 72, 40, 40], np.int32), 2]


def expected(a, b, c, d, sizes, groups):
    c = (a.astype(np.float64) @ b.T.astype(np.float64)).astype(np.float16)
    return c, (c.astype(np.float64) @ b.T.astype(np.float64)).astype(np.float16)


def agrees(found):
    for result, wanted in zip(found[2:4], expected(*arguments()), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-2, atol=1e-1)


def built():
    return build(KernelFunction(grouped), SIGNATURE, dict.fromkeys("abcd", 16)).module


def test_the_interpreter_agrees():
    agrees(run_on_copies(built(), arguments(), (1, 1, 1)))


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_operands_are_fetched_asynchronously(target):
    """As TMA tiles of a map that the program makes, or by copies of 16 bytes: the contract of descriptors aligns them."""
    made = backend.compile(built(), Options(num_warps=4), target_info(target))
    wanted = "tensormap.cp_fenceproxy" if target == "sm_90a" else "cp.async.cg"
    assert wanted in made.asm["ptx"]

    agrees(run_ptx(made, arguments(), (1, 1, 1)))
