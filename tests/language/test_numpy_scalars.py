"""Constants of a kernel that are NumPy scalars act as the Python numbers they hold."""

import numpy as np
import pytest
from tests.engines import ON_CPU, run

import tilewright as tw
import tilewright.language as tl

FOUR, FIVE = np.uint8(4), tl.constexpr(np.int64(5))


@tw.constexpr_function
def product(*extents):
    return np.prod(extents)


@tw.jit
def kernel(out_ptr, pair: tl.constexpr, count: tl.constexpr, last: tl.constexpr = FOUR):
    at = tl.arange(0, 8)
    total = (at + count) * pair[1] + product(3, pair[0])
    for i in range(count):
        total += i
    known: tl.constexpr = last + FIVE
    tl.store(out_ptr + at, total + known)


@pytest.mark.parametrize("engine", ON_CPU)
@pytest.mark.parametrize("first", [np.int32, int], ids=["numpy", "python"])
def test_constants(engine, first):
    """Whether or not a launch with the Python number, which equals it, came first."""
    out = np.zeros(8, np.float32)
    run(engine, kernel, (1,), out, pair=(2, 0.5), count=first(3))
    pair = (np.int64(2), np.float32(0.5))
    (found,) = run(engine, kernel, (1,), out, pair=pair, count=np.int32(3))
    assert (found == (np.arange(8) + 3) * 0.5 + 6 + 3 + 9).all()


def test_truth():
    @tw.jit
    def chosen(out_ptr, flag: tl.constexpr):
        tl.store(out_ptr, 2 if flag else 3)
        tl.store(out_ptr + 1, tl.load(out_ptr + 1) + flag)

    out = np.zeros(2, np.int32)
    chosen[(1,)](out, np.bool_(True))
    assert list(out) == [2, 1]
