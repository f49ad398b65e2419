"""The PTX of kernels, executed thread by thread, gives what the interpreter gives, and breaks no rule."""

import functools
import importlib.util
import random
import re
from pathlib import Path

import numpy as np
import pytest
from tests.ptx.launch import run_ptx
from tests.ptx.values import Fault
from tests.random.programs import generate
from tests.run_on_copies import run_on_copies

from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.target import target_info
from tilewright.frontend import build
from tilewright.ir.text import parse_ir
from tilewright.language.kernel_function import KernelFunction

pytestmark = pytest.mark.sampled(6, full=6)

TARGETS = ("sm_80", "sm_90a")


def from_file(path):
    spec = importlib.util.spec_from_file_location(f"ptx_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


cases = from_file(Path(__file__).parents[1] / "passes" / "test_each_gpu_pass.py")
CASES = {"product": cases.PRODUCTS, "seed": cases.seeds.CASES}


@functools.cache
def compiled(kind, index, target, warps, stages):
    text = cases.text_of(kind, index)
    options = Options(num_warps=warps, num_stages=stages)
    return backend.compile(parse_ir(text), options, target_info(target))


def launch(kind, index, artifact):
    _, _, arguments, _, grid = CASES[kind][index]
    return run_ptx(artifact, list(arguments.values()), grid)


def check(kind, index, target, warps, stages):
    found = launch(kind, index, compiled(kind, index, target, warps, stages))
    for a, b in zip(cases.expected(kind, index), found, strict=True):
        np.testing.assert_allclose(a, b, rtol=4e-3, atol=2e-3)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("index", range(len(CASES["seed"])))
def test_documents_kernels(index, target):
    check("seed", index, target, 4, 3)


@pytest.mark.parametrize(("index", "warps"), [(0, 4), (1, 8), (2, 4), (4, 8), (5, 4)])
def test_products(index, warps):
    check("product", index, "sm_90a", warps, 3)
    check("product", index, "sm_80", warps, 2)


@pytest.mark.parametrize("target", ["sm_100a", "sm_120a"])
def test_targets_with_tma_and_without_wgmma(target):
    """Boxes that `mma.sync` reads by `ldmatrix`: a combination that no other target has."""
    assert "cp.async.bulk.tensor" in compiled("product", 0, target, 4, 3).asm["ptx"]
    check("product", 0, target, 4, 3)
    check("seed", 0, target, 4, 3)


@pytest.mark.long
@pytest.mark.parametrize("target", (*TARGETS, "sm_100a", "sm_120a"))
@pytest.mark.parametrize("stages", [1, 2, 4])
@pytest.mark.parametrize("warps", [1, 2, 8, 12])
@pytest.mark.parametrize("index", range(len(CASES["product"])))
def test_products_with_warps_and_stages(index, warps, stages, target):
    check("product", index, target, warps, stages)


def random_program(number, blocks=1):
    chance = random.Random(f"ptx {number}")
    program = generate(random.Random(number))
    values = list(program.arguments.values())
    kernel = KernelFunction(program.function())
    text = str(build(kernel, program.signature(), program.divisible()).module)
    warps, stages = chance.choice([1, 2, 4, 8]), chance.randint(1, 4)
    options = Options(num_warps=warps, num_stages=stages, num_ctas=blocks)
    target = chance.choice(TARGETS) if blocks == 1 else "sm_90a"
    artifact = backend.compile(parse_ir(text), options, target_info(target))
    rough = 'input_precision="tf32"' in program.source
    expected = run_on_copies(parse_ir(text), values, program.grid)
    program.compare(expected, run_ptx(artifact, values, program.grid), 2e-3 if rough else 0.0)


@pytest.mark.parametrize("number", [*range(12), 192])  # 192: a product of a buffer with itself
def test_random_programs(number):
    random_program(number)


@pytest.mark.parametrize(
    "number", [*range(20, 26), 445]
)  # 445: a barrier before the first exchange
def test_random_programs_of_several_blocks(number):
    random_program(number, 2 + 2 * (number % 2))


@pytest.mark.long
@pytest.mark.parametrize("block", range(20))
def test_many_random_programs_of_several_blocks(block):
    for number in range(400 + 5 * block, 405 + 5 * block):
        random_program(number, 2 + 2 * (number % 2))


@pytest.mark.long
@pytest.mark.parametrize("block", range(20))
def test_many_random_programs(block):
    for number in range(100 + 10 * block, 110 + 10 * block):
        random_program(number)


# ---- the machine itself ---------------------------------------------------------------------------------

SPOILED = {
    "no barrier": ("sm_80", r"bar\.sync[^;]*;", "", "without a barrier"),
    "no wait for copies": (
        "sm_80", r"cp\.async\.wait_group[^;]*;", "",
        "a copy in flight writes|nothing was written to|without a barrier",
    ),
    "a line of a matrix elsewhere": (
        "sm_80", r"(ldmatrix[^\[]*\[%r\d+)", r"\1+8", "is not a multiple of 16",
    ),
    "copies that are not aligned": ("sm_80", r"(cp\.async\.cg[^\[]*\[%r\d+)", r"\1+4", "is not a multiple of"),
    "no wait for boxes": (
        "sm_90a", r"mbarrier\.try_wait[^;]*; @!p bra \w+;", "", "not there yet|copied to its memory",
    ),
    "box that is not aligned": (
        "sm_90a", r"(cp\.async\.bulk\.tensor\.2d\.shared[^\[]*\[%r\d+)", r"\1+16", "not aligned",
    ),
    "fewer bytes expected": (
        "sm_90a", r"(expect_tx[^;]*,) \d+;", r"\1 64;", "more bytes arrive|deadlock",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SPOILED)
def test_what_is_wrong_is_found(name):
    target, pattern, text, message = SPOILED[name]
    artifact = compiled("product", 4, target, 4, 3)
    ptx, count = re.subn(pattern, text, artifact.asm["ptx"])
    assert count
    spoiled = type("Spoiled", (), {"plan": artifact.plan, "asm": {"ptx": ptx}})
    with pytest.raises(Fault, match=message):
        launch("product", 4, spoiled)


def test_threads_writes_need_a_fence_before_asynchronous_reads():
    """Operands of `wgmma` that threads wrote."""
    artifact = compiled("product", 3, "sm_90a", 4, 3)
    ptx, count = re.subn(r"fence\.proxy\.async[^;]*;", "", artifact.asm["ptx"])
    assert count and "wgmma.mma_async" in ptx
    spoiled = type("Spoiled", (), {"plan": artifact.plan, "asm": {"ptx": ptx}})
    with pytest.raises(Fault, match=r"fence\.proxy\.async is missing"):
        launch("product", 3, spoiled)
