"""Tiles that go in chunks, as PTX executed thread by thread."""

from pathlib import Path

import numpy as np
import pytest
from tests import large_tile_arguments as given
from tests.passes.test_large_tiles import program_of
from tests.ptx.launch import run_ptx
from tests.ptx.test_ptx import TARGETS, from_file
from tests.random.programs import Program
from tests.run_on_copies import run_on_copies

from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.target import target_info
from tilewright.frontend import build
from tilewright.ir.text import parse_ir
from tilewright.language.kernel_function import KernelFunction

pytestmark = pytest.mark.sampled(6, full=6)

programs = from_file(Path(__file__).parents[1] / "passes" / "test_strip_mine_tiles.py")
kept = from_file(Path(__file__).parents[1] / "passes" / "test_cache_in_shared.py")
matrix, numbers = programs.matrix, programs.numbers
IN_CHUNKS = ("strip-mine-tiles{skip-if-fits=false}", "distribute-rows-over-cluster")
"""Though they would fit into the registers, or into those of a cluster."""

CASES = {
    "rows": (
        programs.normalised_rows, {"B": 16, "C": 256},
        {"x": matrix(13, 250), "weight": numbers(250), "out": matrix(13, 250), "mean": numbers(13),
         "M": 13, "N": 250}, 1,
    ),
    "columns": (
        programs.sums_of_columns, {"B": 64, "C": 128},
        {"x": matrix(64, 128), "out": numbers(128), "total": numbers(1), "N": 128}, 2,
    ),
    "all elements": (
        programs.sums_of_all, {"B": 64, "C": 128},
        {"x": matrix(64, 128), "y": matrix(64, 128), "out": numbers(2), "N": 128}, 1,
    ),
    "rows and columns": (
        programs.outer, {"B": 64},
        {"x": numbers(64), "y": numbers(65)[1:], "out": matrix(64, 64),
         "index": np.random.default_rng(0).permutation(64).astype(np.int32)}, 1,
    ),
    "random numbers": (
        programs.noise, {"BLOCK": 1024}, {"out": numbers(1000), "n": 1000, "seed": 3}, 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CASES)
def test_chunks(name, target):
    function, constants, arguments, warps = CASES[name]
    program = Program("", arguments, constants, (1, 1, 1), 1e-5)
    text = str(build(KernelFunction(function), program.signature(), program.divisible()).module)
    values = list(arguments.values())
    artifact = backend.compile(
        parse_ir(text), Options(num_warps=warps, disable=IN_CHUNKS), target_info(target)
    )
    lines = artifact.asm["ptx"].splitlines()
    assert any("bra" in line for line in lines) and len(lines) < 2500
    expected = run_on_copies(parse_ir(text), values, program.grid)
    program.compare(expected, run_ptx(artifact, values, program.grid))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", kept.CASES)
def test_chunks_that_are_kept(name, target):
    program, text = kept.program_of(name)
    values = list(program.arguments.values())
    artifact = backend.compile(
        parse_ir(text), Options(num_warps=4, disable=IN_CHUNKS), target_info(target)
    )
    assert artifact.plan.shared_bytes > 16 << 10
    expected = run_on_copies(parse_ir(text), values, program.grid)
    program.compare(expected, run_ptx(artifact, values, program.grid))


@pytest.mark.parametrize("name", [*given.OF_ROWS, *given.OF_TILES])
def test_large_tiles(name):
    """In loops and branches, rows one after another: nothing meets where no barrier is."""
    program, text = program_of(name, 32 if name in given.OF_TILES else 256)
    values = list(program.arguments.values())
    options = Options(
        num_warps=2,
        disable=(
            "strip-mine-tiles{elements-per-thread=2 strip-elements-per-thread=2 skip-if-fits=false}",
        ),
    )
    artifact = backend.compile(parse_ir(text), options, target_info("sm_90a"))
    expected = run_on_copies(parse_ir(text), values, program.grid)
    program.compare(expected, run_ptx(artifact, values, program.grid))
