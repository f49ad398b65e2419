"""Changes of layout inside warps, by simulating every register of every lane."""

import importlib.util
from pathlib import Path

import pytest
from hypothesis import given

from tilewright.layouts import Layout, parse_layout
from tilewright.layouts.blocked import blocked
from tilewright.layouts.shuffles import same_threads, shuffles, within_warps

_spec = importlib.util.spec_from_file_location(
    "layouts_of_tests", Path(__file__).with_name("test_layouts.py")
)
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
layouts, SETTINGS = _module.layouts, _module.SETTINGS


def image(found, lane):
    total = 0
    for bit, value in enumerate(found.lanes):
        total ^= value if lane >> bit & 1 else 0
    return total


def check(source, target):
    """Each register of the target is the one it is said to come from."""
    found = shuffles(source, target)
    if found is None:
        return False
    for warp in range(target.warp_count):
        for lane in range(32):
            for register, (other, moved) in enumerate(found.sources):
                there = source.coordinates(other, image(found, lane) ^ moved, warp)
                assert there == target.coordinates(register, lane, warp)
    for first in range(0, len(found.sources), found.together):
        start, moved = found.sources[first]
        run = [(start + i, moved) for i in range(found.together)]
        assert list(found.sources[first : first + found.together]) == run
    return True


LINE = parse_layout("256 r[1 8 16 32 64 128] l[2 4 0 0 0] w[0 0 0]")


def test_a_line_that_lanes_share_out():
    spread = parse_layout("256 r[1 64 128] l[2 4 8 16 32] w[0 0 0]")
    assert check(spread, LINE)
    found = within_warps(spread, LINE, 2)
    assert found is not None and found.in_a_word(2) == 2 and found.in_a_word(4) == 1
    assert image(found, 31) == 3  # the others have what is wanted of all
    assert not check(LINE, blocked((256,), 8, 1))  # which register a lane has depends on the lane


@given(layouts(), layouts())
@SETTINGS
def test_any_layouts(source, target):
    if source.shape == target.shape and source.covers:
        check(source, target)


@given(layouts())
@SETTINGS
def test_lanes_in_any_order(layout):
    other = Layout(
        layout.shape, layout.registers, layout.lanes[::-1], layout.warps, layout.repeat, layout.groups,
        layout.along,
    )  # fmt: skip
    assert check(other, layout) or len({*layout.lanes}) < 5
    assert same_threads(layout, layout)


@pytest.mark.parametrize("axis", [0, 1])
def test_parts_are_registers_of_all_threads(axis):
    sums = parse_layout(
        "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"
    )
    assert sums.cut(0, 64) is None  # warps have rows of their own
    part = sums.cut(1, 64)
    assert part is not None and part.shape == (128, 64) and part.covers
    turned = sums.permute((1, 0)).cut(0, 64)
    assert turned == part.permute((1, 0))
    thirds = parse_layout(
        "192x96 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0] x[3,3] g[3 0]"
    )
    cut = thirds.cut(1, 32)
    assert cut is not None and cut.repeats == (3, 1) and thirds.cut(0, 64) is None
    for number in range(3):
        for register, offset in enumerate(cut.register_offsets):
            whole = thirds.register_of[offset[0], offset[1] + 32 * number]
            for warp in range(12):
                row, column = cut.coordinates(register, 5, warp)
                assert thirds.coordinates(whole, 5, warp) == (row, column + 32 * number)
