"""`unroll-stages`: loops of two stages, two iterations at a time: results, and what is left in flight."""

import numpy as np
import pytest
from tests.attention import attention_ir
from tests.passes.test_attention import case as attention_case
from tests.passes.test_attention import check, prepared
from tests.passes.test_dots_in_flight import case, gradients_ir
from tests.ptx.launch import run_ptx
from tests.run_on_copies import run_on_copies
from xdsl.dialects import scf

from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.pipeline import nvidia_passes
from tilewright.backends.nvidia.target import target_info
from tilewright.dialects import gpu
from tilewright.passes.manager import run_pipeline

TARGET = target_info("sm_90a")
ON = ("schedule-loops", "unroll-stages{most-stages=2}")


def dots(loop):
    return sum(isinstance(op, gpu.WgmmaOp) for op in loop.body.block.ops)


def lowered(module, warps, stages=2, disabled=ON):
    module = prepared(module, warps, stages)
    run_pipeline(module, nvidia_passes(), TARGET, disabled=disabled)
    return module


def loops(module):
    return [op for op in module.walk() if isinstance(op, scf.ForOp)]


@pytest.mark.parametrize(("stages", "disabled", "count"), [
    (2, ON, 8), (3, ON, 4), (2, ON[:1], 4), (3, (ON[0], "unroll-stages{most-stages=3}"), 12),
])  # fmt: skip
def test_as_many_iterations_as_stages(stages, disabled, count):
    (loop,) = loops(lowered(gradients_ir(64), 4, stages, disabled))
    assert dots(loop) == count


def test_loops_whose_accumulators_leave_few_registers_stay():
    (loop,) = loops(lowered(gradients_ir(128), 4))
    assert dots(loop) == 4


@pytest.mark.parametrize("n", [0, 1, 2, 5])
@pytest.mark.parametrize("stages", [2, 3])
def test_results_with_an_mma_in_flight(n, stages):
    """Which the next iteration waits for, and the last of a round behind the loop."""
    arguments, wanted = case(n, 64)
    module = lowered(gradients_ir(64), 4, stages, (ON[0], "unroll-stages{most-stages=3}"))
    out = np.asarray(run_on_copies(module, arguments, (1, 1, 1))[5])
    np.testing.assert_allclose(out, wanted, atol=2e-2)


@pytest.mark.parametrize("n", [1, 4, 5])
def test_machine_code_with_an_mma_in_flight(n):
    arguments, wanted = case(n, 64)
    options = Options(num_warps=4, num_stages=2, disable=ON)
    artifact = backend.compile(gradients_ir(64), options, TARGET)
    out = run_ptx(artifact, arguments, (1, 1, 1))[5]
    np.testing.assert_allclose(np.asarray(out), wanted, atol=2e-2)
    assert "serialized" not in artifact.asm.get("log", "")


@pytest.mark.parametrize(("n", "warps", "block"), [(300, 8, 128), (64, 4, 64)])
def test_machine_code_of_attention(n, warps, block):
    arguments, wanted = attention_case(1, n, 64, True)
    options = Options(num_warps=warps, num_stages=2, maxnreg=128, disable=ON)
    artifact = backend.compile(attention_ir(block, 64, 64, True, True), options, TARGET)
    assert artifact.asm["ptx"].count("wgmma.commit_group") >= 2 * 2 * 2 + 2  # of two loops
    check(run_ptx(artifact, arguments, (-(-n // block), 1, 1)), wanted)
