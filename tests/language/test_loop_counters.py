"""Counters of loops have one type in compiled code and in the interpreter, and bounds one error."""

import numpy as np
import pytest
from tests.engines import ENGINES, ON_CPU, run

import tilewright as tw
import tilewright.language as tl
from tilewright.errors import KernelTypeError


@tw.jit
def scaled_counters(bound, out, HINTS: tl.constexpr):
    n = tl.load(bound)
    if HINTS:
        for i in tl.range(0, n, num_stages=1):
            tl.store(out + i, (i - 3) * 2000000000)
    else:
        for i in range(n):
            tl.store(out + i, (i - 3) * 2000000000)


@pytest.mark.sampled(4, full=2)
@pytest.mark.parametrize("hints", [True, False])
@pytest.mark.parametrize("kind", ["int8", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("engine", ENGINES)
def test_products_of_a_counter(engine, kind, hints):
    bound, out = np.array([5], kind), np.zeros(5, np.int64)
    found = run(engine, scaled_counters, (1,), bound, out, HINTS=hints)[1]
    exact = (np.arange(5) - 3) * 2000000000
    wide = kind in ("uint32", "int64", "uint64")
    np.testing.assert_array_equal(found, exact if wide else exact.astype(np.int32))


@tw.jit
def loop_to(out, stop, HOW: tl.constexpr):
    if HOW == "constant":
        for i in range(0, 2.5):
            tl.store(out + i, 1.0)
    elif HOW == "hints":
        for i in tl.range(stop * 1.5):
            tl.store(out + i, 1.0)
    else:
        for i in range(out):
            tl.store(out + i, 1.0)


@pytest.mark.parametrize("engine", ON_CPU)
@pytest.mark.parametrize("how", ["constant", "hints", "pointer"])
def test_a_bound_that_is_no_integer(engine, how):
    with pytest.raises(KernelTypeError, match="the stop of a range must be an integer scalar"):
        run(engine, loop_to, (1,), np.zeros(8, np.float32), 2, HOW=how)


@tw.jit
def steps_of(out, step):
    for i in range(0, 8, step):
        tl.store(out + i, 1.0)


def test_a_step_of_zero_is_found_by_the_interpreter():
    with pytest.raises(KernelTypeError, match="the step of a range must not be zero"):
        run("eager", steps_of, (1,), np.zeros(8, np.float32), 0)
