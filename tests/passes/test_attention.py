"""Loops with two products: every pass on the way to a GPU and the CPU's machine code against float64, and
what the code of a GPU is made of."""

import itertools
import re
import shutil
import subprocess

import ml_dtypes
import numpy as np
import pytest
from tests.attention import attention_ir, reference
from tests.run_on_copies import run_on_copies
from xdsl.dialects.builtin import IntegerAttr, i32

from tilewright import dtypes
from tilewright.backends.base import Options
from tilewright.backends.cpu.backend import backend as cpu
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.pipeline import nvidia_passes
from tilewright.backends.nvidia.target import target_info
from tilewright.passes.manager import run_pipeline
from tilewright.runtime.compiled import CompiledKernel

pytestmark = pytest.mark.sampled(8, full=8)

KINDS = {"float16": (np.float16, 2e-3), "bfloat16": (ml_dtypes.bfloat16, 1.5e-2)}


def aligned(shape, kind):
    """Random numbers at a multiple of 16 bytes."""
    count = int(np.prod(shape))
    raw = np.zeros(count * np.dtype(kind).itemsize + 16, np.uint8)
    start = -raw.ctypes.data % 16
    array = raw[start : start + count * np.dtype(kind).itemsize].view(kind)
    array[:] = np.random.default_rng(count).standard_normal(count).astype(kind)
    return array.reshape(shape)


def case(heads, n, depth, causal, kind="float16"):
    q, k, v, o = (aligned((heads, n, depth), KINDS[kind][0]) for _ in range(4))
    q[:] = q[:, ::-1] * 2
    k[:] = k[..., ::-1]
    logs = aligned((heads, n), np.float32)
    arguments = [q, k, v, o, logs, np.float32(depth**-0.5), n * depth, depth, n]
    return arguments, reference(q, k, v, depth**-0.5, causal)


def check(after, wanted, kind="float16", what=""):
    tolerance = KINDS[kind][1]
    for found, value in zip((after[3], after[4]), wanted, strict=True):
        np.testing.assert_allclose(
            np.asarray(found).astype(np.float64).reshape(value.shape), value,
            rtol=tolerance, atol=tolerance, err_msg=what,
        )  # fmt: skip


def prepared(module, warps, stages):
    function = module.body.block.first_op
    function.attributes["gpu.num_warps"] = IntegerAttr(warps, i32)
    function.attributes["gpu.num_stages"] = IntegerAttr(stages, i32)
    return module


CASES = [
    # blocks, depth, warps, stages, N, causal, ragged, type, target
    ((64, 64), 64, 4, 3, 192, True, False, "float16", "sm_90a"),
    ((128, 32), 64, 8, 2, 256, False, False, "bfloat16", "sm_90a"),
    ((64, 32), 64, 4, 4, 100, True, True, "float16", "sm_90a"),
    ((64, 64), 64, 8, 3, 128, True, False, "float16", "sm_90a"),  # groups share columns out
    ((64, 64), 64, 4, 3, 192, True, False, "bfloat16", "sm_80"),
    ((32, 32), 32, 4, 3, 100, True, True, "float16", "sm_80"),
    ((64, 16), 64, 4, 4, 80, False, True, "float16", "sm_89"),
]


@pytest.mark.parametrize(
    ("blocks", "depth", "warps", "stages", "n", "causal", "ragged", "kind", "target"), CASES
)
def test_results_after_each_pass(blocks, depth, warps, stages, n, causal, ragged, kind, target):
    arguments, wanted = case(2, n, depth, causal, kind)
    module = attention_ir(*blocks, depth, causal, ragged, getattr(dtypes, kind))
    prepared(module, warps, stages)
    grid = (-(-n // blocks[0]), 2, 1)
    for step in nvidia_passes():
        before = str(module)
        step.apply(module, target_info(target))
        module.verify()
        if str(module) != before and step.name not in ("cse", "licm", "simplify"):
            check(run_on_copies(module, arguments, grid), wanted, kind, step.name)
    check(run_on_copies(module, arguments, grid), wanted, kind, "at the end")


OFF = [
    ("promote-shared",), ("swizzle-shared",), ("pipeline-loads",), ("pipeline-loads{tma=false}",),
    ("select-mma",), ("lower-stores-to-tma",), ("raise-access",), ("insert-barriers",),
    ("swizzle-shared{mode=pad}", "pipeline-loads{tma=false}"), ("pipeline-loads{max-shared-bytes=65536}",),
    ("promote-shared{register-operands=false}",),
    ("promote-shared{register-operands=false}", "pipeline-loads{tma=false}"),
]  # fmt: skip


@pytest.mark.parametrize("target", ["sm_90a", "sm_80"])
@pytest.mark.parametrize("disabled", OFF, ids=lambda d: "+".join(d))
def test_results_without_passes(disabled, target):
    arguments, wanted = case(1, 192, 64, True)
    module = prepared(attention_ir(64, 64, 64, True), 4, 3)
    run_pipeline(module, nvidia_passes(), target_info(target), disabled=disabled)
    check(run_on_copies(module, arguments, (3, 1, 1)), wanted)


@pytest.mark.parametrize(("kind", "causal", "ragged", "n"), [
    ("float16", True, False, 256), ("float16", True, True, 200), ("bfloat16", False, True, 77),
])  # fmt: skip
def test_machine_code_of_the_cpu(kind, causal, ragged, n):
    arguments, wanted = case(3, n, 64, causal, kind)
    options, target = Options(), cpu.target()
    module = attention_ir(64, 64, 64, causal, ragged, getattr(dtypes, kind))
    kernel = CompiledKernel(
        cpu.compile(module, options, target), "attention", options, target, None, False
    )
    kernel.run((-(-n // 64), 3, 1), *arguments)
    check(arguments, wanted, kind)


def loop_of(text):
    """The body of a function's first loop."""
    return text[text.index("scf.for") :].split("scf.yield %")[0]


def laid_out(target, warps=4, stages=3, disabled=(), **kind):
    module = prepared(attention_ir(64, 64, 64, False, **kind), warps, stages)
    run_pipeline(module, nvidia_passes(), target_info(target), disabled=disabled)
    return str(module)


def test_the_loop_for_wgmma_is_what_one_writes_by_hand():
    """Boxes two iterations ahead, one barrier behind the start of the first product, probabilities in
    registers, queries written to shared memory once, before the loop."""
    body = loop_of(laid_out("sm_90a"))
    found = re.findall(
        r"gpu\.(?!elect|mbarrier_arrive|in_parts)\w+", re.sub(r"!gpu\.\w+", "", body)
    )
    copies = ["gpu.tma_load"] * 2
    wanted = ["gpu.mbarrier_wait", "gpu.wgmma", "gpu.barrier", *copies]
    wanted += ["gpu.wgmma_wait", "gpu.wgmma", "gpu.wgmma_wait"]
    assert found == wanted
    second = re.findall(r"gpu\.wgmma .*", body)[1]
    assert ": tensor<64x64xf16" in second


@pytest.mark.parametrize("target", ["sm_80", "sm_89"])
def test_the_loop_for_mma_copies_ahead(target):
    """One wait and one barrier an iteration, copies of later iterations right behind them."""
    body = loop_of(laid_out(target))
    found = re.findall(r"gpu\.\w+", re.sub(r"!gpu\.\w+|gpu\.(vector|mma|in_parts)", "", body))
    wanted = [
        "gpu.async_wait",
        "gpu.barrier",
        "gpu.async_copy",
        "gpu.async_copy",
        "gpu.async_commit_group",
    ]
    assert found == [*wanted, "gpu.local_load", "gpu.local_load"]
    assert "gpu.async_wait 1 :" in body


@pytest.mark.parametrize(
    ("target", "copies"), [("sm_90a", "gpu.tma_load"), ("sm_80", "gpu.async_copy")]
)
def test_both_loops_fetch_ahead(target, copies):
    """That over keys which all queries see as well as that on the diagonal, in the same memory."""
    module = prepared(attention_ir(64, 64, 64, True), 4, 3)
    run_pipeline(module, nvidia_passes(), target_info(target))
    loops = str(module).split("scf.for")
    assert len(loops) == 3
    for before, body in itertools.pairwise(loops):
        assert before.count(f"{copies} ") >= 4  # of two iterations
        assert "gpu.async_wait 0" not in body.split("scf.yield %")[0]


def test_switched_off_each_product_copies_for_itself():
    for disabled in (("pipeline-loads",), ("pipeline-loads{multiple-dots=false}",)):
        body = loop_of(laid_out("sm_90a", disabled=(*disabled, "hoist-copies")))
        assert body.count("gpu.async_wait 0") == 2 and "gpu.tma_load" not in body
    body = loop_of(laid_out("sm_90a", disabled=("promote-shared{register-operands=false}",)))
    assert body.count("gpu.local_store") == 1  # the probabilities


def test_second_loops_use_the_memory_of_the_first():
    for causal in (False, True):
        module = attention_ir(128, 64, 128, causal)
        artifact = backend.compile(
            module, Options(num_warps=8, num_stages=3), target_info("sm_90a")
        )
        assert artifact.plan.shared_bytes <= (32 + 3 * 32 + 1) << 10


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="ptxas is not installed")
@pytest.mark.parametrize(("depth", "blocks", "warps"), [
    (64, (128, 64), 8), (64, (128, 128), 8), (128, (128, 128), 8), (64, (64, 64), 4),
    (128, (64, 64), 4),
])  # fmt: skip
@pytest.mark.parametrize("causal", [False, True])
def test_registers(tmp_path, depth, blocks, warps, causal):
    """No spills, and no products made to wait for each other."""
    options, target = Options(num_warps=warps, num_stages=2), target_info("sm_90a")
    artifact = backend.compile(attention_ir(*blocks, depth, causal), options, target)
    ptx = tmp_path / "attention.ptx"
    ptx.write_text(artifact.asm["ptx"])
    command = ["ptxas", "-arch=sm_90a", "-v", str(ptx), "-o", str(tmp_path / "attention.cubin")]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert "0 bytes spill stores" in told and "(C75" not in told
    instructions = re.findall(r"wgmma\.mma_async\S* \{[^}]*\}, (\{?)", artifact.asm["ptx"])
    assert "{" in instructions and "" in instructions
