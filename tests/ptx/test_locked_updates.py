"""Loops that add products to memory under a lock: each iteration waits for memory, and CTAs that share an SM fill the time."""

import re

import numpy as np
import pytest
from tests.ptx.launch import run_ptx

import tilewright as tw
import tilewright.language as tl


@tw.jit
def updates(scores, x, y, dx, dy, lock, least, depth, ROWS: tl.constexpr, STEP: tl.constexpr):
    rows, inner = tl.arange(0, ROWS), tl.arange(0, STEP)
    s = tl.load(scores + rows[:, None] * ROWS + rows[None, :])
    if tl.max(tl.max(s, 1), 0) < least:
        return
    weights = tl.exp(s).to(tl.float16)
    for start in range(0, depth, STEP):
        place = rows[:, None] * depth + (start + inner)[None, :]
        part = tl.dot(weights, tl.load(y + place)).to(tl.float16)
        while tl.atomic_cas(lock, 0, 1) == 1:
            pass
        tl.store(dx + place, part + tl.load(dx + place))
        tl.atomic_xchg(lock, 0)
    for start in range(0, depth, STEP):
        place = rows[:, None] * depth + (start + inner)[None, :]
        part = tl.dot(tl.trans(weights), tl.load(x + place)).to(tl.float16)
        while tl.atomic_cas(lock, 0, 1) == 1:
            pass
        tl.store(dy + place, part + tl.load(dy + place))
        tl.atomic_xchg(lock, 0)


def compiled(rows, step):
    types = dict.fromkeys(("x", "y", "dx", "dy"), "*fp16:16")
    types |= {"scores": "*fp32:16", "lock": "*i32:16", "least": "fp32", "depth": "i32:16+"}
    types = {name: types[name] for name in updates.arg_names if name in types}
    constants = {"ROWS": rows, "STEP": step}
    return updates.compile(types, constants, target="sm_90a", num_warps=4, num_stages=4)


def test_stages_leave_shared_memory_for_two_ctas():
    made = compiled(128, 64)
    text = str(made.asm["gpu"])
    stages = re.findall(r"local_alloc .*<128x64xf16>.*, (\d)>$", text, re.MULTILINE)
    assert stages == ["3", "3"]
    assert text.count("gpu.memdesc_trans ") == 1
    assert 2 * (made.artifact.plan.shared_bytes + 1024) <= 228 << 10


@pytest.mark.parametrize("least", [-100.0, 100.0])
def test_results(least):
    random, rows, depth = np.random.default_rng(0), 64, 96
    scores = random.standard_normal((rows, rows)).astype(np.float32) / 4
    x, y, dx, dy = (
        (random.standard_normal((rows, depth)) / 8).astype(np.float16) for _ in range(4)
    )
    arguments = (scores, x, y, dx, dy, np.zeros(4, np.int32), np.float32(least), depth)
    found = run_ptx(compiled(rows, 32).artifact, arguments, (1,))
    weights = np.exp(scores.astype(float)) if least < 0 else np.zeros((rows, rows))
    for result, wanted in ((found[3], dx + weights @ y), (found[4], dy + weights.T @ x)):
        np.testing.assert_allclose(result.astype(float), wanted, atol=3e-2)
    assert not found[5].any()
