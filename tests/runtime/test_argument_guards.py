"""Launches like the one before: native code asks of the arguments what the key would have told."""

import ctypes
import random

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.runtime.fake_backend import SLOTS, FakeBackend, use
from tests.runtime.kernels import scalars, unspecialized

import tilewright as tw
import tilewright.language as tl
from tilewright.runtime.descriptors import TensorDescriptor
from tilewright.runtime.drivers import argument_guards
from tilewright.runtime.drivers.native_code import NativeLinker, object_of
from tilewright.runtime.native.compiler import llvm_ir
from tilewright.runtime.native.python import meets

INTEGERS = (1, 0, -1, 2, 3, 16, 17, -16, -15, 1 << 31, -(1 << 31), (1 << 31) - 16, 1 << 40)
LARGE = ((1 << 63) - 1, 1 << 63, (1 << 64) - 1)


@pytest.fixture(scope="module")
def native():
    linker = NativeLinker()
    code = object_of("conditions", lambda: llvm_ir(meets))
    linked = linker.link(code, "meets")
    call = ctypes.PYFUNCTYPE(ctypes.c_bool, ctypes.c_uint8, ctypes.c_int64)(linked["meets"])
    yield call
    del linked


@pytest.mark.parametrize("condition", [*range(10), *range(16, 32)])
@settings(max_examples=60, deadline=None)
@example(-1)
@example(1)
@example((1 << 31) - 1)
@given(
    value=st.sampled_from(INTEGERS) | st.integers(-40, 40) | st.integers(-(1 << 63), (1 << 63) - 1)
)
def test_native_code_asks_the_same(native, condition, value):
    assert native(condition, value) == argument_guards.holds(condition, value)


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("value", INTEGERS)
def test_a_value_meets_its_own_condition(value, aligned):
    for made in (
        argument_guards.of_integer(value, aligned), argument_guards.of_word(value),
        argument_guards.of_extent(value, aligned),
    ):  # fmt: skip
        assert isinstance(made, str) or argument_guards.holds(made, value)


def test_integers_without_a_condition_have_a_key():
    """Sign, width and divisibility of an integer that no native code asks about are in the key of its launch."""
    values = [-16, -15, 1 << 31, (1 << 31) + 1, -(1 << 63), 1 - (1 << 63), 1 << 63, (1 << 63) + 1]
    keys = [argument_guards.of_integer(value) for value in values]
    assert len(set(keys)) == len(values) and all(isinstance(key, str) for key in keys)


def words(torch):
    """Arrays of 64-bit words: aligned, not aligned, of NumPy and torch."""
    plain = np.zeros(32, np.int64)
    assert plain.ctypes.data % 16 == 0
    found = [plain, plain[1:], plain.view(np.float64)]
    if torch is not None:
        tensor = torch.zeros(32, dtype=torch.int64)
        found += [tensor, tensor[1:]]
    return found


def passed(out, count):
    """The slots that the launch stored behind its array's address."""
    return [int(word) for word in np.asarray(out).view(np.uint64)[1 : 1 + count]]


def bits(value):
    """The slot of a scalar."""
    if isinstance(value, float):
        return int(np.float32(value).view(np.uint32))
    return value % (1 << 64)


def test_launches_in_any_order_run_what_their_arguments_ask_for():
    try:
        import torch
    except ImportError:
        torch = None
    rng = random.Random(7)
    arrays = words(torch)
    values = (*INTEGERS, *LARGE, 2.5, True, None)
    usual = (3, 5, 16, 48)
    with use(FakeBackend(SLOTS)):
        for _ in range(1500):
            out = rng.choice(arrays[:1] * 4 + arrays)
            a, b, c = (rng.choice(values if rng.random() < 0.15 else usual) for _ in range(3))
            flag = rng.choice((True, True, True, 1, 2))
            found = scalars[(1,)](out, a, b, c, FLAG=flag)
            assert found is scalars.warmup(out, a, b, c, FLAG=flag, grid=(1,))
            given = [v for v in (a, b, c) if v is not None and (v != 1 or v is True)]
            assert passed(out, len(given)) == [bits(v) for v in given]
            found = unspecialized[(1,)](out, a, b)
            assert found is unspecialized.warmup(out, a, b, grid=(1,))


@tw.jit
def copied(x, out):
    out.store([0, 0], x.load([0, 0]))


def test_descriptors_in_any_order():
    rng = random.Random(8)
    for _ in range(300):
        rows, columns = rng.choice((2, 4, 8)), rng.choice((4, 8, 16, 20, 64))
        x = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
        out = np.zeros((rows, columns), np.float32)
        block = [rng.choice((1, 2)), rng.choice((4, 8))]
        pair = [TensorDescriptor.from_tensor(v, block) for v in (x, out)]
        found = copied[(1,)](*pair)
        assert found is copied.warmup(*pair, grid=(1,))
        expected = np.zeros_like(out)
        expected[: block[0], : block[1]] = x[: block[0], : block[1]]
        np.testing.assert_array_equal(out, expected)


FACTOR = tl.constexpr(2)


@tw.jit
def scaled(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * FACTOR, mask=i < n)


@pytest.fixture
def bound(monkeypatch):
    """A launch of `scaled` whose globals forbid to look a key up again."""
    x = np.ones(16, np.float32)
    call = scaled[(1,)]
    for _ in range(2):
        call(x, 16, BLOCK=16)
    call = scaled[(1,)]
    call(x, 16, BLOCK=16)
    (scope, _), *_ = scaled._launcher._keys.values()
    monkeypatch.setitem(scope, "_tw_get", None)
    return call


def test_a_launch_like_the_last_one_needs_no_key(bound):
    x = np.ones(32, np.float32)
    bound(x, 32, BLOCK=16)
    assert list(x[:16]) == [2.0] * 16
    with pytest.raises(TypeError, match="NoneType"):
        bound(x, 5, BLOCK=16)  # no multiple of 16


def test_globals_that_change_are_seen_by_launches_like_the_last_one(bound, monkeypatch):
    x = np.ones(16, np.float32)
    monkeypatch.setitem(globals(), "FACTOR", tl.constexpr(3))
    bound(x, 16, BLOCK=16)
    assert list(x) == [3.0] * 16


def test_the_sign_of_integers_is_part_of_the_code():
    """Sizes are known not to be negative; a negative one runs code of its own, however it is launched."""
    space = np.arange(64, dtype=np.float32)
    out = np.zeros(4, np.float32)
    for start in (32, 16, -16, 0, 33, -1, 48, -17):
        windowed[(1,)](space[32:] if start < 0 else space, out, start)
        np.testing.assert_array_equal(out, np.arange(4) + start + (32 if start < 0 else 0))
    signs = [
        next(item.nonnegative for name, item in each.signature.items() if name == "start")
        for each in windowed.launcher.compiled.values()
    ]
    assert sorted(signs) == [False, True, True]  # multiples of 16 are told apart of sizes only


@tw.jit
def windowed(x_ptr, out_ptr, start):
    i = tl.arange(0, 4)
    tl.store(out_ptr + i, tl.load(x_ptr + start + i))
