"""Atomic maxima that PTX has no instruction for: a loop of compare and swap, and no swap where memory has the maximum."""

import re

import ml_dtypes
import numpy as np
import pytest
from tests.ptx.launch import run_ptx

import tilewright as tw
import tilewright.language as tl

TYPES = {"fp32": np.float32, "fp16": np.float16, "bf16": ml_dtypes.bfloat16}


@tw.jit
def largest(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + offsets, mask=offsets < n, other=0)
    tl.atomic_max(out, tl.max(values))
    tl.atomic_min(out + 1, tl.min(values))


@tw.jit
def extrema(x, out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    values = tl.load(x + offsets)
    tl.atomic_max(out + offsets % 8, values)
    tl.atomic_min(out + 8 + offsets % 8, values, mask=offsets % 3 != 0)


@tw.jit
def earlier(x, out, old, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(old + offsets, tl.atomic_max(out + offsets, tl.load(x + offsets)))


def compiled(kernel, types, target="sm_90a"):
    made = kernel.compile(types, {"BLOCK": 64}, target=target, num_warps=2)
    return made.artifact, str(made.asm["ptx"])


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("kind", TYPES)
def test_programs_that_share_a_maximum(kind, target):
    types = {"x": f"*{kind}:16", "out": f"*{kind}:16", "n": "i32"}
    artifact, _ = compiled(largest, types, target)
    x = np.random.default_rng(1).standard_normal(250).astype(TYPES[kind])
    for start in (0, np.nan, 100, -100):
        out = np.full(2, start, TYPES[kind])
        found = run_ptx(artifact, [x, out, 250], (4, 1, 1))[1]
        expected = [np.fmax(out[0], x.max()), np.fmin(out[1], x.min())]
        np.testing.assert_array_equal(found.astype(float), np.array(expected, float))


@pytest.mark.parametrize("kind", TYPES)
def test_elements_of_a_tile(kind):
    artifact, _ = compiled(extrema, {"x": f"*{kind}:16", "out": f"*{kind}:16"})
    x = np.random.default_rng(2).standard_normal(64).astype(TYPES[kind])
    x[[3, 12, 40, 41]] = np.nan, -np.inf, np.nan, -0.0
    out = np.array([-9, 9, np.nan, 0, -0.0, np.inf, 0.5, -np.inf] * 2).astype(TYPES[kind])
    found = run_ptx(artifact, [x, out], (1, 1, 1))[1].astype(float)
    wide, expected = x.astype(float), out.astype(float)
    np.fmax.at(expected, np.arange(64) % 8, wide)
    keep = np.arange(64) % 3 != 0
    np.fmin.at(expected, 8 + np.arange(64)[keep] % 8, wide[keep])
    np.testing.assert_array_equal(found, expected)


def test_the_swap_is_left_out_only_where_no_result_is_used():
    """A result is acquired: a relaxed load does not do that."""
    swap = r"setp\.\w+\.b32\s+%p\d+, %r(\d+), %r(\d+);\s+@%p\d+ bra[^\n]*\n(?:\s*//[^\n]*\n)*\s*atom[^\n]*cas"
    _, text = compiled(extrema, {"x": "*fp32:16", "out": "*fp32:16"})
    assert len(re.findall(swap, text)) == text.count(".cas.") > 0
    artifact, text = compiled(earlier, {"x": "*fp32:16", "out": "*fp32:16", "old": "*fp32:16"})
    assert ".cas." in text and not re.search(swap, text)
    x, out = np.random.default_rng(3).standard_normal((2, 64)).astype(np.float32)
    found = run_ptx(artifact, [x, out, np.zeros(64, np.float32)], (1, 1, 1))
    np.testing.assert_array_equal(found[1], np.maximum(x, out))
    np.testing.assert_array_equal(found[2], out)
