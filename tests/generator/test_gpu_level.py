"""Random calls of `matmul`, as a GPU would have them, interpreted after all passes for it, against float64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.generator.gpu_level import interpret
from tests.generator.programs import aligned
from tests.generator.test_matmul import random_array, random_product

import tilewright as tw
from tilewright import dtypes
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.target import target_info
from tilewright.passes.gpu.analysis.registers import max_registers_per_thread
from tilewright.runtime.matmul.epilogues import parts_of

pytestmark = pytest.mark.sampled(6, full=6)

KINDS = {
    "float32": dtypes.float32, "float16": dtypes.float16, "bfloat16": dtypes.bfloat16,
    "float64": dtypes.float64, "int8": dtypes.int8, "float8_e4m3fn": dtypes.float8e4nv,
}  # fmt: skip
RESULTS = {"int8": dtypes.float32, "float8_e4m3fn": dtypes.float16}
SIZES = (1, 2, 7, 16, 24, 33, 64, 72, 100, 128, 136, 200)


def array(rng, shape, dtype, turned=False):
    """A random array at a multiple of 16 bytes."""
    found = empty(shape, KINDS[dtype], turned)
    found[...] = random_array(rng, shape, dtype)
    return found


def empty(shape, kind, turned=False):
    if not turned:
        return aligned(shape, kind)
    return np.swapaxes(aligned((*shape[:-2], shape[-1], shape[-2]), kind), -1, -2)


def random_config(rng, target):
    form = str(rng.choice(["tiled"] * 7 + ["listing1"]))
    hopper = target == "sm_90a"
    warps = int(rng.choice([1, 2, 4, 4, 8, 8, 12] if hopper else [1, 2, 4, 8]))
    persistent = bool(rng.random() < 0.3)
    return tw.MatmulConfig(
        192 if warps == 12 else int(rng.choice([16, 32, 64, 128])),
        int(rng.choice([16, 32, 64, 96, 128] if hopper else [16, 32, 64, 128])),
        int(rng.choice([16, 32, 64])), int(rng.choice([1, 4])), warps, int(rng.choice([1, 2, 3, 4])),
        split_k=int(rng.choice([1, 1, 2, 3])) if form == "tiled" else 1,
        persistent=persistent, tma_multicast=persistent and bool(rng.random() < 0.4),
        multicast_operand="ab"[int(rng.integers(2))],
        use_tma=bool(rng.random() < 0.8), wgmma_rs=bool(rng.random() < 0.7), form=form,
    )  # fmt: skip


def run_case(seed, **how):
    rng = np.random.default_rng(seed)
    made = random_product(rng, SIZES, array)
    target = str(rng.choice(["sm_90a", "sm_90a", "sm_80"]))
    config = random_config(rng, target) if rng.random() < 0.75 else None
    if config is not None and rng.random() < 0.3:
        functions = any(part.kind == "function" for part in parts_of(made.parts))
        config = config.with_(swap_operands=not functions)
    kind = RESULTS.get(made.dtype, KINDS[made.dtype])
    out = empty(made.reference.shape, kind, rng.random() < 0.2)
    out[...] = np.float64(-99)
    found = interpret(
        target_info(target), made.a, made.b, out, made.parts, config=config, **made.options, **how
    )
    made.check(out, found.config)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1 << 30))
def test_random_calls(seed):
    run_case(seed)


@pytest.mark.long
@settings(max_examples=600, deadline=None)
@given(st.integers(0, 1 << 30))
def test_many_random_calls(seed):
    run_case(seed)


@pytest.mark.parametrize("batched", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("block_k", [16, 64])
def test_split_batches_with_an_old_c(batched, turned, block_k):
    """More parts than steps, in every order and batching; the workspace begins as NaN."""
    rng = np.random.default_rng(57)
    m, n, k, batch = 72, 76, 64, (2, 3)
    a = array(rng, (*(batch if batched[0] else ()), m, k), "float16", turned[0])
    b = array(rng, (*(batch if batched[1] else ()), k, n), "float16", turned[1])
    product = np.matmul(a.astype(np.float64), b.astype(np.float64))
    c, bias = array(rng, product.shape, "float16"), array(rng, (n,), "float16")
    out = empty(product.shape, dtypes.float16)
    config = tw.MatmulConfig(64, 64, block_k, 8, 8, 3, 3)
    parts = [tw.epilogue.bias(bias), "relu"]
    interpret(target_info("sm_90a"), a, b, out, parts, config=config, c=c, beta=2.0)
    wanted = np.maximum(product + 2 * c.astype(np.float64) + bias.astype(np.float64), 0)
    assert (np.abs(out - wanted) <= 2e-3 * (np.abs(wanted) + 48)).all()


@pytest.mark.parametrize("split", [1, 3])
@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False)])
def test_operands_change_places(turned, split):
    """With few rows, everything that an epilogue may be given; 33 x 200 in tiles of 64 x 64 of the transposed result."""
    rng, m, n, k = np.random.default_rng(5), 33, 200, 136
    a, b = array(rng, (m, k), "float16", turned[0]), array(rng, (k, n), "float16", turned[1])
    c, bias, scale = (array(rng, s, "float16") for s in ((m, n), (n,), (m,)))
    product = a.astype(np.float64) @ b.astype(np.float64)
    out = empty(product.shape, dtypes.float16)
    config = tw.MatmulConfig(64, 64, 32, 8, 4, 3, split, swap_operands=True)
    parts = [tw.epilogue.bias(bias), tw.epilogue.scale(scale, "m"), "relu"]
    found = interpret(
        target_info("sm_90a"), a, b, out, parts, config=config, c=c, beta=2.0, alpha=0.5
    )
    assert found.swapped and (found.problem.m, found.problem.n) == (n, m)
    wanted = (0.5 * product + 2 * c + bias.astype(np.float64)) * scale.astype(np.float64)[:, None]
    wanted = np.maximum(wanted, 0)
    assert (np.abs(out - wanted) <= 4e-3 * (np.abs(wanted) + 48)).all()


@pytest.mark.parametrize("target", ["sm_90a", "sm_80"])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("shape", [(1, 200, 7), (200, 1, 16), (1, 72, 40), (130, 1, 33)])
def test_vectors_by_a_few_rows_of_k_at_a_time(shape, turned, target):
    rng, (m, n, k) = np.random.default_rng(3), shape
    a = array(rng, (m, k), "float16", turned and n == 1)
    b = array(rng, (k, n), "float16", turned and m == 1)
    out = empty((m, n), dtypes.float32)
    configs = [
        None,
        *([tw.MatmulConfig(*((1, 64) if m == 1 else (64, 1)), 8, 1, 4, 3, form="gemv")] * (k > 16)),
    ]
    for config in configs:
        out[...] = np.nan
        interpret(target_info(target), a, b, out, config=config)
        wanted = a.astype(np.float64) @ b.astype(np.float64)
        assert np.abs(out - wanted).max() <= 1e-4 * np.abs(wanted).max()


@pytest.mark.parametrize(("block", "warps", "threads"), [
    ((128, 256), 8, 288), ((192, 192), 12, 416), ((192, 256), 12, 384),
])  # fmt: skip
def test_one_more_warp_only_where_registers_are_left(block, warps, threads):
    """12 warps and one leave a thread 128 registers: enough for 96 sums, not for 128."""
    made = []

    def compiled(program, target, module, *_):
        options = Options(num_warps=program.config.num_warps, num_stages=3)
        made.append(backend.compile(module, options, target).plan)

    rng = np.random.default_rng(1)
    a, b = array(rng, (400, 512), "float16"), array(rng, (512, 512), "float16")
    out = empty((400, 512), dtypes.float16)
    config = tw.MatmulConfig(*block, 64, 8, warps, 3, persistent=True)
    interpret(target_info("sm_90a"), a, b, out, config=config, run=compiled)
    (plan,) = made
    assert plan.threads == threads and plan.spills == 0
    assert plan.registers <= max_registers_per_thread(threads // 32)


@pytest.mark.parametrize(
    ("warps", "most"), [(1, 255), (4, 255), (8, 255), (9, 168), (12, 168), (13, 128), (32, 64)]
)
def test_registers_of_a_thread(warps, most):
    assert max_registers_per_thread(warps) == most
