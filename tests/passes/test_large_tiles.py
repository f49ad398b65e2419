"""`strip-mine-tiles` in loops and branches: kernels with large tiles give the same, chunk by chunk."""

from math import prod

import pytest
from tests import large_tile_arguments as given
from tests import large_tiles
from tests.passes.test_cache_in_shared import after_all_passes
from tests.random.programs import Program
from tests.run_on_copies import run_on_copies

from tilewright.backends.nvidia.pipeline import nvidia_passes
from tilewright.dialects import tile
from tilewright.frontend import build
from tilewright.ir.text import parse_ir
from tilewright.language.kernel_function import KernelFunction
from tilewright.passes.gpu.strip_mine_tiles import StripMineTiles
from tilewright.passes.pipeline import shared_passes

pytestmark = pytest.mark.sampled(6, full=6)

CHUNKS = StripMineTiles(elements_per_thread=1, strip_elements_per_thread=1, skip_if_fits=False)
STAY = (
    "layer_norm_backward",  # carries tiles beside sums of its rows
    "linear_recurrence",  # stores what it carries
    "count_with_atomics", "transpose", "transpose_loop", "cumulative", "cumulative_blocks",
)  # fmt: skip


def program_of(name, block):
    arguments, constants, grid = given.arguments(name, block)
    program = Program("", arguments, constants, grid, 1e-4)
    kernel = KernelFunction(getattr(large_tiles, name).fn)
    return program, str(build(kernel, program.signature(), program.divisible()).module)


def largest(module):
    """Elements of the largest tile."""
    return max(
        prod(tile.shape_of(v)) for op in module.walk() for v in op.results if tile.is_tile(v)
    )


@pytest.mark.parametrize("name", [*given.OF_ROWS, *given.OF_TILES])
def test_chunks(name):
    block = 32 if name in given.OF_TILES else 128
    program, text = program_of(name, block)
    values = list(program.arguments.values())
    expected = run_on_copies(parse_ir(text), values, program.grid)
    module = after_all_passes(text, 1, (*shared_passes(), CHUNKS))
    program.compare(expected, run_on_copies(module, values, program.grid))
    assert (largest(module) < block * program.constants.get("BN", 1)) == (name not in STAY)
    passes = tuple(CHUNKS if p.name == "strip-mine-tiles" else p for p in nvidia_passes())
    module = after_all_passes(text, 1, passes)
    program.compare(expected, run_on_copies(module, values, program.grid))
