"""Loops whose first iteration is taken out, and pairs of exponentials that are computed with one, give the same bits."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl

SPECIAL = [0.0, -0.0, 1.0, -1.5, 88.0, -104.0, 1e-40, 3.4e38, -3.4e38, np.inf, -np.inf, np.nan]
PASSES = ("simplify", "peel-first-iteration", "share-exponentials")


@tw.jit
def online_kernel(x_ptr, s_ptr, m_ptr, n, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    most = tl.full([BLOCK], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    for i in range(0, n):
        x = tl.load(x_ptr + i * STRIDE + at)
        larger = tl.maximum(most, x)
        if i:
            total *= tl.exp(most - larger)
        total += tl.exp(x - larger)
        most = larger
    tl.store(s_ptr + at, total)
    tl.store(m_ptr + at, most)


@tw.jit
def rescaled_kernel(x_ptr, s_ptr, m_ptr, n, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    """The same with a sum that is rescaled in the first iteration, too."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    most = tl.full([BLOCK], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    x = tl.load(x_ptr + at)
    larger = tl.maximum(most, x)
    total = total * tl.exp(most - larger) + tl.exp(x - larger)
    most = larger
    for i in range(1, n):
        x = tl.load(x_ptr + i * STRIDE + at)
        larger = tl.maximum(most, x)
        total = total * tl.exp(most - larger) + tl.exp(x - larger)
        most = larger
    tl.store(s_ptr + at, total)
    tl.store(m_ptr + at, most)


@tw.jit
def counted_kernel(x_ptr, y_ptr, first, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    total = tl.load(y_ptr + at)
    for i in range(3, n, 2):
        x = tl.load(x_ptr + i * BLOCK + at)
        if i == 3:
            total = x
        if i > 3:
            total = total * 0.5 + x
    tl.store(y_ptr + at, total)


@pytest.mark.parametrize("kernel", [online_kernel, rescaled_kernel], ids=lambda k: k.__name__)
@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_all_pairs_and_triples_of_special_values(n, kernel):
    sets = np.array([*itertools.product(SPECIAL, repeat=3)], np.float32)
    sets = np.resize(sets, (1792, 3)).T.copy()
    results = []
    for disable in ((), PASSES):
        total, most = np.full((2, 1792), 7, np.float32)
        kernel[(7,)](sets, total, most, n, 1792, BLOCK=256, disable=disable)
        results.append((total, most))
    for ours, plain in zip(*results, strict=True):
        assert np.array_equal(ours, plain, equal_nan=True)
        finite = ~np.isnan(ours)
        assert np.array_equal(np.signbit(ours[finite]), np.signbit(plain[finite]))


@pytest.mark.parametrize("n", [0, 3, 4, 5, 6, 9])
def test_first_iterations_that_start_behind_zero(n):
    x = np.random.default_rng(0).standard_normal((10, 64)).astype(np.float32)
    y = np.ones(64, np.float32)
    counted_kernel[(1,)](x, y, 0, n, BLOCK=64)
    wanted = np.ones(64, np.float32)
    for i in range(3, n, 2):
        wanted = x[i] if i == 3 else wanted * np.float32(0.5) + x[i]
    np.testing.assert_allclose(y, wanted, rtol=1e-6)
