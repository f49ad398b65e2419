"""`tl.map_elementwise`: functions of scalars, with their control flow, on every element."""

from __future__ import annotations

import numpy as np
import pytest
from tests.engines import ENGINES, ON_CPU, run

import tilewright as tw
import tilewright.language as tl
from tilewright.errors import CompilationError

N = 32


@tw.jit
def compare(x, y):
    if x < y:
        return -1
    elif x == y:
        return 0
    else:
        return 1


@tw.jit
def parts(a, b):
    return a // b, a % b


@tw.jit
def pair_parts(a0, a1, b0, b1):
    return a0 // b0, a1 // b1, a0 % b0, a1 % b1


@tw.jit
def collatz(x, most):
    """Steps until 1, at most `most`; a helper, nested conditions, names that only one branch has."""
    steps = 0
    while x != 1 and steps < most:
        if x % 2 == 0:
            x = x // 2
        else:
            odd = 3 * x
            x = plus_one(odd)
        steps += 1
    return steps


@tw.jit
def plus_one(x):
    return x + 1


@tw.jit
def polynomial(x, n):
    total = 0.0
    for i in range(n):
        if x > i:
            total += x
        else:
            total = total - 1 if i % 2 == 0 else total * 2
    return total


def collatz_steps(x, most):
    steps = 0
    while x != 1 and steps < most:
        x = x // 2 if x % 2 == 0 else 3 * x + 1
        steps += 1
    return steps


def polynomial_value(x, n):
    total = 0.0
    for i in range(n):
        if x > i:
            total += x
        else:
            total = total - 1 if i % 2 == 0 else total * 2
    return total


@tw.jit
def compared(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x, y = tl.load(x_ptr + at), tl.load(y_ptr + at)
    tl.store(out_ptr + at, tl.map_elementwise(compare, x, y))
    tl.store(out_ptr + N + at, tl.map_elementwise(compare, x, 7))
    square = tl.map_elementwise(compare, x.reshape(4, N // 4), y.reshape(4, N // 4))
    tl.store(out_ptr + 2 * N + at, square.reshape(N))


@pytest.mark.parametrize("engine", ENGINES)
def test_branches(engine):
    rng = np.random.default_rng(1)
    x, y = rng.integers(0, 15, (2, N), np.int32)
    *_, out = run(engine, compared, (1,), x, y, np.zeros((3, N), np.int32), N=N)
    expected = np.sign(np.stack([x - y, x - 7, x - y]))
    np.testing.assert_array_equal(out, expected)


@tw.jit
def divided(x_ptr, y_ptr, out_ptr, N: tl.constexpr, PACK: tl.constexpr):
    at = tl.arange(0, N)
    x, y = tl.load(x_ptr + at), tl.load(y_ptr + at)
    if PACK == 1:
        q, r = tl.map_elementwise(parts, x, y)
    else:
        q, r = tl.map_elementwise(pair_parts, x, y, pack=PACK)
    tl.store(out_ptr + at, q)
    tl.store(out_ptr + N + at, r)


@pytest.mark.parametrize("pack", [1, 2])
@pytest.mark.parametrize("engine", ENGINES)
def test_several_results(engine, pack):
    rng = np.random.default_rng(2)
    x, y = rng.integers(1, 100, (2, N), np.int32)
    *_, out = run(engine, divided, (1,), x, y, np.zeros((2, N), np.int32), N=N, PACK=pack)
    np.testing.assert_array_equal(out, [x // y, x % y])


@tw.jit
def looped(x_ptr, out_ptr, values_ptr, n, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, tl.map_elementwise(collatz, x, 50))
    tl.store(values_ptr + at, tl.map_elementwise(polynomial, x.to(tl.float32), n))


@pytest.mark.parametrize("engine", ENGINES)
def test_loops(engine):
    x = np.arange(1, N + 1, dtype=np.int32)
    given = x, np.zeros(N, np.int32), np.zeros(N, np.float32)
    _, steps, values = run(engine, looped, (1,), *given, 6, N=N)
    np.testing.assert_array_equal(steps, [collatz_steps(int(v), 50) for v in x])
    np.testing.assert_array_equal(values, [polynomial_value(float(v), 6) for v in x])


@tw.jit
def reads(p, x):
    return tl.load(p) + x


@tw.jit
def mixes(p, x):
    return tl.sum(x)


@tw.jit
def leaves(p, x):
    while x > 0:
        x -= 1
        if x == 3:
            break
    return x


@tw.jit
def rejected(x_ptr, F: tl.constexpr, PACK: tl.constexpr = 1):
    at = tl.arange(0, 16)
    tl.store(x_ptr + at, tl.map_elementwise(F, x_ptr + at, tl.load(x_ptr + at), pack=PACK))


def test_mistakes():
    x = np.ones(16, np.int32)
    for function, text in (
        (reads, "only computes, element by element: tile.load cannot be in it"),
        (mixes, "tile.reduce cannot be in it"),
        (leaves, "cannot leave a loop by `break`"),
    ):
        with pytest.raises(CompilationError, match=text):
            run("cpu", rejected, (1,), x, F=function)
    with pytest.raises(CompilationError, match="pack is 3"):
        run("cpu", rejected, (1,), x, F=leaves, PACK=3)


@tw.jit
def two_types(x, y):
    return x if x > y else 0.5


@tw.jit
def mistyped(x_ptr):
    at = tl.arange(0, 16)
    tl.store(x_ptr + at, tl.map_elementwise(two_types, tl.load(x_ptr + at), 7))


@pytest.mark.parametrize("engine", ON_CPU)
def test_results_of_one_type(engine):
    with pytest.raises(CompilationError):
        run(engine, mistyped, (1,), np.arange(16, dtype=np.int32))
