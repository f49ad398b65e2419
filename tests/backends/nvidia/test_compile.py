"""Kernels compile for every NVIDIA target on a machine without a GPU, and the assembler is content."""

import functools
import importlib.util
import random
from pathlib import Path

import pytest
from tests.random.programs import generate

from tilewright.backends.base import Options
from tilewright.backends.nvidia import tools
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.target import target_info
from tilewright.frontend import build
from tilewright.ir.text import parse_ir
from tilewright.language.kernel_function import KernelFunction

pytestmark = pytest.mark.sampled(6, full=3)

TARGETS = ("sm_80", "sm_86", "sm_89", "sm_90a")
TESTS = Path(__file__).parents[2]


def from_file(path):
    spec = importlib.util.spec_from_file_location(f"nvidia_compile_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


cases = from_file(TESTS / "passes" / "test_each_gpu_pass.py")


def compiled(text, target, **options):
    return backend.compile(parse_ir(text), Options(**options), target_info(target))


def check(artifact, target):
    assert f".target {target}" in artifact.asm["ptx"]
    if tools.find("ptxas"):
        assert artifact.object_code[:4] == b"\x7fELF"
        assert "(C75" not in artifact.asm.get("log", ""), artifact.asm["log"]


@functools.cache
def random_text(number):
    program = generate(random.Random(number))
    return str(build(KernelFunction(program.function()), program.signature()).module)


def seed(index, target):
    check(compiled(cases.text_of("seed", index), target), target)


def product(index, target, warps, stages):
    """A matmul: the assembler keeps its sums in registers and its pipeline whole."""
    artifact = compiled(cases.text_of("product", index), target, num_warps=warps, num_stages=stages)
    check(artifact, target)
    if warps >= 4:  # one warp has too many sums of a block to keep
        assert not artifact.plan.spills
    ptx = artifact.asm["ptx"]
    wgmma = target == "sm_90a" and warps >= 4
    assert ("wgmma.mma_async" in ptx) == wgmma and ("mma.sync" in ptx) != wgmma


@pytest.mark.parametrize("index", range(len(cases.seeds.CASES)))
def test_seeds(index):
    seed(index, "sm_90a")


@pytest.mark.parametrize(("warps", "stages"), [(4, 3), (8, 4), (4, 1), (1, 2)])
def test_products(warps, stages):
    product(1, "sm_90a", warps, stages)
    product(2, "sm_80", warps, stages)


@pytest.mark.parametrize("number", range(10))
def test_random_programs(number):
    check(compiled(random_text(number), "sm_90a"), "sm_90a")


@pytest.mark.parametrize("name", [n for n in cases.OPTIONAL if n not in ("cse", "simplify")])
def test_products_without_one_pass(name):
    artifact = compiled(cases.text_of("product", 1), "sm_90a", disable=(name,))
    check(artifact, "sm_90a")


@pytest.mark.long
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("index", range(len(cases.seeds.CASES)))
def test_seeds_for_every_target(index, target):
    seed(index, target)


@pytest.mark.long
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("index", range(len(cases.PRODUCTS)))
@pytest.mark.parametrize("warps", [1, 2, 4, 8])
def test_products_for_every_target(index, target, warps):
    product(index, target, warps, 3)


@pytest.mark.long
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("number", range(40))
def test_random_programs_for_every_target(number, target):
    check(compiled(random_text(number), target), target)


@pytest.mark.parametrize(("target", "rows", "warps"), [("sm_86", 128, 8), ("sm_80", 256, 16)])
def test_tiles_larger_than_shared_memory_change_their_layout(target, rows, warps):
    """fp32 tiles of 128 and 256 KB, turned: rows go through shared memory in panels."""
    text = """
        func.func @turn(%x: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %y: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %n: i64 {tile.divisibility = 16 : i32}) {
          %one = arith.constant 1 : i64
          %a = tile.load_view %x ["strided", "strided"] strides(%n, %one) {limited = array<i64>} : !tile.ptr<f32> to tensor<ROWSx256xf32>
          tile.store_view %a, %y ["strided", "strided"] strides(%one, %n) {limited = array<i64>} : tensor<ROWSx256xf32>, !tile.ptr<f32>
          func.return
        }
    """.replace("ROWS", str(rows))
    artifact = compiled(text, target, num_warps=warps)
    check(artifact, target)
    assert artifact.plan.shared_bytes <= target_info(target).shared_bytes
    assert artifact.asm["ptx"].count("bar.sync") == 3  # written and read twice
