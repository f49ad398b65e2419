"""The interpreter gives the same results after every pass of the NVIDIA pipeline, any of them off."""

import functools
import importlib.util
import random
import re
from pathlib import Path

import numpy as np
import pytest
from tests.random.programs import generate
from tests.run_on_copies import run_on_copies
from xdsl.dialects.builtin import IntegerAttr, i32

from tilewright import dtypes
from tilewright.backends.nvidia.codegen import emit_module
from tilewright.backends.nvidia.pipeline import nvidia_passes
from tilewright.backends.nvidia.target import target_info
from tilewright.dtypes import constexpr
from tilewright.errors import PassError
from tilewright.frontend import build
from tilewright.ir.text import parse_ir, verify_ir
from tilewright.language.kernel_function import KernelFunction
from tilewright.passes.manager import run_pipeline

pytestmark = pytest.mark.sampled(8, full=8)

HERE = Path(__file__).parent
NAMES = tuple(dict.fromkeys(p.name for p in nvidia_passes()))
OPTIONAL = tuple(n for n in NAMES if n != "assign-layouts")


def load(path):
    spec = importlib.util.spec_from_file_location(f"each_gpu_pass_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


seeds = load(HERE / "test_seeds_raise.py")


def aligned(count, kind=np.float32):
    """Random numbers at a multiple of 16 bytes."""
    raw = np.zeros(count * np.dtype(kind).itemsize + 16, np.uint8)
    start = -raw.ctypes.data % 16
    array = raw[start : start + count * np.dtype(kind).itemsize].view(kind)
    array[:] = np.random.default_rng(count).standard_normal(count)
    return array


def product(m, n, k, even, blocks=(64, 64, 32), group=2):
    """The tutorial's matmul with blocks that warpgroups multiply."""
    arguments = {
        "a_ptr": aligned(m * k, np.float16),
        "b_ptr": aligned(k * n, np.float16),
        "c_ptr": aligned(m * n, np.float16),
        "M": m, "N": n, "K": k, "stride_am": k, "stride_bk": n, "stride_cn": 1, "stride_cm": n,
    }  # fmt: skip
    del arguments["stride_cn"]
    constants = {
        "stride_ak": 1, "stride_bn": 1, "stride_cn": 1, "EVEN_K": even, "GROUP_SIZE_M": group,
        "BLOCK_SIZE_M": blocks[0], "BLOCK_SIZE_N": blocks[1], "BLOCK_SIZE_K": blocks[2],
        "ACTIVATION": "leaky_relu",
    }  # fmt: skip
    programs = -(-m // blocks[0]) * -(-n // blocks[1])
    return "tutorial_matmul", "matmul_kernel", arguments, constants, (programs, 1, 1)


PRODUCTS = [
    product(64, 64, 128, True),
    product(80, 96, 160, True),  # more rows than blocks have: wraps
    product(72, 136, 104, False),  # the last block of k is not full
    product(65, 67, 33, False),  # nothing divides: no copies, or narrow ones
    product(64, 64, 32, True),  # one iteration: fewer than stages
    product(130, 64, 64, True, blocks=(128, 64, 64)),
]


@functools.cache
def text_of(kind, index):
    """Tile IR of a case, with what its arguments are divisible by."""
    program, name, arguments, constants, _ = (seeds.CASES if kind == "seed" else PRODUCTS)[index]
    signature, divisible = {}, {}
    for key, value in arguments.items():
        if isinstance(value, np.ndarray):
            half = value.dtype == np.float16
            signature[key] = dtypes.pointer_type(dtypes.float16 if half else dtypes.float32)
            number = value.ctypes.data
        else:
            signature[key], number = dtypes.int32, value
        if number % 16 == 0:
            divisible[key] = 16
    signature.update({key: constexpr(value) for key, value in constants.items()})
    return str(build(seeds.kernel(program, name), signature, divisible).module)


def module_with(text, warps, stages):
    module = parse_ir(text)
    function = module.body.block.first_op
    function.attributes["gpu.num_warps"] = IntegerAttr(warps, i32)
    function.attributes["gpu.num_stages"] = IntegerAttr(stages, i32)
    return module


@functools.cache
def expected(kind, index):
    _, _, arguments, _, grid = (seeds.CASES if kind == "seed" else PRODUCTS)[index]
    return run_on_copies(parse_ir(text_of(kind, index)), list(arguments.values()), grid)


def compare(module, kind, index, what):
    _, _, arguments, _, grid = (seeds.CASES if kind == "seed" else PRODUCTS)[index]
    after = run_on_copies(module, list(arguments.values()), grid)
    for a, b in zip(expected(kind, index), after, strict=True):
        np.testing.assert_allclose(a, b, rtol=4e-3, atol=2e-3, err_msg=what)


def check_each_pass(kind, index, target, warps, stages):
    module = module_with(text_of(kind, index), warps, stages)
    for step in nvidia_passes():
        before = str(module)
        step.apply(module, target_info(target))
        verify_ir(module)
        if str(module) != before and step.name not in ("cse", "licm", "simplify"):
            compare(module, kind, index, f"after {step.name}")
    compare(module, kind, index, "at the end")
    return module


def check_subset(kind, index, target, warps, stages, disabled):
    module = module_with(text_of(kind, index), warps, stages)
    run_pipeline(module, nvidia_passes(), target_info(target), disabled=disabled)
    compare(module, kind, index, f"without {disabled}")
    emit_module(module, target_info(target))


ALL = [("seed", i) for i in range(len(seeds.CASES))] + [
    ("product", i) for i in range(len(PRODUCTS))
]


@pytest.mark.parametrize("target", ["sm_90a", "sm_80"])
@pytest.mark.parametrize(("kind", "index"), ALL)
def test_results_after_each_pass(kind, index, target):
    module = check_each_pass(kind, index, target, 4, 3)
    if kind == "product" and target == "sm_90a":
        assert "gpu.wgmma" in str(module)


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize("warps", [1, 4, 8])
def test_warps_and_stages(warps, stages):
    check_subset("product", 2, "sm_90a", warps, stages, ())


@pytest.mark.long
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize("warps", [1, 4, 8])
@pytest.mark.parametrize("index", range(len(PRODUCTS)))
def test_warps_and_stages_after_each_pass(index, warps, stages):
    check_each_pass("product", index, "sm_90a", warps, stages)


@pytest.mark.parametrize("name", OPTIONAL)
@pytest.mark.parametrize(("kind", "index"), [("seed", 6), ("product", 2)])
def test_results_without_one_pass(kind, index, name):
    check_subset(kind, index, "sm_90a", 4, 3, (name,))


def random_subset(number):
    chance = random.Random(number)
    kind, index = chance.choice(ALL)
    disabled = tuple(n for n in OPTIONAL if chance.random() < 0.3)
    target = chance.choice(["sm_90a", "sm_90a", "sm_80"])
    check_subset(kind, index, target, chance.choice([1, 4, 8]), chance.randint(1, 4), disabled)


@pytest.mark.parametrize("number", range(12))
def test_results_without_random_passes(number):
    random_subset(number)


@pytest.mark.long
@pytest.mark.parametrize("block", range(20))
def test_results_without_many_random_passes(block):
    for number in range(100 + 20 * block, 120 + 20 * block):
        random_subset(number)


@pytest.mark.long
@pytest.mark.parametrize("name", OPTIONAL)
@pytest.mark.parametrize(("kind", "index"), ALL)
def test_results_of_all_cases_without_one_pass(kind, index, name):
    for target in ("sm_90a", "sm_80"):
        check_subset(kind, index, target, 4, 3, (name,))


def random_program(number):
    """A program of any operations, with some passes off."""
    chance = random.Random(number)
    program = generate(random.Random(number))
    values = list(program.arguments.values())
    known = program.divisible() if chance.random() < 0.7 else {}
    kernel = KernelFunction(program.function())
    text = str(build(kernel, program.signature(), known).module)
    before = run_on_copies(parse_ir(text), values, program.grid)
    module = module_with(text, chance.choice([1, 2, 4, 8, 12]), chance.randint(1, 5))
    rate = chance.choice([0, 0.1, 0.3])
    disabled = tuple(n for n in OPTIONAL if chance.random() < rate)
    target = target_info(chance.choice(["sm_90a", "sm_90a", "sm_80"]))
    run_pipeline(module, nvidia_passes(), target, disabled=disabled, verify="each")
    program.compare(before, run_on_copies(module, values, program.grid))
    emit_module(module, target)


@pytest.mark.parametrize("number", [*range(12), 192, 215])  # a tile times itself; one stage
def test_random_programs(number):
    random_program(number)


@pytest.mark.long
@pytest.mark.parametrize("block", range(10))
def test_many_random_programs(block):
    for number in range(100 + 30 * block, 130 + 30 * block):
        random_program(number)


def test_layouts_cannot_be_left_out():
    with pytest.raises(PassError, match="assign-layouts cannot be switched off"):
        run_pipeline(
            module_with(text_of("seed", 0), 4, 3), nvidia_passes(), target_info("sm_90a"),
            disabled=("assign-layouts",),
        )  # fmt: skip


def lowered(index, disabled):
    module = module_with(text_of("product", index), 4, 3)
    result = run_pipeline(module, nvidia_passes(), target_info("sm_90a"), disabled=disabled)
    return str(module), result


def test_the_next_form_takes_over():
    text, _ = lowered(1, ())
    assert "gpu.wgmma " in text and "gpu.mbarrier_init" in text
    text, result = lowered(1, ("pipeline-loads",))
    assert "gpu.wgmma " in text and "gpu.mbarrier_init" not in text and "gpu.async_copy" in text
    text, result = lowered(1, ("promote-shared",))
    assert '"m16n8k16.f16"' in text and "gpu.wgmma" not in text
    assert result.dropped == (
        "select-wgmma-rs", "promote-shared", "swizzle-shared", "schedule-loops", "specialize-warps",
        "pipeline-loads", "hoist-copies", "prefetch-loads",
    )  # fmt: skip
    text, result = lowered(1, ("select-mma",))
    assert "gpu.mma" not in text and "gpu.wgmma" not in text


def test_without_insert_barriers_code_generation_adds_them():
    module = module_with(text_of("seed", 0), 4, 3)
    run_pipeline(module, nvidia_passes(), target_info("sm_90a"), disabled=("insert-barriers",))
    _, llvm = emit_module(module, target_info("sm_90a"))
    ordered = module_with(text_of("seed", 0), 4, 3)
    run_pipeline(ordered, nvidia_passes(), target_info("sm_90a"))
    _, fewer = emit_module(ordered, target_info("sm_90a"))
    barrier = re.compile(r"call void .*bar(rier\.cta|\.warp)\.sync")  # of a CTA, or its only warp
    assert len(barrier.findall(str(llvm))) == 3 and not barrier.findall(str(fewer))


def test_without_unroll_loops_stay_loops():
    for disabled, count in (((), 0), (("unroll",), 1)):
        module = module_with(text_of("product", 0), 4, 3)
        run_pipeline(module, nvidia_passes(), target_info("sm_90a"), disabled=disabled)
        _, llvm = emit_module(module, target_info("sm_90a"))
        assert str(llvm).count('"llvm.loop.unroll.disable"') == count


def test_without_vectorize_copies_elements_move_one_by_one():
    threads = ("lower-stores-to-tma", "pipeline-loads{tma=false}")
    for disabled, copied, stored in (((), 16, ".v4.b32"), (("vectorize-accesses",), 4, ".b16")):
        module = module_with(text_of("product", 0), 4, 3)
        off = (*threads, *disabled)
        run_pipeline(module, nvidia_passes(), target_info("sm_90a"), disabled=off)
        _, llvm = emit_module(module, target_info("sm_90a"))
        found = str(llvm)
        assert set(re.findall(r"cp\.async\.c\w\S* \[\$0\], \[\$1\], (\d+)", found)) == {str(copied)}
        assert set(re.findall(r"st\.global(\S*) ", found)) == {stored}
