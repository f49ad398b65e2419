"""Conversions of layouts through memory of each warp: row statistics, one per lane, become columns of MMA fragments."""

import random
import re
from dataclasses import replace

import numpy as np
import pytest
from tests.passes.test_dots_in_flight import case, gradients_ir
from tests.ptx.launch import run_ptx
from tests.ptx.values import Fault
from xdsl.dialects.func import FuncOp

from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.target import target_info
from tilewright.passes.gpu.analysis.shared_allocation import SharedAllocation

TARGET = target_info("sm_90a")
SYNCHRONIZATION = r"bar\.warp\.sync -1;"


def compiled(rescaled=False):
    """With a limit on registers, lanes load statistics (`prefetch-loads`). A loop whose results are rescaled has mbarriers
    instead of a barrier (`scheduling/ring.py`)."""
    options = Options(num_warps=8, num_stages=2, maxnreg=128, disable=("schedule-loops",))
    return backend.compile(gradients_ir(rescaled=rescaled), options, TARGET)


@pytest.fixture(scope="module")
def artifact():
    return compiled()


def test_loads_of_two_columns_take_the_place_of_shuffles(artifact):
    ptx = artifact.asm["ptx"]
    (end,) = (f.end() for f in re.finditer(SYNCHRONIZATION, ptx))
    after = ptx[end : ptx.index("wgmma.mma_async", end)]
    assert len(re.findall(r"ld\.shared\.v2\.b32", after)) == 4
    assert re.findall(r"st\.shared\.b32", ptx[:end])
    assert not re.findall(r"shfl\.sync", ptx[end:])


def test_lanes_synchronize_before_they_write_where_no_barrier_is_between():
    ptx = compiled(rescaled=True).asm["ptx"]
    start, end = (f.end() for f in re.finditer(SYNCHRONIZATION, ptx))
    assert len(re.findall(r"st\.shared\.b32", ptx[start:end])) == 1


@pytest.mark.parametrize("steps", [0, 1, 4])
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_results(artifact, steps, seed):
    """Whichever warp is ahead of the others."""
    arguments, wanted = case(steps)
    chance = None if seed is None else random.Random(seed)
    out = run_ptx(artifact, arguments, (1, 1, 1), chance)[5]
    np.testing.assert_allclose(np.asarray(out), wanted, atol=2e-2)


def test_lanes_synchronize_before_they_read(artifact):
    ptx = artifact.asm["ptx"]
    start, end = re.search(SYNCHRONIZATION, ptx).span()
    without = replace(artifact, asm={**artifact.asm, "ptx": ptx[:start] + ptx[end:]})
    with pytest.raises(Fault):
        run_ptx(without, case(4)[0], (1, 1, 1))


@pytest.mark.parametrize(("bytes_", "reserved"), [(0, False), (1024, True), (1025, False)])
def test_as_many_ctas_share_an_sm_as_without(bytes_, reserved):
    (function,) = [op for op in gradients_ir().walk() if isinstance(op, FuncOp)]
    start = SharedAllocation(function).reserve_behind(bytes_, 0, 32 * 1024)
    assert (start is not None) == reserved
