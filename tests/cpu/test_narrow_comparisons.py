"""Comparisons of integers that were sign-extended."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl

PREDICATES = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal}  # fmt: skip


@tw.jit
def compare_kernel(x_ptr, y_ptr, o_ptr, HOW: tl.constexpr, BOUND: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    x, y = tl.load(x_ptr + i).to(tl.int64), tl.load(y_ptr + i).to(tl.int64)
    bound = tl.full([N], BOUND, tl.int64)
    if HOW == "<":
        a, b, c = x < bound, bound < x, x < y
    elif HOW == "<=":
        a, b, c = x <= bound, bound <= x, x <= y
    elif HOW == ">":
        a, b, c = x > bound, bound > x, x > y
    elif HOW == ">=":
        a, b, c = x >= bound, bound >= x, x >= y
    elif HOW == "==":
        a, b, c = x == bound, bound == x, x == y
    else:
        a, b, c = x != bound, bound != x, x != y
    tl.store(o_ptr + i, a.to(tl.int8) + 2 * b.to(tl.int8) + 4 * c.to(tl.int8))


@pytest.mark.parametrize("bound", [0, 5, -128, 127, 128, -129, 1 << 40])
@pytest.mark.parametrize("how", PREDICATES)
@pytest.mark.parametrize("dtype", [np.int8, np.int32])
def test_comparisons(how: str, bound: int, dtype: type) -> None:
    info = np.iinfo(dtype)
    x = np.array([0, 1, 5, -1, 6, 4, info.min, info.max] * 8, dtype)
    y = np.roll(x, 3)
    o = np.zeros(64, np.int8)
    made = compare_kernel[(1,)](x, y, o, how, bound, 64)
    compare = PREDICATES[how]
    want = compare(x.astype(np.int64), bound) + 2 * compare(bound, x.astype(np.int64))
    np.testing.assert_array_equal(o, want + 4 * compare(x, y))
    if info.min <= bound <= info.max:
        assert "xi64>" not in made.asm["cpu"]
