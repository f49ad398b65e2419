"""Tiles that loops carry and rows that they reduce, in layouts that spare conversions, executed as PTX."""

import ml_dtypes
import numpy as np
import pytest
from tests.ptx.launch import run_ptx

import tilewright as tw
import tilewright.language as tl


@tw.jit
def inverse_of_triangle(a_ptr, out_ptr, SIZE: tl.constexpr):
    """Forward substitution: the inverse of I + A with A strictly below the diagonal."""
    at = tl.arange(0, SIZE)
    a = tl.load(a_ptr + at[:, None] * SIZE + at[None, :]).to(tl.float32)
    inverse = -tl.where(at[:, None] > at[None, :], a, 0)
    for i in range(2, SIZE):
        row = -tl.load(a_ptr + i * SIZE + at)
        row = tl.where(at < i, row, 0.0)
        row = row + tl.sum(row[:, None] * inverse, 0)
        inverse = tl.where((at == i)[:, None], row, inverse)
    inverse += at[:, None] == at[None, :]
    tl.store(out_ptr + at[:, None] * SIZE + at[None, :], inverse)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_rows_added_to_sums_of_columns(target):
    types = {"a_ptr": "*bf16:16", "out_ptr": "*fp32:16"}
    kernel = inverse_of_triangle.compile(types, {"SIZE": 16}, target=target, num_warps=1)
    assert "st.shared" not in kernel.asm["ptx"]
    rng = np.random.default_rng(0)
    a = rng.integers(-2, 3, (16, 16)).astype(np.float32)
    given = [a.astype(ml_dtypes.bfloat16), np.zeros((16, 16), np.float32)]
    out = run_ptx(kernel, given, (1,))[1]
    np.testing.assert_allclose(
        out, np.linalg.inv(np.eye(16) + np.tril(a, -1)), rtol=1e-4, atol=1e-3
    )


@tw.jit
def projections(q_ptr, w_ptr, out_ptr, steps, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    place = at[:, None] * SIZE + at[None, :]
    q = tl.load(q_ptr + place)
    for i in range(steps):
        w = tl.load(w_ptr + i * SIZE * SIZE + place)
        q -= tl.dot(q.to(tl.float16), w)
    tl.store(out_ptr + place, q)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_a_loaded_tile_that_products_are_subtracted_from(target):
    types = {"q_ptr": "*fp32:16", "w_ptr": "*fp16:16", "out_ptr": "*fp32:16", "steps": "i32"}
    kernel = projections.compile(types, {"SIZE": 64}, target=target, num_warps=4)
    rng = np.random.default_rng(0)
    q = rng.standard_normal((64, 64)).astype(np.float32)
    w = (rng.standard_normal((3, 64, 64)) / 16).astype(np.float16)
    out = run_ptx(kernel, [q, w, np.zeros_like(q), 3], (1,))[2]
    expected = q.astype(np.float64)
    for each in w.astype(np.float64):
        expected -= expected @ each
    np.testing.assert_allclose(out, expected, rtol=1e-2, atol=1e-2)
