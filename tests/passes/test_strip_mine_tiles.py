"""`strip-mine-tiles`: programs give the same when their tiles are gone through in chunks."""

import random

import numpy as np
import pytest
from tests.random.programs import Program, generate
from tests.run_on_copies import run_on_copies
from xdsl.dialects.builtin import IntegerAttr, i32

import tilewright.language as tl
from tilewright.backends.nvidia.target import target_info
from tilewright.frontend import build
from tilewright.ir.text import parse_ir
from tilewright.language.kernel_function import KernelFunction
from tilewright.passes.gpu.strip_mine_tiles import StripMineTiles
from tilewright.passes.manager import run_pipeline
from tilewright.passes.pipeline import shared_passes

pytestmark = pytest.mark.sampled(6, full=6)

ONE_EACH = StripMineTiles(elements_per_thread=1, strip_elements_per_thread=1, skip_if_fits=False)
"""A thread has one element of a tile or of a chunk."""


def chunked(function, arguments, constants, strip_mine_tiles=ONE_EACH):
    """Compare before and after; the text afterwards."""
    program = Program("", arguments, constants, (1, 1, 1), 1e-5)
    return chunked_program(program, function, strip_mine_tiles)


def chunked_program(program, function, strip_mine_tiles=ONE_EACH):
    text = str(build(KernelFunction(function), program.signature()).module)
    values = list(program.arguments.values())
    before = run_on_copies(parse_ir(text), values, program.grid)
    module = parse_ir(text)
    module.body.block.first_op.attributes["gpu.num_warps"] = IntegerAttr(1, i32)
    passes = (*shared_passes(), strip_mine_tiles)
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


def needed_after(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at)
    tl.store(x + at, v * 2)
    tl.store(out + at, v - tl.max(v, 0))


def test_what_needs_no_result_shares_a_loop():
    text = chunked(both_results, {"x": numbers(128), "out": numbers(2)}, {"BLOCK": 128})
    assert text.count("scf.for") == 1 and "tensor<128" not in text
    text = chunked(needed_after, {"x": numbers(128), "out": numbers(128)}, {"BLOCK": 128})
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


# ---- rows -------------------------------------------------------------------------------------------------


def matrix(*shape):
    return numbers(int(np.prod(shape))).reshape(shape)


def normalised_rows(x, weight, out, mean, M, N, B: tl.constexpr, C: tl.constexpr):
    r, c = tl.program_id(0) * B + tl.arange(0, B), tl.arange(0, C)
    inside = (r[:, None] < M) & (c[None, :] < N)
    at = r[:, None] * N + c[None, :]
    v = tl.load(x + at, mask=inside, other=0.0)
    middle = tl.sum(v, 1) / N
    away = tl.where(inside, v - middle[:, None], 0.0)
    wide = tl.sqrt(tl.sum(away * away, 1) / N + 1e-5)
    w = tl.load(weight + c, mask=c < N, other=0.0)
    tl.store(mean + r, middle, mask=r < M)
    tl.store(out + at, away / wide[:, None] * w[None, :], mask=inside)


@pytest.mark.parametrize(("b", "c"), [(16, 64), (64, 16), (32, 32)])
def test_rows_are_done_one_after_another(b, c):
    m, n = b - 3, c - 5
    arguments = {
        "x": matrix(m, n), "weight": numbers(n), "out": matrix(m, n), "mean": numbers(m), "M": m, "N": n,
    }  # fmt: skip
    text = chunked(normalised_rows, arguments, {"B": b, "C": c})
    assert text.count("scf.for") == 1 and f"tensor<{b}x{c}" not in text


def sums_of_columns(x, out, total, N, B: tl.constexpr, C: tl.constexpr):
    r, c = tl.arange(0, B), tl.arange(0, C)
    v = tl.load(x + r[:, None] * N + c[None, :])
    columns = tl.sum(v, 0)
    tl.store(total, tl.max(tl.sum(v, 1), 0))
    tl.store(x + r[:, None] * N + c[None, :], v - columns[None, :])
    tl.store(out + c, columns)


@pytest.mark.parametrize(("b", "c"), [(16, 64), (64, 16), (32, 32)])
def test_sums_of_columns_are_carried(b, c):
    arguments = {"x": matrix(b, c), "out": numbers(c), "total": numbers(1), "N": c}
    text = chunked(sums_of_columns, arguments, {"B": b, "C": c})
    assert text.count("scf.for") == 2 and f"tensor<{b}x{c}" not in text


def sums_of_all(x, y, out, N, B: tl.constexpr, C: tl.constexpr):
    at = tl.arange(0, B)[:, None] * N + tl.arange(0, C)[None, :]
    v, w = tl.load(x + at), tl.load(y + at)
    tl.store(out, tl.sum(v * w))
    tl.store(out + 1, tl.max(w))


def sum_of_what_is_written(x, out, N, B: tl.constexpr, C: tl.constexpr):
    at = tl.arange(0, B)[:, None] * N + tl.arange(0, C)[None, :]
    tl.store(out, tl.sum(tl.load(x + at)))
    tl.store(x + N, 100.0)
    tl.store(out + 1, tl.sum(tl.load(x + at)))


@pytest.mark.parametrize(("b", "c"), [(16, 64), (64, 16)])
def test_sums_of_flattened_tiles_share_a_loop(b, c):
    arguments = {"x": matrix(b, c), "y": matrix(b, c), "out": numbers(2), "N": c}
    text = chunked(sums_of_all, arguments, {"B": b, "C": c})
    assert text.count("scf.for") == 1 and f"tensor<{b * c}" not in text
    del arguments["y"]
    text = chunked(sum_of_what_is_written, arguments, {"B": b, "C": c})
    assert text.count("scf.for") == 2 and f"tensor<{b * c}" not in text


def place_of_largest(x, out, N, B: tl.constexpr, C: tl.constexpr):
    at = tl.arange(0, B)[:, None] * N + tl.arange(0, C)[None, :]
    tl.store(out, tl.argmax(tl.reshape(tl.load(x + at), [B * C]), 0).to(tl.float32))


def test_indices_into_a_flattened_tile_stay_whole():
    arguments = {"x": matrix(16, 16), "out": numbers(1), "N": 16}
    assert "scf.for" not in chunked(place_of_largest, arguments, {"B": 16, "C": 16})


def outer(x, y, out, index, B: tl.constexpr):
    at = tl.arange(0, B)  # rows and columns alike
    v = tl.load(x + at)[:, None] * tl.load(y + at)[None, :] + at[:, None] - 2 * at[None, :]
    i = tl.load(index + at)
    tl.store(out + i[:, None] * B + at[None, :], v)


def test_tiles_that_are_rows_and_columns():
    index = np.random.default_rng(0).permutation(32).astype(np.int32)
    arguments = {"x": numbers(32), "y": numbers(33)[1:], "out": matrix(32, 32), "index": index}
    text = chunked(outer, arguments, {"B": 32})
    assert "scf.for" in text and "tensor<32x32" not in text


def cube(x, out, B: tl.constexpr, C: tl.constexpr, D: tl.constexpr):
    a, b, c = tl.arange(0, B), tl.arange(0, C), tl.arange(0, D)
    at = a[:, None, None] * (C * D) + b[None, :, None] * D + c[None, None, :]
    v = tl.load(x + at)
    tl.store(out + at, v - tl.max(tl.max(v, 2), 1)[:, None, None] + tl.min(v, 1)[:, None, :])


def test_three_dimensions():
    arguments = {"x": matrix(8, 4, 16), "out": matrix(8, 4, 16)}
    text = chunked(cube, arguments, {"B": 8, "C": 4, "D": 16})
    assert text.count("scf.for") == 1 and "tensor<8x" not in text


def transposed(x, out, B: tl.constexpr, C: tl.constexpr):
    r, c = tl.arange(0, B), tl.arange(0, C)
    v = tl.load(x + r[:, None] * C + c[None, :])
    tl.store(out + c[:, None] * B + r[None, :], tl.trans(v))


def first_is_contiguous(x, out, B: tl.constexpr, C: tl.constexpr):
    at = tl.arange(0, B)[:, None] + tl.arange(0, C)[None, :] * B
    tl.store(out + at, tl.load(x + at) + 1)


def rows_moved(x, B: tl.constexpr, C: tl.constexpr):
    at = tl.arange(0, B)[:, None] * C + tl.arange(0, C)[None, :]
    tl.store(x + C + at, tl.load(x + at))


def row_sums_as_columns(x, out, B: tl.constexpr):
    r, c = tl.arange(0, B), tl.arange(0, B)
    v = tl.load(x + r[:, None] * B + c[None, :])
    tl.store(out + r[:, None] * B + c[None, :], v * tl.sum(v, 1)[None, :])


@pytest.mark.parametrize(
    "program", [transposed, first_is_contiguous, rows_moved, row_sums_as_columns]
)
def test_what_stays_whole(program):
    size = {"B": 16, "C": 16}
    arguments = {"x": numbers(17 * 16), "out": numbers(16 * 16)}
    if program is rows_moved:
        del arguments["out"]
    if program is row_sums_as_columns:
        del size["C"]
    assert "scf.for" not in chunked(program, arguments, size)


# ---- much code --------------------------------------------------------------------------------------------


def noise(out, n, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.rand(seed, at), mask=at < n)


def noise_twice(out, total, n, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.rand(seed, at)
    tl.store(total, tl.sum(v, 0))
    tl.store(out + at, v / tl.sum(v, 0), mask=at < n)


def test_smaller_tiles_with_much_code():
    arguments = {"out": numbers(1000), "n": 1000, "seed": 7}
    once = chunked(noise, arguments, {"BLOCK": 1024}, StripMineTiles())
    assert once.count("scf.for") == 1 and "tensor<1024" not in once
    assert "scf.for" not in chunked(
        noise, arguments, {"BLOCK": 1024}, StripMineTiles(max_instructions=10_000)
    )
    arguments = {"out": numbers(1000), "total": numbers(1), "n": 1000, "seed": 7}
    twice = chunked(noise_twice, arguments, {"BLOCK": 1024}, StripMineTiles())
    assert "scf.for" not in twice


def norms(x, out, n, power, R: tl.constexpr, C: tl.constexpr):
    rows, columns = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    total = tl.zeros((R, C), tl.float32)
    for start in range(0, n, C):
        inside = start + columns < n
        v = tl.load(x + rows * n + start + columns, mask=inside, other=0.0)
        total += tl.extra.cuda.libdevice.pow(tl.abs(v), power)
    tl.store(out + rows, tl.sum(total, 1)[:, None])


def test_loops_with_much_code():
    arguments = {"x": matrix(8, 600), "out": numbers(8), "n": 600, "power": 3.0}
    text = chunked(norms, arguments, {"R": 8, "C": 256}, StripMineTiles())
    assert text.count("scf.for") == 2 and "tensor<8x256" not in text
