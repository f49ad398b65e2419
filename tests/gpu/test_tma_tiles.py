"""Boxes of arrays of several dimensions on a GPU, the kernels of `tests/passes/test_tma_tiles.py`."""

from pathlib import Path

import numpy as np
import pytest
from tests.gpu.test_runtime import run_alone
from tests.passes import test_tma_tiles as boxes

import tilewright as tw

torch = pytest.importorskip("torch")
COPIED, STORED = "cp.async.bulk.tensor.{}d.shared", "cp.async.bulk.tensor.{}d.global"


def launched(kernel, grid, arguments, **constants):
    """The arrays after a launch, and its PTX ("" where that does not copy boxes: other GPUs)."""
    given = [torch.from_numpy(v).cuda() if isinstance(v, np.ndarray) else v for v in arguments]
    made = tw.jit(kernel)[(grid,)](*given, **constants, num_warps=4)
    hopper = torch.cuda.get_device_capability() == (9, 0)
    arrays = [v.cpu().numpy() for v in given if isinstance(v, torch.Tensor)]
    return arrays, made.asm["ptx"] if hopper else ""


@pytest.mark.parametrize("index", ["plain", "back", "shifted"])
@pytest.mark.parametrize("k", [48, 64, 144])
def test_matrices_end_where_they_end(k, index):
    arguments, wanted = boxes.case(3, 48, 32, k, gap=16)
    (*_, found), ptx = launched(boxes.batched, 3, arguments, MASK=True, INDEX=index)
    boxes.close(found, wanted)
    assert not ptx or all(text.format(3) in ptx for text in (COPIED, STORED))


@pytest.mark.parametrize("mask", [True, False])
def test_matrices_that_are_far_apart(mask):
    """2^31 elements and more from the argument's start, of which most are never touched."""
    apart, size = (1 << 31) + 16, boxes.BLOCK * boxes.BLOCK
    if torch.cuda.mem_get_info()[0] < 8 * apart:
        pytest.skip("needs 16 GB")
    a, b, c = (torch.empty(apart + size, device="cuda", dtype=torch.float16) for _ in range(3))
    for array in (a, b):
        for start in (0, apart):
            array[start : start + size].normal_()
    sizes = (64, 64, 64, *(apart, 64) * 3)
    tw.jit(boxes.batched)[(2,)](a, b, c, *sizes, MASK=mask, INDEX="plain", num_warps=4)
    for start in (0, apart):
        x, y, z = (v[start : start + size].reshape(64, 64).cpu().numpy() for v in (a, b, c))
        boxes.close(z, x.astype(np.float64) @ y)


@pytest.mark.parametrize("size", [(128, 64, 96), (72, 88, 40), (8, 200, 8), (80, 208, 48)])
@pytest.mark.parametrize(("kernel", "loop"), boxes.FORMS)
def test_extents_known_at_run_time(kernel, loop, size):
    m, n, k = size
    rng = np.random.default_rng(m)
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((m, k), (k, n)))
    c = np.full((m, n), np.nan, np.float16)
    programs = 2 if loop else -(-m // 64) * -(-n // 64)
    (*_, found), ptx = launched(kernel, programs, [a, b, c, m, n, k], LOOP=loop)
    boxes.close(found, a.astype(np.float64) @ b)
    if ptx and n % 16 == k % 16 == 0:
        assert all(text.format(2) in ptx for text in (COPIED, STORED))


@pytest.mark.parametrize("shift", [0, 1])
def test_descriptors_of_batches(shift):
    (a, b, c, m, n, k, *_), wanted = boxes.case(3, 48, 32, 80)
    wanted = np.where(np.arange(3)[:, None] < shift, c.astype(np.float64), wanted)
    (*_, found), _ = launched(boxes.described_batch, 3, [a, b, c, m, n, k], LOOP=shift)
    boxes.close(found, wanted)


def test_conditions_on_whole_tiles():
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((48, 64), (64, 32)))
    c = np.full((3, 48, 32), -3, np.float16)
    wanted = np.stack([a.astype(np.float64) @ b, c[1], a[:, :32].astype(np.float64) @ b[:32]])
    (*_, found), _ = launched(boxes.conditional, 3, [a, b, c, 48, 32, 64], LOOP=0)
    boxes.close(found, wanted)


def test_what_coordinates_do_not_reach_stops_the_program():
    out = run_alone(
        f"""
        import sys, torch
        sys.path.insert(0, {str(Path(__file__).parents[2])!r})
        import tilewright as tw
        from tests.passes.test_tma_tiles import below
        from tilewright.errors import KernelFault
        a, b, c = (torch.ones(s, 128, device="cuda").half() for s in (192, 64, 32))
        for first in (32, -16):
            try:
                tw.jit(below)[(1,)](a[64:], b, c, first, 128, K=128)
                print(c.unique().tolist())
            except (KernelFault, RuntimeError) as error:
                print(error)
        """
    )
    assert "[128.0]" in out
    if torch.cuda.get_device_capability() == (9, 0):
        assert "ILLEGAL_ADDRESS" in out or "illegal memory access" in out
