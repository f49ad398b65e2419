"""Dots of widened 16-bit floats on tensor cores for 16-bit floats: each product is exact."""

import ml_dtypes
import numpy as np
import pytest
from tests.ptx.launch import run_ptx

import tilewright as tw
import tilewright.language as tl


@tw.jit
def widened(a_ptr, b_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :]).to(tl.float32)
    b = tl.load(b_ptr + n[:, None] * K + k[None, :]).to(tl.float32)
    d = tl.dot(a, tl.trans(b), input_precision="tf32")
    tl.store(out_ptr + m[:, None] * N + n[None, :], d)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(("kind", "name"), [(np.float16, "fp16"), (ml_dtypes.bfloat16, "bf16")])
def test_products_are_exact(target, kind, name):
    signature = {"a_ptr": f"*{name}:16", "b_ptr": f"*{name}:16", "out_ptr": "*fp32:16"}
    made = widened.compile(signature, {"M": 64, "N": 32, "K": 32}, target=target, num_warps=4)
    kinds = {"fp16": "f16.f16", "bf16": "bf16.bf16"}
    assert f".f32.{kinds[name]}" in made.asm["ptx"] and "tf32" not in made.asm["ptx"]
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal((r, 32)).astype(kind) for r in (64, 32))
    a[0, :4], b[0, :4] = [6e-8, 2.0, 1e-30, -0.0], [1.0, 6e-8, 1.0, 3.0]  # subnormal numbers, too
    found = run_ptx(made, [a, b, np.zeros((64, 32), np.float32)], (1,))[2].reshape(64, 32)
    wanted = a.astype(np.float64) @ b.astype(np.float64).T
    np.testing.assert_allclose(found, wanted, atol=2e-6)
