"""Result types of operators on every pair of element types, and the values in those types."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl

TYPES = {
    "int1": np.dtype(bool), "int8": np.dtype("i1"), "int16": np.dtype("i2"),
    "int32": np.dtype("i4"), "int64": np.dtype("i8"), "uint8": np.dtype("u1"),
    "uint16": np.dtype("u2"), "uint32": np.dtype("u4"), "uint64": np.dtype("u8"),
    "float8e5": np.dtype(ml_dtypes.float8_e5m2), "float8e4nv": np.dtype(ml_dtypes.float8_e4m3fn),
    "float16": np.dtype("f2"), "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float32": np.dtype("f4"), "float64": np.dtype("f8"),
}  # fmt: skip
FLOATS = [n for n in TYPES if "float" in n]
N = 16


def expected(a: str, b: str, divides: bool = False) -> str:
    """The published promotion rules, written down once more."""
    if a in FLOATS or b in FLOATS:
        floats = [n for n in (a, b) if n in FLOATS]
        if "float64" in floats:
            return "float64"
        if "float32" in floats or divides:
            return "float32"
        if "float16" in floats:
            return "float16"
        if "bfloat16" in floats:
            return "bfloat16" if a == b else "float32"
        return floats[0] if len(set(floats)) == 1 else "float16"
    width = {n: 1 if n == "int1" else int(n.split("int")[1]) for n in (a, b)}
    if width[a] != width[b]:
        return a if width[a] > width[b] else b
    return a if a.startswith("u") else b


@tw.jit
def sum_kernel(x_ptr, y_ptr, o_ptr, want: tl.constexpr, largest: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    y = tl.load(y_ptr + i)
    z = x + y
    tl.static_assert(z.dtype == want, "type of the sum")
    tl.static_assert((y - x).dtype == want, "type of the difference")
    tl.static_assert((x < y).dtype == tl.int1, "type of a comparison")
    tl.static_assert(tl.where(x == y, x, y).dtype == want, "type of a choice")
    tl.static_assert(tl.maximum(x, y).dtype == largest, "type of a maximum")
    tl.store(o_ptr + i, z)


def small_values(dtype: np.dtype, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2 if dtype.kind == "b" else 8, N).astype(dtype)


@pytest.mark.parametrize("a", TYPES)
def test_sums(a: str) -> None:
    for b in list(TYPES)[list(TYPES).index(a) :]:
        want = expected(a, b)
        x, y = small_values(TYPES[a], 1), small_values(TYPES[b], 2)
        o = np.zeros(N, TYPES[want])
        compared = ("float32" if kind == "bfloat16" else kind for kind in (a, b))
        largest = getattr(tl, expected(*compared))  # bf16 is compared in fp32
        sum_kernel[(1,)](x, y, o, want=getattr(tl, want), largest=largest, N=N)
        exact = x.astype(np.float64) + y.astype(np.float64)
        exact = (exact % 2 if want == "int1" else exact).astype(TYPES[want])
        np.testing.assert_array_equal(o, exact, err_msg=f"{a} + {b}")


@tw.jit
def quotient_kernel(x_ptr, y_ptr, o_ptr, want: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    y = tl.load(y_ptr + i)
    z = x / y
    tl.static_assert(z.dtype == want, "type of the quotient")
    tl.store(o_ptr + i, z)


def test_true_division() -> None:
    picks = ["int1", "int8", "uint64", "float8e5", "bfloat16", "float64"]
    for a, b in itertools.combinations_with_replacement(picks, 2):
        if {a, b} == {"int8", "uint64"}:  # an error, as in Triton
            continue
        want = expected(a, b, True)
        want = want if want in FLOATS else "float32"
        x, y = small_values(TYPES[a], 1), small_values(TYPES[b], 2)
        y[y.astype(float) == 0] = 1
        o = np.zeros(N, TYPES[want])
        quotient_kernel[(1,)](x, y, o, want=getattr(tl, want), N=N)
        with np.errstate(all="ignore"):
            exact = (x.astype(TYPES[want]) / y.astype(TYPES[want])).astype(TYPES[want])
        np.testing.assert_array_equal(o, exact, err_msg=f"{a} / {b}")


@tw.jit
def numbers_kernel(b_ptr, u_ptr, h_ptr, f_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    b = tl.load(b_ptr + i)  # bool
    u = tl.load(u_ptr + i)  # uint8
    h = tl.load(h_ptr + i)  # fp16
    f = tl.load(f_ptr + i)  # fp32
    tl.static_assert((u + 3).dtype == tl.uint8)
    tl.static_assert((u * 1.5).dtype == tl.float32)
    tl.static_assert((u + 1e300).dtype == tl.float64)
    tl.static_assert((h + 1e300).dtype == tl.float16)
    tl.static_assert((h / 3).dtype == tl.float32)
    tl.static_assert((h % 3).dtype == tl.float32)
    tl.static_assert((f * 2).dtype == tl.float32)
    tl.static_assert((b + 1).dtype == tl.int32)
    tl.static_assert((b + 0x80000000).dtype == tl.uint32)
    tl.static_assert((b + 0x100000000).dtype == tl.int64)
    tl.static_assert((b * 0xFFFFFFFFFFFFFFFF).dtype == tl.uint64)
    tl.static_assert((u // 3).dtype == tl.uint8)
    tl.static_assert((u << 1).dtype == tl.uint8)
    tl.static_assert((i * 2).dtype == tl.int32)
    tl.static_assert((-7) // 2 == -4, "Python's floor for two constants")
    tl.store(o_ptr + 0 * N + i, u + 3)
    tl.store(o_ptr + 1 * N + i, u * 1.5)
    tl.store(o_ptr + 2 * N + i, b + 1)
    tl.store(o_ptr + 3 * N + i, b + 0x80000000)
    tl.store(o_ptr + 4 * N + i, h % 3)
    tl.store(o_ptr + 5 * N + i, 10 - u)
    tl.store(o_ptr + 6 * N + i, (i - 8) // 3)
    tl.store(o_ptr + 7 * N + i, (i - 8) % 3)
    tl.store(o_ptr + 8 * N + i, 100 // (i + 1))
    tl.store(o_ptr + 9 * N + i, 2.0 / (i + 1))


def test_python_numbers() -> None:
    b, u = small_values(TYPES["int1"], 1), np.arange(250, 250 + N).astype(np.uint8)
    h, f = np.linspace(-9, 9, N).astype(np.float16), np.ones(N, np.float32)
    o = np.zeros((10, N), np.float64)
    numbers_kernel[(1,)](b, u, h, f, o, N=N)
    i = np.arange(N)
    want = [
        u + np.uint8(3), u * 1.5, b + 1, b + float(0x80000000),
        np.fmod(h.astype(np.float32), 3), np.uint8(10) - u, np.trunc((i - 8) / 3),
        np.fmod(i - 8, 3), 100 // (i + 1), np.float32(2) / (i + 1).astype(np.float32),
    ]  # fmt: skip
    for at, row in enumerate(want):
        np.testing.assert_array_equal(o[at], row, err_msg=f"row {at}")


@tw.jit
def scalars_kernel(o_ptr, small, negative, wide, huge, flag, real):
    tl.static_assert(small.dtype == tl.int32)
    tl.static_assert(negative.dtype == tl.int32)
    tl.static_assert(wide.dtype == tl.int64)
    tl.static_assert(huge.dtype == tl.uint64)
    tl.static_assert(flag.dtype == tl.int1)
    tl.static_assert(real.dtype == tl.float32)
    tl.store(o_ptr + 0, small + negative)
    tl.store(o_ptr + 1, wide)
    tl.store(o_ptr + 2, huge // 1024)
    tl.store(o_ptr + 3, flag)
    tl.store(o_ptr + 4, real)
    tl.store(o_ptr + 5, negative // 2)
    tl.store(o_ptr + 6, small * 1000000)


def test_scalar_arguments() -> None:
    o = np.zeros(7, np.float64)
    scalars_kernel[(1,)](o, 5000, -7, 2**40, 2**64 - 2048, True, 0.1)
    wrapped = np.int64(5000 * 1000000).astype(np.int32)
    want = [4993, 2**40, 2**54 - 2, 1, np.float32(0.1), -3, wrapped]
    np.testing.assert_array_equal(o, np.array(want, np.float64))


@tw.jit
def offset_kernel(x_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    narrow = i.to(tl.uint8) + 240  # 240 … 255
    tl.store(o_ptr + i, tl.load(x_ptr + narrow))
    back = i.to(tl.int8) - 16
    tl.store(o_ptr + N + i, tl.load(x_ptr + 16 + back))
    wide = i.to(tl.int64) * 3
    tl.store(o_ptr + 2 * N + i, tl.load(x_ptr + wide))
    tl.store(o_ptr + 3 * N + i, tl.load(x_ptr + 255 - i))


def test_offset_types() -> None:
    x = np.arange(256, dtype=np.float32)
    o = np.zeros((4, N), np.float32)
    offset_kernel[(1,)](x, o, N=N)
    i = np.arange(N)
    np.testing.assert_array_equal(o, [240 + i, i, 3 * i, 255 - i])
