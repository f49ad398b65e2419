"""The same kernels for lesser CPUs: features of the host switched off."""

from __future__ import annotations

import math
import platform
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from tests.rounding import rounded

import tilewright as tw
import tilewright.language as tl

pytestmark = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="x86 only")


@pytest.fixture(params=["", "avx512f", "avx2", "avx"])
def fresh(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable:
    """Makes a kernel that is compiled for the host without a feature."""
    monkeypatch.setenv("TILEWRIGHT_CPU_FEATURES_OFF", request.param)
    return lambda kernel: tw.jit(kernel.fn)


@tw.jit
def convert_kernel(x_ptr, y_ptr, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(y_ptr + i, tl.load(x_ptr + i).to(y_ptr.dtype.element_ty))


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float8_e5m2", "float8_e4m3fn"])
def test_every_code_of_narrow_floats(fresh: Callable, kind: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, kind, kind))
    codes = np.arange(1 << (8 * dtype.itemsize)).astype(f"u{dtype.itemsize}").view(dtype)
    single = np.zeros(len(codes), np.float32)
    kernel, grid = fresh(convert_kernel), (len(codes) // 256,)
    kernel[grid](codes, single, N=256)
    with np.errstate(all="ignore"):
        want = codes.astype(np.float32)
    np.testing.assert_array_equal(single, want)
    finite = want[np.isfinite(want)]
    middles = finite / 2 + np.nextafter(finite, np.float32(0)) / 2
    step = np.sort(finite)
    ties = (step[:-1].astype(np.float64) + step[1:]) / 2  # exact in fp32
    for values in (want, middles, ties.astype(np.float32), np.float32([1e9, -1e9, 65519, 65520])):
        padded = np.resize(values, -(-len(values) // 256) * 256).astype(np.float32)
        back = np.zeros(len(padded), dtype)
        kernel[(len(padded) // 256,)](padded, back, N=256)
        np.testing.assert_array_equal(
            back.astype(np.float32), rounded(padded, dtype).astype(np.float32)
        )


@tw.jit
def mixed_kernel(x_ptr, h_ptr, o_ptr, n, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i, mask=i < n, other=0.5)
    h = tl.load(h_ptr + i * 3 % N)
    tl.store(o_ptr + 0 * N + i, tl.exp(x))
    tl.store(o_ptr + 1 * N + i, tl.exp2(x * 20))
    tl.store(o_ptr + 2 * N + i, tl.log(tl.abs(x)))
    tl.store(o_ptr + 3 * N + i, tl.sin(x * 9))
    tl.store(o_ptr + 4 * N + i, tl.erf(x))
    tl.store(o_ptr + 5 * N + i, tl.math.tanh(x))
    tl.store(o_ptr + 6 * N + i, h * h, mask=i < n)
    tl.store(o_ptr + 7 * N + i, tl.cumsum(tl.floor(x)))
    tl.store(o_ptr + 8 * N + i, tl.sum(h) + tl.max(x))
    square = tl.reshape(x, 16, N // 16)
    product = tl.dot(square, square.T)
    tl.store(o_ptr + 9 * N + i, tl.ravel(tl.dot(product, square)))


def test_mixed(fresh: Callable) -> None:
    N, n = 256, 201
    rng = np.random.default_rng(0)
    x, h = rng.uniform(-3, 3, N).astype(np.float32), rng.uniform(-1, 1, N).astype(np.float16)
    o = np.zeros((10, N), np.float32)
    fresh(mixed_kernel)[(1,)](x, h, o, n, N=N)
    i = np.arange(N)
    w = np.where(i < n, x, 0.5).astype(np.float64)
    picked = h[i * 3 % N].astype(np.float32)
    squares = np.where(i < n, (picked * picked).astype(np.float16), 0)
    square = w.reshape(16, -1)
    erf = np.array([math.erf(v) for v in w])
    want = [np.exp(w), np.exp2(w.astype(np.float32) * np.float32(20)), np.log(abs(w)),
            np.sin(w * 9), erf, np.tanh(w), squares, np.floor(w).cumsum(),
            np.full(N, picked.sum() + w.max()), (square @ square.T @ square).ravel()]  # fmt: skip
    for at, row in enumerate(want):
        tolerance = 2e-3 if at == 8 else 2e-6
        np.testing.assert_allclose(o[at], row, rtol=tolerance, atol=1e-5 * np.abs(row).max())
