"""What epilogues of products become: one reciprocal for two, written as it is made, rows loaded early."""

import re
from itertools import pairwise

import pytest

from tilewright import dtypes
from tilewright.generator import Contraction, MatmulConfig, Operand
from tilewright.generator.contraction import Extra, Step
from tilewright.runtime.export.matmul import argument_types
from tilewright.runtime.matmul.kernels import kernels

HALF = Operand(dtypes.float16)
BIAS = Step("add", (Extra(dtypes.float16, "n"),))


def product(*steps, **options):
    config = MatmulConfig(128, 128, 64, 8, 8, 3, **options)
    (kernel,) = kernels(Contraction(HALF, HALF, HALF, epilogue=(BIAS, *steps)), config)
    types = argument_types(kernel.program, True)
    return kernel.compile(types, target="sm_90a", options=kernel.launch_options()).asm["ptx"]


def places(text, ptx):
    return [found.start() for found in re.finditer(text, ptx)]


@pytest.mark.parametrize("kind", ["gelu_tanh", "silu"])
def test_two_elements_share_a_reciprocal(kind):
    ptx = product(Step(kind))
    powers, reciprocals = (len(places(text, ptx)) for text in (r"ex2\.approx", r"rcp\.approx"))
    assert powers == 128 * 128 // 256 and reciprocals == powers // 2


@pytest.mark.parametrize("steps", [(), (Step("gelu_tanh"),)], ids=["bias", "gelu"])
def test_results_are_written_as_they_are_made(steps):
    """Of 16 words that a thread writes at once, none waits for more than the one before and the next."""
    ptx = product(*steps, persistent=True)
    writes, reads, sums = (
        places(text, ptx) for text in (r"stmatrix", r"ld\.shared\.v2", r"cvt\.rn\.f16x?2?\.f32")
    )
    assert len(writes) == 8
    between = [sum(a < r < b for r in sums) for a, b in pairwise(writes)]
    assert all(between[:-1]) and sum(r > writes[0] for r in reads) >= 10


def test_a_row_is_loaded_before_the_products():
    ptx = product(persistent=True)
    (load,) = places(r"ld\.global", ptx)
    assert load < min(places("wgmma.mma_async", ptx))
