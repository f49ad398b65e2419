"""Recurrences without dots: the loads of several iterations are issued before the iterations that need them."""

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
from tilewright.passes.analysis.edit import NO_UNROLL
from tilewright.passes.manager import run_pipeline

WIDTH, STATES, STEPS = 32, 8, (0, 1, 3, 4, 11)


@tw.jit
def selective_scan(X, Delta, A, B, C, Out, Final, n, W: tl.constexpr, N: tl.constexpr):
    """Mamba's: a state per channel, which decays by what the step's input says, and an output of each step."""
    w, s = tl.arange(0, W), tl.arange(0, N)
    a = tl.load(A + w[:, None] * N + s[None, :])
    state = tl.zeros((W, N), tl.float32)
    for t in range(n):
        x, delta = tl.load(X + t * W + w), tl.load(Delta + t * W + w)
        b, c = tl.load(B + t * N + s), tl.load(C + t * N + s)
        decay = tl.exp(delta[:, None] * a)
        state = decay * state + (delta * x)[:, None] * b[None, :]
        tl.store(Out + t * W + w, tl.sum(state * c[None, :], 1))
    tl.store(Final + w[:, None] * N + s[None, :], state)


@tw.jit
def leaky_maximum(X, Delta, A, B, C, Out, Final, n, W: tl.constexpr, N: tl.constexpr):
    """Elements are independent; the pointers advance, and some steps write nothing."""
    w = tl.arange(0, W)
    state = tl.zeros((W,), tl.float32)
    x, delta, out = X + w, Delta + w, Out + w
    for t in range(n):
        state = tl.maximum(state * tl.exp(-tl.load(delta)), tl.load(x))
        if t % 3 != 1:
            tl.store(out, state)
        x += W
        delta += W
        out += W
    tl.store(
        Final + w[:, None] * N + tl.arange(0, N)[None, :],
        state[:, None] + tl.zeros((W, N), tl.float32),
    )


@tw.jit
def in_place(X, Delta, A, B, C, Out, Final, n, W: tl.constexpr, N: tl.constexpr):
    """An iteration loads what the one before it has stored: nothing may be loaded ahead of it."""
    w = tl.arange(0, W)
    state = tl.zeros((W,), tl.float32)
    for t in range(n):
        state = state * tl.load(Delta + t * W + w) + tl.load(Out + t * W + w)
        tl.store(Out + (t + 1) * W + w, state)
    tl.store(
        Final + w[:, None] * N + tl.arange(0, N)[None, :],
        state[:, None] + tl.zeros((W, N), tl.float32),
    )


KERNELS = {kernel.__name__: kernel for kernel in (selective_scan, leaky_maximum, in_place)}


def ir_of(name):
    arrays = ("X", "Delta", "A", "B", "C", "Out", "Final")
    signature = dict.fromkeys(arrays, dtypes.pointer_type(dtypes.float32)) | {"n": dtypes.int32}
    signature |= {"W": constexpr(WIDTH), "N": constexpr(STATES)}
    return build(KERNELS[name], signature, dict.fromkeys(arrays, 16)).module


def expected(name, x, delta, a, b, c, out, final, n):
    """Out and Final."""
    out, state = out.copy(), np.zeros(final.shape if name == "selective_scan" else final.shape[:1])
    for t in range(n):
        if name == "selective_scan":
            state = np.exp(delta[t][:, None] * a) * state + (delta[t] * x[t])[:, None] * b[t][None]
            out[t] = (state * c[t][None]).sum(1)
        elif name == "leaky_maximum":
            state = np.maximum(state * np.exp(-delta[t]), x[t])
            out[t] = state if t % 3 != 1 else out[t]
        else:
            state = state * delta[t] + out[t]
            out[t + 1] = state
    return out, state if state.ndim == 2 else np.repeat(state[:, None], final.shape[1], 1)


def case(n):
    rng = np.random.default_rng(n)
    rows = [
        rng.random((n + 1, width)).astype(np.float32)
        for width in (WIDTH, WIDTH, STATES, STATES, WIDTH)
    ]
    x, delta, b, c, out = rows
    a, final = (
        -rng.random((WIDTH, STATES)).astype(np.float32),
        np.zeros((WIDTH, STATES), np.float32),
    )
    return [x, delta, a, b, c, out, final, n]


def optimized(name, last="prefetch-loads"):
    module = prepared(ir_of(name), 4, 2)
    steps = nvidia_passes()
    run_pipeline(module, steps[: [s.name for s in steps].index(last) + 1], target_info("sm_90a"))
    return module


def loops_of(module):
    return [op for op in module.walk() if isinstance(op, scf.ForOp)]


@pytest.mark.parametrize("name", ["selective_scan", "leaky_maximum"])
def test_loads_of_several_iterations_are_in_flight(name):
    main, rest = loops_of(optimized(name))
    assert NO_UNROLL in main.attributes
    per_iteration = [op for op in rest.body.walk() if isinstance(op, tile.LoadViewOp)]
    ahead = [op for op in main.body.walk() if isinstance(op, tile.LoadViewOp)]
    assert len(ahead) >= 2 * len(per_iteration) > 0
    assert not set(waited_for(main)) & set(ahead)


def test_what_the_loop_writes_is_loaded_in_its_place():
    main, _ = loops_of(optimized("in_place"))
    assert waited_for(main)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("last", ["prefetch-loads", "order-instructions"])
def test_results_of_the_passes(name, last):
    module = optimized(name, last)
    for n in STEPS:
        arguments = case(n)
        found = run_on_copies(module, arguments, (1, 1, 1))
        for array, wanted in zip(found[5:7], expected(name, *arguments), strict=True):
            np.testing.assert_allclose(np.asarray(array), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_results_of_machine_code(name, target):
    artifact = backend.compile(ir_of(name), Options(num_warps=4), target_info(target))
    for n in STEPS:
        arguments = case(n)
        found = run_ptx(artifact, arguments, (1, 1, 1))
        for array, wanted in zip(found[5:7], expected(name, *arguments), strict=True):
            np.testing.assert_allclose(np.asarray(array), wanted, rtol=1e-4, atol=1e-5)


@tw.jit
def gates(X, Out, n, W: tl.constexpr):
    """A unit with three gates for each element: three loads in each step."""
    w = tl.arange(0, W)
    state = tl.zeros((W,), tl.float32)
    for t in range(n):
        x = X + t * 3 * W + w
        a, b, c = tl.load(x), tl.load(x + W), tl.load(x + 2 * W)
        state = tl.sigmoid(a + state) * b + tl.exp(-c) * state
        tl.store(Out + t * W + w, state)


@pytest.mark.parametrize(("width", "ahead"), [(512, 3), (1024, 1)])
def test_all_loads_of_a_step_are_ahead_or_few(width, ahead):
    """A warp: 16 registers a load, 48 in all, are twice as many as those of loops with dots at most; 96 are more."""
    signature = dict.fromkeys(("X", "Out"), dtypes.pointer_type(dtypes.float32))
    signature |= {"n": dtypes.int32, "W": constexpr(width)}
    module = build(gates, signature, {"X": 16, "Out": 16}).module
    steps = nvidia_passes()
    names = [step.name for step in steps]
    before = steps[: names.index("prefetch-loads")]
    run_pipeline(prepared(module, 1, 3), before, target_info("sm_90a"))
    (loop,) = [op for op in module.walk() if isinstance(op, scf.ForOp)]
    carried = len(loop.iter_args)
    run_pipeline(module, [steps[names.index("prefetch-loads")]], target_info("sm_90a"))
    (loop,) = [op for op in module.walk() if isinstance(op, scf.ForOp)]
    assert len(loop.iter_args) == carried + ahead
    x = np.random.default_rng(0).random((4, 3, width)).astype(np.float32)
    state, wanted = np.zeros(width), []
    for a, b, c in x.astype(np.float64):
        state = b / (1 + np.exp(-a - state)) + np.exp(-c) * state
        wanted.append(state)
    out = np.zeros((4, width), np.float32)
    found = run_on_copies(module, [x, out, 4], (1, 1, 1))[1]
    np.testing.assert_allclose(found, np.array(wanted), rtol=1e-4)
