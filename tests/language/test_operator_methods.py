"""Operators called by the names of their methods, and `tl.constexpr` of tensors, as Triton takes them."""

import numpy as np
import pytest
from tests.engines import ON_CPU, run

import tilewright as tw
import tilewright.language as tl


@tw.jit
def mask(N: tl.constexpr):
    bits = tl.full((N,), 3, dtype=tl.int32)
    return tl.constexpr(bits)


@tw.jit
def kernel(x, low, out, N: tl.constexpr):
    at = tl.arange(0, N)
    value = tl.load(x + at)
    tl.store(low + at, value.__lshift__(4).to(tl.int8).__rshift__(4))
    wide = value.to(tl.int32)
    four = tl.constexpr(4)
    found = wide.__rsub__(100).__add__(four) ^ mask(N)
    found += wide.__rlt__(3).to(tl.int32) * 1000 + wide.__req__(7).__not__().to(tl.int32) * 5000
    tl.store(out + at, found + wide.__neg__().__invert__().__getitem__(slice(None)))


@pytest.mark.parametrize("engine", ON_CPU)
def test_operators_by_name(engine):
    x = np.arange(-64, 64, dtype=np.int8)
    low, out = run(engine, kernel, (1,), x, x, np.zeros(128, np.int32), N=128)[1:]
    np.testing.assert_array_equal(low, (x << 4).astype(np.int8) >> 4)
    wide = x.astype(np.int32)
    sums = ((104 - wide) ^ 3) + (wide > 3) * 1000 + (wide != 7) * 5000 + ~(-wide)
    np.testing.assert_array_equal(out, sums)


def test_every_operator_of_tritons_tensors():
    """Reflected ones too."""

    @tw.jit
    def all_of(x, out):
        a, b = tl.load(x), tl.load(x + 1)
        total = a.__mul__(b) + a.__rmul__(b) + a.__floordiv__(b) + a.__rfloordiv__(b) + a.__mod__(b)
        total += a.__rmod__(b) + a.__and__(b) + a.__ror__(b) + a.__rxor__(b) + a.__rlshift__(b)
        total += a.__rrshift__(b) + a.__rand__(b) + a.__or__(b) + a.__xor__(b) + a.__sub__(b)
        same = a.__ge__(b) & a.__rle__(b) & a.__gt__(b) & a.__ne__(b) & a.__rge__(a) & a.__rne__(b)
        tl.store(out, tl.where(same, total, 0) + a.__radd__(b))

    a, b = 7, 3
    out = run("cpu", all_of, (1,), np.array([a, b], np.int32), np.zeros(1, np.int32))[1]
    total = 2 * a * b + a // b + b // a + a % b + b % a + 2 * (a & b) + 2 * (a | b) + 2 * (a ^ b)
    assert out[0] == total + (b << a) + (b >> a) + (a - b) + a + b
