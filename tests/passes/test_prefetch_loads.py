"""`prefetch-loads`: what a loop with dots loads into registers, an iteration ahead; what has to stay in its place."""

import numpy as np
import pytest
from tests.passes import test_dots_in_flight
from tests.passes.test_attention import prepared
from tests.ptx.launch import run_ptx
from tests.run_on_copies import run_on_copies
from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr, i32

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
from tilewright.ir.location import location_of
from tilewright.passes.manager import run_pipeline


@tw.jit
def gated(
    K, V, Gate, Last, Table, Out, n, D: tl.constexpr, C: tl.constexpr,
    REVERSED: tl.constexpr, WRITES: tl.constexpr,
):  # fmt: skip
    """A state that decays by the last gate of each chunk: gates are vectors, scalars and a tile; rows by a table."""
    r, d = tl.arange(0, C), tl.arange(0, D)
    state = tl.zeros((D, D), tl.float32)
    first = n * C
    for i in range(0, n):
        first -= C
        row = first if REVERSED else i * C
        gate = tl.load(Gate + row + r)
        last = tl.load(Last + tl.load(Table + row // C))
        k = tl.load(K + (row + r)[:, None] * D + d[None, :])
        v = tl.load(V + (row + r)[:, None] * D + d[None, :])
        v = (v * gate[:, None]).to(v.dtype)
        state = tl.dot(tl.trans(k), v, state * last)
        if WRITES:
            tl.store(Last + n + i, last)
    tl.store(Out + d[:, None] * D + d[None, :], state)


def gated_ir(reverse=False, writes=False, depth=32, length=64):
    signature = dict.fromkeys(("K", "V"), dtypes.pointer_type(dtypes.float16))
    signature |= dict.fromkeys(("Gate", "Last", "Out"), dtypes.pointer_type(dtypes.float32))
    signature |= {"Table": dtypes.pointer_type(dtypes.int32), "n": dtypes.int32}
    fixed = {"D": depth, "C": length, "REVERSED": reverse, "WRITES": writes}
    signature |= {name: constexpr(value) for name, value in fixed.items()}
    return build(gated, signature, dict.fromkeys(("K", "V", "Out"), 16)).module


def case(n, reverse, depth=32, length=64):
    rng = np.random.default_rng(n)
    k, v = ((rng.standard_normal((n * length, depth)) / 4).astype(np.float16) for _ in range(2))
    gate = rng.random(n * length).astype(np.float32)
    last, table = rng.random(2 * n).astype(np.float32), rng.permutation(n).astype(np.int32)
    state = np.zeros((depth, depth))
    for i in reversed(range(n)) if reverse else range(n):
        rows = slice(i * length, (i + 1) * length)
        b = (v[rows] * gate[rows, None]).astype(np.float16).astype(np.float64)
        state = state * last[table[i]] + k[rows].astype(np.float64).T @ b
    return [k, v, gate, last, table, np.zeros((depth, depth), np.float32), n], state


def prefetched(target="sm_90a", **options):
    module = prepared(gated_ir(**options), 4, 2)
    steps = nvidia_passes()
    names = [step.name for step in steps]
    run_pipeline(module, steps[: names.index("prefetch-loads") + 1], target_info(target))
    return module


def waited_for(module):
    """Loads in loops that the iteration which does them uses otherwise than for the address of another."""
    loops = [op for op in module.walk() if isinstance(op, scf.ForOp)]
    loads = [op for loop in loops for op in loop.body.walk() if isinstance(op, tile.LoadOp | tile.LoadViewOp)]  # fmt: skip
    addresses = (scf.YieldOp, tile.AddPtrOp)
    return [op for op in loads if any(not isinstance(use.operation, addresses) for use in op.result.uses)]  # fmt: skip


def lines_of_loads(module):
    loads = [op for op in module.walk() if isinstance(op, tile.LoadOp | tile.LoadViewOp)]
    return {location_of(op).line for op in loads}


@pytest.mark.parametrize("target", ["sm_90a", "sm_80"])
@pytest.mark.parametrize("reverse", [False, True])
def test_loads_are_an_iteration_ahead(target, reverse):
    module = prefetched(target, reverse=reverse)
    assert not waited_for(module)
    assert lines_of_loads(module) <= lines_of_loads(gated_ir())
    for n in (0, 1, 3):  # nothing is read beyond the arrays
        arguments, wanted = case(n, reverse)
        out = run_on_copies(module, arguments, (1, 1, 1))[5]
        np.testing.assert_allclose(np.asarray(out), wanted, atol=5e-3)


@pytest.mark.parametrize("target", ["sm_90a", "sm_80"])
def test_results_of_machine_code(target):
    options = Options(num_warps=4, num_stages=2)
    artifact = backend.compile(gated_ir(reverse=True), options, target_info(target))
    arguments, wanted = case(2, True)
    out = run_ptx(artifact, arguments, (1, 1, 1))[5]
    np.testing.assert_allclose(np.asarray(out), wanted, atol=5e-3)


def test_what_the_loop_writes_is_read_in_its_place():
    module = prefetched(writes=True)
    assert [op.result.name_hint for op in waited_for(module)] == ["last"]
    arguments, wanted = case(3, False)
    out = run_on_copies(module, arguments, (1, 1, 1))[5]
    np.testing.assert_allclose(np.asarray(out), wanted, atol=5e-3)


def gradients(limit):
    """A loop whose dots leave no registers for the statistics that it loads, if there are 128."""
    module = prepared(test_dots_in_flight.gradients_ir(), 8, 2)
    if limit:
        module.body.block.first_op.attributes["gpu.max_registers"] = IntegerAttr(limit, i32)
    steps = [step for step in nvidia_passes() if step.name != "schedule-loops"]
    return module, steps


@pytest.mark.parametrize("limit", [0, 128])
def test_vectors_are_loaded_by_lanes_under_a_limit_on_registers(limit):
    module, steps = gradients(limit)
    names = [step.name for step in steps]
    run_pipeline(module, steps[: names.index("prefetch-loads") + 1], target_info("sm_90a"))
    (loop,) = [op for op in module.walk() if isinstance(op, scf.ForOp)]
    loads = [op for op in loop.walk() if isinstance(op, tile.LoadViewOp)]
    converts = [op for op in loop.walk() if isinstance(op, gpu.ConvertLayoutOp)]
    assert [gpu.layout_of(op.result).registers_per_thread for op in loads] == [1 if limit else 8]
    assert len(converts) == (1 if limit else 0)


def test_results_of_vectors_loaded_by_lanes():
    module, steps = gradients(128)
    arguments, wanted = test_dots_in_flight.case(4)
    for step in steps:
        step.apply(module, target_info("sm_90a"))
        if step.name in ("prefetch-loads", "order-instructions"):
            out = np.asarray(run_on_copies(module, arguments, (1, 1, 1))[5])
            np.testing.assert_allclose(out, wanted, atol=2e-2, err_msg=step.name)


def test_a_launch_tells_passes_of_its_limit_on_registers():
    options = Options(num_warps=8, num_stages=2, maxnreg=128, disable=("schedule-loops",))
    module = test_dots_in_flight.gradients_ir()
    artifact = backend.compile(module, options, target_info("sm_90a"))
    assert "bar.warp.sync" in artifact.asm["ptx"]  # `tests/ptx/test_warp_exchange.py`
    arguments, wanted = test_dots_in_flight.case(4)
    out = run_ptx(artifact, arguments, (1, 1, 1))[5]
    np.testing.assert_allclose(np.asarray(out), wanted, atol=2e-2)


@tw.jit
def masked_operand(S, K, Out, n, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    """Weights above the diagonal are not read, whatever stands there."""
    m, c, d = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
    total = tl.zeros((M, D), tl.float32)
    for start in range(0, n, N):
        column = start + c
        seen = (column[None, :] < n) & (m[:, None] >= column[None, :])
        s = tl.load(S + m[:, None] * n + column[None, :], mask=seen, other=0.0)
        k = tl.load(K + column[:, None] * D + d[None, :], mask=column[:, None] < n, other=0.0)
        total += tl.dot(s, k)
    tl.store(Out + m[:, None] * D + d[None, :], total)


@pytest.mark.parametrize("target", ["sm_90a", "sm_80"])
def test_tiles_with_a_mask_of_their_own_are_an_iteration_ahead(target):
    signature = dict.fromkeys(("S", "K"), dtypes.pointer_type(dtypes.float16))
    signature |= {"Out": dtypes.pointer_type(dtypes.float32), "n": dtypes.int32}
    signature |= {name: constexpr(value) for name, value in {"M": 64, "N": 32, "D": 64}.items()}
    divisors = dict.fromkeys(("S", "K", "Out", "n"), 16)
    module = build(masked_operand, signature, divisors).module
    options = Options(num_warps=4, num_stages=2)
    artifact = backend.compile(module, options, target_info(target))
    rng, n = np.random.default_rng(3), 128
    s = rng.standard_normal((n, n)).astype(np.float16)
    k = (rng.standard_normal((n, 64)) / 8).astype(np.float16)
    wanted = np.tril(s.astype(np.float64)) @ k.astype(np.float64)
    s[np.triu_indices(n, 1)] = np.nan
    arguments = [s, k, np.zeros((n, 64), np.float32), n]
    out = run_ptx(artifact, arguments, (n // 64, 1, 1))[2]
    np.testing.assert_allclose(np.asarray(out), wanted, atol=5e-3)
    module = prepared(build(masked_operand, signature, divisors).module, 4, 2)
    steps = nvidia_passes()
    names = [step.name for step in steps]
    run_pipeline(module, steps[: names.index("prefetch-loads") + 1], target_info(target))
    assert not waited_for(module)
