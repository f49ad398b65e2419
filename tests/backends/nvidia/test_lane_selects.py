"""Conversions in which each lane selects some of its registers."""

import pytest

from tilewright.backends.nvidia.lower.warp_shuffles import plan_selects
from tilewright.layouts.layout import parse_layout

REDUCED = "4x2x16 r[0,0,1 0,1,0 0,0,8 2,0,0] l[0,0,2 0,0,4 0,0,0 0,0,0 0,0,0] w[1,0,0]"


@pytest.mark.parametrize(
    "target",
    [
        "4x2x16 r[0,0,1 0,1,0 2,0,0] l[0,0,2 0,0,4 0,0,0 0,0,0 0,0,8] w[1,0,0]",
        "4x2x16 r[0,0,1] l[0,0,2 0,0,4 0,1,0 2,0,0 0,0,8] w[1,0,0]",
        "4x2x16 r[2,0,0] l[0,0,2 0,0,4 0,0,1 0,1,0 0,0,8] w[1,0,0]",
    ],
)
def test_lanes_keep_their_elements(target):
    source, result = parse_layout(REDUCED), parse_layout(target)
    plan = plan_selects(source, result)
    assert plan is not None
    bits, held = plan
    for register, several in enumerate(held):
        for lane in range(32):
            kept = several[sum((lane >> bit & 1) << i for i, bit in enumerate(bits))]
            for warp in range(2):
                expected = result.coordinates(register, lane, warp)
                assert source.coordinates(kept, lane, warp) == expected


@pytest.mark.parametrize(
    "target",
    [
        "4x2x16 r[0,0,1 0,1,0 2,0,0] l[0,0,4 0,0,2 0,0,0 0,0,0 0,0,8] w[1,0,0]",  # of other lanes
        "4x2x16 r[0,0,1 0,1,0 1,0,0] l[0,0,2 0,0,4 0,0,0 0,0,0 0,0,8] w[2,0,0]",  # of other warps
    ],
)
def test_elements_that_a_lane_does_not_hold(target):
    assert plan_selects(parse_layout(REDUCED), parse_layout(target)) is None
