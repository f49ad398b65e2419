"""Matrix products whose blocks are no powers of two, and whose warps are 12: every pass, CPU and GPU."""

import numpy as np
import pytest
from tests.non_pow2_tiles import grid, product_ir
from tests.run_on_copies import run_on_copies
from xdsl.dialects.builtin import IntegerAttr, i32

from tilewright.backends.base import Options
from tilewright.backends.cpu.backend import backend as cpu
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.pipeline import nvidia_passes
from tilewright.backends.nvidia.target import target_info
from tilewright.ir.text import verify_ir
from tilewright.runtime.compiled import CompiledKernel

pytestmark = pytest.mark.sampled(4, full=4)

TARGET = target_info("sm_90a")


def aligned(rows, columns):
    """Random fp16 numbers at a multiple of 16 bytes."""
    count = rows * columns
    raw = np.zeros(2 * count + 16, np.uint8)
    start = -raw.ctypes.data % 16
    array = raw[start : start + 2 * count].view(np.float16)
    array[:] = np.random.default_rng(count).standard_normal(count)
    return array.reshape(rows, columns)


def case(m, n, k):
    a, b, c = aligned(m, k), aligned(k, n), aligned(m, n)
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    return [a, b, c, m, n, k, k, n, n], wanted


def close(found, wanted):
    np.testing.assert_allclose(
        np.asarray(found, np.float64).reshape(wanted.shape), wanted, rtol=2e-3, atol=5e-2
    )


BLOCKS = [
    ((192, 192, 64), 12, 4, (192, 200, 200), "m64n192k16"),
    ((192, 96, 64), 12, 3, (200, 104, 128), "m64n96k16"),
    ((128, 192, 32), 8, 3, (136, 192, 96), "m64n192k16"),
    ((64, 192, 64), 12, 3, (72, 200, 128), "m64n64k16"),
    # panels of B hold more than the tile
    ((128, 208, 64), 8, 3, (136, 216, 128), "m64n208k16"),
    ((192, 176, 64), 12, 2, (200, 184, 128), "m64n176k16"),
]


@pytest.mark.parametrize(("blocks", "warps", "stages", "sizes", "instruction"), BLOCKS)
def test_results_after_each_pass(blocks, warps, stages, sizes, instruction):
    arguments, wanted = case(*sizes)
    module = product_ir(*blocks, even=sizes[2] % blocks[2] == 0)
    function = module.body.block.first_op
    function.attributes["gpu.num_warps"] = IntegerAttr(warps, i32)
    function.attributes["gpu.num_stages"] = IntegerAttr(stages, i32)
    for step in nvidia_passes():
        before = str(module)
        step.apply(module, TARGET)
        verify_ir(module)
        if str(module) != before and step.name not in ("cse", "licm", "simplify"):
            after = run_on_copies(module, arguments, grid(*sizes[:2], blocks[:2]))
            close(after[2], wanted)
    assert "gpu.wgmma " in str(module) and "gpu.tma_load" in str(module)


@pytest.mark.parametrize(("blocks", "warps", "stages", "sizes", "instruction"), BLOCKS)
def test_warp_groups_share_the_block_without_waste(blocks, warps, stages, sizes, instruction):
    options = Options(num_warps=warps, num_stages=stages)
    made = backend.compile(product_ir(*blocks), options, TARGET)
    m, n, k = blocks
    width = int(instruction.split("n")[1].split("k")[0])
    steps = m * n // (64 * width) * (k // 16) // (warps // 4)
    assert made.asm["ptx"].count("wgmma.mma_async") == steps
    assert made.asm["ptx"].count(f"{instruction}.f32.f16.f16") == steps
    assert made.plan.spills == 0 and "(C75" not in made.asm.get("log", "")


@pytest.mark.parametrize("without", ["promote-shared", "pipeline-loads", "select-mma", "raise-access"])  # fmt: skip
def test_other_forms_compile(without):
    for blocks, warps, stages, _, _ in BLOCKS[1:]:
        options = Options(num_warps=warps, num_stages=stages, disable=(without,))
        backend.compile(product_ir(*blocks), options, TARGET)


@pytest.mark.parametrize("blocks", [(192, 96, 64), (48, 96, 32)])
def test_on_the_cpu(blocks):
    arguments, wanted = case(200, 104, 128)
    target = cpu.target()
    made = cpu.compile(product_ir(*blocks), Options(), target)
    CompiledKernel(made, "odd", Options(), target, None, False).run(
        grid(200, 104, blocks[:2]), *arguments
    )
    close(arguments[2], wanted)
