"""Loops of decoding: keys and values through page tables, empty splits, lengths from memory."""

import numpy as np
import pytest
from tests.passes.test_attention import prepared
from tests.passes.test_prefetch_loads import waited_for
from tests.ptx.launch import run_ptx
from tests.run_on_copies import run_on_copies
from xdsl.dialects import scf

import tilewright as tw
import tilewright.language as tl
from tilewright import dtypes
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.pipeline import nvidia_passes
from tilewright.backends.nvidia.target import target_info
from tilewright.dialects import tile
from tilewright.dtypes import constexpr
from tilewright.frontend import build
from tilewright.passes.manager import run_pipeline

WIDTH, BLOCK, PAGE, SPLITS = 64, 32, 16, 6
LENGTHS = (1, 31, 32, 100)


@tw.jit
def paged(Q, K, V, Table, Length, Out, D: tl.constexpr, N: tl.constexpr, PAGE: tl.constexpr):
    """One query against the keys of its pages, without dots."""
    n, d = tl.load(Length), tl.arange(0, D)
    q = tl.load(Q + d)
    most, total, acc = -float("inf"), 0.0, tl.zeros((D,), tl.float32)
    for i in range(0, n, N):
        at = i + tl.arange(0, N)
        page = tl.load(Table + at // PAGE, mask=at < n, other=0)
        row = page * PAGE + at % PAGE
        k = tl.load(K + row[:, None] * D + d[None, :], mask=at[:, None] < n, other=0.0)
        s = tl.where(at < n, tl.sum(q[None, :] * k, 1), -float("inf"))
        v = tl.load(V + row[:, None] * D + d[None, :], mask=at[:, None] < n, other=0.0)
        larger = tl.maximum(most, tl.max(s, 0))
        p, before = tl.exp(s - larger), tl.exp(most - larger)
        acc = acc * before + tl.sum(p[:, None] * v, 0)
        total, most = total * before + tl.sum(p, 0), larger
    tl.store(Out + d, acc / total)


@tw.jit
def combined(Q, K, V, Table, Length, Out, D: tl.constexpr, N: tl.constexpr, PAGE: tl.constexpr):
    """The sum of the splits that are not empty, each by its weight; K: results of splits, Q: their logarithms."""
    n, d = tl.load(Length), tl.arange(0, D)
    most, total, acc = -float("inf"), 0.0, tl.zeros((D,), tl.float32)
    for split in range(0, PAGE):
        if split * N < n:
            part, weight = tl.load(K + split * D + d), tl.load(Q + split)
            larger = tl.maximum(most, weight)
            before, now = tl.exp(most - larger), tl.exp(weight - larger)
            acc, total, most = acc * before + now * part, total * before + now, larger
    tl.store(Out + d, acc / total)


def ir_of(kernel):
    arrays = ("Q", "K", "V", "Out")
    signature = dict.fromkeys(arrays, dtypes.pointer_type(dtypes.float32))
    signature |= dict.fromkeys(("Table", "Length"), dtypes.pointer_type(dtypes.int32))
    sizes = {"D": WIDTH, "N": BLOCK, "PAGE": SPLITS if kernel is combined else PAGE}
    signature |= {name: constexpr(value) for name, value in sizes.items()}
    return build(kernel, signature, dict.fromkeys(arrays, 16)).module


def case(kernel, n):
    """Arguments and the result; memory that must not be read is not there, or not a number."""
    rng = np.random.default_rng(n)
    pages = -(-n // PAGE)
    k, v = (rng.standard_normal((pages * PAGE, WIDTH)).astype(np.float32) for _ in range(2))
    table, q = (
        rng.permutation(pages).astype(np.int32),
        rng.standard_normal(WIDTH).astype(np.float32),
    )
    if kernel is combined:
        k, splits = rng.standard_normal((SPLITS, WIDTH)).astype(np.float32), -(-n // BLOCK)
        k[splits:] = np.nan
        weights = np.exp(q[:splits].astype(np.float64))
        wanted = (weights[:, None] * k[:splits]).sum(0) / weights.sum()
    else:
        rows = (table[:, None] * PAGE + np.arange(PAGE)).reshape(-1)[:n]
        weights = np.exp(k[rows].astype(np.float64) @ q)
        wanted = weights @ v[rows] / weights.sum()
    return [q, k, v, table, np.array([n], np.int32), np.zeros(WIDTH, np.float32)], wanted


def optimized(kernel, last):
    module = prepared(ir_of(kernel), 4, 2)
    steps = nvidia_passes()
    run_pipeline(module, steps[: [s.name for s in steps].index(last) + 1], target_info("sm_90a"))
    return module


def test_page_numbers_are_an_iteration_ahead():
    module = optimized(paged, "prefetch-loads")
    assert sorted(len(tile.shape_of(op.result)) for op in waited_for(module)) == [2, 2]


def test_loads_of_branches_are_batched():
    module = optimized(combined, "order-instructions")
    loops = [op for op in module.walk() if isinstance(op, scf.ForOp)]
    for loop in loops:
        loads = [op for op in loop.body.walk() if isinstance(op, tile.LoadOp | tile.LoadViewOp)]
        assert len(loads) >= 4 and all(op.parent is loop.body.block for op in loads)


@pytest.mark.parametrize("kernel", [paged, combined], ids=lambda kernel: kernel.__name__)
@pytest.mark.parametrize("last", ["prefetch-loads", "order-instructions"])
def test_results_of_the_passes(kernel, last):
    module = optimized(kernel, last)
    for n in LENGTHS:
        arguments, wanted = case(kernel, n)
        found = run_on_copies(module, arguments, (1, 1, 1))[5]
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kernel", [paged, combined], ids=lambda kernel: kernel.__name__)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_results_of_machine_code(kernel, target):
    artifact = backend.compile(ir_of(kernel), Options(num_warps=4), target_info(target))
    for n in LENGTHS:
        arguments, wanted = case(kernel, n)
        found = run_ptx(artifact, arguments, (1, 1, 1))[5]
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-4, atol=1e-5)
