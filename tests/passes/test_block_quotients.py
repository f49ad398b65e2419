"""Quotients and remainders of lanes that lie in one block of the divisor: strided accesses, not gathers."""

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl


@tw.jit
def permute(x_ptr, out_ptr, n, INNER: tl.constexpr, OUTER: tl.constexpr, BLOCK: tl.constexpr):
    """Exchanges the two outer dimensions of (OUTER, 6, INNER)."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inner, middle, outer = i % INNER, (i // INNER) % OUTER, i // (INNER * OUTER)
    x = tl.load(x_ptr + inner + INNER * outer + 6 * INNER * middle, i < n)
    tl.store(out_ptr + i, x, i < n)


def views(block: int, inner: int) -> str:
    types = {"x_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32"}
    constants = {"INNER": inner, "OUTER": 5, "BLOCK": block}
    return permute.compile(types, constants).asm["cpu"]


@pytest.mark.parametrize(
    ("block", "inner", "strided"),
    [(64, 64, True), (32, 64, True), (16, 48, True), (64, 48, False), (128, 64, False)],
)
def test_accesses(block, inner, strided):
    text = views(block, inner)
    assert ("gather" not in text) == strided


@pytest.mark.parametrize("block", [16, 32, 64, 128])
@pytest.mark.parametrize("inner", [16, 48, 64])
def test_values(block, inner):
    x = np.random.default_rng(0).standard_normal((5, 6, inner)).astype(np.float32)
    out = np.zeros((6, 5, inner), np.float32)
    permute[(tw.cdiv(x.size, block),)](x, out, x.size, INNER=inner, OUTER=5, BLOCK=block)
    np.testing.assert_array_equal(out, x.transpose(1, 0, 2))


@tw.jit
def negative(out_ptr, start, BLOCK: tl.constexpr):
    i = (tl.program_id(0) - start) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), i // 32)


def test_starts_that_may_be_negative_are_left_alone():
    """Quotients of negative numbers round towards zero: the lanes of a block differ."""
    out = np.zeros(128, np.int32)
    negative[(4,)](out, 3, BLOCK=32)
    lanes = np.arange(-96, 32)
    np.testing.assert_array_equal(out, np.trunc(lanes / 32))
