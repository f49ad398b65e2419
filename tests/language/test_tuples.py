"""Tuples and named tuples of arrays, shapes, strides, functions and constants, as arguments and in kernels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.engines import ON_CPU, run

import tilewright as tw
import tilewright.language as tl
from tilewright.language.core import builtin


class Matrix(NamedTuple):
    ptr: Any
    shape: Any
    stride: Any


class Closure(NamedTuple):
    function: Any
    captured: tuple[Any, ...]


@tw.jit
def scaled(x, factor_ptr):
    return x * tl.load(factor_ptr)


@tw.jit
def matrix(shape, ptr, stride):
    return Matrix(shape=shape, ptr=ptr, stride=stride)


@tw.jit
def inside(m: Matrix, M: tl.constexpr, N: tl.constexpr):
    return (tl.arange(0, M)[:, None] < m.shape[0]) & (tl.arange(0, N)[None, :] < m.shape[1])


@tw.jit
def mapped(closure, x, y, M: tl.constexpr, N: tl.constexpr):
    x = matrix(x.shape, x.ptr, x.stride)
    at_m, at_n = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    values = tl.load(x.ptr + at_m * x.stride[0] + at_n * x.stride[1], mask=inside(x, M, N), other=0)
    values = closure.function(values, *closure.captured)
    tl.store(y.ptr + at_m * y.stride[0] + at_n * y.stride[1], values, mask=inside(y, M, N))


@pytest.mark.parametrize("engine", ON_CPU)
def test_named_tuples_of_tensors_and_shapes(engine):
    torch = pytest.importorskip("torch")
    x, y, factor = torch.randn(32, 32), torch.empty(16, 16), torch.tensor([5.25])
    given = (Matrix(t, t.shape, t.stride()) for t in (x, y))
    run(engine, mapped, (1,), Closure(scaled, (factor,)), *given, M=64, N=64)
    assert torch.equal(y, x[:16, :16] * factor)


@pytest.mark.parametrize("engine", ON_CPU)
def test_named_tuples_of_arrays(engine):
    x = np.arange(48, dtype=np.float32).reshape(6, 8)
    y, factor = np.zeros((4, 5), np.float32), np.full(1, 2, np.float32)
    given = (Matrix(a, a.shape, tuple(s // 4 for s in a.strides)) for a in (x, y))
    run(engine, mapped, (1,), Closure(scaled, (factor,)), *given, M=8, N=8)
    np.testing.assert_array_equal(y, 2 * x[:4, :5])


@builtin
def is_constant(value, _semantic=None):
    return isinstance(value, tl.constexpr)


@tw.jit
def described(x_ptr, shape, strides, factors, BLOCK: tl.constexpr):
    tl.static_assert(is_constant(strides[1]) and not is_constant(strides[0]))
    x = tl.make_tensor_descriptor(x_ptr, shape, strides, [BLOCK, BLOCK])
    values = x.load([0, 0])
    for _ in tl.range(0, factors[1]):
        values = values * factors[0]
    x.store([0, 0], values)


@pytest.mark.parametrize("engine", ON_CPU)
def test_shapes_and_strides_of_descriptors(engine):
    torch = pytest.importorskip("torch")
    x = torch.arange(16).reshape(4, 4)
    expected = 8 * x
    run(engine, described, (1,), x, x.size(), x.stride(), (2, 3), BLOCK=4)
    assert torch.equal(x, expected)


@tw.jit
def tuple_algebra(out_ptr):
    tl.store(out_ptr, (1, 2) == (1, 2))
    tl.store(out_ptr + 1, tl.tuple((1, 2)) == (1, 3))
    for i in tl.static_range(4):
        tl.store(out_ptr + 2 + i, (tl.tuple((4, 5)) + (6, 7))[i])  # noqa: RUF005
    tl.static_assert(((3, 4) or (5, 6)) == (3, 4))  # noqa: SIM222
    tl.static_assert((() and tl.program_id(0)) == ())  # noqa: SIM223


@pytest.mark.parametrize("engine", ON_CPU)
def test_tuples_in_kernels(engine):
    (out,) = run(engine, tuple_algebra, (1,), np.zeros(6, np.int32))
    np.testing.assert_array_equal(out, [1, 0, 4, 5, 6, 7])
