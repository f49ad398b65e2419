"""`cache-in-shared`: what several loops load is read from shared memory, with the same results."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from tests.random.programs import Program
from tests.run_on_copies import run_on_copies
from xdsl.dialects.builtin import IntegerAttr, i32

import tilewright.language as tl
from tilewright.backends.nvidia.pipeline import nvidia_passes
from tilewright.backends.nvidia.target import target_info
from tilewright.frontend import build
from tilewright.ir.text import parse_ir
from tilewright.language.kernel_function import KernelFunction
from tilewright.passes.gpu.strip_mine_tiles import StripMineTiles
from tilewright.passes.manager import run_pipeline


def from_file(path):
    spec = importlib.util.spec_from_file_location(f"keep_chunks_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


programs = from_file(Path(__file__).parent / "test_strip_mine_tiles.py")
matrix, numbers = programs.matrix, programs.numbers


def softmax(x, out, n, BLOCK: tl.constexpr):
    x, out = x + tl.program_id(0) * n, out + tl.program_id(0) * n
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + at, e / tl.sum(e, 0), mask=at < n)


def in_place(x, n, BLOCK: tl.constexpr):
    x += tl.program_id(0) * n
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(x + at, e / tl.sum(e, 0), mask=at < n)


def weighted(x, weight, bias, out, n, BLOCK: tl.constexpr):
    x, weight = x + tl.program_id(0) * n, weight + tl.program_id(0) * n
    at = tl.arange(0, BLOCK)
    inside = at < n
    v = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    w = tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)
    middle = tl.sum(v, 0) / n
    away = tl.where(inside, v - middle, 0.0)
    away += tl.load(bias + at, mask=inside, other=0.0)  # the same for all programs: not kept
    wide = tl.sum(away * away * w, 0) / n
    tl.store(out + at, away / tl.sqrt(wide + 1e-5) * w, mask=inside)


def columns_in_place(x, B: tl.constexpr, C: tl.constexpr):
    at = tl.arange(0, B)[:, None] * C + tl.arange(0, C)[None, :] + tl.program_id(0) * (B * C)
    v = tl.load(x + at)
    low = tl.min(v, 0)
    most = tl.max(v - low[None, :], 0)
    tl.store(x + at, (v - low[None, :]) / most[None, :])


def half(count):
    return numbers(count).astype(np.float16)


#: kernel, constants, arguments, loads that are kept
CASES = {
    "softmax": (softmax, {"BLOCK": 16384}, {"x": numbers(16384), "out": numbers(16384), "n": 16384}, 1),
    "softmax, cut": (
        softmax, {"BLOCK": 16384}, {"x": numbers(16384), "out": numbers(16384), "n": 11001}, 1,
    ),
    "in place": (in_place, {"BLOCK": 32768}, {"x": numbers(32768), "n": 32000}, 1),
    "two loads": (
        weighted, {"BLOCK": 16384},
        {"x": half(16384), "weight": numbers(16384), "bias": numbers(16384), "out": numbers(16384), "n": 16380}, 2,
    ),  # rows of x and w are not aligned: both are kept
    "columns": (columns_in_place, {"B": 256, "C": 64}, {"x": matrix(256, 64)}, 1),
}  # fmt: skip


def program_of(name):
    function, constants, arguments, _ = CASES[name]
    program = Program("", arguments, constants, (1, 1, 1), 1e-5)
    built = build(KernelFunction(function), program.signature(), program.divisible())
    return program, str(built.module)


def after_all_passes(text, warps=4, passes=None, target="sm_90a"):
    """`passes`: those of a GPU for one CTA, with tiles in chunks though they would fit, if none are given."""
    passes = passes or tuple(
        StripMineTiles(skip_if_fits=False) if p.name == "strip-mine-tiles" else p
        for p in nvidia_passes()
        if p.name != "distribute-rows-over-cluster"
    )
    module = parse_ir(text)
    module.body.block.first_op.attributes["gpu.num_warps"] = IntegerAttr(warps, i32)
    run_pipeline(module, passes, target_info(target), verify="each")
    return module


@pytest.mark.parametrize("name", CASES)
def test_kept_chunks_are_loaded_once(name):
    program, text = program_of(name)
    module = after_all_passes(text)
    shown = str(module)
    assert shown.count("gpu.local_alloc") == CASES[name][3]
    assert "gpu.local_load" in shown and "gpu.cache_in_shared" not in shown
    values = list(program.arguments.values())
    expected = run_on_copies(parse_ir(text), values, program.grid)
    program.compare(expected, run_on_copies(module, values, program.grid))


@pytest.mark.parametrize("name", CASES)
def test_some_are_kept_and_others_loaded_again(name):
    """With little shared memory, as a quarter of the chunks or more must fit."""
    program, text = program_of(name)
    passes = tuple(
        StripMineTiles(elements_per_thread=8, strip_elements_per_thread=2, skip_if_fits=False)
        if p.name == "strip-mine-tiles"
        else p
        for p in nvidia_passes()
    )
    module = after_all_passes(text, passes=passes, target="sm_86")
    values = list(program.arguments.values())
    expected = run_on_copies(parse_ir(text), values, program.grid)
    program.compare(expected, run_on_copies(module, values, program.grid))
