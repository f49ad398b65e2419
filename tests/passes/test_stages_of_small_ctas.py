"""Loops with `mma.sync` in CTAs of few warps: stages give way to CTAs where an iteration takes as long as a copy."""

import re

import numpy as np
import pytest
from tests.engines import run

import tilewright as tw
import tilewright.language as tl


@tw.jit
def attention_of_a_row_block(q_ptr, k_ptr, v_ptr, out_ptr, steps, DEEP: tl.constexpr):
    rows, keys, deep = tl.arange(0, 16), tl.arange(0, 32), tl.arange(0, DEEP)
    q = tl.load(q_ptr + rows[:, None] * DEEP + deep[None, :])
    total = tl.zeros((16, DEEP), tl.float32)
    for i in range(steps):
        at = i * 32 + keys
        k = tl.load(k_ptr + at[None, :] * DEEP + deep[:, None])
        v = tl.load(v_ptr + at[:, None] * DEEP + deep[None, :])
        p = tl.exp2(tl.dot(q, k))
        total = tl.dot(p.to(tl.float16), v, total)
    tl.store(out_ptr + rows[:, None] * DEEP + deep[None, :], total)


@tw.jit
def product(q_ptr, k_ptr, v_ptr, out_ptr, steps, DEEP: tl.constexpr):
    rows, deep = tl.arange(0, 16), tl.arange(0, DEEP)
    total = tl.zeros((16, 16), tl.float32)
    for i in range(steps):
        q = tl.load(q_ptr + rows[:, None] * 4096 + i * DEEP + deep[None, :])
        k = tl.load(k_ptr + rows[None, :] * 4096 + i * DEEP + deep[:, None])
        total = tl.dot(q, k, total)
    tl.store(out_ptr + rows[:, None] * 16 + rows[None, :], total)


@pytest.mark.parametrize(("kernel", "stages"), [(attention_of_a_row_block, 2), (product, 3)])
def test_stages(kernel, stages):
    types = {name: "*fp16:16" for name in ("q_ptr", "k_ptr", "v_ptr")}
    types |= {"out_ptr": "*fp32:16", "steps": "i32"}
    made = kernel.compile(types, {"DEEP": 128}, target="sm_90a", num_warps=1, num_stages=3)
    pipelined = re.findall(r"gpu\.local_alloc .*xf16>.*, (\d+)>$", made.asm["gpu"], re.MULTILINE)
    assert {int(count) for count in pipelined} - {1} == {stages}


def test_stages_of_larger_ctas():
    """Four warps fill the partitions of an SM."""
    types = {name: "*fp16:16" for name in ("q_ptr", "k_ptr", "v_ptr")}
    types |= {"out_ptr": "*fp32:16", "steps": "i32"}
    made = attention_of_a_row_block.compile(types, {"DEEP": 128}, target="sm_80", num_warps=4)
    assert re.search(r"local_alloc .*xf16>.*, 3>$", made.asm["gpu"], re.MULTILINE)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_results(target):
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((n, 128)).astype(np.float16) / 8 for n in (16, 96, 96))
    out = np.zeros((16, 128), np.float32)
    found = run(
        target, attention_of_a_row_block, (1,), q, k, v, out, 3, warps=1, stages=3, DEEP=128
    )
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    np.testing.assert_allclose(found[3], np.exp2(q @ k.T) @ v, rtol=1e-2, atol=2e-2)
