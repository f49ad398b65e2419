"""What kernels use of the parts of Triton's standard library: names below the public ones."""

import numpy as np
import pytest
from tests.engines import ON_CPU, run

import tilewright as tw
import tilewright.language as tl
from tilewright.language import standard


@tw.jit
def sorts(x, out, N: tl.constexpr, ORDER: tl.constexpr):
    bits: tl.constexpr = standard._log2(N)
    at = tl.arange(0, N)
    value = tl.load(x + at)
    cube = tl.reshape(value, [2] * bits)
    for stage in tl.static_range(1, bits):
        cube = standard._bitonic_merge_hypercube(cube, stage, 2)
    value = standard._bitonic_merge(tl.reshape(cube, [N]), bits, ORDER, bits)
    tl.store(out + at, value)
    tl.store(out + N + at, standard.sort_impl(tl.load(x + at), descending=ORDER))


@pytest.mark.parametrize("engine", ON_CPU)
@pytest.mark.parametrize("order", [0, 1])
def test_steps_of_a_sort(engine, order):
    x = np.random.default_rng(0).integers(-9, 9, 32).astype(np.float32)
    out = run(engine, sorts, (1,), x, np.zeros(64, np.float32), N=32, ORDER=order)[1]
    expected = np.sort(x)[::-1] if order else np.sort(x)
    np.testing.assert_array_equal(out, [*expected, *expected])


@tw.jit
def reduces(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    value = tl.load(x + at)
    kind: tl.constexpr = standard._get_int_dtype(bitwidth=32, signed=False)
    tl.static_assert(value.to(kind, bitcast=True).dtype == tl.uint32)
    tl.static_assert(isinstance(value.dtype, tl.core.base_type))
    tl.static_assert(isinstance(value, tl.core.base_value))
    largest, first = tl.reduce((value, at), 0, standard._argmax_combine_tie_break_left)
    smallest, least = tl.reduce((value, at), 0, standard._argmin_combine_tie_break_left)
    tl.store(out, largest)
    tl.store(out + 1, first)
    tl.store(out + 2, smallest)
    tl.store(out + 3, least)
    tl.store(out + 4, tl.reduce(value, 0, standard._elementwise_max))
    tl.store(out + 5, tl.reduce(value, 0, standard._elementwise_min))
    tl.store(out + 6, tl.reduce(value, 0, standard._sum_combine))
    tl.store(out + 7, tl.reduce(value, 0, standard._xor_combine))
    tl.store(out + 8, tl.reduce(value, 0, standard._or_combine))
    tl.store(out + 9, tl.reduce(value, 0, standard._prod_combine))


@pytest.mark.parametrize("engine", ON_CPU)
def test_combine_functions(engine):
    x = np.array([3, 7, 2, 7, 1, 5, 1, 6], np.int32)
    out = run(engine, reduces, (1,), x, np.zeros(10, np.int32), N=8)[1]
    xor, either = np.bitwise_xor.reduce(x), np.bitwise_or.reduce(x)
    assert out.tolist() == [7, 1, 1, 4, 7, 1, x.sum(), xor, either, x.prod()]


def test_functions_of_types():
    assert standard._pick_sum_dtype(tl.int8, None) == tl.int32
    assert standard._pick_sum_dtype(tl.uint16, None) == tl.uint32
    assert standard._pick_sum_dtype(tl.int64, None) is None
    assert standard._pick_sum_dtype(tl.float16, tl.float32) == tl.float32
    assert standard._is_power_of_two(8)
    assert not standard._is_power_of_two(12)
    assert standard._get_flip_dim(None, (4, 8)) == standard._get_flip_dim(-1, (4, 8)) == 1
    assert tl.core.is_builtin(tl.load)
    assert not tl.core.is_builtin(standard._sum_combine)
