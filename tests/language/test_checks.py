"""Mistakes that the language reports when a kernel is compiled or run as Python."""

from __future__ import annotations

import numpy as np
import pytest
from tests.engines import ENGINES, ON_CPU, run

import tilewright as tw
import tilewright.language as tl
from tilewright.errors import CompilationError, KernelTypeError

N = 16


def rejected(engine, kernel, *arguments, match, **constants):
    """The CompilationError of a launch, which must match and have a place in this file."""
    with pytest.raises(CompilationError, match=match) as caught:
        run(engine, kernel, (1,), *arguments, **constants)
    assert caught.value.location is not None and caught.value.location.file == __file__
    return caught.value


def fp32(n=N):
    return np.arange(n, dtype=np.float32)


# ---- pointers that are only read -------------------------------------------------------------------


@tw.jit
def store_to_const(x_ptr: tl.const, out_ptr):
    at = tl.arange(0, 16)
    tl.store(x_ptr + at, tl.load(x_ptr + at))


@tw.jit
def add_to_const(x_ptr: tl.const, out_ptr):
    tl.atomic_add(x_ptr, 1.0)


@tw.jit
def store_where_const(x_ptr: tl.const, out_ptr):
    tl.store(tl.where(tl.program_id(0) == 0, out_ptr, x_ptr), 1.0)


@tw.jit
def choose_const(x_ptr: tl.const, out_ptr):
    target = x_ptr if tl.program_id(0) == 0 else out_ptr
    tl.store(target, 1.0)


@tw.jit
def read_const(x_ptr: tl.const, out_ptr):
    at = tl.arange(0, 16)
    tl.store(out_ptr + at, tl.load(x_ptr + at) + tl.load(x_ptr + 3))


@pytest.mark.parametrize("kernel", [store_to_const, add_to_const, store_where_const], ids=str)
@pytest.mark.parametrize("engine", ON_CPU)
def test_const_pointers_are_not_written(engine, kernel):
    rejected(engine, kernel, fp32(), fp32(), match="Cannot store to a constant pointer")


def test_const_and_other_pointers_do_not_join():
    rejected("cpu", choose_const, fp32(), fp32(), match="const pointer<fp32> .*, pointer<fp32>")


@pytest.mark.parametrize("engine", ENGINES)
def test_const_pointers_are_read(engine):
    _, out = run(engine, read_const, (1,), fp32(), np.zeros(N, np.float32))
    np.testing.assert_array_equal(out, fp32() + 3)


# ---- parameters ------------------------------------------------------------------------------------


@tw.jit(do_not_specialize=["SIZE"])
def constant_not_specialized(out_ptr, SIZE: tl.constexpr):
    tl.store(out_ptr + tl.arange(0, SIZE), 1.0)


@tw.jit(do_not_specialize_on_alignment=[1])
def constant_not_aligned(out_ptr, SIZE: tl.constexpr):
    tl.store(out_ptr + tl.arange(0, SIZE), 1.0)


@pytest.mark.parametrize("engine", ON_CPU)
def test_constants_that_are_not_to_be_specialized(engine):
    for kernel in (constant_not_specialized, constant_not_aligned):
        with pytest.raises(CompilationError, match=r"'SIZE' is marked as constexpr and listed in"):
            run(engine, kernel, (1,), fp32(), SIZE=16)


# ---- operands --------------------------------------------------------------------------------------


@tw.jit
def quotient(x_ptr, y_ptr, out_ptr):
    at = tl.arange(0, 16)
    tl.store(out_ptr + at, tl.load(x_ptr + at) / tl.load(y_ptr + at))


@tw.jit
def and_of_floats(x_ptr, y_ptr, out_ptr):
    at = tl.arange(0, 16)
    tl.store(out_ptr + at, tl.load(x_ptr + at) & tl.load(y_ptr + at))


@tw.jit
def random_numbers(seed, out_ptr):
    at = tl.arange(0, 16)
    tl.store(out_ptr + at, tl.rand(seed, at))


@pytest.mark.parametrize("engine", ON_CPU)
def test_quotient_of_mixed_signedness(engine):
    x, y = np.arange(N, dtype=np.int32), np.ones(N, np.uint32)
    rejected(engine, quotient, x, y, fp32(), match="because they have different signedness")
    *_, out = run(engine, quotient, (1,), x, y.astype(np.int64), fp32())
    np.testing.assert_array_equal(out, fp32())


@pytest.mark.parametrize("engine", ON_CPU)
def test_bits_of_floats(engine):
    x = np.arange(N, dtype=np.int32)
    rejected(engine, and_of_floats, x, fp32(), x, match="invalid operands of type i32.* and fp32")


@pytest.mark.parametrize("engine", ON_CPU)
def test_seeds_are_integers(engine):
    with pytest.raises(CompilationError, match="the seed of random numbers must be an integer"):
        run(engine, random_numbers, (1,), 0.5, fp32())
    (out,) = run(engine, random_numbers, (1,), 5, fp32())
    assert 0 <= out.min() < out.max() < 1


@tw.jit
def scaled(a_ptr, sa_ptr, sb_ptr, out_ptr, GA: tl.constexpr, GB: tl.constexpr):
    m, k = tl.arange(0, 16)[:, None], tl.arange(0, 64)[None, :]
    a = tl.load(a_ptr + m * 64 + k)
    sa = tl.load(sa_ptr + m * GA + tl.arange(0, GA)[None, :])
    sb = tl.load(sb_ptr + m * GB + tl.arange(0, GB)[None, :])
    out = tl.dot_scaled(a, sa, "e5m2", a.T, sb, "e5m2")
    tl.store(out_ptr + m * 16 + tl.arange(0, 16)[None, :], out)


def test_unequal_scale_factors():
    a, s = np.full((16, 64), 60, np.uint8), np.full((16, 4), 127, np.uint8)
    out = np.zeros((16, 16), np.float32)
    rejected("cpu", scaled, a, s, s, out, GA=4, GB=2, match="scale factors differ: .* has 4 groups")
    *_, out = run("cpu", scaled, (1,), a, s, s, out, GA=4, GB=4)
    np.testing.assert_array_equal(out, 64)


# ---- results that must be used ---------------------------------------------------------------------


@tw.must_use_result
@tw.jit
def doubled(x):
    return x * 2


@tw.jit
@tw.must_use_result("assign it to the count")
def increased(x):
    return x + 1


@tw.jit
def drops_result(out_ptr):
    doubled(3)
    tl.store(out_ptr, 1.0)


@tw.jit
def drops_in_helper(out_ptr):
    tl.store(out_ptr, helper_that_drops(out_ptr))


@tw.jit
def helper_that_drops(out_ptr):
    x = tl.load(out_ptr)
    if tl.program_id(0) == 0:
        increased(x)
    return x


@tw.jit
def drops_advance(x_ptr, out_ptr):
    window = tl.make_block_ptr(x_ptr, (16,), (1,), (0,), (8,), (0,))
    tl.advance(window, (8,))
    tl.store(out_ptr + tl.arange(0, 8), tl.load(window))


@tw.jit
def uses_results(out_ptr):
    x = doubled(3)
    tl.store(out_ptr, increased(x))


@pytest.mark.parametrize("engine", ON_CPU)
def test_results_that_must_be_used(engine):
    error = rejected(engine, drops_result, fp32(), match="The result of doubled is not being used")
    assert "x = doubled(...)" in error.help
    error = rejected(engine, drops_in_helper, fp32(), match="result of increased is not being used")
    assert error.help == "assign it to the count"
    rejected(engine, drops_advance, fp32(), fp32(), match="result of tl.advance is not being used")
    (out,) = run(engine, uses_results, (1,), fp32())
    assert out[0] == 7


@tw.jit
def drops_method(x_ptr, out_ptr):
    window = tl.make_block_ptr(x_ptr, (16,), (1,), (0,), (8,), (0,))
    window.advance((8,))
    tl.store(out_ptr + tl.arange(0, 8), tl.load(window))


def test_methods_whose_result_must_be_used():
    rejected("cpu", drops_method, fp32(), fp32(), match="window.advance is not being used")


# ---- indices and axes ------------------------------------------------------------------------------


@tw.jit
def axes(out_ptr, CASE: tl.constexpr):
    at = tl.arange(0, 16)
    if CASE == 0:
        tl.expand_dims(at, -3)
    elif CASE == 1:
        tl.expand_dims(at, (0, -3))
    elif CASE == 2:
        tl.program_id(20)
    elif CASE == 3:
        out_ptr[10:]


@pytest.mark.parametrize("engine", ON_CPU)
def test_axes_and_indices(engine):
    texts = (
        "invalid axis -3", r"duplicate axes, normalized axes = \[0, 0\]",
        "program_id axis must be 0, 1, or 2 but got 20", "unsupported tensor index",
    )  # fmt: skip
    for case, text in enumerate(texts):
        error = rejected(engine, axes, fp32(), CASE=case, match=text)
        assert isinstance(error, KernelTypeError)


@tw.jit
def scalar_subscripts(out_ptr):
    scalar = tl.load(out_ptr)
    tl.static_assert(scalar[None].shape == [1] and scalar[None, None].shape == [1, 1])
    tl.static_assert(scalar[:, None].shape == [1] and scalar[:].shape == [])
    tl.store(out_ptr + tl.arange(0, 16)[:, None], scalar[:, None] + tl.zeros((16, 1), tl.float32))


@pytest.mark.parametrize("engine", ENGINES)
def test_subscripts_of_scalars(engine):
    (out,) = run(engine, scalar_subscripts, (1,), fp32() + 7)
    np.testing.assert_array_equal(out, 7)


# ---- products of integers ------------------------------------------------------------------------------


@tw.jit
def integer_product(a_ptr, b_ptr, out_ptr, KIND: tl.constexpr):
    m, k = tl.arange(0, 16), tl.arange(0, 32)
    a = tl.load(a_ptr + m[:, None] * 32 + k[None, :])
    b = tl.load(b_ptr + k[:, None] * 16 + m[None, :])
    out = tl.dot(a, b, out_dtype=KIND)
    tl.static_assert(out.dtype == tl.int32)
    out = tl.dot(a, b, acc=out, out_dtype=KIND)
    tl.store(out_ptr + m[:, None] * 16 + m[None, :], out)


@pytest.mark.parametrize("kind", [tl.int8, tl.int32, tl.float32], ids=str)
@pytest.mark.parametrize("engine", ENGINES)
def test_products_of_bytes_add_in_int32(engine, kind):
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-128, 128, s, np.int8) for s in ((16, 32), (32, 16)))
    *_, out = run(engine, integer_product, (1,), a, b, np.zeros((16, 16), np.int32), KIND=kind)
    np.testing.assert_array_equal(out, 2 * (a.astype(np.int32) @ b.astype(np.int32)))


def test_products_of_bytes_have_no_float_type():
    x = np.zeros((16, 32), np.int8)
    with pytest.raises(CompilationError, match="accumulates in i32, not fp16"):
        run("cpu", integer_product, (1,), x, x, np.zeros((16, 16), np.int32), KIND=tl.float16)


def test_types_in_place_of_arrays_are_const_as_well():
    """A kernel compiled for dtypes beforehand is the one that launches use."""
    x, out = np.zeros(16, np.float32), np.zeros(16, np.float32)
    read_const.warmup(tl.float32, tl.float32, grid=(1,))
    before = len(read_const.compiled_kernels)
    read_const[(1,)](x, out)
    assert len(read_const.compiled_kernels) == before
    with pytest.raises(CompilationError, match="constant pointer"):
        store_to_const.warmup(tl.float32, tl.float32, grid=(1,))
