"""Promotion, operators, conversions: values against NumPy, types against the rules."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright.language as tl
from tilewright import dtypes as t
from tilewright.errors import KernelTypeError
from tilewright.semantics.promotion import literal_type, promote

A = [-7, -2, 3, 100]
B = [2, -5, 4, 7]


@pytest.mark.parametrize(
    ("a", "b", "divides", "expected"),
    [
        (t.int1, t.int8, False, t.int8),
        (t.int8, t.uint8, False, t.uint8),
        (t.int16, t.uint8, False, t.int16),
        (t.int32, t.uint64, False, t.uint64),
        (t.float16, t.bfloat16, False, t.float16),
        (t.bfloat16, t.float32, False, t.float32),
        (t.bfloat16, t.bfloat16, False, t.bfloat16),
        (t.bfloat16, t.bfloat16, True, t.float32),
        (t.float8e5, t.float8e4nv, False, t.float16),
        (t.float8e5, t.float8e5, False, t.float8e5),
        (t.float16, t.int64, False, t.float16),
        (t.float64, t.float8e5, False, t.float64),
    ],
)
def test_promotion_table(a, b, divides, expected):
    assert promote(a, b, divides) == promote(b, a, divides) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(True, t.int1), (5, t.int32), (-(2**31), t.int32), (2**31, t.uint32), (2**32, t.int64),
     (2**63, t.uint64), (1.5, t.float32), (1e-40, t.float64), (1e39, t.float64),
     (float("inf"), t.float32), (0.0, t.float32)],
)  # fmt: skip
def test_literals(value, expected):
    assert literal_type(value) == expected


def test_literal_beyond_64_bits():
    with pytest.raises(KernelTypeError, match="does not fit"):
        literal_type(2**64)


@pytest.mark.parametrize("kind", [t.int8, t.int16, t.int32, t.int64])
@pytest.mark.parametrize("symbol", ["+", "-", "*", "&", "|", "^", "//", "%", "<", ">=", "=="])
def test_signed_integers(make, show, kind, symbol):
    a, b = make(A, kind), make(B, kind)
    x, y = (v.handle for v in (a, b))
    expected = {
        "+": lambda: x + y, "-": lambda: x - y, "*": lambda: x * y, "&": lambda: x & y,
        "|": lambda: x | y, "^": lambda: x ^ y, "//": lambda: np.trunc(x / y).astype(x.dtype),
        "%": lambda: np.fmod(x, y), "<": lambda: x < y, ">=": lambda: x >= y, "==": lambda: x == y,
    }[symbol]()  # fmt: skip
    result = a.semantics.binary(symbol, a, b)
    np.testing.assert_array_equal(show(result), expected)
    assert result.dtype == (kind if symbol not in ("<", ">=", "==") else t.int1)


@pytest.mark.parametrize("kind", [t.uint8, t.uint16, t.uint32, t.uint64])
def test_unsigned_integers(make, show, kind):
    big = 2**kind.primitive_bitwidth - 3
    a, b = make(np.array([big, 5], np.uint64), kind), make([3, 2], kind)
    np.testing.assert_array_equal(show(a // b), [big // 3, 2])
    np.testing.assert_array_equal(show(a % b), [big % 3, 1])
    np.testing.assert_array_equal(show(a >> 1), [big >> 1, 2])
    np.testing.assert_array_equal(show(a > b), [True, True])
    np.testing.assert_array_equal(show(tl.maximum(a, b)), [big, 5])
    np.testing.assert_allclose(show(a.to(tl.float64)), [big, 5], rtol=1e-7)
    assert (a + 3).dtype == kind


@pytest.mark.parametrize(
    "kind", [t.float8e4nv, t.float8e5, t.float16, t.bfloat16, t.float32, t.float64]
)
def test_floats(make, show, kind):
    a, b = make([-7.0, 1.5, 3.0, 0.25], kind), make([2.0, -0.5, 4.0, 0.25], kind)
    x, y = show(a), show(b)
    for symbol, expected in (("+", x + y), ("-", x - y), ("*", x * y)):
        result = a.semantics.binary(symbol, a, b)
        assert result.dtype == kind
        np.testing.assert_allclose(show(result), expected, rtol=2.0**-kind.fp_mantissa_width)
    quotient = a / b
    assert quotient.dtype == (kind if kind.primitive_bitwidth >= 32 else t.float32)
    np.testing.assert_allclose(show(quotient), x / y, rtol=1e-6)
    np.testing.assert_array_equal(show(a % b), np.fmod(x, y))
    np.testing.assert_array_equal(show(a < b), x < y)
    np.testing.assert_array_equal(show(a != b), x != y)
    np.testing.assert_array_equal(show(-a), -x)


def test_nan_comparisons(make, show):
    a = make([np.nan, 1.0], t.float32)
    assert show(a == a).tolist() == [False, True]
    assert show(a != a).tolist() == [True, False]
    assert show(a < 2).tolist() == [False, True]


def test_numbers_take_the_tensors_type(make):
    assert (make([1, 2], t.uint8) + 3).dtype == t.uint8
    assert (3 - make([1, 2], t.int8)).dtype == t.int8
    assert (make([1, 2], t.float16) * 2).dtype == t.float16
    assert (make([1, 2], t.float16) * 2.5).dtype == t.float16
    assert (make([1, 2], t.bfloat16) / 2).dtype == t.float32
    assert (make([1, 2], t.int32) * 0.5).dtype == t.float32
    assert (make([1, 2], t.int64) + 1e300).dtype == t.float64
    assert (make([1, 2], t.int64) / 2).dtype == t.float32
    assert (make([1, 0], t.int1) + 1).dtype == t.int32
    assert (tl.constexpr(2) * make([1, 2], t.float32)).dtype == t.float32
    assert (make(1.0, t.float32) * make([1, 2], t.float16)).dtype == t.float32


def test_constants_fold_as_python(sem):
    assert sem.binary("//", -7, 2) == -4
    folded = sem.binary("%", tl.constexpr(-7), 2)
    assert isinstance(folded, tl.constexpr) and folded.value == 1
    assert sem.unary("-", tl.constexpr(3)).value == -3
    assert sem.cdiv(tl.constexpr(7), 2).value == 4
    assert sem.python_max(3, 5) == 5 and sem.python_min([4, 2]) == 2


def test_out_of_range_numbers(make):
    with pytest.raises(KernelTypeError, match=r"300 is out of range for u8"):
        make([1], t.uint8) + 300
    with pytest.raises(KernelTypeError, match=r"-1 is out of range for u32"):
        make([1], t.uint32) + -1


def test_mixed_signs_do_not_divide(make):
    with pytest.raises(KernelTypeError, match="because they have different signedness"):
        make([1], t.uint32) // make([1], t.int32)
    with pytest.raises(KernelTypeError, match=r"Cannot use / with u32.* and i64"):
        make([1], t.uint32) / make([1], t.int64)


def test_broadcasting(make, show):
    a, b = make(np.arange(4), t.int32), make(np.arange(8), t.int32)
    np.testing.assert_array_equal(show(a[:, None] * b), np.outer(np.arange(4), np.arange(8)))
    np.testing.assert_array_equal(show(a[:, None] + b[None, :]), np.add.outer(a.handle, b.handle))
    with pytest.raises(KernelTypeError, match=r"i32\[4\] and i32\[8\].*4 and 8"):
        a + b


def test_pointer_arithmetic(sem, make, show):
    pointer = sem.tensor(np.array(1000, np.int64), t.pointer_type(t.float32))
    np.testing.assert_array_equal(show(pointer + make([0, 1, -2], t.int32)), [1000, 1004, 992])
    np.testing.assert_array_equal(show(make([1], t.int8) + pointer), [1004])
    np.testing.assert_array_equal(show(pointer - make([1, 2], t.int64)), [996, 992])
    far = make([2**32 - 1], t.uint32)  # an unsigned offset does not become -1
    np.testing.assert_array_equal(show(pointer + far), [1000 + 4 * (2**32 - 1)])
    np.testing.assert_array_equal(show((pointer + make([3], t.int32)) - pointer), [3])
    np.testing.assert_array_equal(show(pointer + make([0, 1], t.int32) == pointer), [True, False])
    for bad in (lambda: pointer * 2, lambda: pointer + 1.5, lambda: pointer + pointer):
        with pytest.raises(KernelTypeError, match="pointer<fp32>"):
            bad()


@pytest.mark.parametrize("source", t.ALL_SCALARS, ids=str)
@pytest.mark.parametrize("target", t.ALL_SCALARS, ids=str)
def test_every_conversion(make, show, source, target):
    values = [0, 1, 3, 0] if not source.is_bool() else [0, 1, 1, 0]
    x = make(values, source)
    result = x.to(target)
    assert result.dtype == target and result.shape == (4,)
    expected = np.array(values) != 0 if target.is_bool() else np.array(values)
    np.testing.assert_array_equal(show(result), expected)


def test_conversion_details(make, show):
    assert show(make([-1.9, 1.9], t.float32).to(tl.int32)).tolist() == [-1, 1]
    assert show(make([-1], t.int8).to(tl.uint32)).tolist() == [2**32 - 1]
    assert show(make([255], t.uint8).to(tl.int32)).tolist() == [255]
    assert show(make([0.1], t.float32).to(tl.float16, "rtz"))[0] < 0.1
    assert show(make([1.0], t.float32).to(tl.int32, bitcast=True)).tolist() == [0x3F800000]
    with pytest.raises(KernelTypeError, match="bitcast from fp32"):
        make([1.0], t.float32).to(tl.int64, bitcast=True)
    with pytest.raises(KernelTypeError, match="narrower"):
        make([1.0], t.float16).to(tl.float32, "rtz")


def test_where(make, show):
    x = make([1.0, 2.0, 3.0, 4.0], t.float16)
    result = tl.where(x > 2, x, 0)
    assert result.dtype == t.float16 and show(result).tolist() == [0, 0, 3, 4]
    assert tl.where(x[:, None] > 2, 1.0, x[None, :]).shape == (4, 4)
    assert tl.where(make(1, t.int1), x, -x).shape == (4,)


def test_logic(sem, make, show):
    a, b = make([1, 0, 2, 0], t.int32), make([1, 1, 0, 0], t.int1)
    assert show(sem.logical_and(a, b)).tolist() == [True, False, False, False]
    assert show(sem.logical_or(a, b)).tolist() == [True, True, True, False]
    assert show(sem.logical_not(a)).tolist() == [False, True, False, True]
    assert show(~b).tolist() == [False, False, True, True]
    assert show(~a).tolist() == [-2, -1, -3, -1]
    with pytest.raises(KernelTypeError, match="must be a scalar"):
        sem.condition(a)


def test_power(make, show):
    x = make([1.0, 2.0, 3.0], t.float32)
    np.testing.assert_allclose(show(x**3), [1, 8, 27])
    np.testing.assert_allclose(show(x**0.5), np.sqrt([1, 2, 3]), rtol=1e-6)
    np.testing.assert_allclose(show(2**x), [2, 4, 8])
    assert show(make([2, 3], t.int32) ** 0).tolist() == [1, 1]


def test_errors_name_both_sides(make):
    x = make([1.0], t.float32)
    with pytest.raises(KernelTypeError, match=r"`&` has invalid operands of type fp32\[1\] and"):
        x & 1
    with pytest.raises(KernelTypeError, match="floor division is for integers"):
        x // 2
    with pytest.raises(KernelTypeError, match="not defined for"):
        x + "text"
    with pytest.raises(KernelTypeError, match="cannot be assigned"):
        x[0] = 1.0


def test_python_sees_eager_scalars(make):
    assert int(make(3, t.int32)) == 3 and bool(make(0, t.int32)) is False
    assert list(range(make(3, t.int32))) == [0, 1, 2] and float(make(1.5, t.float32)) == 1.5
    with pytest.raises(KernelTypeError, match="needs a scalar"):
        bool(make([1, 2], t.int32))


def test_constexpr_meets_tensor(make, show):
    x = make([1, 2, 3], t.int32)
    two = tl.constexpr(2)
    for got, expected in (
        (two + x, [3, 4, 5]), (x - two, [-1, 0, 1]), (two == x, [False, True, False]),
        (two != x, [True, False, True]), (two < x, [False, False, True]), (two // x, [2, 1, 0]),
    ):  # fmt: skip
        assert show(got).tolist() == expected


def test_predicates_of_all_types():
    assert not t.pointer_type(t.float16).is_fp16()
    assert t.block_type(t.float16, (4,)).is_fp16()
    assert t.block_type(t.uint8, (4,)).is_int_unsigned()
