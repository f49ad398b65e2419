"""Products of microscaled tiles against NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.errors import KernelTypeError

pytestmark = pytest.mark.sampled(4, full=2)

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
M, N, K = 32, 64, 128


@tw.jit
def multiply(
    a_ptr, a_scale, b_ptr, b_scale, c_ptr, A: tl.constexpr, B: tl.constexpr, AROWS: tl.constexpr,
    ACOLS: tl.constexpr, BROWS: tl.constexpr, BCOLS: tl.constexpr, G: tl.constexpr,
    APACK: tl.constexpr, BPACK: tl.constexpr, SCALED: tl.constexpr,
):  # fmt: skip
    M: tl.constexpr = 32
    N: tl.constexpr = 64
    a = tl.load(a_ptr + tl.arange(0, AROWS)[:, None] * ACOLS + tl.arange(0, ACOLS)[None, :])
    b = tl.load(b_ptr + tl.arange(0, BROWS)[:, None] * BCOLS + tl.arange(0, BCOLS)[None, :])
    if SCALED:
        sa = tl.load(a_scale + tl.arange(0, M)[:, None] * G + tl.arange(0, G)[None, :])
        sb = tl.load(b_scale + tl.arange(0, N)[:, None] * G + tl.arange(0, G)[None, :])
        c = tl.dot_scaled(a, sa, A, b, sb, B, lhs_k_pack=APACK, rhs_k_pack=BPACK)
    else:
        c = tl.dot_scaled(a, None, A, b, None, B, lhs_k_pack=APACK, rhs_k_pack=BPACK)
    tl.store(c_ptr + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], c)


def numbers(shape: tuple[int, int], form: str, packed: int) -> tuple[np.ndarray, np.ndarray]:
    """Random elements of a format: as they are stored, and as numbers."""
    rng = np.random.default_rng(len(form) + packed)
    if form == "e2m1":
        codes = rng.integers(0, 16, shape).astype(np.uint8)
        low, high = (np.take(codes, range(i, codes.shape[packed], 2), packed) for i in (0, 1))
        return np.ascontiguousarray(low | high << 4), E2M1[codes]
    kind: Any = {
        "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "bf16": ml_dtypes.bfloat16,
        "fp16": np.float16,
    }[form]  # fmt: skip
    values = rng.standard_normal(shape).astype(kind)
    return values, values.astype(np.float64)


@pytest.mark.parametrize("packs", [(True, True), (False, False), (True, False)])
@pytest.mark.parametrize(
    "forms",
    [("e2m1", "e2m1"), ("e4m3", "e5m2"), ("e2m1", "bf16"), ("fp16", "e4m3"), ("bf16", "bf16")],
)
@pytest.mark.parametrize("group", [0, 16, 32])
def test_against_numpy(forms: tuple[str, str], packs: tuple[bool, bool], group: int) -> None:
    if packs != (True, True) and "e2m1" not in forms:
        packs = (True, True)
    a, a_numbers = numbers((M, K), forms[0], 1 if packs[0] else 0)
    b, b_numbers = numbers((K, N), forms[1], 0 if packs[1] else 1)
    rng = np.random.default_rng(group)
    groups = K // (group or 32)
    scales = [rng.integers(120, 134, (n, groups)).astype(np.uint8) for n in (M, N)]
    c = np.zeros((M, N), np.float32)
    multiply[(1,)](
        a, scales[0], b, scales[1], c, A=forms[0], B=forms[1], AROWS=a.shape[0], ACOLS=a.shape[1],
        BROWS=b.shape[0], BCOLS=b.shape[1], G=groups, APACK=packs[0], BPACK=packs[1],
        SCALED=group > 0,
    )  # fmt: skip
    if group:
        factors = [np.repeat(2.0 ** (s.astype(int) - 127), group, axis=1) for s in scales]
        a_numbers, b_numbers = a_numbers * factors[0], b_numbers * factors[1].T
    wanted = a_numbers @ b_numbers
    np.testing.assert_allclose(c, wanted, rtol=2e-3, atol=2e-3 * np.abs(wanted).max())


def test_extreme_scales() -> None:
    """0 is a small number, 255 is NaN; bytes with an element's bits will do."""
    a, a_numbers = numbers((M, K), "e4m3", 1)
    b, b_numbers = numbers((K, N), "e4m3", 0)
    scales = [np.full((n, K // 32), 127, np.uint8) for n in (M, N)]
    scales[0][0], scales[1][0], scales[0][1], scales[0][2] = 20, 234, 255, 0
    c = np.zeros((M, N), np.float32)
    multiply[(1,)](
        a.view(np.uint8), scales[0], b.view(np.uint8), scales[1], c, A="e4m3", B="e4m3", AROWS=M,
        ACOLS=K, BROWS=K, BCOLS=N, G=K // 32, APACK=True, BPACK=True, SCALED=True,
    )  # fmt: skip
    assert np.isnan(c[1]).all() and np.isfinite(np.delete(c, 1, 0)).all()
    wanted = a_numbers @ b_numbers
    np.testing.assert_allclose(c[3:, 1:], wanted[3:, 1:], rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(c[0, 0], wanted[0, 0], rtol=1e-4)
    assert np.abs(c[2, 1:]).max() < 2.0**-100


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"A": "e3m2"}, "e3m2"),
        ({"G": 8, "A": "fp16"}, "a tile of format fp16 is of fp16 or u16, not fp8e4nv"),
    ],
)
def test_errors(change: dict[str, Any], message: str) -> None:
    a, _ = numbers((M, K), "e4m3", 1)
    b, _ = numbers((K, N), "e4m3", 0)
    scale = np.zeros((N, 8), np.uint8)
    given = dict(A="e4m3", B="e4m3", AROWS=M, ACOLS=K, BROWS=K, BCOLS=N, G=4, APACK=True,
                 BPACK=True, SCALED=True) | change  # fmt: skip
    with pytest.raises(KernelTypeError, match=message):
        multiply[(1,)](a, scale, b, scale, np.zeros((M, N), np.float32), **given)
