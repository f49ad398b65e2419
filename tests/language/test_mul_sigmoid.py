"""`tl.math.mul_sigmoid`: the product with a sigmoid, two of which share a reciprocal on a GPU."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl


@tw.jit
def gate(x, y, out, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    tl.store(out + lanes, tl.math.mul_sigmoid(tl.load(x + lanes), tl.load(y + lanes)))


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_values(kind):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(64).astype(kind), np.linspace(-20, 90, 64).astype(kind)
    out = np.empty_like(x)
    gate[(1,)](x, y, out, BLOCK=64)
    wanted = x.astype(np.float64) / (1 + np.exp(-y.astype(np.float64)))
    np.testing.assert_allclose(out, wanted, rtol=6 * np.finfo(kind).eps, atol=1e-7)


def test_two_elements_share_a_reciprocal():
    types = {"x": "*fp32:16", "y": "*fp32:16", "out": "*fp32:16", "BLOCK": tl.constexpr(1024)}
    ptx = gate.compile(types, None, "sm_90a").asm["ptx"]
    assert ptx.count("ex2.approx") == 8 and ptx.count("rcp.approx") == 4


@tw.jit
def divided(x, y, out, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    tl.store(out + lanes, tl.math.div_1p_exp2(tl.load(x + lanes), tl.load(y + lanes)))


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_quotients_by_one_plus_a_power_of_two(kind):
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal(64).astype(kind), np.linspace(-120, 28, 64).astype(kind)
    out = np.empty_like(x)
    divided[(1,)](x, y, out, BLOCK=64)
    wanted = x.astype(np.float64) / (1 + np.exp2(y.astype(np.float64)))
    np.testing.assert_allclose(out, wanted, rtol=6 * np.finfo(kind).eps, atol=1e-7)
    types = {"x": "*fp32:16", "y": "*fp32:16", "out": "*fp32:16", "BLOCK": tl.constexpr(1024)}
    ptx = divided.compile(types, None, "sm_90a").asm["ptx"]
    assert ptx.count("ex2.approx") == 8 and ptx.count("rcp.approx") == 4
