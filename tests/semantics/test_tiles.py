"""Creation, shapes, indexing, reductions, scans, products, functions, composites."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import tilewright.language as tl
from tilewright import dtypes as t
from tilewright.errors import CompilationError, KernelNameError, KernelTypeError
from tilewright.language.kernel_function import KernelFunction

X = np.random.default_rng(0).standard_normal((4, 8))


def test_creation(sem, show):
    assert show(tl.arange(2, 6)).tolist() == [2, 3, 4, 5]
    assert tl.zeros((4, tl.constexpr(8)), tl.float16).type == t.block_type(t.float16, (4, 8))
    assert show(tl.full([2], 3, tl.int8)).tolist() == [3, 3]
    assert show(tl.full((2,), tl.program_id(0), tl.float32)).tolist() == [5, 5]
    assert tl.zeros_like(tl.arange(0, 4)).dtype == t.int32


@pytest.mark.parametrize(
    ("call", "message", "help"),
    [
        (lambda: tl.arange(0, 100), "range must be a power of 2", "128.*first 100"),
        (lambda: tl.arange(4, 4), "end argument must be greater", ""),
        (lambda: tl.arange(0, tl.program_id(0)), "known at compile time", "tl.constexpr"),
        (lambda: tl.zeros((tl.num_programs(0),), tl.int32), "compile time", "tl.constexpr"),
        (lambda: tl.zeros((3,), tl.int32), "Shape element 0 must be a power of 2", "next_power_of_2"),
        (lambda: tl.broadcast_to(tl.arange(0, 4), 4, 4), "rank mismatch", "row of it"),
        (lambda: tl.program_id(3), "axis must be 0, 1, or 2 but got 3", ""),
        (lambda: tl.zeros((4,), 7), "must be a type", ""),
        (lambda: tl.static_assert(False, "why"), "static assertion failed: why", ""),
        (lambda: tl.arange(0, 4)[9], "index 9 is out of range", ""),
        (lambda: tl.arange(0, 4)[:, :], "2 indices for a value with 1 dim", ""),
        (lambda: tl.exp(tl.arange(0, 4)), r"tl.exp needs floats, got i32\[4\]", "float32"),
        (lambda: tl.sum(tl.arange(0, 4), axis=1), "invalid axis 1, out of range", ""),
        (lambda: tl.reshape(tl.arange(0, 4), 8), r"4 elements, but shape \[8\] has 8", ""),
        (lambda: tl.inline_asm_elementwise("", "=q", [], tl.int32, True, 1), "not one of PTX", "16, 32"),
    ],
)  # fmt: skip
def test_messages(sem, call, message, help):
    with pytest.raises(CompilationError, match=message) as caught:
        call()
    if help:
        assert re.search(help, caught.value.help)


def test_unknown_attributes(sem):
    x = tl.arange(0, 4)
    with pytest.raises(KernelNameError, match=r"i32\[4\] has no attribute 'sam'") as caught:
        sem.attribute(x, "sam")
    assert "'sum'" in caught.value.help
    assert not hasattr(x, "sam")
    with pytest.raises(TypeError, match="not iterable"):
        _a, _b = x


def test_shapes(make, show):
    x = make(X, t.float64)
    cases = [
        (x.T, X.T), (tl.trans(x), X.T), (tl.reshape(x, 8, 4), X.reshape(8, 4)),
        (x.reshape((2, 16)), X.reshape(2, 16)), (x.ravel(), X.ravel()),
        (x[None, :, :, None], X[None, :, :, None]), (tl.expand_dims(x, -1), X[..., None]),
        (tl.permute(x[None], 2, 0, 1), X[None].transpose(2, 0, 1)),
        (tl.broadcast_to(x[:, None, :], 4, 2, 8), np.broadcast_to(X[:, None], (4, 2, 8))),
        (tl.flip(x), X[:, ::-1]), (tl.flip(x, 0), X[::-1]), (tl.join(x, -x), np.stack([X, -X], -1)),
        (tl.cat(x, x, dim=1), np.concatenate([X, X], 1)), (tl.squeeze(x[:, None], 1), X),
        (tl.interleave(x, -x), np.stack([X, -X], -1).reshape(4, 16)),
        (x[1], X[1]), (x[:, -1], X[:, -1]), (x[2, 3], X[2, 3]), (x[:2], X[:2]),
        (x[..., ::2], X[..., ::2]), (x[:, tl.program_id(0)], X[:, 5]),
    ]  # fmt: skip
    for got, expected in cases:
        assert got.shape == expected.shape
        np.testing.assert_array_equal(show(got), expected)
    low, high = tl.split(tl.join(x, -x))
    np.testing.assert_array_equal(show(low), X)
    np.testing.assert_array_equal(show(high), -X)
    one, two = tl.split(make([3, 4], t.int32))
    assert one.shape == () and int(one) == 3 and int(two) == 4
    assert show(tl.join(one, two)).tolist() == [3, 4]
    assert int(make([[7]], t.int32).item()) == 7


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("kind", [t.float16, t.bfloat16, t.float32, t.float64])
def test_reductions(make, show, axis, keep, kind):
    x = make(X, kind)
    data = show(x)
    tolerance = 2.0 ** -(kind.fp_mantissa_width - 1)
    for name in ("sum", "max", "min"):
        got = getattr(tl, name)(x, axis=axis, keep_dims=keep)
        expected = getattr(np, name)(data, axis=axis, keepdims=keep)
        wide = name != "sum" and kind.primitive_bitwidth < 32
        assert got.dtype == (t.float32 if wide else kind) and got.shape == np.shape(expected)
        np.testing.assert_allclose(show(got), expected, rtol=tolerance, atol=tolerance)
    if axis is not None:
        np.testing.assert_array_equal(
            show(tl.argmax(x, axis, keep_dims=keep)), data.argmax(axis, keepdims=keep)
        )
    value, index = tl.min(x, axis, return_indices=True, keep_dims=keep)
    np.testing.assert_array_equal(show(index), data.argmin(axis, keepdims=keep))
    np.testing.assert_array_equal(show(value), data.min(axis, keepdims=keep))
    assert value.dtype == (t.float32 if kind == t.bfloat16 else kind)


def test_bf16_is_compared_and_scanned_in_fp32(make, show):
    """As in Triton 3.6 and 3.7: what follows a maximum is not rounded to bf16."""
    x = make(X, t.bfloat16)
    scaled = tl.maximum(tl.max(tl.abs(x), 1), 1e-4) * (1 / 448)
    np.testing.assert_allclose(show(scaled), np.abs(show(x)).max(1) / 448, rtol=1e-6)
    for got in (tl.maximum(x, 0.1), tl.minimum(x, x), tl.clamp(x, -1, 1), tl.cumsum(x, 0)):
        assert got.dtype == t.float32


def test_numbers_have_their_own_type_in_extremes(make):
    """As in Triton, where `tl.maximum` and others take Python numbers for int32, fp32 and so on."""
    half, byte = make(X, t.float16), make(X, t.uint8)
    for got in (tl.maximum(half, 0.1), tl.clamp(half, 0.0, 1.0), tl.fma(half, 0.5, half)):
        assert got.dtype == t.float32
    assert tl.minimum(half, 1).dtype == t.float16
    assert tl.maximum(byte, -1).dtype == t.int32 and int(tl.max(tl.minimum(byte, -1))) == -1
    assert tl.minimum(byte, 1 << 31).dtype == t.uint32
    assert tl.umulhi(make(X, t.int32), 0xCCCCCCCD).dtype == t.uint32


@pytest.mark.parametrize("kind", [t.float16, t.bfloat16, t.float32, t.float64])
def test_numbers_are_not_rounded_to_the_tensor_they_are_compared_with(make, show, kind):
    """0.1 is that of fp32, in fp64 that of Python."""
    x = make([0.1, 0.5], kind)
    tenth = 0.1 if kind == t.float64 else float(np.float32(0.1))
    assert list(show(x < 0.1)) == [show(x)[0] < tenth, False]
    assert list(show(x >= 0.1)) == [show(x)[0] >= tenth, True]
    assert list(show(x == 0.5)) == [False, True]
    zero = make([0.0], kind)
    assert not show(zero >= 1e-50).any() and not show(zero == 1e-320).any()


def test_numbers_beyond_the_integer_they_are_compared_with(make, show):
    byte = make([0, 255], t.uint8)
    assert list(show(byte < 300)) == [True, True]
    assert list(show(byte == -1)) == [False, False]
    assert list(show(make([-1, 1], t.int8) > -1000)) == [True, True]
    assert list(show(make([2**32 - 1], t.uint32) == -1)) == [True]  # both become uint32
    assert list(show(make([5], t.int32) < 1 << 40)) == [True]


def test_integer_reductions(make, show):
    small = make(np.full(16, 100), t.int8)
    assert tl.sum(small, 0).dtype == t.int32 and int(tl.sum(small, 0)) == 1600
    assert tl.sum(make([200, 200], t.uint8)).dtype == t.uint32
    assert int(tl.sum(make([True, True], t.int1))) == 2
    assert show(tl.max(make(np.array([2**63, 1], np.uint64), t.uint64), 0)) == 2**63
    assert int(tl.xor_sum(make([5, 3], t.int32))) == 6
    assert int(tl.reduce_or(make([5, 2], t.int32))) == 7
    assert int(tl.argmax(make([1, 3, 3], t.int32), 0)) == 1
    assert tl.sum(small, 0, dtype=tl.int64).dtype == t.int64


@KernelFunction
def _weighted(v1, w1, v2, w2):
    return v1 * w2 + v2 * w1, w1 * w2


@KernelFunction
def _first_order(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2


def test_user_combine_functions(make, show):
    v, w = make(X, t.float64), make(X * 0 + 2, t.float64)
    total, weight = tl.reduce((v, w), 1, _weighted)
    np.testing.assert_allclose(show(total) / show(weight), X.sum(1) / 2, rtol=1e-12)
    assert np.array_equal(show(tl.reduce(v, 0, tl.maximum)), X.max(0))
    decay = np.full((4, 8), 0.5)
    _, got = tl.associative_scan((make(decay, t.float64), v), 1, _first_order)
    state, expected = np.zeros(4), []
    for j in range(8):
        state = state * 0.5 + X[:, j]
        expected.append(state)
    np.testing.assert_allclose(show(got), np.stack(expected, 1))
    with pytest.raises(KernelTypeError, match="returned 2 values instead of 1"):
        tl.reduce(v, 0, lambda a, b: (a, b))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
def test_scans(make, show, axis, reverse):
    x = make(X, t.float64)
    flip = (lambda a: np.flip(a, axis)) if reverse else (lambda a: a)
    np.testing.assert_allclose(
        show(tl.cumsum(x, axis, reverse)), flip(np.cumsum(flip(X), axis)), rtol=1e-12
    )
    np.testing.assert_allclose(
        show(tl.cumprod(x, axis, reverse)), flip(np.cumprod(flip(X), axis)), rtol=1e-12
    )


@pytest.mark.parametrize(
    ("kind", "result"),
    [(t.float8e5, t.float32), (t.float16, t.float32), (t.bfloat16, t.float32),
     (t.float32, t.float32), (t.float64, t.float64), (t.int8, t.int32), (t.uint8, t.int32)],
)  # fmt: skip
@pytest.mark.parametrize("batch", [(), (2,), (2, 2)])
def test_dot(make, show, kind, result, batch):
    rng = np.random.default_rng(1)
    a, b = (
        make(
            rng.integers(0 if kind is t.uint8 else -8, 250 if kind is t.uint8 else 8, (*batch, *s)),
            kind,
        )
        for s in ((4, 16), (16, 8))
    )
    got = tl.dot(a, b)
    assert got.dtype == result
    expected = show(a).astype(np.float64) @ show(b).astype(np.float64)
    np.testing.assert_allclose(show(got), expected)
    acc = tl.full(got.shape, 3, result)
    np.testing.assert_allclose(show(tl.dot(a, b, acc)), expected + 3)
    np.testing.assert_allclose(show(tl.dot(a, b, acc=acc, input_precision="ieee")), expected + 3)


def test_dot_errors(make):
    a, b = make(np.ones((4, 8)), t.float16), make(np.ones((4, 8)), t.float16)
    with pytest.raises(KernelTypeError, match=r"fp16\[4, 8\] and fp16\[4, 8\].*8 and 4"):
        tl.dot(a, b)
    with pytest.raises(KernelTypeError, match="element types differ"):
        tl.dot(a, b.T.to(tl.float32))
    with pytest.raises(KernelTypeError, match="acc is fp32"):
        tl.dot(a, b.T, tl.zeros((8, 8), tl.float32))
    assert tl.dot(a, b.T, out_dtype=tl.float16).dtype == t.float16
    with pytest.raises(KernelTypeError, match="exclude each other"):
        tl.dot(a, b.T, input_precision="ieee", allow_tf32=True)
    with pytest.raises(KernelTypeError, match="two tiles of equal rank"):
        tl.dot(a, tl.zeros((8,), tl.float16))


@pytest.mark.parametrize("kind", [t.float8e4nv, t.float16, t.bfloat16, t.float32, t.float64])
def test_functions(make, show, kind):
    x = make(abs(X) + 0.5, kind)
    data = show(x)
    tolerance = 2.0**-kind.fp_mantissa_width if kind.primitive_bitwidth < 32 else 1e-6
    cases = {
        "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "sin": np.sin,
        "cos": np.cos, "sqrt": np.sqrt, "tanh": np.tanh, "floor": np.floor, "ceil": np.ceil,
        "abs": np.abs, "rsqrt": lambda v: 1 / np.sqrt(v), "erf": np.vectorize(math.erf),
        "sigmoid": lambda v: 1 / (1 + np.exp(-v)),
    }  # fmt: skip
    for name, function in cases.items():
        got = getattr(tl, name)(x)
        assert got.dtype == kind, name
        np.testing.assert_allclose(
            show(got), function(data), rtol=tolerance, atol=1e-3, err_msg=name
        )


def test_more_functions(make, show):
    x, y = make(X, t.float32), make(X[::-1].copy(), t.float32)
    a, b = show(x), show(y)
    np.testing.assert_allclose(show(tl.fma(x, y, 2)), a * b + 2, rtol=1e-6)
    np.testing.assert_allclose(show(tl.fdiv(x, y)), a / b, rtol=1e-6)
    np.testing.assert_allclose(show(tl.clamp(x, -0.5, 0.5)), a.clip(-0.5, 0.5), rtol=1e-6)
    soft = np.exp(a - a.max(1, keepdims=True))
    np.testing.assert_allclose(show(tl.softmax(x, 1)), soft / soft.sum(1, keepdims=True), rtol=1e-5)
    nan = make([np.nan, 1.0], t.float32)
    assert show(tl.maximum(nan, 0.5)).tolist() == [0.5, 1.0]
    assert np.isnan(show(tl.maximum(nan, 0.5, tl.PropagateNan.ALL))[0])
    np.testing.assert_allclose(show(tl.libdevice.asin(x * 0.1)), np.arcsin(a * 0.1), rtol=1e-5)
    np.testing.assert_allclose(show(tl.math.pow(abs(x), y)), abs(a) ** b, rtol=1e-5)
    assert show(tl.libdevice.isnan(nan)).tolist() == [True, False]
    assert tl.libdevice.llrint(x).dtype == t.int64
    np.testing.assert_allclose(show(tl.libdevice.cospi(x)), np.cos(np.pi * a), atol=1e-6)
    assert show(tl.libdevice.signbit(make([-0.0, 0.0], t.float32))).tolist() == [True, False]
    assert tl.exp(0.0).dtype == t.float32 and int(tl.cdiv(tl.num_programs(0), 3)) == 3


def test_histogram_and_gather(make, show):
    x = make([0, 1, 1, 3], t.int32)
    assert show(tl.histogram(x, 4)).tolist() == [1, 2, 0, 1]
    assert show(tl.histogram(x, 4, mask=x != 1)).tolist() == [1, 0, 0, 1]
    index = make([[1, 0], [0, 0]], t.int32)
    assert show(tl.gather(make([[1, 2], [3, 4]], t.int32), index, 0)).tolist() == [[3, 2], [1, 2]]


def test_debugging(sem, make, capsys):
    x = make([1, 0], t.int32)
    with pytest.raises(AssertionError, match="message"):
        tl.device_assert(x > 0, "message")
    tl.device_assert(x > 0, "message", mask=x > 0)
    tl.device_print("x", x, 1.5)
    assert sem.builder.printed == {"prefix": "x", "hex": False, "signed": (True, False)}
    tl.static_print("shape", x.shape)
    assert capsys.readouterr().out == "shape (2,)\n"
    assert tl.multiple_of(x, 2).type == x.type and tl.max_contiguous(x, [4]).type == x.type


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("shape", [(1,), (2,), (16,), (4, 8), (2, 2, 4)])
def test_sort(make, show, shape, descending):
    data = np.random.default_rng(2).integers(-50, 50, shape)
    got = show(tl.sort(make(data, t.int32), descending=descending))
    expected = np.sort(data, -1)
    np.testing.assert_array_equal(got, expected[..., ::-1] if descending else expected)
    if shape[-1] >= 4:
        np.testing.assert_array_equal(
            show(tl.topk(make(data, t.int32), 2)), np.sort(data, -1)[..., ::-1][..., :2]
        )


def test_philox_known_answer(make, show):
    """The first vectors of Random123's `kat_vectors` for philox4x32-10."""
    zero = make([0], t.uint32)
    got = [show(v)[0] for v in tl.philox_impl(zero, zero, zero, zero, zero, zero, 10)]
    assert got == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    ones = make([2**32 - 1], t.uint32)
    got = [show(v)[0] for v in tl.philox_impl(ones, ones, ones, ones, ones, ones, 10)]
    assert got == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]


def test_philox_64(make, show):
    zero = make([0], t.uint64)
    got = [show(v)[0] for v in tl.philox_impl(zero, zero, zero, zero, zero, zero, 10)]
    assert got == [0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B]


def test_random(make, show):
    offsets = tl.arange(0, 1024)
    uniform = show(tl.rand(7, offsets))
    assert uniform.min() >= 0 and uniform.max() < 1 and abs(uniform.mean() - 0.5) < 0.03
    normal = show(tl.randn(7, offsets))
    assert abs(normal.mean()) < 0.1 and abs(normal.std() - 1) < 0.1
    assert tl.randint(7, offsets).dtype == t.uint32
    assert not np.array_equal(uniform, show(tl.rand(8, offsets)))
    assert show(tl.rand(7, offsets.to(tl.int64))).tolist() == uniform.tolist()


def test_swizzle2d(make):
    seen = set()
    for i in range(5):
        for j in range(3):
            a, b = tl.swizzle2d(make(i, t.int32), make(j, t.int32), 5, 3, 2)
            seen.add((int(a), int(b)))
    assert seen == {(i, j) for i in range(5) for j in range(3)}
