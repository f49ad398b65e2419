"""What large tiles cost: lines of PTX, which is what LLVM and the assembler spend their time on."""

import pytest
from tests import large_tiles

from tilewright.backends.nvidia import assemble

pytestmark = pytest.mark.sampled(4, full=2)

LINES = 3500
#: kernels with a line for each element of a thread, or more: how many there may be
MORE = {
    "jensen_shannon 32768 w8": 4200, "softmax_rows 32768 w4": 4400,
    "linear_recurrence 65536 w4": 11500, "cumulative 65536 w4": 5400,
    "sums_in_the_loop 256x256 w4": 3700, "cumulative_blocks 32768 w4": 5500,
    "transpose_loop 256x256 w4": 3900, "layer_norm_backward 32768 w8": 3700,
}  # fmt: skip
TOO_MANY = ("sorted_rows",)


@pytest.mark.parametrize(
    "case",
    [case for case in large_tiles.CASES if case.kernel.__name__ not in TOO_MANY],
    ids=lambda case: case.name,
)
def test_lines(case, monkeypatch):
    given = []

    def noted(self, ptx, *_):
        given.append(ptx)
        return assemble.Assembled()

    monkeypatch.setattr(assemble.Assembler, "assemble", noted)
    monkeypatch.setenv("TILEWRIGHT_ALWAYS_COMPILE", "1")
    case.kernel.compile(case.types, case.constants, target="sm_90a", num_warps=case.warps)
    assert given[0].count("\n") < MORE.get(case.name, LINES)
