"""`chunk-tiles`: programs give the same when their tiles are gone through in chunks."""

import random

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerAttr, i32

import tilewright.language as tl
from tilewright.backends.nvidia.target import target_info
from tilewright.frontend import build
from tilewright.interpreter.compare import run_on_copies
from tilewright.ir.text import parse_ir
from tilewright.language.kernel_function import KernelFunction
from tilewright.passes.gpu.chunk_tiles import ChunkTiles
from tilewright.passes.manager import run_pipeline
from tilewright.passes.pipeline import shared_passes
from tilewright.testing.random_programs import Program, generate


def chunked(function, arguments, constants):
    """Compare before and after; the text afterwards."""
    return chunked_program(Program("", arguments, constants, (1, 1, 1), 1e-5), function)


def chunked_program(program, function):
    """A thread has one element of a tile or of a chunk."""
    text = str(build(KernelFunction(function), program.signature()).module)
    values = list(program.arguments.values())
    before = run_on_copies(parse_ir(text), values, program.grid)
    module = parse_ir(text)
    module.body.block.first_op.attributes["gpu.warps"] = IntegerAttr(1, i32)
    passes = (*shared_passes(), ChunkTiles(registers=1, share=1))
    run_pipeline(module, passes, target_info("sm_90a"), verify="each")
    program.compare(before, run_on_copies(module, values, program.grid))
    return str(module)


def numbers(count):
    return np.random.default_rng(count).standard_normal(count).astype(np.float32)


def softmax(x, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + at, e / tl.sum(e, 0), mask=at < n)


@pytest.mark.parametrize("n", [256, 200, 3])
def test_each_reduction_has_its_loop(n):
    text = chunked(softmax, {"x": numbers(256), "out": numbers(256), "n": n}, {"BLOCK": 256})
    assert text.count("scf.for") == 3 and "tensor<256" not in text


def both_results(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at)
    tl.store(x + at, v * 2)
    tl.store(out, tl.sum(v, 0))
    tl.store(out + 1, tl.argmax(v, 0).to(tl.float32))


def test_what_needs_no_result_shares_a_loop():
    text = chunked(both_results, {"x": numbers(128), "out": numbers(2)}, {"BLOCK": 128})
    assert "tensor<128" in text  # x is loaded before it is written, and needed after


def two_sums(x, y, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at)
    low, high, total = tl.min(v, 0), tl.max(v, 0), tl.sum(v, 0)
    tl.store(y + at, v * 2)
    tl.store(out, low)
    tl.store(out + 1, high)
    tl.store(out + 2, total)


def test_reductions_and_a_store_share_a_loop():
    arguments = {"x": numbers(128), "y": numbers(128), "out": numbers(3)}
    text = chunked(two_sums, arguments, {"BLOCK": 128})
    assert text.count("scf.for") == 1 and "tensor<128" not in text


def normalised(x, out, mean, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=0.0)
    middle = tl.sum(v, 0) / n
    tl.store(mean, middle)
    tl.store(out + at, v - middle, mask=at < n)


def test_a_number_stored_on_the_way():
    arguments = {"x": numbers(128), "out": numbers(128), "mean": numbers(1), "n": 100}
    text = chunked(normalised, arguments, {"BLOCK": 128})
    assert text.count("scf.for") == 2 and "tensor<128" not in text


def shifted(x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + at + 1, tl.load(x + at))


def swapped(x, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a, b = tl.load(x + at), tl.load(y + at)
    tl.store(x + at, b)
    tl.store(y + at, a + tl.sum(b, 0))


def backwards(x, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y + BLOCK - 1 - at, tl.load(x + at))


@pytest.mark.parametrize("program", [shifted, swapped], ids=lambda f: f.__name__)
def test_memory_that_is_written_on_the_way(program):
    arguments = {"x": numbers(257), "y": numbers(256)}
    if program is shifted:
        del arguments["y"]
    chunked(program, arguments, {"BLOCK": 256})


def test_other_strides():
    text = chunked(backwards, {"x": numbers(128), "y": numbers(128)}, {"BLOCK": 128})
    assert text.count("scf.for") == 1


def gathered(x, index, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    i = tl.load(index + at, mask=at < n, other=0)
    best = tl.argmin(tl.load(x + i), 0)
    tl.store(out + at, tl.load(x + i) + best + at, mask=at < n)


def test_gathers_and_indices():
    index = np.random.default_rng(0).integers(0, 100, 128).astype(np.int32)
    arguments = {"x": numbers(100), "index": index, "out": numbers(128), "n": 120}
    text = chunked(gathered, arguments, {"BLOCK": 128})
    assert text.count("scf.for") == 2 and "tensor<128" not in text


def scanned(x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + at, tl.cumsum(tl.load(x + at), 0))


def test_scans_stay():
    assert "scf.for" not in chunked(scanned, {"x": numbers(64)}, {"BLOCK": 64})


@pytest.mark.parametrize("block", range(6))
def test_random_programs(block):
    for number in range(8 * block, 8 * block + 8):
        program = generate(random.Random(number))
        chunked_program(program, program.function())
