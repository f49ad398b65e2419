"""A loop's index after its loop: the value of the last iteration."""

from __future__ import annotations

import numpy as np
import pytest
from tests.engines import ENGINES, ON_CPU, run

import tilewright as tw
import tilewright.language as tl
from tilewright.errors import CompilationError


@tw.jit
def plain(out_ptr, start, stop, STEP: tl.constexpr):
    for i in range(start, stop, STEP):
        tl.store(out_ptr + i, 1)
    tl.store(out_ptr, i)


@tw.jit
def broken(out_ptr, start, stop, STEP: tl.constexpr):
    total = 0
    for i in range(start, stop, STEP):
        total += i
        if total > 20:
            break
    tl.store(out_ptr, i)
    tl.store(out_ptr + 1, total)


@tw.jit
def with_value_before(out_ptr, start, stop, STEP: tl.constexpr):
    i = 77
    for i in range(start, stop, STEP):
        tl.store(out_ptr + 1, i)
    tl.store(out_ptr, i)


@tw.jit
def changed_in_the_body(out_ptr, start, stop, STEP: tl.constexpr):
    for i in range(start, stop, STEP):
        i = i * 2
        tl.store(out_ptr + 1, i)
    tl.store(out_ptr, i)


@tw.jit
def nested(out_ptr, start, stop, STEP: tl.constexpr):
    total = 0
    for i in range(start, stop, STEP):
        for j in range(i, i + 3):
            total += j
        total += 100 * j
    tl.store(out_ptr, total + i)


@tw.jit
def remainder(out_ptr, start, stop, STEP: tl.constexpr):
    """Blocks of 4, then one at a time from where they stopped."""
    for i in range(start, stop - 3, 4):
        for k in tl.static_range(4):
            tl.store(out_ptr + i + k, 1)
    for j in range(i + 4, stop):
        tl.store(out_ptr + j, 2)


KERNELS = (plain, broken, with_value_before, changed_in_the_body, nested, remainder)


def as_python(kernel, start, stop, step):
    """What Python makes of the kernel."""
    out = np.zeros(32, np.int32)

    class Language:
        static_range = range

        @staticmethod
        def store(pointer, value):
            out[pointer] = value

    scope = dict(kernel.fn.__globals__, tl=Language)
    exec(kernel.src.replace(": tl.constexpr", ""), scope)
    scope[kernel.fn.__name__](0, start, stop, step)
    return out


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.fn.__name__)
@pytest.mark.parametrize("engine", ENGINES)
def test_index_after_its_loop(engine, kernel):
    for start, stop, step in ((0, 7, 1), (3, 12, 2), (10, 2, -3)):
        if kernel is remainder and step != 1:
            continue
        (out,) = run(engine, kernel, (1,), np.zeros(32, np.int32), start, stop, STEP=step)
        np.testing.assert_array_equal(out, as_python(kernel, start, stop, step))


@pytest.mark.parametrize("engine", ENGINES)
def test_no_iteration_leaves_the_value_before(engine):
    (out,) = run(engine, with_value_before, (1,), np.zeros(32, np.int32), 5, 5, STEP=1)
    assert out[0] == 77 and out[1] == 0


@pytest.mark.parametrize("engine", ["cpu", "ir", "sm_90a"])
def test_no_iteration_and_no_value_before(engine):
    (out,) = run(engine, plain, (1,), np.zeros(32, np.int32), 5, 5, STEP=2)
    assert out[0] == 3 and not out[1:].any()
    (out,) = run(engine, remainder, (1,), np.zeros(32, np.int32), 0, 3, STEP=1)
    np.testing.assert_array_equal(out[:4], [2, 2, 2, 0])


@tw.jit
def tile_before(out_ptr, n):
    i = tl.arange(0, 8)
    for i in range(n):
        tl.store(out_ptr + i, 1)
    tl.store(out_ptr, i)


def test_a_tile_before_the_loop():
    with pytest.raises(CompilationError, match=r"'i' is read after its loop, and is i32\[8\]"):
        run("cpu", tile_before, (1,), np.zeros(8, np.int32), 4)


@tw.jit
def numbered(_0, _1: tl.constexpr, out_ptr, _2, _3: tl.constexpr):
    _4 = _0 + _1
    for _5 in range(_2):
        _4 += _5 * _3
    tl.store(out_ptr, _4)


@pytest.mark.parametrize("engine", ENGINES)
def test_names_that_are_numbers(engine):
    (out,) = run(engine, numbered, (1,), 5, 7, np.zeros(1, np.int32), 4, 10)
    assert out[0] == 12 + 60


@tw.jit
def test_of_nothing(out_ptr):
    tl.store(out_ptr, 1)


def test_kernels_are_not_collected(request):
    assert not any(item.name == "test_of_nothing" for item in request.session.items)
    tuned = tw.autotune([tw.Config({}, num_warps=4)], key=[])(test_of_nothing)
    assert not tuned.__test__ and not tw.heuristics({})(test_of_nothing).__test__


@pytest.mark.parametrize("engine", ON_CPU)
def test_tuples_of_numbered_parameters(engine):
    outs = tuple(np.zeros(1, np.float32) for _ in range(3))
    run(engine, tuple_parameters, (1,), 5, outs, 0, (1, 2, 3), 0, 0, 0)
    assert [out[0] for out in outs] == [6, 7, 8]


@tw.jit
def tuple_parameters(_0, pointers, _1: tl.constexpr, values, _2, _3: tl.constexpr, _4):
    for i in tl.static_range(len(values)):
        tl.store(pointers[i], values[i] + _0)


def test_tuples_in_a_signature():
    kinds = {"_0": "i32", "pointers": ("*fp32", "*fp32:16"), "values": ("i32", tl.constexpr(3))}
    compiled = tuple_parameters.compile(
        {**kinds, "_2": "i32", "_4": "i32"}, {"_1": 0, "_3": 0}, target="sm_90a"
    )
    assert ".entry tuple_parameters" in compiled.asm["ptx"]
