"""Products with scales (`tl.dot_scaled`) as PTX text: formats and warps, against float64."""

import ml_dtypes
import numpy as np
import pytest
from tests.ptx.launch import run_ptx

import tilewright as tw
import tilewright.language as tl

pytestmark = pytest.mark.sampled(6)

M, N, K = 64, 32, 64
FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
FP4 = np.concatenate([FP4, -FP4])
KINDS = {
    "e4m3": (ml_dtypes.float8_e4m3fn, "fp8e4nv"), "e5m2": (ml_dtypes.float8_e5m2, "fp8e5"),
    "bf16": (ml_dtypes.bfloat16, "bf16"), "fp16": (np.float16, "fp16"), "e2m1": (np.uint8, "u8"),
}  # fmt: skip


@tw.jit
def scaled(
    a, a_scale, b, b_scale, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
    A: tl.constexpr, B: tl.constexpr, A_PACK: tl.constexpr, B_PACK: tl.constexpr,
):  # fmt: skip
    m, n, s = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K // 32)
    ka, kb = tl.arange(0, K // A_PACK), tl.arange(0, K // B_PACK)
    x = tl.load(a + m[:, None] * (K // A_PACK) + ka[None, :])
    y = tl.load(b + kb[:, None] * N + n[None, :])
    x_scale = tl.load(a_scale + m[:, None] * (K // 32) + s[None, :])
    y_scale = tl.load(b_scale + n[:, None] * (K // 32) + s[None, :])
    tl.store(c + m[:, None] * N + n[None, :], tl.dot_scaled(x, x_scale, A, y, y_scale, B))


def operand(rng, kind, rows):
    """Elements [rows, K] as they are stored, and in float64."""
    if kind == "e2m1":
        pairs = rng.integers(0, 256, (rows, K // 2)).astype(np.uint8)
        return pairs, np.stack([FP4[pairs & 15], FP4[pairs >> 4]], -1).reshape(rows, K)
    values = rng.standard_normal((rows, K)).astype(KINDS[kind][0])
    return values, values.astype(np.float64)


@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize(
    ("left", "right"), [("e2m1", "e2m1"), ("e2m1", "bf16"), ("e4m3", "e5m2"), ("fp16", "e4m3")]
)
def test_formats(left, right, warps):
    """Only PTX of sm_90a says which bytes of a wide load count, in rows with gaps between them."""
    rng = np.random.default_rng(0)
    (a, a_values), (b, b_values) = operand(rng, left, M), operand(rng, right, N)
    scales = [rng.integers(124, 131, (rows, K // 32)).astype(np.uint8) for rows in (M, N)]
    pointers = {
        "a": KINDS[left][1],
        "b": KINDS[right][1],
        "a_scale": "u8",
        "b_scale": "u8",
        "c": "fp32",
    }
    constants = {
        "M": M, "N": N, "K": K, "A": left, "B": right,
        "A_PACK": 1 + (left == "e2m1"), "B_PACK": 1 + (right == "e2m1"),
    }  # fmt: skip
    kernel = scaled.compile(
        {name: f"*{kind}:16" for name, kind in pointers.items()}, constants,
        target="sm_90a", num_warps=warps, num_stages=2,
    )  # fmt: skip
    given = [a, scales[0], np.ascontiguousarray(b.T), scales[1], np.zeros((M, N), np.float32)]
    found = run_ptx(kernel.artifact, given, (1, 1, 1))[-1]
    factors = [np.repeat(2.0 ** (s.astype(float) - 127), 32, 1) for s in scales]
    wanted = (a_values * factors[0]) @ (b_values * factors[1]).T
    np.testing.assert_allclose(found.reshape(M, N), wanted, rtol=2e-3, atol=2e-2)
