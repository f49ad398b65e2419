"""Every form that products take on a GPU, executed as PTX text, against float64: attention, converted operands,
types, blocks that are no powers of two, boxes stored in loops over tiles, warp roles, described matmuls."""

import random
import re
import types

import ml_dtypes
import numpy as np
import pytest
from tests.attention import attention_ir
from tests.generator import test_gpu_level as level
from tests.generator.gpu_level import executed, interpret
from tests.mixed_precision_dots import mixed_ir
from tests.non_pow2_tiles import grid, product_ir
from tests.passes import test_attention as of_attention
from tests.passes import test_dot_types as of_types
from tests.passes import test_mixed_precision_dots as of_mixed
from tests.passes import test_non_pow2_tiles as of_blocks
from tests.ptx.launch import run_ptx
from tests.ptx.values import Fault
from tests.tiled_products import one_tile, product

import tilewright as tw
from tilewright import dtypes
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.target import target_info
from tilewright.dtypes import constexpr
from tilewright.frontend import build
from tilewright.ir.text import parse_ir

pytestmark = pytest.mark.sampled(24, full=24)

TARGETS = ("sm_80", "sm_89", "sm_90a")


def compiled(module, target, warps=4, stages=3, off=()):
    options = Options(num_warps=warps, num_stages=stages, disable=off)
    return backend.compile(module, options, target_info(target))


# ---- attention -----------------------------------------------------------------------------------------


def attend(case, off=(), chance=None):
    blocks, depth, warps, stages, n, causal, ragged, kind, target = case
    arguments, wanted = of_attention.case(1, n, depth, causal, kind)
    module = attention_ir(*blocks, depth, causal, ragged, getattr(dtypes, kind))
    artifact = compiled(module, target, warps, stages, off)
    found = run_ptx(artifact, arguments, (-(-n // blocks[0]), 1, 1), chance)
    of_attention.check(found, wanted, kind)


@pytest.mark.parametrize("case", of_attention.CASES)
def test_attention(case):
    attend(case)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("case", of_attention.CASES)
def test_attention_with_warps_in_any_order(case, seed):
    attend(case, chance=random.Random(seed))


@pytest.mark.long
@pytest.mark.parametrize("case", [of_attention.CASES[0], of_attention.CASES[4]])
@pytest.mark.parametrize("off", of_attention.OFF, ids=lambda d: "+".join(d))
def test_attention_without_passes(off, case):
    attend(case, off)


# ---- converted operands, types --------------------------------------------------------------------------


def mixed(name, target, off=()):
    arguments, wanted = of_mixed.case(name)
    artifact = compiled(mixed_ir(name, of_mixed.BLOCKS), target, off=off)
    of_mixed.check(run_ptx(artifact, arguments, (2, 1, 1)), name, wanted)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["weights", "scaled"])
def test_converted_operands(name, target):
    mixed(name, target)


@pytest.mark.long
@pytest.mark.parametrize("off", [
    ("promote-shared",), ("pipeline-loads",), ("pipeline-loads{tma=false}",), ("swizzle-shared",),
    ("promote-shared{register-operands=false}",), ("pipeline-loads{multiple-dots=false}",), ("raise-access",),
])  # fmt: skip
@pytest.mark.parametrize("name", ["weights", "scaled"])
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_converted_operands_without_passes(name, off, target):
    mixed(name, target, off)


def dot(types, by_k, target, warps=4, blocks=(64, 64, 64), off=(), imprecise=None):
    arguments = of_types.case(types, by_k)
    a, b, c = arguments[:3]
    module = parse_ir(of_types.text_of(types, by_k, imprecise, blocks))
    programs = (-(-a.shape[0] // blocks[0]), -(-c.shape[1] // blocks[1]), 1)
    found = run_ptx(compiled(module, target, warps, off=off), list(arguments), programs)[2]
    wanted = of_types.reference(a, b, by_k)
    if c.dtype.kind == "i":
        np.testing.assert_array_equal(found, wanted)
        return
    wide = np.abs(b.astype(float))
    size = np.abs(a.astype(float)) @ (wide.T if by_k else wide)
    bounds = of_types.BOUNDS | {"tf32": 2.0**-9}  # which the tensor cores cut operands to
    bound = bounds.get(types, 2.0**-10 if c.dtype == "f2" else 2.0**-20)
    assert (np.abs(found.astype(float) - wanted) <= size * bound).all()


@pytest.mark.parametrize("by_k", [False, True], ids=["by n", "by k"])
@pytest.mark.parametrize("types", [t for t in of_types.TYPES if t != "ieee"])
def test_types(types, by_k):
    dot(types, by_k, "sm_90a")


@pytest.mark.parametrize("imprecise", [32, 0])
def test_sums_that_are_added_up_in_single_precision(imprecise):
    dot("e4m3", True, "sm_90a", imprecise=imprecise)


@pytest.mark.long
@pytest.mark.parametrize("form", ["sm_80", "sm_89", "threads", "shared", "wide", "unswizzled"])
@pytest.mark.parametrize("by_k", [False, True], ids=["by n", "by k"])
@pytest.mark.parametrize("types", of_types.TYPES)
def test_types_in_other_forms(types, by_k, form):
    match form:
        case "threads":
            dot(types, by_k, "sm_90a", off=("pipeline-loads{tma=false}",))
        case "shared":
            dot(types, by_k, "sm_90a", off=("promote-shared{register-operands=false}",))
        case "unswizzled":
            dot(types, by_k, "sm_90a", off=("swizzle-shared",))
        case "wide":
            dot(types, by_k, "sm_90a", 8, (128, 64, 32))
        case _:
            dot(types, by_k, form)


# ---- loops over tiles ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("blocks", "warps", "stages", "sizes", "_"), of_blocks.BLOCKS[1:])
def test_blocks_that_are_no_powers_of_two(blocks, warps, stages, sizes, _):
    arguments, wanted = of_blocks.case(*sizes)
    module = product_ir(*blocks, even=sizes[2] % blocks[2] == 0)
    found = run_ptx(
        compiled(module, "sm_90a", warps, stages), arguments, grid(*sizes[:2], blocks[:2])
    )
    of_blocks.close(found[2], wanted)


KINDS = {
    "float16": (dtypes.float16, np.float16), "float32": (dtypes.float32, np.float32),
    "bfloat16": (dtypes.bfloat16, ml_dtypes.bfloat16),
}  # fmt: skip


def tiled_artifact(kernel, kind, rows, sizes, blocks, warps, stages, off=()):
    """A compiled product in tiles, its arguments, and what it should be."""
    m, n, k = sizes
    language, element = KINDS[kind]
    a, b = of_blocks.aligned(m, k), of_blocks.aligned(k, n)
    c = of_attention.aligned((m, n), element)
    constants = dict(zip(("BM", "BN", "BK"), map(constexpr, blocks), strict=True))
    half = dtypes.pointer_type(dtypes.float16)
    signature = {"a": half, "b": half, "c": dtypes.pointer_type(language)} | constants
    strides = {"stride_cm": n, "stride_cn": 1} if rows else {"stride_cm": 1, "stride_cn": m}
    values = {"M": m, "N": n, "K": k} | strides
    signature |= {x: constexpr(1) if v == 1 else dtypes.int32 for x, v in values.items()}
    divisible = {x: 16 for x in ("a", "b", "c", *(x for x, v in values.items() if v % 16 == 0))}
    module = build(kernel, signature, divisible).module
    artifact = compiled(module, "sm_90a", warps, stages, off)
    arguments = [a, b, c, *(v for v in values.values() if v != 1)]
    return artifact, arguments, a.astype(np.float64) @ b.astype(np.float64)


def tiled(kernel, kind, rows, sizes, blocks, warps, stages, programs, chance=None, off=()):
    artifact, arguments, wanted = tiled_artifact(
        kernel, kind, rows, sizes, blocks, warps, stages, off
    )
    found = run_ptx(artifact, arguments, (programs, 1, 1), chance)[2].astype(np.float64)
    found = found if rows else found.reshape(wanted.shape[::-1]).T
    bound = 2e-2 if kind == "bfloat16" else 2e-3
    np.testing.assert_allclose(found, wanted, rtol=bound, atol=bound * 8)
    return artifact


@pytest.mark.parametrize("chance", [None, 0], ids=["in step", "any order"])
@pytest.mark.parametrize("rows", [True, False], ids=["rows", "columns"])
@pytest.mark.parametrize("kind", KINDS)
def test_tiles_one_after_another(kind, rows, chance):
    """Warp roles, stages and phases that go on from tile to tile, boxes stored meanwhile: parities turn many
    times, some tiles are cut, and a program has as many as five."""
    order = random.Random(chance) if chance is not None else None
    made = tiled(product, kind, rows, (144, 208, 96), (64, 64, 32), 4, 3, 3, order)
    ptx = made.asm["ptx"]
    assert made.plan.threads == 160 and "bulk_group" in ptx and "mbarrier.arrive.release" in ptx


@pytest.mark.parametrize(("blocks", "warps", "stages", "sizes"), [
    ((128, 128, 64), 8, 3, (144, 272, 208)), ((64, 64, 128), 4, 2, (80, 144, 400)),
    ((64, 128, 64), 4, 4, (144, 272, 0)), ((128, 64, 32), 8, 2, (272, 80, 32)),
])  # fmt: skip
def test_tiles_in_other_sizes(blocks, warps, stages, sizes):
    tiled(product, "float16", True, sizes, blocks, warps, stages, 2)


@pytest.mark.long
@pytest.mark.parametrize("off", [
    (), ("specialize-warps",), ("lower-stores-to-tma",), ("pipeline-loads{tma=false}",), ("swizzle-shared",),
    ("pipeline-loads{tma=false}", "lower-stores-to-tma"), ("pipeline-loads",), ("insert-barriers",),
])  # fmt: skip
@pytest.mark.parametrize("kernel", [product, one_tile], ids=["loop", "program"])
@pytest.mark.parametrize("warps", [4, 8])
def test_tiles_without_passes(kernel, warps, off):
    programs = 12 if kernel is one_tile else 3
    for seed in (None, 1):
        chance = random.Random(seed) if seed is not None else None
        tiled(
            kernel, "float16", True, (144, 208, 96), (64, 64, 32), warps, 3, programs, chance, off
        )


@pytest.mark.parametrize("chance", [None, 1], ids=["in step", "any order"])
@pytest.mark.parametrize(("kind", "rows", "slots"), [
    ("float32", True, 1), ("float32", True, 2), ("float32", True, 3), ("float16", True, 1),
    ("float32", False, 2),
])  # fmt: skip
def test_results_in_parts(kind, rows, slots, chance):
    """Parts take turns in fewer places than there are parts."""
    order = random.Random(chance) if chance is not None else None
    off = (f"lower-stores-to-tma{{epilogue-stages={slots}}}",)
    made = tiled(product, kind, rows, (144, 272, 64), (128, 128, 32), 8, 2, 2, order, off)
    parts = 2 if kind == "float16" else 4
    assert made.asm["ptx"].count("bulk.commit_group") == parts


@pytest.mark.long
@pytest.mark.parametrize("slots", [1, 2, 3])
def test_nothing_that_parts_wait_for_could_be_left_out(slots):
    off = (f"lower-stores-to-tma{{epilogue-stages={slots}}}",)
    sizes, blocks = (144, 272, 64), (128, 128, 32)
    artifact, arguments, _ = tiled_artifact(product, "float32", True, sizes, blocks, 8, 2, off)
    ptx, survivors = artifact.asm["ptx"], []
    start = ptx.index("bulk.wait_group")
    for found in re.finditer(
        r"bar(?:rier)?\.(?:cta\.)?sync[^;]*;|fence\.proxy\.async[^;]*;|cp\.async\.bulk\.wait_group[^;]*;",
        ptx,
    ):
        spoiled = ptx[: found.start()] + ptx[found.end() :]
        wrong = types.SimpleNamespace(plan=artifact.plan, asm={"ptx": spoiled})
        try:
            for order in (None, random.Random(3), random.Random(4)):
                run_ptx(wrong, arguments, (2, 1, 1), order)
        except Fault:
            continue
        if found.start() >= start:
            survivors.append(found.group())
    assert not survivors


# ---- described matmuls ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_described_products(seed):
    level.run_case(seed, run=executed)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(100, 300))
def test_many_described_products(seed):
    level.run_case(seed, run=executed)


@pytest.mark.parametrize("seed", [None, 1], ids=["in step", "any order"])
@pytest.mark.parametrize("kind", ["float16", "float32"])
def test_epilogues_of_one_tile_after_another(kind, seed):
    """Rows and columns that are loaded before the products, meet the sums through shared memory, and are read there
    while results are written: with a warp that copies, and in any order of warps."""
    rng, (m, n, k) = np.random.default_rng(2), (272, 208, 96)
    a, b = level.array(rng, (m, k), "float16"), level.array(rng, (k, n), "float16")
    across, down = level.array(rng, (n,), "float16"), level.array(rng, (m,), "float32")
    out = level.empty((m, n), KINDS[kind][0])
    steps = [
        tw.epilogue.bias(across), "gelu_tanh", tw.epilogue.bias(down, axis="m"), "silu",
        tw.epilogue.scale(across),
    ]  # fmt: skip
    config = tw.MatmulConfig(64, 128, 32, 4, 4, 3, persistent=True)
    made = []

    def run(*given):
        made.append(executed(*given, chance=random.Random(seed) if seed else None))

    interpret(target_info("sm_90a"), a, b, out, steps, config=config, run=run)
    wanted = a.astype(np.float64) @ b.astype(np.float64) + across.astype(np.float64)
    wanted = _gelu_tanh(wanted) + down[:, None].astype(np.float64)
    wanted = wanted / (1 + np.exp(-wanted)) * across.astype(np.float64)
    assert (np.abs(out - wanted) <= 2e-3 * (np.abs(wanted) + 1)).all()
    assert made[0].plan.threads == 160


def _gelu_tanh(x):
    return x * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


EDGES = (
    np.nan,
    1.0,
    np.inf,
    -2.0,
    np.nan,
    np.nan,
    -1e30,
    3.0,
    -9.0,
    1e30,
    -45.0,
    0.5,
    -120.0,
    -0.0,
    2.0,
    -7.0,
)


@pytest.mark.parametrize("name", ["gelu_tanh", "silu"])
def test_elements_that_share_a_reciprocal_keep_to_themselves(name):
    """NaN, infinity and what is far from 0, beside what is not."""
    a, b = level.empty((64, 16), dtypes.float16), level.empty((16, 64), dtypes.float16)
    a[...] = b[...] = 0
    bias, out = level.empty((64,), dtypes.float32), level.empty((64, 64), dtypes.float32)
    bias[...] = np.concatenate([EDGES, EDGES[1:], np.linspace(-50, 50, 33)])
    config = tw.MatmulConfig(64, 64, 16, 1, 4, 2)
    steps = [tw.epilogue.bias(bias), name]
    interpret(target_info("sm_90a"), a, b, out, steps, config=config, run=executed)
    x = bias.astype(np.float64)
    with np.errstate(all="ignore"):
        power = -x if name == "silu" else -2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
        wanted = x / (1 + np.exp(power))
    np.testing.assert_array_equal(np.isnan(out), np.broadcast_to(np.isnan(x), out.shape))
    finite = np.isfinite(x)
    assert (out[:, x == np.inf] == np.inf).all()
    error = np.abs(out - wanted)[:, finite]
    assert (error <= 1.5e-7 * np.abs(x[finite])).all()
    assert (error <= 5e-6 * np.abs(wanted[finite]) + 1e-17).all()
