"""Aggregates: classes of values, in every way a kernel can run."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from tests.engines import ENGINES, ON_CPU, run

import tilewright as tw
import tilewright.language as tl
from tilewright.errors import CompilationError


@tw.aggregate
class Moments:
    total: tl.tensor
    squares: tl.tensor
    BLOCK: tl.constexpr

    @tw.jit
    def add(self, x):
        return Moments(self.total + tl.sum(x), self.squares + tl.sum(x * x), self.BLOCK)

    @tw.jit
    def mean(self, n):
        return self.total / n

    def half_block(self):
        return self.BLOCK // 2

    @staticmethod
    @tw.jit
    def square(x):
        return x * x


@tw.jit
def moments_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    zero = tl.zeros((), tl.float32)
    m = Moments(zero, squares=zero, BLOCK=BLOCK)
    for start in range(0, n, m.BLOCK):
        at = start + tl.arange(0, m.BLOCK)
        m = m.add(tl.load(x_ptr + at, mask=at < n, other=0))
    if m.total > 1000:
        m = tl.aggregate_replace(m, total=zero)
    tl.static_assert(m.half_block() == BLOCK // 2)
    total, squares, _ = m
    tl.store(out_ptr, m.mean(n))
    tl.store(out_ptr + 1, total)
    tl.store(out_ptr + 2, squares)
    tl.store(out_ptr + 3, Moments.square(m.total))


@pytest.mark.parametrize("engine", ENGINES)
def test_fields_methods_and_loops(engine):
    x = np.arange(20, dtype=np.float32)
    _, out = run(engine, moments_kernel, (1,), x, np.zeros(4, np.float32), 20, BLOCK=16)
    np.testing.assert_allclose(out, [9.5, 190, 2470, 36100], rtol=1e-6)
    _, out = run(engine, moments_kernel, (1,), 10 * x, np.zeros(4, np.float32), 20, BLOCK=16)
    np.testing.assert_allclose(out[:3], [0, 0, 247000], rtol=1e-6)


@tw.aggregate
class Window:
    start: tl.tensor
    size: tl.constexpr
    step: tl.constexpr = 2

    def __init__(self, start, size):
        self.start = start * 2
        self.size = size
        self.step = 3

    @tw.jit
    def lanes(self):
        return self.start + tl.arange(0, self.size) * self.step


@tw.aggregate
class Masked(Window):
    bound: tl.tensor

    def __init__(self, start, size, bound):
        super().__init__(start, size)
        self.bound = bound

    @tw.jit
    def store(self, out_ptr, x):
        tl.store(out_ptr + self.lanes(), x, mask=self.lanes() < self.bound)


@tw.jit
def window_kernel(out_ptr, n):
    window = Masked(tl.program_id(0), 8, bound=n)
    tl.static_assert(isinstance(window, Window) and window.step == 3)
    window.store(out_ptr, 1 + tl.arange(0, 8))


@pytest.mark.parametrize("engine", ENGINES)
def test_constructors_and_inheritance(engine):
    (out,) = run(engine, window_kernel, (2,), np.zeros(32, np.int32), 20)
    expected = np.zeros(32, np.int32)
    for program in range(2):
        at = 2 * program + 3 * np.arange(8)
        expected[at[at < 20]] = 1 + np.flatnonzero(at < 20)
    np.testing.assert_array_equal(out, expected)


@tw.jit
def first_window(x_ptr, n, SIZE: tl.constexpr):
    if tl.load(x_ptr) > n:
        return Window(n, SIZE)
    return Window(n + 1, SIZE)


@tw.jit
def returned_window_kernel(x_ptr, out_ptr, n):
    window = first_window(x_ptr, n, 4)
    tl.store(out_ptr + tl.arange(0, 4), window.lanes())


@pytest.mark.parametrize("engine", ENGINES)
def test_one_of_several_returned_aggregates_is_not_constructed_again(engine):
    x = np.array([1, 9, 9, 9], np.int32)
    _, out = run(engine, returned_window_kernel, (1,), x, np.zeros(4, np.int32), 5)
    np.testing.assert_array_equal(out, [12, 15, 18, 21])


@tw.aggregate
class Pair:
    a: tl.tensor
    b: tl.tensor


@tw.aggregate
class Partial:
    a: tl.tensor
    b: tl.tensor

    def __init__(self, a):
        self.a = a


@tw.aggregate
class Surprising:
    a: tl.tensor

    def __init__(self, a):
        self.other = a


@tw.jit
def mistaken(out_ptr, CASE: tl.constexpr):
    x = tl.load(out_ptr)
    if CASE == 0:
        Pair(x, "3")
    elif CASE == 1:
        Pair(x)
    elif CASE == 2:
        Pair(x, x, c=x)
    elif CASE == 3:
        Partial(x)
    elif CASE == 4:
        Surprising(x)
    elif CASE == 5:
        tl.aggregate_replace(Pair(x, x), c=x)


@pytest.mark.parametrize("engine", ON_CPU)
def test_mistakes(engine):
    texts = (
        "expected tensor for attribute 'b' of Pair", "missing the required argument 'b'",
        "an unexpected argument 'c'", "did not initialize attribute 'b'",
        "Surprising has no attribute 'other'", "Pair has no field 'c'",
    )  # fmt: skip
    for case, text in enumerate(texts):
        with pytest.raises(CompilationError, match=text):
            run(engine, mistaken, (1,), np.zeros(1, np.float32), CASE=case)


@tw.jit
def assigns_field(out_ptr):
    pair = Pair(tl.load(out_ptr), tl.load(out_ptr))
    pair.a = 3
    tl.store(out_ptr, pair.a)


@pytest.mark.parametrize("engine", ON_CPU)
def test_fields_are_not_assigned(engine):
    with pytest.raises((CompilationError, AttributeError), match="cannot assign"):
        run(engine, assigns_field, (1,), np.zeros(1, np.float32))


def test_only_aggregates_are_bases():
    with pytest.raises(TypeError, match="can only inherit from other aggregates"):
        tw.aggregate(type("Child", (Exception,), {}))


MODULE = """
import tilewright as tw
import tilewright.language as tl

@tw.aggregate
class Scaled:
    x: tl.tensor

    def __init__(self, x):
        self.x = x * 2

    @tw.jit
    def plus(self, y):
        return self.x + y

@tw.jit
def kernel(out_ptr):
    tl.store(out_ptr, Scaled(tl.load(out_ptr)).plus(1))
"""


def test_methods_are_part_of_the_key(tmp_path):
    keys = set()
    for i, (old, new) in enumerate((("", ""), ("x * 2", "x * 3"), ("self.x + y", "self.x - y"))):
        path = tmp_path / f"aggregate_{i}.py"
        path.write_text(MODULE.replace(old, new))
        spec = importlib.util.spec_from_file_location("aggregate_module", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        keys.add(module.kernel.cache_key)
        out = np.ones(1, np.float32)
        module.kernel[(1,)](out)
        assert out[0] == (3, 4, 1)[i]
    assert len(keys) == 3


def test_constants_are_constexpr_in_host_code():
    """Given to the constructor, left to a default, or inherited."""

    @tw.aggregate
    class Base:
        x: tl.constexpr
        y: tl.constexpr = 42

    @tw.aggregate
    class Derived(Base):
        z: tl.constexpr = tl.constexpr(7)

    made = Derived(3)
    assert [type(field) for field in made] == [tl.constexpr] * 3
    assert (made.x.value, made.y.value, made.z.value) == (3, 42, 7)
    changed = tl.aggregate_replace(made, x=5)
    assert changed.x.value == 5 and changed.z.value == 7
    with pytest.raises(AttributeError, match="cannot assign to field 'x' on immutable aggregate"):
        made.x = 9


@tw.aggregate
class Rows:
    """Items by a kernel function, a field that is given a number, a constructor that adds to the kernel."""

    first: tl.tensor
    number: tl.tensor

    def __init__(self, number):
        self.first = tl.arange(0, 4)
        self.number = number

    @tw.jit
    def __getitem__(self, i):
        return self.first * i + self.number


@tw.jit
def halves(x):
    if x.shape[0] == 1:
        return x
    else:
        a, b = x.reshape((x.shape[0] // 2, 2)).split()
        return halves(a) + halves(b)


@tw.jit
def rows_and_halves(out_ptr):
    rows = Rows(5)
    tl.store(out_ptr + tl.arange(0, 4), rows[tl.program_id(0) + 2])
    tl.store(out_ptr + 4 + tl.arange(0, 1), halves(tl.arange(0, 16)))


@pytest.mark.parametrize("engine", ON_CPU)
def test_items_numbers_and_constructors(engine):
    """And a function that calls itself with smaller and smaller tiles."""
    (out,) = run(engine, rows_and_halves, (1,), np.zeros(5, np.int32))
    assert out.tolist() == [5, 7, 9, 11, 120]
