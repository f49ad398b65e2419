"""`strip-mine-tiles` where loops, branches and memory are in the way: programs give the same."""

import numpy as np
import pytest
from tests.passes.test_cache_in_shared import after_all_passes
from tests.passes.test_strip_mine_tiles import ONE_EACH, matrix, numbers
from tests.random.programs import Program
from tests.run_on_copies import run_on_copies

import tilewright.language as tl
from tilewright.backends.nvidia.pipeline import nvidia_passes
from tilewright.frontend import build
from tilewright.ir.text import parse_ir
from tilewright.language.kernel_function import KernelFunction
from tilewright.passes.pipeline import shared_passes

pytestmark = pytest.mark.sampled(4, full=4)


def same(function, arguments, constants):
    """Compare after `strip-mine-tiles` and after all passes; the number of loops after the first."""
    program = Program("", arguments, constants, (1, 1, 1), 1e-4)
    kernel = KernelFunction(function)
    text = str(build(kernel, program.signature(), program.divisible()).module)
    values = list(arguments.values())
    expected = run_on_copies(parse_ir(text), values, program.grid)
    module = after_all_passes(text, 1, (*shared_passes(), ONE_EACH))
    program.compare(expected, run_on_copies(module, values, program.grid))
    loops = str(module).count("scf.for")
    passes = tuple(ONE_EACH if p.name == "strip-mine-tiles" else p for p in nvidia_passes())
    module = after_all_passes(text, 1, passes)
    program.compare(expected, run_on_copies(module, values, program.grid))
    return loops


# ---- memory --------------------------------------------------------------------------------------------


def loaded_before(x, out, times, B: tl.constexpr):
    """What is loaded before a loop that stores there must not be loaded again."""
    at = tl.arange(0, B)
    v = tl.load(x + at)
    for i in range(times):
        tl.store(x + i + at, v * 2 + tl.sum(v))
    tl.store(out + at, v)


def shifted_on(x, times, B: tl.constexpr):
    """Each iteration stores where the next one loads."""
    at = tl.arange(0, B)
    for i in range(times):
        v = tl.load(x + i * 8 + at)
        tl.store(x + i * 8 + 16 + at, v + tl.max(v))


def sums_in_place(x, times, B: tl.constexpr):
    """What a loop adds up is stored where it was loaded."""
    at = tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    for i in range(times):
        total += tl.load(x + i * 8 + at)
    tl.store(x + at, total)


def rows_in_place(x, n, times, B: tl.constexpr):
    at = tl.arange(0, B)
    for i in range(times):
        v = tl.load(x + i * n + at, mask=at < n, other=0.0)
        tl.store(x + i * n + at, v - tl.sum(v) / n, mask=at < n)


def shared_weights(x, w, out, n, times, B: tl.constexpr):
    """Weights that all programs load may be loaded in each iteration."""
    at = tl.arange(0, B)
    weight = tl.load(w + at, mask=at < n, other=0.0)
    for i in range(times):
        v = tl.load(x + i * n + at, mask=at < n, other=0.0)
        tl.store(out + i * n + at, v * weight / tl.sum(v * v), mask=at < n)


def own_weights(x, w, out, n, times, B: tl.constexpr):
    """Those of a program may not: it may store there."""
    at = tl.arange(0, B)
    weight = tl.load(w + tl.program_id(0) * n + at, mask=at < n, other=0.0)
    for i in range(times):
        v = tl.load(x + i * n + at, mask=at < n, other=0.0)
        tl.store(out + i * n + at, v * weight / tl.sum(v * v), mask=at < n)


@pytest.mark.parametrize("times", [0, 1, 3])
def test_memory_that_is_written_on_the_way(times):
    sized = {"times": times}
    assert same(loaded_before, {"x": numbers(140), "out": numbers(128), **sized}, {"B": 128}) == 1
    assert same(shifted_on, {"x": numbers(200), **sized}, {"B": 128}) == 1
    same(sums_in_place, {"x": numbers(200), **sized}, {"B": 128})
    same(rows_in_place, {"x": numbers(400), "n": 100, **sized}, {"B": 128})


@pytest.mark.parametrize(("program", "loops"), [(shared_weights, 3), (own_weights, 1)])
def test_what_may_be_loaded_again(program, loops):
    arguments = {
        "x": matrix(4, 100),
        "w": numbers(100),
        "out": matrix(4, 101),
        "n": 100,
        "times": 4,
    }
    assert same(program, arguments, {"B": 128}) == loops


def test_weights_that_results_are_stored_over():
    """The same array for both, which the aliasing rules allows element-wise."""
    x = numbers(128)
    arguments = {"x": matrix(1, 128), "w": x, "out": x, "n": 128, "times": 1}
    same(own_weights, arguments, {"B": 128})


# ---- what is carried -------------------------------------------------------------------------------------


def loops_in_loops(x, out, n, times, B: tl.constexpr):
    """Tiles carried by a loop in a loop."""
    at = tl.arange(0, B)
    total, most = tl.zeros((B,), tl.float32), tl.full((B,), float("-inf"), tl.float32)
    for i in range(times):
        row = tl.zeros((B,), tl.float32)
        for j in range(times):
            v = tl.load(x + (i * times + j) * n + at, mask=at < n, other=0.0)
            row += v * (j + 1)
            most = tl.maximum(most, v + i)
        total += row * row
    tl.store(out + at, total + most, mask=at < n)


def scalars_beside(x, out, n, times, B: tl.constexpr):
    """A scalar that the loop carries with the tile, and one that is used after it."""
    at = tl.arange(0, B)
    total, factor = tl.zeros((B,), tl.float32), 1.0
    for i in range(times):
        total += tl.load(x + i * n + at, mask=at < n, other=0.0) * factor
        factor *= 0.5
    tl.store(out + at, total * factor, mask=at < n)


def not_used_after(x, out, n, times, B: tl.constexpr):
    at = tl.arange(0, B)
    total, factor = tl.zeros((B,), tl.float32), 1.0
    for i in range(times):
        total += tl.load(x + i * n + at, mask=at < n, other=0.0) * factor
        factor *= tl.load(x + i)
    tl.store(out + at, total, mask=at < n)


def depends_on_all(x, out, n, times, B: tl.constexpr):
    """Each iteration needs the sum of the tile before."""
    at = tl.arange(0, B)
    v = tl.load(x + at, mask=at < n, other=0.0)
    for i in range(times):
        v = v / (1 + tl.sum(v * v)) + tl.load(x + i * n + at, mask=at < n, other=0.0)
    tl.store(out + at, v, mask=at < n)


def columns_of_loops(x, out, n, times, B: tl.constexpr):
    """Rows of a tile are carried, columns are the same for all chunks."""
    r, c = tl.arange(0, B), tl.arange(0, B)
    total, wide = tl.zeros((B,), tl.float32), tl.zeros((B, B), tl.float32)
    for i in range(times):
        weight = tl.load(x + i * n + c, mask=c < n, other=0.0)
        v = tl.load(
            x + r[:, None] * n + c[None, :] + i,
            mask=(r[:, None] < n - 4) & (c[None, :] < n),
            other=0.0,
        )
        total += tl.sum(v * weight[None, :], 1)
        wide += v * weight[None, :] + r[:, None] - c[None, :]
    tl.store(out + r, total, mask=r < n)
    tl.store(out + n + c, tl.sum(wide, 0), mask=c < n)


def stores_beside(x, out, n, times, B: tl.constexpr):
    """A loop that stays whole, since it scans, has effects: loops before it are interchanged all the same."""
    at = tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    for i in range(times):
        total += tl.load(x + i * n + at, mask=at < n, other=0.0)
    mean = tl.sum(total) / n
    for i in range(times):
        v = tl.load(x + i * n + at, mask=at < n, other=0.0)
        tl.store(out + at, tl.cumsum(v - mean), mask=at < n)


def sum_beside(x, out, n, times, B: tl.constexpr):
    """The loop that stays whole needs a tile of the sum itself."""
    at = tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    for i in range(times):
        total += tl.load(x + i * n + at, mask=at < n, other=0.0)
    whole = tl.sum(total)
    for i in range(times):
        v = tl.load(x + i * n + at, mask=at < n, other=0.0)
        tl.store(out + at, tl.cumsum(v - whole), mask=at < n)


CARRIED = {
    loops_in_loops: 3, scalars_beside: 1, not_used_after: 2, depends_on_all: 1, columns_of_loops: 3, stores_beside: 4,
    sum_beside: 2,
}  # fmt: skip


@pytest.mark.parametrize("times", [0, 1, 4])
@pytest.mark.parametrize("program", CARRIED, ids=lambda f: f.__name__)
def test_what_loops_carry(program, times):
    side = program is columns_of_loops
    arguments = {"x": matrix(17, 90), "out": numbers(300), "n": 30 if side else 90, "times": times}
    loops = same(program, arguments, {"B": 32 if side else 128})
    assert loops == CARRIED[program] or times == 0


# ---- branches, and blocks within blocks ---------------------------------------------------------------------


def in_branches(x, out, n, times, B: tl.constexpr):
    at = tl.arange(0, B)
    for i in range(times):
        v = tl.load(x + i * n + at, mask=at < n, other=0.0)
        if i % 2 == 0:
            tl.store(out + i * n + at, v - tl.max(v), mask=at < n)
        else:
            tl.store(out + i * n + at, v / tl.sum(v * v), mask=at < n)


def tiles_of_branches(x, out, n, times, B: tl.constexpr):
    """Branches that give tiles stay, and what they are made of."""
    at = tl.arange(0, B)
    v = tl.load(x + at, mask=at < n, other=0.0)
    if times > 1:
        v = v - tl.sum(v) / n
    tl.store(out + at, v, mask=at < n)


def scanned_within(x, out, n, times, B: tl.constexpr):
    """What a branch scans was reduced before it, in chunks or not."""
    at = tl.arange(0, B)
    v = tl.load(x + at, mask=at < n, other=0.0)
    away = v - tl.sum(v) / n
    tl.store(out + at, away, mask=at < n)
    if times > 0:
        tl.store(out + n + at, tl.cumsum(away, 0), mask=at < n)


def reduced_before(x, out, n, times, B: tl.constexpr):
    """A loop goes on with what was reduced before it."""
    at = tl.arange(0, B)
    v = tl.load(x + at, mask=at < n, other=0.0)
    away = v - tl.sum(v) / n
    for i in range(times):
        w = tl.load(x + i * n + at, mask=at < n, other=0.0)
        tl.store(out + i, tl.sum(away * w))


def waits(x, out, n, times, B: tl.constexpr):
    at = tl.arange(0, B)
    i, size = 0, 1e9
    while (i < times) & (size > 0.1):
        v = tl.load(x + i * n + at, mask=at < n, other=0.0)
        size = tl.sum(v * v)
        tl.store(out + i * n + at, v / size, mask=at < n)
        i += 1


@pytest.mark.parametrize("times", [0, 1, 4])
@pytest.mark.parametrize(
    "program",
    [in_branches, tiles_of_branches, scanned_within, reduced_before, waits],
    ids=lambda f: f.__name__,
)
def test_blocks_within_blocks(program, times):
    arguments = {"x": matrix(4, 90), "out": matrix(4, 91), "n": 90, "times": times}
    same(program, arguments, {"B": 128})


def test_blocks_that_are_done_in_chunks():
    arguments = {"x": matrix(4, 90), "out": matrix(4, 91), "n": 90, "times": 4}
    assert same(in_branches, arguments, {"B": 128}) == 5
    assert same(reduced_before, arguments, {"B": 128}) == 3


def two_loads(x, out, n, times, B: tl.constexpr):
    """Loops that load the same twice, one after the other: both keep, or load again."""
    at = tl.arange(0, B)
    x, out = x + tl.program_id(0) * n, out + tl.program_id(0) * n
    for i in range(times):
        v = tl.load(x + at, mask=at < n, other=float("-inf"))
        e = tl.exp(v - tl.max(v))
        tl.store(out + i + at, e / tl.sum(e), mask=at < n)
    for i in range(times):
        v = tl.load(x + at, mask=at < n, other=0.0)
        tl.store(out + n + i + at, v - tl.sum(v), mask=at < n)


def test_kept_in_loops():
    arguments = {"x": numbers(16384), "out": numbers(40000), "n": 16100, "times": 2}
    program = Program("", arguments, {"B": 16384}, (1, 1, 1), 1e-4)
    built = build(KernelFunction(two_loads), program.signature(), program.divisible())
    text = str(built.module)
    module = after_all_passes(text)
    assert str(module).count("gpu.local_alloc") == 1 and "gpu.local_load" in str(module)
    values = list(arguments.values())
    expected = run_on_copies(parse_ir(text), values, program.grid)
    program.compare(expected, run_on_copies(module, values, program.grid))
    assert np.isfinite(expected[1]).all()
