"""Operands packed once for all programs: results at every level, where it is chosen, what is read in place."""

from __future__ import annotations

import importlib.util
import threading
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tilewright import dtypes as t
from tilewright.backends import registry
from tilewright.backends.base import TargetInfo
from tilewright.backends.cpu.pipeline import cpu_passes
from tilewright.errors import LaunchError
from tilewright.generator import Contraction, MatmulConfig, Operand
from tilewright.generator.choice import choose, explain
from tilewright.generator.config import Panels
from tilewright.generator.program import POINTER, programs
from tilewright.interpreter.executor import run_module
from tilewright.runtime.matmul.kernels import kernels

pytestmark = pytest.mark.sampled(6, full=6)

_spec = importlib.util.spec_from_file_location(
    "generator_programs", Path(__file__).parent / "programs.py"
)
helpers = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(helpers)

AVX512 = TargetInfo(
    "cpu", "x86_64-unknown-linux-gnu", "znver4",
    ("avx2", "fma", "avx512f", "avx512bw", "avx512vl", "avx512vnni", "avx512bf16", "clzero"), 512, 32,
)  # fmt: skip
PANELS = {
    "float32": Panels(32), "float64": Panels(16), "bfloat16": Panels(32, 2),
    "float16": Panels(32, 1, "fp32"), "int8": Panels(32, 4),
}  # fmt: skip
EPS = {"float64": 1e-13, "float32": 1e-5, "float16": 2e-3, "bfloat16": 1e-2, "int8": 0.0}


def random_array(rng, shape, dtype):
    if dtype == "int8":
        return rng.integers(-128, 128, shape).astype(np.int8)
    element = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
    return rng.standard_normal(shape).astype(np.float32).astype(element)


def turned(rng, shape, dtype, transposed):
    if transposed:
        return np.swapaxes(random_array(rng, (*shape[:-2], shape[-1], shape[-2]), dtype), -1, -2)
    return random_array(rng, shape, dtype)


def check(result, reference, dtype):
    error = np.abs(result.astype(np.float64) - reference).max()
    assert error <= EPS[dtype] * np.abs(reference).max()


@pytest.mark.parametrize("dtype", PANELS)
@pytest.mark.parametrize("order", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("size", [(64, 64, 64), (65, 97, 33), (100, 30, 1), (1, 64, 70)])
def test_products(dtype, order, size):
    rng, (m, n, k) = np.random.default_rng(0), size
    a = turned(rng, (m, k), dtype, order[0] == "T")
    b = turned(rng, (k, n), dtype, order[1] == "T")
    config = MatmulConfig(48, 32, 16, prepack=PANELS[dtype])
    result = tw.matmul(a, b, config=config)
    check(result, a.astype(np.float64) @ b.astype(np.float64), dtype)


@pytest.mark.parametrize("dtype", ["bfloat16", "int8", "float32", "float16"])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_columns_in_one_piece_are_read_as_whole_words(dtype, batch):
    """Where K, strides and addresses are multiples of 16: interleaved rows lie side by side."""
    rng = np.random.default_rng(5)
    for n, k, step in ((97, 160, 1), (40, 48, 1), (64, 64, 2)):
        a = random_array(rng, (70, k), dtype)
        stored = random_array(rng, (*batch, n * step, k + 32), dtype)
        b = np.swapaxes(stored[..., ::step, :k], -1, -2)
        config = MatmulConfig(48, 32, 32, prepack=PANELS[dtype])
        result = tw.matmul(a, b, config=config)
        check(result, a.astype(np.float64) @ b.astype(np.float64), dtype)


@pytest.mark.parametrize("shapes", [((3, 40, 50), (3, 50, 30)), ((2, 1, 40, 50), (1, 3, 50, 30)),
                                    ((2, 3, 40, 50), (3, 50, 30)), ((40, 50), (2, 50, 30))])  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_batches_and_epilogues(shapes, dtype):
    rng = np.random.default_rng(1)
    a, b = (random_array(rng, shape, dtype) for shape in shapes)
    bias = random_array(rng, (30,), dtype)
    config = MatmulConfig(32, 32, 16, prepack=PANELS[dtype])
    result = tw.matmul(a, b, epilogue=[tw.epilogue.bias(bias), "relu"], alpha=0.5, config=config)
    reference = 0.5 * np.matmul(a.astype(np.float64), b.astype(np.float64))
    check(result, np.maximum(reference + bias.astype(np.float64), 0), dtype)


def test_the_result_is_added_to():
    rng = np.random.default_rng(2)
    a, b, out = (random_array(rng, (70, 70), "float64") for _ in range(3))
    reference = a @ b + out
    tw.matmul(a, b, out, accumulate=True, config=MatmulConfig(32, 32, 32, prepack=Panels(16)))
    check(out, reference, "float64")


def test_threads_have_workspaces_of_their_own():
    rng = np.random.default_rng(3)
    pairs = [[random_array(rng, (n, n), "float64") for _ in range(2)] for n in (130, 200, 257, 300)]
    config, wrong = MatmulConfig(64, 64, 64, prepack=Panels(32)), []

    def work(a, b):
        reference = a @ b
        results = [tw.matmul(a, b, config=config) for _ in range(10)]
        wrong.extend(a.shape for r in results if np.abs(r - reference).max() > 1e-10)

    threads = [threading.Thread(target=work, args=pair) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# ---- the IR ----------------------------------------------------------------------------------------


class Lowered:
    """The programs of a case; `module` changes as passes are applied to it."""

    def __init__(self, case, workspace, program):
        for p in program.parameters:
            if p.kind == POINTER and p.name.startswith("panels_"):
                if p.name not in workspace:
                    workspace[p.name] = helpers.aligned((1 << 14,), t.int32)
                held = workspace[p.name]
                case.arrays[p.name] = held.view(helpers.aligned((1,), p.dtype).dtype)
        signature, divisibility, self.arguments = case.signature(program)
        self.module = program.build(signature, divisibility)
        sizes = case.sizes
        self.grid = program.grid(sizes["M"], sizes["N"], case.count, 3, sizes["K"])


@pytest.mark.sampled(9, full=9)
@pytest.mark.parametrize("element", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize(("order", "depth"), [("row", 50), ("column", 50), ("column", 64)])
def test_every_pass_keeps_the_result(element, order, depth):
    kind = getattr(t, element)
    out = Operand(t.int32 if element == "int8" else t.float32)
    contraction = Contraction(Operand(kind, order), Operand(kind, order), out)
    config = MatmulConfig(32, 64, 32, prepack=PANELS[element])
    case, workspace = helpers.Case(contraction, config, 40, 70, depth), {}
    reference = case.product()
    whole = [
        Lowered(case, workspace, p) for p in programs(contraction, config, noalias_output=True)
    ]
    texts = None
    for step in (None, *cpu_passes()):
        before = texts
        for each in whole:
            if step is not None:
                step.apply(each.module, AVX512)
            each.module.verify()
        texts = [str(each.module) for each in whole]
        if step is not None and step.name == "elide-packing":
            assert texts[-1].count("cpu.prepacked") == 2
        if texts == before:
            continue
        case.stored["out"][...] = 0
        for each in whole:
            run_module(each.module, each.arguments, each.grid)
        result = case.arrays["out"].astype(np.float64)
        off = np.abs(result - reference).max()
        assert off <= 1e-4 * np.abs(reference).max(), step and step.name
    assert "@ panel" in texts[-1] and texts[-1].count("cpu.call_microkernel") == 1


def test_without_the_pass_operands_are_copied():
    contraction = Contraction(*[Operand(t.float32)] * 3)
    kernel = kernels(contraction, MatmulConfig(32, 32, 32, prepack=Panels(32)), True)[-1]
    texts = {}
    from tilewright.backends.base import Options
    from tilewright.runtime.export.matmul import argument_types

    for off in ((), ("elide-packing",)):
        types = argument_types(kernel.program, True)
        found = kernel.compile(types, None, registry.get("cpu").target(), Options(disable=off))
        texts[off] = found.asm["cpu"]
    assert texts[()].count("cpu.scratch_address") == 1
    assert texts["elide-packing",].count("cpu.scratch_address") == 3


# ---- the choice ------------------------------------------------------------------------------------

SINGLE = Contraction(*[Operand(t.float32)] * 3)


def test_large_products_are_packed_once_and_small_ones_are_not():
    assert choose(SINGLE, 1024, 1024, 1024, AVX512).prepack == Panels(32)
    assert choose(SINGLE, 64, 64, 64, AVX512).prepack is None
    bf16 = Contraction(*[Operand(t.bfloat16)] * 3)
    assert choose(bf16, 1024, 1024, 1024, AVX512).prepack == Panels(32, 2)
    halves = Contraction(*[Operand(t.float16)] * 3)
    assert choose(halves, 1024, 1024, 1024, AVX512).prepack.element == "fp32"


def test_what_a_step_keeps_fits_the_second_level_cache():
    for cache in (256 << 10, 1 << 20, 2 << 20):
        target = replace(AVX512, l2_bytes=cache)
        config = choose(SINGLE, 2048, 2048, 2048, target)
        assert 4 * config.block_m * (config.block_k + config.block_n) <= 0.75 * cache


def test_matrix_units_read_panels_but_for_halves_which_they_cut_in_two():
    amx = replace(AVX512, features=(*AVX512.features, "amx-tile", "amx-bf16", "amx-int8"))
    known = {
        t.bfloat16: Panels(32, 2),
        t.float32: Panels(32),
        t.int8: Panels(32, 4),
        t.float16: None,
    }
    for kind, panels in known.items():
        out = Operand(t.int32 if kind == t.int8 else kind)
        single = Contraction(Operand(kind), Operand(kind), out)
        assert choose(single, 1024, 1024, 1024, amx).prepack == panels


def test_blocks_divide_extents_evenly():
    config = choose(SINGLE, 300, 300, 300, AVX512)
    assert -(-300 // config.block_m) * config.block_m <= 320
    assert -(-300 // config.block_k) * config.block_k <= 320


def test_the_choice_is_explained():
    text = explain(SINGLE, 1024, 1024, 1024, AVX512)
    assert "packed once" in text and "second level cache (1024 KB)" in text


@pytest.mark.parametrize("wrong", [{"block_n": 48}, {"split_k": 2}, {"persistent": True},
                                   {"form": "listing1"}])  # fmt: skip
def test_configurations_that_cannot_be(wrong):
    with pytest.raises(LaunchError, match=r"panels|prepack"):
        MatmulConfig(
            **{"block_m": 32, "block_n": 64, "block_k": 32, "prepack": Panels(32), **wrong}
        )
