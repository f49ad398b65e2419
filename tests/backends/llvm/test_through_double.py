"""fp32 functions that are computed in fp64: errors in ulp, special values, widths of vectors."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.language import libdevice

N = 4096
SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 1e-45, -1e-45, 1e-40, 3e38, -3e38, 0.5, -0.5, 2.0,
           -2.0, 3.0, -3.0, 1.5, -1.5, 1e10, -1e10, 2.0**24, 2.0**24 - 1, -(2.0**23) - 1, 0.9999999, 1.0000001,
           104.0, -104.0, 88.72284, 7e-8, -7e-8]  # fmt: skip


def log_gamma(x: float) -> float:
    """math.lgamma, which rejects the poles."""
    return math.inf if (x <= 0 and x % 1 == 0) or math.isinf(x) else math.lgamma(x)


UNARY = {
    "log1p": np.log1p, "log10": np.log10, "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "atan": np.arctan, "asin": np.arcsin, "acos": np.arccos,
    "tan": np.tan, "exp10": lambda x: np.float64(10) ** x, "erfc": np.vectorize(math.erfc),
    "lgamma": np.vectorize(log_gamma),
}  # fmt: skip
BINARY = {"pow": np.power, "atan2": np.arctan2, "fmod": np.fmod, "hypot": np.hypot}


@tw.jit
def unary_kernel(x_ptr, o_ptr, f: tl.constexpr, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(o_ptr + i, f(tl.load(x_ptr + i)))


@tw.jit
def binary_kernel(x_ptr, y_ptr, o_ptr, f: tl.constexpr, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(o_ptr + i, f(tl.load(x_ptr + i), tl.load(y_ptr + i)))


def numbers(seed: int, reach: float) -> np.ndarray:
    """Numbers of all sizes, near 1, and evenly spread."""
    rng = np.random.default_rng(seed)
    wide = rng.standard_normal(N // 2) * np.exp2(rng.uniform(-126, 126, N // 2))
    even = rng.uniform(-reach, reach, N // 4)
    close = 1 + rng.standard_normal(N // 8) * np.exp2(rng.uniform(-24, 0, N // 8))
    return rng.permutation(np.concatenate([wide, even, close, -close])).astype(np.float32)


def error(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """|got - want| in units in the last place; infinite where NaN or infinities differ."""
    with np.errstate(all="ignore"):
        rounded = want.astype(np.float32)
        units = abs(got - want) / np.spacing(np.maximum(abs(rounded), np.float32(2.0**-126)))
        special = ~np.isfinite(got) | ~np.isfinite(rounded)
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
        zeros = (rounded != 0) | (np.signbit(got) == np.signbit(rounded))
    return np.where(special, np.where(same, 0.0, np.inf), np.where(zeros, units, np.inf))


def check(f: str, got: np.ndarray, reference: Any, *given: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        found = error(got, reference(*(v.astype(np.float64) for v in given)))
    at = int(np.argmax(found))
    assert found[at] <= 0.51, (f, [v[at] for v in given], got[at])


@pytest.mark.parametrize("f", UNARY)
@pytest.mark.parametrize("width", [1, 4, 512])
def test_unary(f: str, width: int) -> None:
    x = np.concatenate([numbers(1, 90.0), numbers(2, 1.0)])
    x[: len(SPECIAL)] = SPECIAL
    x = x[:64] if width == 1 else x
    got = np.zeros_like(x)
    unary_kernel[(len(x) // width,)](x, got, getattr(libdevice, f), N=width)
    if f == "tan":  # beyond, it is the library's
        keep = ~(abs(x) >= 30000)
        x, got = x[keep], got[keep]
    if f == "lgamma":  # near zeros of negative arguments the terms cancel
        keep = ~((x < 0) & (abs(UNARY[f](x.astype(np.float64))) < 0.5))
        x, got = x[keep], got[keep]
    check(f, got, UNARY[f], x)


def test_lgamma_near_its_negative_zeros() -> None:
    x = np.linspace(-8, -2, 4096, dtype=np.float32)
    got, want = np.zeros_like(x), UNARY["lgamma"](x.astype(np.float64))
    unary_kernel[(8,)](x, got, libdevice.lgamma, N=512)
    near = abs(want) < 0.5
    assert near.sum() > 100
    np.testing.assert_allclose(got[near], want[near], rtol=6e-8, atol=3e-10)


def test_lgamma_near_1_and_2() -> None:
    steps = np.exp2(np.linspace(-24, -2, 1024))
    x = np.concatenate([1 + steps, 1 - steps, 2 + steps, 2 - steps]).astype(np.float32)
    got = np.zeros_like(x)
    unary_kernel[(8,)](x, got, libdevice.lgamma, N=512)
    check("lgamma", got, UNARY["lgamma"], x)


@pytest.mark.parametrize("f", BINARY)
@pytest.mark.parametrize("width", [4, 512])
def test_binary(f: str, width: int) -> None:
    pairs = np.array(list(itertools.product(SPECIAL, SPECIAL)), np.float32).T
    x = np.concatenate([pairs[0], numbers(3, 50.0), abs(numbers(4, 2.0))])
    y = np.concatenate([pairs[1], numbers(5, 50.0), np.round(numbers(6, 30.0))])
    x, y = (np.ascontiguousarray(np.resize(v, 10240)) for v in (x, y))
    got = np.zeros_like(x)
    binary_kernel[(len(x) // width,)](x, y, got, getattr(libdevice, f), N=width)
    check(f, got, BINARY[f], x, y)


def test_remainders_of_close_quotients() -> None:
    """Where the quotient in fp64 is next to an integer."""
    rng = np.random.default_rng(7)
    y = rng.uniform(1, 2, 8192).astype(np.float32)
    n = np.floor(np.exp2(rng.uniform(0, 30, 8192)))
    x = np.nextafter(
        (n * y).astype(np.float32), np.float32(0) if rng.random() < 0.5 else np.float32(np.inf)
    )
    got = np.zeros_like(x)
    binary_kernel[(16,)](x, y, got, libdevice.fmod, N=512)
    np.testing.assert_array_equal(got, np.fmod(x, y))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 4, 512])
def test_nextafter(dtype: type, width: int) -> None:
    pairs = np.array(list(itertools.product(SPECIAL, SPECIAL)), dtype).T
    x, y = (np.ascontiguousarray(v[:1024]) for v in pairs)
    x, y = (x[:64], y[:64]) if width == 1 else (x, y)
    got = np.zeros_like(x)
    binary_kernel[(len(x) // width,)](x, y, got, libdevice.nextafter, N=width)
    np.testing.assert_array_equal(got, np.nextafter(x, y))
    zeros = got == 0
    np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(np.nextafter(x, y)[zeros]))
