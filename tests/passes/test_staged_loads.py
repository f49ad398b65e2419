"""Loads of which loops compute operands of dots, with what other dots or the program's beginning have made: copies."""

import numpy as np
import pytest
from tests.passes.test_attention import prepared
from tests.passes.test_prefetch_loads import case, gated_ir
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
from tilewright.dialects import gpu, tile
from tilewright.dtypes import constexpr
from tilewright.frontend import build
from tilewright.passes.manager import run_pipeline


@tw.jit
def delta(W, U, K, Decay, Out, n, D: tl.constexpr, C: tl.constexpr):
    """The delta rule: what a dot leaves of `u` is an operand; keys are scaled by what does not change."""
    r, d = tl.arange(0, C), tl.arange(0, D)
    decay = tl.load(Decay + r)
    state = tl.zeros((D, D), tl.float32)
    for i in range(0, n):
        at = (i * C + r)[:, None] * D + d[None, :]
        w, k = tl.load(W + at), tl.load(K + at)
        v = tl.load(U + at).to(tl.float32) - tl.dot(w, state.to(w.dtype))
        k = (k * decay[:, None]).to(k.dtype)
        state = tl.dot(tl.trans(k), v.to(k.dtype), state)
    tl.store(Out + d[:, None] * D + d[None, :], state)


def delta_ir(size=64):
    signature = dict.fromkeys(("W", "U", "K"), dtypes.pointer_type(dtypes.float16))
    signature |= dict.fromkeys(("Decay", "Out"), dtypes.pointer_type(dtypes.float32))
    signature |= {"n": dtypes.int32, "D": constexpr(size), "C": constexpr(size)}
    return build(delta, signature, dict.fromkeys(("W", "U", "K", "Out"), 16)).module


def delta_case(n, size=64):
    rng = np.random.default_rng(n)
    w, u, k = ((rng.standard_normal((n * size, size)) / 8).astype(np.float16) for _ in range(3))
    decay = rng.random(size).astype(np.float32)
    state, half = np.zeros((size, size)), lambda x: x.astype(np.float16).astype(np.float64)
    for i in range(n):
        rows = slice(i * size, (i + 1) * size)
        v = half(u[rows].astype(np.float64) - w[rows].astype(np.float64) @ half(state))
        state = state + half(k[rows] * decay[:, None]).T @ v
    return [w, u, k, decay, np.zeros((size, size), np.float32), n], state


def in_loops(module, kinds):
    loops = [op for op in module.walk() if isinstance(op, scf.ForOp)]
    return [op for loop in loops for op in loop.body.block.ops if isinstance(op, kinds)]


def lowered(module, until, target="sm_90a", disabled=()):
    run_pipeline(module, nvidia_passes(), target_info(target), disabled=disabled, stop_after=until)
    return module


@pytest.mark.parametrize("target", ["sm_90a", "sm_80"])
def test_every_load_is_copied_ahead(target):
    module = lowered(prepared(delta_ir(), 4, 2), "pipeline-loads", target)
    assert not in_loops(module, tile.LoadViewOp)
    if target == "sm_90a":
        assert in_loops(module, gpu.MbarrierWaitOp) and not in_loops(module, gpu.AsyncCopyOp)
        # u is read as accumulators lie, and decay as keys do
        assert not in_loops(module, gpu.ConvertLayoutOp)
    for n in (0, 1, 3):
        arguments, wanted = delta_case(n)
        out = run_on_copies(module, arguments, (1, 1, 1))[4]
        np.testing.assert_allclose(np.asarray(out), wanted, atol=2e-2)


def test_results_of_machine_code():
    artifact = backend.compile(
        delta_ir(), Options(num_warps=4, num_stages=2), target_info("sm_90a")
    )
    arguments, wanted = delta_case(3)
    out = run_ptx(artifact, arguments, (1, 1, 1))[4]
    np.testing.assert_allclose(np.asarray(out), wanted, atol=2e-2)


def test_gates_of_each_iteration():
    module = lowered(prepared(gated_ir(), 4, 2), "promote-shared")
    assert not [op for op in in_loops(module, tile.LoadViewOp) if len(tile.shape_of(op.result)) > 1]
    arguments, wanted = case(3, False)
    out = run_on_copies(module, arguments, (1, 1, 1))[5]
    np.testing.assert_allclose(np.asarray(out), wanted, atol=5e-3)


@tw.jit
def product(A, B, Out, K: tl.constexpr, D: tl.constexpr):
    r, d = tl.arange(0, D), tl.arange(0, D)
    total = tl.zeros((D, D), tl.float32)
    for i in range(0, K, D):
        a = tl.load(A + r[:, None] * K + (i + d)[None, :])
        total = tl.dot(a, tl.load(B + (i + r)[:, None] * D + d[None, :]), total)
    tl.store(Out + r[:, None] * D + d[None, :], total)


@pytest.mark.parametrize(("iterations", "stages"), [(2, 2), (3, 3), (8, 4)])
def test_no_stage_stays_empty(iterations, stages):
    """A loop of few iterations has as many stages."""
    signature = dict.fromkeys(("A", "B"), dtypes.pointer_type(dtypes.float16))
    signature |= {"Out": dtypes.pointer_type(dtypes.float32)}
    signature |= {"K": constexpr(32 * iterations), "D": constexpr(32)}
    module = build(product, signature, dict.fromkeys(("A", "B", "Out"), 16)).module
    lowered(prepared(module, 2, 4), "pipeline-loads")
    buffers = [op.result.type for op in module.walk() if isinstance(op, gpu.LocalAllocOp)]
    assert [buffer.stages.data for buffer in buffers] == [stages, stages]
    rng = np.random.default_rng(stages)
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((32, 32 * iterations),) * 2)
    b = np.ascontiguousarray(b.T)
    out = run_on_copies(module, [a, b, np.zeros((32, 32), np.float32)], (1, 1, 1))[2]
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(np.asarray(out), wanted, atol=1e-3 * np.abs(wanted).max())


@tw.jit
def halves(A, B, Table, Out, n, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """Bytes hold two places of operands in a table of 16, neighbors of a row."""
    table = tl.load(Table + tl.arange(0, 16))
    m, c, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    packed = tl.arange(0, N // 2)
    total = tl.zeros((M, N), tl.float32)
    for i in range(0, n):
        at = i * K + k
        a = tl.load(A + m[:, None] * n * K + at[None, :])
        b = tl.load(B + at[:, None] * (N // 2) + packed[None, :])
        b = tl.gather(table, tl.join(b & 15, b >> 4 & 15).reshape(K * N), 0).reshape(K, N)
        total = tl.dot(a, b, total)
    tl.store(Out + m[:, None] * N + c[None, :], total)


def test_joined_loads_are_copied_ahead():
    kinds = {"A": dtypes.float16, "B": dtypes.int32, "Table": dtypes.float16, "Out": dtypes.float32}
    signature = {name: dtypes.pointer_type(kind) for name, kind in kinds.items()}
    signature |= {"n": dtypes.int32, "M": constexpr(16), "N": constexpr(32), "K": constexpr(32)}
    module = build(halves, signature, dict.fromkeys(kinds, 16)).module
    module = lowered(prepared(module, 4, 3), "pipeline-loads")
    assert not in_loops(module, tile.LoadViewOp)
    for n in (0, 1, 4):
        rng = np.random.default_rng(n)
        a = (rng.standard_normal((16, n * 32)) / 8).astype(np.float16)
        b = rng.integers(0, 256, (n * 32, 16)).astype(np.int32)
        table = rng.standard_normal(16).astype(np.float16)
        wide = table[np.stack((b & 15, b >> 4), axis=-1).reshape(n * 32, 32)].astype(np.float64)
        out = run_on_copies(module, [a, b, table, np.zeros((16, 32), np.float32), n], (1, 1, 1))[3]
        np.testing.assert_allclose(out, a.astype(np.float64) @ wide, rtol=1e-2, atol=1e-2)


@tw.jit
def quantized(A, B, Scales, Zeros, Out, n, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """8 weights of 4 bits in a word along k; their zeros in words along the columns, of each iteration."""
    m, c, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    total = tl.zeros((M, N), tl.float32)
    for i in range(0, n):
        at = i * K + k
        a = tl.load(A + m[:, None] * n * K + at[None, :])
        b = tl.load(B + (at // 8)[:, None] * N + c[None, :])
        scales = tl.load(Scales + i * N + c)
        zeros = tl.load(Zeros + i * (N // 8) + c // 8)
        zeros = ((zeros >> (c % 8 * 4) & 15) + 1) * scales
        b = (b >> (k % 8 * 4)[:, None] & 15) * scales[None, :] - zeros[None, :]
        total = tl.dot(a, b.to(a.dtype), total)
    tl.store(Out + m[:, None] * N + c[None, :], total)


def test_rows_are_loaded_as_operands_lie():
    """No row of a loop passes through shared memory: they are loaded, and computed, where the products of a tile want them."""
    kinds = {
        "A": dtypes.float16,
        "B": dtypes.int32,
        "Scales": dtypes.float16,
        "Zeros": dtypes.int32,
    }
    kinds["Out"] = dtypes.float32
    signature = {name: dtypes.pointer_type(kind) for name, kind in kinds.items()}
    signature |= {"n": dtypes.int32, "M": constexpr(16), "N": constexpr(32), "K": constexpr(32)}
    module = build(quantized, signature, dict.fromkeys(kinds, 16)).module
    module = lowered(prepared(module, 4, 3), "pipeline-loads")
    converts = in_loops(module, gpu.ConvertLayoutOp)
    assert not [op for op in converts if op.source.owner.parent is op.parent]
    for n in (0, 1, 4):
        rng = np.random.default_rng(n)
        a = (rng.standard_normal((16, n * 32)) / 8).astype(np.float16)
        b, zeros = (rng.integers(0, 16, s).astype(np.int64) for s in ((n * 4, 8, 32), (n, 4, 8)))
        scales = (rng.random((n, 32)) / 4).astype(np.float16)
        words = (b << (np.arange(8) * 4)[:, None]).sum(1).astype(np.uint32).view(np.int32)
        few = (zeros << np.arange(8) * 4).sum(2).astype(np.uint32).view(np.int32)
        wide = b.reshape(n, 32, 32) - 1.0 - zeros.reshape(n, 1, 32)
        wide = (wide * scales[:, None, :]).reshape(n * 32, 32)
        arguments = [a, words, scales, few, np.zeros((16, 32), np.float32), n]
        out = run_on_copies(module, arguments, (1, 1, 1))[4]
        np.testing.assert_allclose(out, a.astype(np.float64) @ wide, rtol=2e-2, atol=3e-2)


@tw.jit
def scores(Q, K, Out, n, N: tl.constexpr, D: tl.constexpr):
    """The sums over rows of the products of long rows with few others."""
    m, c, d = tl.arange(0, 16), tl.arange(0, N), tl.arange(0, D)
    q = tl.load(Q + m[:, None] * D + d[None, :])
    total = tl.zeros((16, N), tl.float32)
    for i in range(0, n):
        k = tl.load(K + (i * N + c)[None, :] * D + d[:, None])
        total += tl.exp2(tl.dot(q, k))
    tl.store(Out + m[:, None] * N + c[None, :], total)


SHARED = "promote-shared{loop-operands=true}"


@pytest.mark.parametrize(
    ("size", "off", "kept"), [(512, SHARED, True), (512, "", False), (64, SHARED, False)]
)
def test_large_operands_stay_in_shared_memory_where_asked(size, off, kept):
    """An operand of half of the registers is read in each iteration, one of fewer once."""
    signature = dict.fromkeys(("Q", "K"), dtypes.pointer_type(dtypes.float16))
    signature |= {"Out": dtypes.pointer_type(dtypes.float32), "n": dtypes.int32}
    signature |= {"N": constexpr(16), "D": constexpr(size)}
    module = build(scores, signature, dict.fromkeys(("Q", "K", "Out"), 16)).module
    rng = np.random.default_rng(size)
    q, k = (rng.standard_normal((rows, size)).astype(np.float16) / 16 for rows in (16, 3 * 16))
    wide = q.astype(np.float64) @ k.astype(np.float64).T
    wanted = np.exp2(wide.reshape(16, 3, 16)).sum(1)
    arguments = [q, k, np.zeros((16, 16), np.float32), 3]
    disabled = (off,) if off else ()
    options = Options(num_warps=2, disable=disabled)
    artifact = backend.compile(module.clone(), options, target_info("sm_90a"))
    found = run_ptx(artifact, arguments, (1, 1, 1))[2]
    np.testing.assert_allclose(found, wanted, rtol=2e-2)
    module = lowered(prepared(module, 2, 3), "pipeline-loads", disabled=disabled)
    (dot,) = in_loops(module, tile.DotOp)
    assert isinstance(dot.lhs.owner, gpu.LocalLoadOp) == kept
