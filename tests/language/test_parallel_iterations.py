"""`tl.range(…, parallel_iterations=True)`: a loop whose iterations are independent, as programs are."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.nvidia.target import target_info
from tilewright.errors import KernelTypeError


@tw.jit
def matmul(
    a, b, out, M, N, K, PROMISE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """A persistent matmul; two tiles, one below the other, are independent iterations."""
    pairs, across = tl.cdiv(M, 2 * BM), tl.cdiv(N, BN)
    for half in tl.range(0, 2, parallel_iterations=PROMISE):
        for tile in range(tl.program_id(0), pairs * across, tl.num_programs(0)):
            rows = (tile // across * 2 + half) * BM + tl.arange(0, BM)
            columns = tile % across * BN + tl.arange(0, BN)
            acc = tl.zeros((BM, BN), tl.float32)
            for k in range(tl.cdiv(K, BK)):
                depth = k * BK + tl.arange(0, BK)
                x = tl.load(
                    a + rows[:, None] * K + depth[None, :],
                    (rows[:, None] < M) & (depth[None, :] < K),
                    0,
                )
                y = tl.load(
                    b + depth[:, None] * N + columns[None, :],
                    (depth[:, None] < K) & (columns[None, :] < N),
                    0,
                )
                acc = tl.dot(x, y, acc)
            inside = (rows[:, None] < M) & (columns[None, :] < N)
            tl.store(out + rows[:, None] * N + columns[None, :], acc.to(tl.float16), inside)


@tw.jit
def running_sum(x, out, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for i in tl.range(0, 2, parallel_iterations=True):
        total += tl.load(x + i * BLOCK + tl.arange(0, BLOCK))
    tl.store(out + tl.arange(0, BLOCK), total)


def ptx(promise, target="sm_90a"):
    types = {
        "a": "*fp16:16",
        "b": "*fp16:16",
        "out": "*fp16:16",
        "M": "i32:16",
        "N": "i32:16",
        "K": "i32:16",
    }
    blocks = {"BM": 128, "BN": 128, "BK": 64, "PROMISE": promise}
    types |= {name: tl.constexpr(value) for name, value in blocks.items()}
    return matmul.compile(types, None, target_info(target), num_warps=8, num_stages=3).asm["ptx"]


def test_a_cluster_shares_what_both_iterations_load():
    assert ".multicast::cluster" in ptx(True)
    assert ".multicast::cluster" not in ptx(False)
    assert ".multicast::cluster" not in ptx(True, "sm_80")


@pytest.mark.parametrize("promise", [True, False])
def test_results(promise):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((72, 40), (40, 56)))
    out = np.zeros((72, 56), np.float16)
    matmul[(2,)](a, b, out, 72, 56, 40, PROMISE=promise, BM=16, BN=16, BK=16)
    np.testing.assert_allclose(
        out, a.astype(np.float32) @ b.astype(np.float32), rtol=2e-3, atol=2e-2
    )


def test_iterations_that_depend_on_each_other():
    types = {"x": "*fp32", "out": "*fp32", "BLOCK": tl.constexpr(16)}
    with pytest.raises(
        KernelTypeError, match="an iteration depends on 'total' of the one before"
    ) as caught:
        running_sum.compile(types)
    assert caught.value.location is not None
