"""Stages that warpgroups release by mbarriers: no barrier in the loop, and neither arrivals nor waits can be left out."""

import random
import re
from dataclasses import replace

import numpy as np
import pytest
from tests.passes.test_dots_in_flight import case, gradients_ir
from tests.ptx.launch import run_ptx
from tests.ptx.values import Fault

from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.target import target_info

OFF = ("schedule-loops",)


def compiled(warps=8, disable=OFF, rescaled=True):
    options = Options(num_warps=warps, num_stages=3, disable=disable)
    return backend.compile(gradients_ir(rescaled=rescaled), options, target_info("sm_90a"))


def rescaled(q, do, k, v, stats, steps):
    """Both gradients; that of the keys is halved in each iteration."""
    total = np.zeros((256, 64))
    for i in range(steps):
        part = slice(32 * i, 32 * i + 32)
        f, g, x, y = (a.astype(np.float64) for a in (q[part], do[part], k, v))
        p = x @ f.T - stats[part]
        total = np.r_[total[:128] * 0.5 + (p * (y @ g.T)) @ f, total[128:] + p @ g]
    return total


@pytest.fixture(scope="module")
def artifact():
    return compiled()


ARRIVAL = r"@%\w+ mbarrier\.arrive\.release[^;]*;"


def test_warpgroups_do_not_wait_for_each_other(artifact):
    """Without it, in one warpgroup, or with an MMA in flight, the loop has a barrier instead."""
    assert len(re.findall(ARRIVAL, artifact.asm["ptx"])) == 1
    disabled = compiled(disable=(*OFF, "pipeline-loads{release-stages=false}"))
    for other in (disabled, compiled(4), compiled(rescaled=False)):
        assert not re.findall(ARRIVAL, other.asm["ptx"])
        assert other.asm["ptx"].count("bar.sync") == artifact.asm["ptx"].count("bar.sync") + 1


@pytest.mark.parametrize("steps", [0, 1, 2, 5])
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_results(artifact, steps, seed):
    """Whichever warp is ahead of the others."""
    arguments = case(steps)[0]
    chance = None if seed is None else random.Random(seed)
    out = run_ptx(artifact, arguments, (1, 1, 1), chance)[5]
    np.testing.assert_allclose(np.asarray(out), rescaled(*arguments[:5], steps), atol=2e-2)


def test_every_arrival_and_wait_is_needed(artifact):
    ptx, arguments = artifact.asm["ptx"], case(5)[0]
    waits = [f.span() for f in re.finditer(r"\{ \.reg \.pred p; WAIT.*?\}", ptx, re.DOTALL)]
    assert len(waits) == 2  # for copies, and for the arrivals
    for start, end in (*waits, re.search(ARRIVAL, ptx).span()):
        without = replace(artifact, asm={**artifact.asm, "ptx": ptx[:start] + ptx[end:]})
        with pytest.raises(Fault):
            for seed in range(4):
                run_ptx(without, arguments, (1, 1, 1), random.Random(seed))
