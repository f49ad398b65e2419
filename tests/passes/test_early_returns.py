"""Programs that return early: shared memory of the branch that works is planned as that of a program without it."""

import re

import numpy as np
import pytest
from tests.passes.test_tma_tiles import TARGET, built, close
from tests.ptx.launch import run_ptx
from tests.run_on_copies import run_on_copies

import tilewright.language as tl
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.pipeline import nvidia_passes
from tilewright.passes.gpu.analysis.shared_allocation import SharedAllocation
from tilewright.passes.manager import run_pipeline


def twice(q, k, o, rows, n, m, EARLY: tl.constexpr):
    """exp2(q·kᵀ)·k over `n` tiles of `k`, then over those to `m` in another loop."""
    start = tl.program_id(0) * 64
    if EARLY and start >= rows:
        return
    r, d = tl.arange(0, 64), tl.arange(0, 64)
    at = (start + r)[:, None] * 64 + d[None, :]
    a = tl.load(q + at)
    total = tl.zeros([64, 64], dtype=tl.float32)
    for i in range(n):
        b = tl.load(k + (i * 64 + r)[:, None] * 64 + d[None, :])
        total = tl.dot(tl.exp2(tl.dot(a, tl.trans(b))).to(tl.float16), b, total)
    for i in range(n, m):
        b = tl.load(k + (i * 64 + r)[:, None] * 64 + d[None, :])
        total = tl.dot(tl.exp2(-tl.dot(a, tl.trans(b))).to(tl.float16), b, total)
    tl.store(o + at, total.to(tl.float16))


def cleared(a, b, o, rows, n, m, EARLY: tl.constexpr):
    """A product whose programs beyond `rows` store zeros, with a reduction that passes through shared memory."""
    start = tl.program_id(0) * 64
    r, d = tl.arange(0, 64), tl.arange(0, 64)
    at = (start + r)[:, None] * 64 + d[None, :]
    total = tl.zeros([64, 64], dtype=tl.float32)
    if start >= rows:
        tl.store(o + at, total.to(tl.float16))
        return
    for i in range(m):
        x = tl.load(a + at + i * 8192)
        y = tl.load(b + (i * 64 + r)[:, None] * 64 + d[None, :])
        total = tl.dot(x, y, total)
    total += tl.sum(total, 0)[None, :]
    tl.store(o + at, total.to(tl.float16))


def case(kernel):
    rng = np.random.default_rng(0)
    a = (rng.standard_normal((4, 128, 64)) * 0.2).astype(np.float16)
    b = (rng.standard_normal((4, 64, 64)) * 0.2).astype(np.float16)
    wanted = np.zeros((128, 64))
    left, right = a[:, :64].astype(float), b.astype(float)
    if kernel is twice:
        signs = (1, 1, -1, -1)
        sums = [np.exp2(s * left[0] @ y.T) @ y for s, y in zip(signs, right, strict=True)]
        wanted[:64] = sum(sums)
    else:
        wanted[:64] = sum(x @ y for x, y in zip(left, right, strict=True))
        wanted[:64] += wanted[:64].sum(0)
    return [a, b, np.zeros((128, 64), np.float16), 64, 2, 4], wanted


def module_of(kernel, early=True):
    return built(kernel, ["rows", "n", "m"], {"EARLY": early}, ("n", "m"))


def lowered(kernel, early=True):
    module = module_of(kernel, early)
    run_pipeline(module, nvidia_passes(), TARGET)
    return module


def test_stages_and_bytes_are_those_of_a_program_without_an_early_return():
    with_return, without = (lowered(twice, early) for early in (True, False))
    stages = [re.findall(r"local_alloc : (.*)", str(module)) for module in (with_return, without)]
    assert sorted(stages[0]) == sorted(stages[1])
    ends = [SharedAllocation(module.body.block.first_op).end for module in (with_return, without)]
    assert ends[0] == ends[1]


@pytest.mark.parametrize("kernel", [twice, cleared])
def test_the_interpreter_agrees(kernel):
    arguments, wanted = case(kernel)
    found = run_on_copies(lowered(kernel), arguments, (2, 1, 1))[2]
    np.testing.assert_allclose(found, wanted, rtol=2e-2, atol=2e-2 * np.abs(wanted).max())


@pytest.mark.parametrize("kernel", [twice, cleared])
def test_the_machine_agrees(kernel):
    """Memory of stages is that of exchanges after the loop, and of the stages of another loop."""
    arguments, _ = case(kernel)
    made = backend.compile(module_of(kernel), Options(num_warps=4), TARGET)
    expected = run_on_copies(module_of(kernel), arguments, (2, 1, 1))[2]
    close(run_ptx(made, arguments, (2, 1, 1))[2], expected.astype(np.float64))
