"""TMA loads that a cluster of two CTAs shares (`multicast-tma-loads`), as PTX executed thread by thread."""

import functools
import random
import re
from types import SimpleNamespace

import numpy as np
import pytest
from tests.language.test_parallel_iterations import matmul
from tests.ptx.launch import run_ptx
from tests.ptx.values import Fault

import tilewright.language as tl
from tilewright.backends.nvidia.target import target_info


@functools.cache
def compiled(bm=64, bn=64, bk=64, warps=4, stages=3):
    types = {name: "*fp16:16" for name in ("a", "b", "out")}
    types |= {name: "i32:16" for name in "MNK"}
    blocks = {"BM": bm, "BN": bn, "BK": bk, "PROMISE": True}
    types |= {name: tl.constexpr(value) for name, value in blocks.items()}
    target = target_info("sm_90a")
    return matmul.compile(types, None, target, num_warps=warps, num_stages=stages)


def run(artifact, ptx, extents, seed=None):
    m, n, k = extents
    rng = np.random.default_rng(m + n + k)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((m, k), (k, n)))
    arguments = [a, b, np.zeros((m, n), np.float16), *extents]
    chance = None if seed is None else random.Random(seed)
    changed = SimpleNamespace(plan=artifact.plan, asm={"ptx": ptx})
    found = run_ptx(changed, arguments, (1,), chance)[2]
    np.testing.assert_allclose(found, a.astype(float) @ b.astype(float), rtol=2e-3, atol=3e-2)


CASES = {
    "a tile for each CTA": ({}, (128, 64, 192)),
    "odd extents": ({}, (80, 48, 208)),
    "no rows for the second CTA": ({}, (64, 64, 128)),
    "several tiles": ({}, (144, 112, 80)),
    "no steps": ({}, (128, 64, 0)),
    "two stages": ({"stages": 2}, (128, 64, 320)),
    "panels": ({"bn": 128}, (128, 128, 128)),
    "two warpgroups": ({"bm": 128, "warps": 8}, (256, 64, 256)),
}


@pytest.mark.sampled(3, full=2)
@pytest.mark.parametrize("seed", [None, 1, 2])
@pytest.mark.parametrize("name", CASES)
def test_results(name, seed):
    """Whichever warp is ahead of the others."""
    options, extents = CASES[name]
    artifact = compiled(**options)
    assert ".multicast::cluster" in artifact.asm["ptx"]
    run(artifact, artifact.asm["ptx"], extents, seed)


NEEDED = {
    "arrivals at both CTAs' mbarriers": (r"\{ \.reg \.b32 there;[^}]*\}", ""),
    "waits for copies and for releases": (r"\{ \.reg \.pred p; WAIT[^}]*\}", ""),
    "the cluster's barriers": (r"barrier\.cluster\.arrive\.aligned;[^;]*barrier\.cluster\.wait\.aligned;", ""),
    "the bytes of both halves": (r"(expect_tx[^;]*), 16384;", r"\g<1>, 12288;"),
    "both CTAs": (r"(multicast::cluster [^;]*), 3;", r"\g<1>, 1;"),
}  # fmt: skip


@pytest.mark.parametrize("name", NEEDED)
def test_what_is_needed(name):
    """None of them can be left out; the last release of a tile counts once the stage is needed again."""
    pattern, other = NEEDED[name]
    artifact = compiled()
    ptx = artifact.asm["ptx"]
    found = list(re.finditer(pattern, ptx))
    assert found
    for place in found:
        changed = ptx[: place.start()] + place.expand(other) + ptx[place.end() :]
        with pytest.raises(Fault):
            for seed in (None, 1, 2, 3):
                run(artifact, changed, (256, 64, 320), seed)
