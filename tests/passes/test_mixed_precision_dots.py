"""Operands that are converted on their way are fetched ahead, and results stay right after every pass."""

import ml_dtypes
import numpy as np
import pytest
from tests.mixed_precision_dots import mixed_ir
from tests.run_on_copies import run_on_copies
from xdsl.dialects.builtin import IntegerAttr, i32

from tilewright.backends.nvidia.codegen import emit_module
from tilewright.backends.nvidia.pipeline import nvidia_passes
from tilewright.backends.nvidia.target import target_info
from tilewright.passes.manager import run_pipeline

pytestmark = pytest.mark.sampled(4, full=4)

BLOCKS, M, N, K = (64, 64, 64), 128, 64, 192


def aligned(shape, kind):
    """Zeros at a multiple of 16 bytes."""
    count = int(np.prod(shape)) * np.dtype(kind).itemsize
    raw = np.zeros(count + 16, np.uint8)
    start = -raw.ctypes.data % 16
    return raw[start : start + count].view(kind).reshape(shape)


def case(name):
    random = np.random.default_rng(7)
    c = aligned((M, N), np.float32)
    if name == "weights":
        a, b = aligned((M, K), np.float16), aligned((K, N), np.int8)
        a[:] = random.standard_normal(a.shape)
        b[:] = random.integers(-100, 100, b.shape)
        matrices, wanted = [a, b, c], a.astype(np.float64) @ b.astype(np.float64)
    else:
        a, s = aligned((M, K), np.uint8), aligned((M, K // 32), np.uint8)
        b = aligned((K, N), ml_dtypes.bfloat16)
        numbers = random.standard_normal(a.shape).astype(ml_dtypes.float8_e4m3fn)
        a[:], s[:] = numbers.view(np.uint8), random.integers(124, 130, s.shape)
        b[:] = random.standard_normal(b.shape).astype(b.dtype)
        scales = np.repeat(2.0 ** (s.astype(np.float64) - 127), 32, axis=1)
        matrices = [a, s, b, c]
        wanted = (numbers.astype(np.float64) * scales) @ b.astype(np.float64)
    return [*matrices, K, K, N, N], wanted


def check(after, name, wanted, what=""):
    found = after[2 if name == "weights" else 3].reshape(wanted.shape)
    scale = np.abs(wanted).max()
    np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-3 * scale, err_msg=what)


def prepared(name, warps=4, stages=3):
    module = mixed_ir(name, BLOCKS)
    function = module.body.block.first_op
    function.attributes["gpu.num_warps"] = IntegerAttr(warps, i32)
    function.attributes["gpu.num_stages"] = IntegerAttr(stages, i32)
    return module


@pytest.mark.parametrize("target", ["sm_80", "sm_89", "sm_90a"])
@pytest.mark.parametrize("name", ["weights", "scaled"])
def test_results_after_each_pass(name, target):
    arguments, wanted = case(name)
    module = prepared(name)
    for step in nvidia_passes():
        before = str(module)
        step.apply(module, target_info(target))
        module.verify()
        if str(module) != before and step.name not in ("cse", "licm", "simplify"):
            check(run_on_copies(module, arguments, (2, 1, 1)), name, wanted, step.name)
    emit_module(module, target_info(target))


@pytest.mark.parametrize("disabled", [
    ("promote-shared",), ("pipeline-loads",), ("pipeline-loads{tma=false}",), ("swizzle-shared",),
    ("promote-shared{register-operands=false}",), ("pipeline-loads{multiple-dots=false}",), ("raise-access",),
])  # fmt: skip
@pytest.mark.parametrize("name", ["weights", "scaled"])
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_results_without_passes(name, disabled, target):
    arguments, wanted = case(name)
    module = prepared(name)
    run_pipeline(module, nvidia_passes(), target_info(target), disabled=disabled)
    check(run_on_copies(module, arguments, (2, 1, 1)), name, wanted)


@pytest.mark.parametrize("target", ["sm_80", "sm_89", "sm_90a"])
@pytest.mark.parametrize("name", ["weights", "scaled"])
def test_large_operands_are_copied_ahead(name, target):
    module = prepared(name)
    run_pipeline(module, nvidia_passes(), target_info(target))
    text = str(module)
    body = text[text.index("scf.for") :].split("scf.yield %")[0]
    copies = "gpu.tma_load" if target == "sm_90a" else "gpu.async_copy"
    assert body.count(copies) == 2
    assert "gpu.async_wait 1" in body or "gpu.mbarrier_wait" in body
    assert "!tile.ptr<i8> to tensor<64x64xi8" not in body
