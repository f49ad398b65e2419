"""Generated programs in the interpreter: as tile IR, and at the last level before code for a GPU."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tilewright import dtypes as t
from tilewright.generator import Contraction, Extra, MatmulConfig, Operand, Step
from tilewright.generator.program import INTEGER, POINTER, programs

pytestmark = pytest.mark.sampled(3, full=2)

_spec = importlib.util.spec_from_file_location(
    "generator_programs", Path(__file__).parent / "programs.py"
)
helpers = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(helpers)
Case, to_gpu = helpers.Case, helpers.to_gpu

HALF = Operand(t.float16)
EACH = (True,)


def half(order="row", batch=()):
    return Operand(t.float16, order, batch)


PLAIN = Contraction(HALF, HALF, HALF)
TILE = MatmulConfig(64, 64, 32, 2, 4, 3)
CASES = {
    "plain": (PLAIN, TILE, (144, 112, 96), ()),
    "ragged": (PLAIN, TILE, (65, 67, 33), ()),
    "columns": (Contraction(half("column"), half("column"), HALF), TILE, (80, 96, 64), ()),
    "turned result": (Contraction(HALF, HALF, half("column")), TILE, (80, 96, 64), ()),
    "columns in multiples of 8": (
        Contraction(HALF, half("column"), HALF), MatmulConfig(64, 40, 64, 2, 4, 4), (130, 39, 200), (),
    ),
    "one step": (PLAIN, TILE, (64, 64, 16), ()),
    "split": (PLAIN, TILE.with_(split_k=3), (80, 96, 256), ()),
    "split into more parts than steps": (PLAIN, TILE.with_(split_k=5), (80, 96, 64), ()),
    "listing 1": (
        Contraction(HALF, HALF, Operand(t.float32)), TILE.with_(form="listing1"), (80, 96, 64), (),
    ),
    "batch": (
        Contraction(half("row", EACH), half("row", EACH), half("row", EACH), batch_rank=1),
        TILE, (72, 80, 64), (3,),
    ),
    "batch of columns": (
        Contraction(half("row", EACH), half("column", EACH), half("row", EACH), batch_rank=1),
        TILE, (72, 80, 48), (3,),
    ),
    "batch of whole tiles": (
        Contraction(half("row", EACH), half("column", EACH), half("row", EACH), batch_rank=1),
        TILE, (128, 80, 48), (3,),
    ),
    "broadcast batch": (
        Contraction(
            half("row", (True, False)), half("row", (False, True)), half("row", (True, True)),
            batch_rank=2,
        ),
        TILE, (40, 48, 32), (2, 3),
    ),
    "units": (
        Contraction(HALF, HALF, HALF, size_divisors=(("a_m", 8), ("b_k", 8), ("out_m", 8), ("N", 8))),
        TILE, (72, 104, 88), (),
    ),
    "row times matrix": (PLAIN, MatmulConfig(1, 64, 32, 1, form="gemv"), (1, 100, 70), ()),
    "row times columns": (
        Contraction(HALF, half("column"), HALF), MatmulConfig(1, 8, 128, 1, form="gemv"),
        (1, 100, 300), (),
    ),
    "matrix times column": (
        PLAIN, MatmulConfig(8, 1, 64, 1, form="gemv", split_k=2), (70, 1, 300), (),
    ),
    "bf16": (
        Contraction(Operand(t.bfloat16), Operand(t.bfloat16), Operand(t.float32)), TILE,
        (80, 96, 64), (),
    ),
    "fp32": (
        Contraction(Operand(t.float32), Operand(t.float32), Operand(t.float32)),
        MatmulConfig(32, 32, 16, 2, 4, 2), (50, 40, 30), (),
    ),
    "integers": (
        Contraction(Operand(t.int8), Operand(t.int8, "column"), Operand(t.int32)), TILE,
        (80, 96, 64), (),
    ),
}  # fmt: skip
EPS = {"fp16": 2e-3, "bf16": 1.6e-2, "fp32": 1e-5, "i8": 0.0}


def check(case, result, reference):
    eps = EPS[case.contraction.a.dtype.short_name]
    tolerance = eps * (np.abs(reference) + 4 * (np.sqrt(case.sizes["K"]) + 4))
    assert (np.abs(result - reference) <= tolerance).all()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("level", ["tile", "gpu"])
def test_products(name, level):
    contraction, config, sizes, batch = CASES[name]
    case = Case(contraction, config, *sizes, batch)
    result = case.run(to_gpu if level == "gpu" else lambda module, program: None)
    check(case, result, case.product())


@pytest.mark.parametrize("level", ["tile", "gpu"])
def test_persistent_programs(level):
    case = Case(replace(PLAIN, offsets_64bit=True), TILE.with_(persistent=True), 144, 112, 96)
    result = case.run(to_gpu if level == "gpu" else lambda module, program: None)
    check(case, result, case.product())


@pytest.mark.parametrize("level", ["tile", "gpu"])
@pytest.mark.parametrize("name", CASES)
def test_long_extents(name, level):
    """Indices of 64 bits, by which no boxes are placed (`GeneratedKernel.launch_options`), give the same."""
    contraction, config, (m, n, k), batch = CASES[name]
    contraction = replace(contraction, indices_64bit=True, offsets_64bit=True)
    case = Case(contraction, config, m, n, k, batch)
    off = (*config.with_(use_tma=False).left_out, "lower-stores-to-tma")

    def lower(module, program):
        if level == "gpu":
            to_gpu(module, program, disabled=off)
            assert "tma" not in str(module)

    check(case, case.run(lower), case.product())


@pytest.mark.parametrize("block", [(96, 48, 48), (192, 96, 64)])
def test_tiles_that_are_no_power_of_two(block):
    case = Case(PLAIN, MatmulConfig(*block, 2), 200, 100, 100)
    check(case, case.run(), case.product())


@pytest.mark.parametrize("level", ["tile", "gpu"])
def test_epilogues(level):
    matrix, row = Extra(t.float16), Extra(t.float16, "n")
    steps = (Step("add", (row,)), Step("leaky_relu"), Step("multiply", (matrix,)), Step("silu"))
    contraction = Contraction(
        HALF, HALF, Operand(t.float32), has_alpha=True, addend=HALF, epilogue=steps
    )
    case = Case(contraction, TILE, 80, 96, 64, alpha=0.5, beta=2.0, number1=0.1)
    result = case.run(to_gpu if level == "gpu" else lambda module, program: None)
    x = 0.5 * case.product() + 2.0 * case.arrays["c"].astype(np.float64)
    x = x + case.arrays["x0"]
    x = np.where(x >= 0, x, 0.1 * x) * case.arrays["x1"].astype(np.float64)
    check(case, result, x / (1 + np.exp(-x)))


def test_parameters_are_named_and_ordered():
    contraction = replace(CASES["broadcast batch"][0], has_alpha=True, epilogue=(Step("scale"),))
    (program,) = programs(contraction, TILE)
    names = [p.name for p in program.parameters]
    assert names == [
        "a", "b", "out", "M", "N", "K", "a_m", "a_k", "a_b0", "b_k", "b_n", "b_b1",
        "out_m", "out_n", "out_b0", "out_b1", "batch1", "alpha", "number0",
    ]  # fmt: skip
    assert [p.kind for p in program.parameters[:4]] == [POINTER] * 3 + [INTEGER]


def test_grids():
    whole, (partial, total) = programs(PLAIN, TILE)[0], programs(PLAIN, TILE.with_(split_k=4))
    assert whole.grid(130, 65, 2) == (12,)
    assert partial.grid(130, 65, 2) == (12, 4)
    assert total.grid(130, 65) == (9,)
    (persistent,) = programs(PLAIN, TILE.with_(persistent=True))
    assert persistent.grid(1 << 12, 1 << 12, 1, 132) == (132,)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_boxes_and_tensor_cores(target):
    """Aligned sizes go through tensor cores, on Hopper fed by boxes."""
    from tilewright.ir.text import print_ir

    case = Case(PLAIN, MatmulConfig(64, 64, 64, 8, 4, 3), 128, 128, 128)
    (program,) = programs(PLAIN, case.config)
    signature, divisibility, _ = case.signature(program)
    module = program.build(signature, divisibility)
    to_gpu(module, program, target)
    text = print_ir(module)
    assert ("gpu.tma_load" in text) == (target == "sm_90a")
    assert ("gpu.wgmma" in text) == (target == "sm_90a")
    if target == "sm_80":
        assert "m16n8k16" in text


def compiled_for_hopper(contraction, config):
    """The one kernel of a contraction, compiled for packed arrays of 512 x 512 x 512."""
    from tilewright.backends.base import Options
    from tilewright.runtime.compiler import compile_kernel
    from tilewright.runtime.matmul.kernels import kernels
    from tilewright.runtime.specialize import ArgumentType, slot_kind

    (kernel,) = kernels(contraction, config)
    signature, divisibility, _ = Case(contraction, config, 512, 512, 512).signature(kernel.program)
    types = {
        name: ArgumentType(
            kind, "" if isinstance(kind, t.constexpr) else slot_kind(kind), name in divisibility
        )
        for name, kind in signature.items()
    }
    return compile_kernel(kernel, types, Options(**kernel.launch_options()), "sm_90a")


LARGE = MatmulConfig(128, 256, 64, 8, 8, 3)


def test_code_for_hopper_fits_in_registers():
    """ptxas reports no spills for the tile that large products use."""
    compiled = compiled_for_hopper(PLAIN, LARGE)
    assert "wgmma.mma_async.sync.aligned.m64n256k16" in compiled.asm["ptx"]
    assert "cp.async.bulk.tensor" in compiled.asm["ptx"]
    if compiled.plan.registers:  # an assembler is installed
        assert compiled.n_spills == 0
        assert compiled.n_regs <= 232


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("kind", ["gelu", "gelu_tanh", "silu"])
def test_activations_fit_beside_the_sums(kind, persistent):
    """With one more warp, which leaves 168 registers, no more than two words wait for the next tile."""
    steps = (Step("add", (Extra(t.float16, "n"),)), Step(kind))
    config = LARGE.with_(persistent=persistent)
    compiled = compiled_for_hopper(replace(PLAIN, epilogue=steps), config)
    if compiled.plan.registers:
        assert compiled.n_spills <= (2 if persistent else 0)


def test_a_residual_changes_its_layout_where_the_pipeline_was():
    contraction = replace(PLAIN, epilogue=(Step("add", (Extra(t.float16),)),))
    assert compiled_for_hopper(contraction, LARGE).plan.shared_bytes <= 227 << 10
