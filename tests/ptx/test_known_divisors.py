"""`tl.multiple_of` of arguments: what launches do not specialize for reaches TMA; in the machine for PTX."""

from __future__ import annotations

import numpy as np
import pytest
from tests.ptx.launch import run_ptx

import tilewright as tw
import tilewright.language as tl


@tw.jit
def product(a, b, out, M, N, K, stride_a, stride_b, stride_out, KNOWN: tl.constexpr):
    if KNOWN > 1:
        stride_a, stride_b = tl.multiple_of(stride_a, KNOWN), tl.multiple_of(stride_b, KNOWN)
        stride_out, N = tl.multiple_of(stride_out, KNOWN), tl.multiple_of(N, KNOWN)
    rows = tl.program_id(0) * 64 + tl.arange(0, 64)
    columns = tl.program_id(1) * 64 + tl.arange(0, 64)
    acc = tl.zeros((64, 64), tl.float32)
    for k in range(0, tl.cdiv(K, 64)):
        depth = k * 64 + tl.arange(0, 64)
        inside = depth[None, :] < K
        x = tl.load(a + rows[:, None] * stride_a + depth[None, :], (rows[:, None] < M) & inside, 0)
        place = b + columns[:, None] * stride_b + depth[None, :]
        y = tl.load(place, (columns[:, None] < N) & inside, 0)
        acc = tl.dot(x, y.T, acc)
    mask = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(out + rows[:, None] * stride_out + columns[None, :], acc.to(tl.float16), mask)


@pytest.mark.parametrize("known", [1, 8])
def test_strides_of_multiples_of_8(known):
    m, n, k = 70, 72, 88
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((m, k), (n, k)))
    types = {name: "*fp16:16" for name in ("a", "b", "out")}
    numbers = ("M", "N", "K", "stride_a", "stride_b", "stride_out")
    types |= dict.fromkeys(numbers, "i32") | {"KNOWN": tl.constexpr(known)}
    compiled = product.compile(types, None, "sm_90a")
    assert ("cp.async.bulk.tensor" in compiled.asm["ptx"]) == (known == 8)
    out = np.zeros((m, n), np.float16)
    found = run_ptx(compiled.artifact, [a, b, out, m, n, k, k, k, n], (2, 2))[2]
    np.testing.assert_array_equal(found, a @ b.T)
