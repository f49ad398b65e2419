"""Products of every type and both majors: the interpreter gives NumPy's result after every GPU pass, and
every target assembles them."""

import functools

import ml_dtypes
import numpy as np
import pytest
from tests.run_on_copies import run_on_copies
from xdsl.dialects.builtin import IntegerAttr, i32

import tilewright as tw
import tilewright.language as tl
from tilewright import dtypes
from tilewright.backends.base import Options
from tilewright.backends.nvidia import tools
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.codegen import emit_module
from tilewright.backends.nvidia.pipeline import nvidia_passes
from tilewright.backends.nvidia.target import target_info
from tilewright.dtypes import constexpr
from tilewright.errors import KernelTypeError, PassError
from tilewright.frontend import build
from tilewright.ir.text import parse_ir, verify_ir
from tilewright.passes.manager import run_pipeline

pytestmark = pytest.mark.sampled(8, full=8)


@tw.jit
def product(
    a_ptr, b_ptr, c_ptr, M, N, K, a_pitch, b_pitch, c_pitch,
    B_BY_K: tl.constexpr, KIND: tl.constexpr, PRECISION: tl.constexpr, IMPRECISE: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    sums = tl.zeros((BM, BN), KIND)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(
            a_ptr + m[:, None] * a_pitch + k[None, :],
            (m[:, None] < M) & (k[None, :] < K),
            other=0,
        )
        if B_BY_K:
            b_at = b_ptr + n[None, :] * b_pitch + k[:, None]
        else:
            b_at = b_ptr + k[:, None] * b_pitch + n[None, :]
        b = tl.load(b_at, (k[:, None] < K) & (n[None, :] < N), other=0)
        sums = tl.dot(
            a, b, sums, out_dtype=KIND, input_precision=PRECISION, max_num_imprecise_acc=IMPRECISE
        )
    at = c_ptr + m[:, None] * c_pitch + n[None, :]
    tl.store(at, sums, (m[:, None] < M) & (n[None, :] < N))


E4, E5 = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2)
LANGUAGE = {
    E4: dtypes.float8e4nv, E5: dtypes.float8e5, np.dtype("f2"): dtypes.float16,
    np.dtype(ml_dtypes.bfloat16): dtypes.bfloat16, np.dtype("f4"): dtypes.float32,
    np.dtype("i1"): dtypes.int8, np.dtype("i4"): dtypes.int32,
}  # fmt: skip
TYPES = {
    "ieee": ("f4", "f4", "f4"),
    "tf32": ("f4", "f4", "f4"),
    "tf32x3": ("f4", "f4", "f4"),
    "bf16x3": ("f4", "f4", "f4"),
    "bf16x6": ("f4", "f4", "f4"),
    "bf16": (ml_dtypes.bfloat16, ml_dtypes.bfloat16, "f4"),
    "f16": ("f2", "f2", "f4"),
    "f16 sums": ("f2", "f2", "f2"),
    "int8": ("i1", "i1", "i4"),
    "e4m3": (E4, E4, "f4"),
    "e5m2": (E5, E5, "f4"),
    "e4m3 e5m2": (E4, E5, "f4"),
    "e5m2 e4m3": (E5, E4, "f4"),
    "e4m3 f16 sums": (E4, E4, "f2"),
}


BOUNDS = {"bf16x3": 2.0**-14}


def values(shape, kind, seed):
    """Random numbers at a multiple of 16 bytes."""
    rng = np.random.default_rng(seed)
    raw = np.zeros(int(np.prod(shape)) * kind.itemsize + 16, np.uint8)
    start = -raw.ctypes.data % 16
    array = raw[start : start + int(np.prod(shape)) * kind.itemsize].view(kind).reshape(shape)
    if kind.kind == "i":
        array[:] = rng.integers(-128, 127, shape, endpoint=True)
    else:
        array[:] = rng.standard_normal(shape).astype(kind)
    return array


def case(types, by_k, shape=(72, 80, 96)):
    kinds = [np.dtype(t) for t in TYPES[types]]
    m, n, k = shape
    a = values((m, k), kinds[0], 1)
    b = values((n, k) if by_k else (k, n), kinds[1], 2)
    c = values((m, n), kinds[2], 3)
    return a, b, c, m, n, k, k, k if by_k else n, n


@functools.cache
def text_of(types, by_k, imprecise=None, blocks=(64, 64, 64)):
    arguments = case(types, by_k)
    signature, divisible = {}, {}
    for parameter, value in zip(product.params, arguments, strict=False):
        if isinstance(value, np.ndarray):
            signature[parameter.name] = dtypes.pointer_type(LANGUAGE[value.dtype])
        else:
            signature[parameter.name] = dtypes.int32
        if isinstance(value, np.ndarray) or value % 16 == 0:
            divisible[parameter.name] = 16
    constants = {
        "B_BY_K": by_k, "KIND": LANGUAGE[arguments[2].dtype], "PRECISION": types if TYPES[types] == TYPES["ieee"] else "tf32",
        "IMPRECISE": imprecise, "BM": blocks[0], "BN": blocks[1], "BK": blocks[2],
    }  # fmt: skip
    signature.update({name: constexpr(value) for name, value in constants.items()})
    return str(build(product, signature, divisible).module)


def reference(a, b, by_k):
    wide = np.int64 if a.dtype.kind == "i" else np.float64
    right = b.astype(wide)
    return a.astype(wide) @ (right.T if by_k else right)


def check(module, types, by_k, what):
    arguments = case(types, by_k)
    a, b, c = arguments[:3]
    after = run_on_copies(module, list(arguments), (2, 2, 1))
    want = reference(a, b, by_k)
    if c.dtype.kind == "i":
        np.testing.assert_array_equal(after[2].reshape(c.shape), want, err_msg=what)
        return
    size = np.abs(a.astype(float)) @ np.abs(b.astype(float).T if by_k else b.astype(float))
    error = np.abs(after[2].reshape(c.shape).astype(float) - want)
    assert np.all(error <= size * BOUNDS.get(types, 2.0**-10 if c.dtype == "f2" else 2.0**-21)), (
        what
    )


def with_options(text, warps, stages):
    module = parse_ir(text)
    function = module.body.block.first_op
    function.attributes["gpu.num_warps"] = IntegerAttr(warps, i32)
    function.attributes["gpu.num_stages"] = IntegerAttr(stages, i32)
    return module


@pytest.mark.parametrize("by_k", [False, True], ids=["by n", "by k"])
@pytest.mark.parametrize("types", TYPES)
def test_results_after_each_pass(types, by_k):
    module = with_options(text_of(types, by_k), 4, 3)
    for step in nvidia_passes():
        before = str(module)
        step.apply(module, target_info("sm_90a"))
        verify_ir(module)
        if str(module) != before and step.name in (
            "emulate-fp32-dots", "select-mma", "assign-layouts", "promote-shared", "pipeline-loads",
        ):  # fmt: skip
            check(module, types, by_k, f"after {step.name}")
    check(module, types, by_k, "at the end")
    assert "gpu.wgmma" in str(module)


@pytest.mark.parametrize("by_k", [False, True], ids=["by n", "by k"])
@pytest.mark.parametrize("types", TYPES)
def test_targets_assemble(types, by_k):
    for target in ("sm_80", "sm_89", "sm_90a"):
        made = backend.compile(parse_ir(text_of(types, by_k)), Options(), target_info(target))
        instruction = "wgmma.mma_async" if target == "sm_90a" else "mma.sync"
        instruction = "fma.rn.f32" if types == "ieee" else instruction
        assert instruction in made.asm["ptx"]
        if tools.find("ptxas"):
            assert "(C75" not in made.asm.get("log", ""), made.asm["log"]


@pytest.mark.parametrize(("limit", "groups"), [(None, 1), (64, 1), (33, 1), (32, 2), (0, 2)])
def test_imprecise_sums_are_added_up_in_single_precision(limit, groups):
    """Every so many products leave the tensor cores; a product of K = 64 takes two instructions."""
    module = with_options(text_of("e4m3", True, limit), 4, 3)
    run_pipeline(module, nvidia_passes(), target_info("sm_90a"))
    check(module, "e4m3", True, str(limit))
    made = backend.compile(parse_ir(text_of("e4m3", True, limit)), Options(), target_info("sm_90a"))
    ptx = made.asm["ptx"]
    assert ptx.count("wgmma.mma_async") == 2 and ptx.count("wgmma.commit_group") == groups
    assert ("add.rn.f32" in ptx or "add.f32" in ptx) == (limit is not None)


def test_more_imprecise_sums_than_products_are_an_error():
    with pytest.raises(KernelTypeError, match="max_num_imprecise_acc is 65, but K is 64"):
        text_of("e4m3", True, 65)


def test_operands_that_wgmma_cannot_read_are_an_error():
    module = with_options(text_of("int8", True), 4, 3)
    run_pipeline(module, nvidia_passes(), target_info("sm_90a"))
    text = str(module).replace("64x64x1 dim0", "64x64x1 dim1")
    with pytest.raises(PassError, match=r"wgmma\.k32\.s8 takes operands that are contiguous"):
        emit_module(parse_ir(text), target_info("sm_90a"))


def test_warps_that_do_not_share_out_a_tile_are_an_error():
    module = with_options(text_of("int8", True), 4, 3)
    run_pipeline(module, nvidia_passes(), target_info("sm_90a"))
    module.body.block.first_op.attributes["gpu.num_warps"] = IntegerAttr(2, i32)
    with pytest.raises(PassError, match="2 warps do not share out a 64x64 tile"):
        emit_module(module, target_info("sm_90a"))
