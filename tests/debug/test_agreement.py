"""Kernels run as Python mean what their IR and their machine code mean."""

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.language.extra import libdevice

MODES = {"eager": "1", "ir": "ir", "cpu": "0"}


@pytest.fixture(params=MODES)
def mode(request, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_INTERPRET", MODES[request.param])
    return request.param


@tw.jit
def shifts(x_ptr, count_ptr, o_ptr, n, KIND: tl.constexpr):
    i = tl.arange(0, 16)
    x = tl.load(x_ptr + i, mask=i < n, other=0)
    count = tl.load(count_ptr + i, mask=i < n, other=0)
    tl.store(o_ptr + i, (x >> count).to(KIND), mask=i < n)


@pytest.mark.parametrize("left", ["int8", "int32", "int64", "uint8", "uint32"])
@pytest.mark.parametrize("right", ["uint8", "uint32", "uint64", "int32"])
def test_the_left_operand_decides_how_a_shift_fills(mode, left, right):
    x = np.array([-128, -8, -1, 100, 7, 1, 0, -77]).astype(left)
    count = np.arange(8) % 7
    # the shift itself keeps the value; the result's type is the promoted one
    kinds = sorted((np.dtype(left), np.dtype(right)), key=lambda k: (k.itemsize, k.kind == "u"))
    expected = (x.astype(np.int64) >> count).astype(kinds[-1])
    out = np.zeros(8, kinds[-1])
    shifts[(1,)](x, count.astype(right), out, 8, KIND=getattr(tl, str(kinds[-1])))
    assert out.tolist() == expected.tolist()


@tw.jit
def carried_numbers(o_ptr, n):
    c = -1
    f = 0.1
    d = 7
    for _ in range(2):
        c -= 3
        f = f * 3
        for _ in tl.range(1):
            d = d * 1000003
    tl.store(o_ptr, c // 16)
    tl.store(o_ptr + 1, c % 8)
    while c < 0:
        c += 2
    tl.store(o_ptr + 2, (c - 10) // 2)
    tl.store(o_ptr + 3, f == 0.1)
    tl.store(o_ptr + 4, d)
    for s in tl.static_range(2):
        tl.store(o_ptr + 5 + s, (s - 5) // 3)  # known at compile time: Python's division


def test_numbers_carried_by_loops_are_scalars(mode):
    out = np.zeros(7, np.int32)
    carried_numbers[(1,)](out, 1)
    wrapped = np.array(7 * 1000003**2 % 2**32, np.uint32).view(np.int32)
    # C's division, which rounds towards zero
    assert out.tolist() == [0, -7, -4, 0, wrapped, -2, -2]
    assert (-7 // 16, -7 % 8, (1 - 10) // 2) == (-1, 1, -5)


@tw.jit
def picked(n):
    if n > 3:
        return -7, 1
    return -9, 1


@tw.jit
def same_literal(n):
    if n > 3:
        return 4
    return 4


@tw.jit
def joined_numbers(o_ptr, n, FLAG: tl.constexpr):
    a = -7
    if n > 3:
        a = -5
    tl.store(o_ptr, a // 2)
    b, c = 0, -3
    if n > 100:
        c = -9
    elif n > 2:
        b = 2147483647
    tl.store(o_ptr + 1, b + 1)
    tl.store(o_ptr + 2, c // 2)
    e = -3
    for _ in range(n):
        tl.store(o_ptr + 3, e // 2)
        e = -5
    tl.store(o_ptr + 4, e // 2)
    value, one = picked(n)
    tl.store(o_ptr + 5, value // 2)
    tl.store(o_ptr + 6, (-7 if n > 3 else -9) // 2)
    if FLAG:
        f = -7
    tl.store(o_ptr + 7, f // 2)  # known at compile time, but it has a name
    width = 4 if n > 3 else 2 + 2
    if n > 3:
        length = 8
    else:
        length = 8
    # the same literal on all ways stays a constant
    i = tl.arange(0, width) + tl.arange(0, same_literal(n)) * tl.arange(0, length // 2)
    tl.store(o_ptr + 8, tl.sum(i) + one)


def test_numbers_that_runtime_conditions_join_are_scalars(mode):
    out = np.zeros(9, np.int32)
    joined_numbers[(1,)](out, 5, FLAG=True)
    # C's division, which rounds towards zero
    assert out.tolist() == [-2, -(2**31), -1, -2, -2, -3, -3, -3, 6 + 14 + 1]


@tw.jit
def first_set_in_a_loop(o_ptr, n):
    for i in range(n):
        last = i * 2
        if last > 3:
            last = 3
        tl.store(o_ptr, last)


def test_names_without_a_value_before_the_loop(mode):
    out = np.zeros(1, np.int32)
    first_set_in_a_loop[(1,)](out, 5)
    assert out.tolist() == [3]


@tw.jit
def equals_none(x_ptr, bias_ptr, FLAG: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, 4))
    if bias_ptr is not None:
        x += tl.load(bias_ptr)
    if FLAG == None:  # noqa: E711
        x += 1
    if x is None:
        x = 0.0
    tl.store(x_ptr + tl.arange(0, 4), x, mask=x == FLAG if FLAG is not None else None)


@pytest.mark.parametrize("bias", [None, 2.0])
def test_none_is_asked_for_with_is(mode, bias):
    x = np.zeros(4, np.float32)
    given = None if bias is None else np.full(1, bias, np.float32)
    equals_none[(1,)](x, given, FLAG=None)
    assert x.tolist() == [1 + (bias or 0)] * 4


@tw.jit
def tile_against_none(x_ptr):
    x = tl.load(x_ptr + tl.arange(0, 4))
    tl.store(x_ptr + tl.arange(0, 4), tl.where(x != None, 1.0, 0.0))  # noqa: E711


def test_a_tile_compared_with_none_is_an_error(mode):
    from tilewright.errors import KernelTypeError

    with pytest.raises(KernelTypeError, match="`!=` is not defined for fp32\\[4\\] and None") as e:
        tile_against_none[(1,)](np.zeros(4, np.float32))
    text = str(e.value)
    assert "test_agreement.py:" in text and "^" in text and "`is not None`" in text


@tw.jit
def block_pointer_types(x_ptr, o_ptr, n, B: tl.constexpr):
    p = tl.make_block_ptr(x_ptr, (n,), (1,), (0,), (B,), (0,))
    p = p.advance((1,))
    x = tl.load(p, boundary_check=(0,)).to(tl.float32)
    q = tl.make_block_ptr(o_ptr, (n,), (1,), (0,), (B,), (0,))
    tl.static_assert(q.type.element_ty == q.dtype)
    tl.store(q, x.to(q.dtype.element_ty), boundary_check=(0,))


def test_block_pointers_know_their_type(mode):
    x, out = np.arange(4, dtype=np.float16), np.zeros(4, np.float16)
    block_pointer_types[(1,)](x, out, 4, B=4)
    assert out.tolist() == [1, 2, 3, 0]


@tw.jit
def bessel_functions(x_ptr, o_ptr):
    i = tl.arange(0, 2)
    x = tl.load(x_ptr + i)
    tl.store(o_ptr + i, libdevice.j0(x))
    tl.store(o_ptr + 2 + i, libdevice.j1(x))
    tl.store(o_ptr + 4 + i, libdevice.y0(x))
    tl.store(o_ptr + 6 + i, libdevice.y1(x))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_bessel_functions(mode, kind):
    out = np.zeros(8, kind)
    bessel_functions[(1,)](np.array([1, 0], kind), out)
    known = [0.765197686557967, 1, 0.440050585744934, 0, 0.088256964215677, -np.inf]
    np.testing.assert_allclose(out[:6], known, rtol=4e-7)
    np.testing.assert_allclose(out[6:], [-0.781212821300289, -np.inf], rtol=4e-7)


@tw.jit
def range_with_hints(o_ptr, n, HINT: tl.constexpr):
    total = 0
    for i in range(n, warp_specialize=True, num_stages=HINT):
        total += i
    tl.store(o_ptr, total)


@tw.jit
def range_with_unknown_keyword(o_ptr, n):
    for i in range(0, n, stages=2):
        tl.store(o_ptr, i)


def test_range_takes_the_hints_of_tl_range(mode):
    out = np.zeros(1, np.int32)
    range_with_hints[(1,)](out, 5, 3)
    assert out[0] == 10
    with pytest.raises(tw.errors.KernelTypeError, match="range has no keyword 'stages'"):
        range_with_unknown_keyword[(1,)](out, 5)


@tw.jit
def large_numbers(x_ptr, o_ptr, hash_ptr, FACTOR: tl.constexpr):
    i = tl.arange(0, 8)
    x = tl.load(x_ptr + i)
    low, high = 1 << 30, 1 << 31
    values = ~(low | high)
    masked = (x & values) | high
    tl.static_assert(masked.dtype == tl.uint32)
    tl.store(o_ptr + i, masked)
    prime = FACTOR
    prime += 2
    folded: tl.constexpr = FACTOR + 2
    tl.static_assert(folded == 2654435771)
    hashed = x * prime
    tl.static_assert(hashed.dtype == tl.uint32)
    tl.store(hash_ptr + i, hashed)


def test_names_of_large_integers_hold_typed_scalars(mode):
    """In Triton an assignment makes a scalar: a mask with bit 31 is uint32, and so is what it meets."""
    x = np.array([5, -1, -7, 1 << 30, 3, 2, 1, 0], np.int32)
    out, hashed = np.zeros(8, np.int32), np.zeros(8, np.uint32)
    large_numbers[(1,)](x, out, hashed, 2654435769)
    bits = x.view(np.uint32)
    np.testing.assert_array_equal(out.view(np.uint32), bits & 0x3FFFFFFF | 0x80000000)
    np.testing.assert_array_equal(hashed, bits * np.uint32(2654435771))


@tw.jit
def methods_of_numbers(o_ptr, n, N: tl.constexpr, BLOCK: tl.constexpr):
    blocks = tl.cdiv(N, BLOCK)
    wide = blocks.to(tl.int64) << 40
    small = min(N, BLOCK)
    tl.store(o_ptr, wide + (N + 1).to(tl.int64) + small.to(tl.int8))
    tl.store(o_ptr + 1, (N > 3).to(tl.int64) + (-N).to(tl.int64) + abs(N - 40).to(tl.int64))
    shift = 3
    shift = shift.to(tl.int64)
    tl.store(o_ptr + 2, shift << 33)
    tl.store(o_ptr + 3, (N if n > 1 else BLOCK).to(tl.int64))


def test_results_of_constants_have_the_methods_of_tensors(mode):
    out = np.zeros(4, np.int64)
    methods_of_numbers[(1,)](out, 5, N=33, BLOCK=16)
    assert out.tolist() == [(3 << 40) + 34 + 16, 1 - 33 + 7, 3 << 33, 33]
