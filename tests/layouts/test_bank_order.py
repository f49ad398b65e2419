"""Orders of index bits in shared memory: each side of a conversion accesses 32 banks at once."""

import random

import pytest

from tilewright.layouts import Layout, parse_layout
from tilewright.layouts.shared import conflict_free_orders, wavefronts


def random_layout(chance: random.Random, bits: int, warps: int) -> Layout:
    """Every index bit of a row of 2^bits elements in a register, lane or warp of its own."""
    vectors = [(1 << bit,) for bit in range(bits)]
    chance.shuffle(vectors)
    lanes, rest = vectors[:5], vectors[5:]
    return Layout((1 << bits,), tuple(rest[warps:]), tuple(lanes), tuple(rest[:warps]))


@pytest.mark.parametrize("seed", range(8))
def test_neither_side_of_a_conversion_has_bank_conflicts(seed):
    chance = random.Random(seed)
    source, target = (random_layout(chance, 11, 2) for _ in range(2))
    (pair, *_) = conflict_free_orders(source, target, 4)
    rows, columns = pair[0].shape
    for layout in pair:
        places = [layout.thread_offset(lane, 0) for lane in range(32)]
        assert wavefronts([4 * (row * (columns + 1) + column) for row, column in places], 4) == 1
    for register in range(source.registers_per_thread):
        for thread in (0, 1, 77):
            row, column = pair[0].coordinates(register, thread % 32, thread // 32)
            place = source.coordinates(register, thread % 32, thread // 32)
            holder = pair[1].holder((row, column))
            assert target.coordinates(*holder) == place
    assert rows * columns == 2048


def test_both_sides_take_the_elements_that_both_hold_at_once():
    source = parse_layout("1024 r[1 2 4] l[8 16 32 64 128] w[256 512]")
    target = parse_layout("1024 r[1 2 512] l[4 256 8 16 32] w[64 128]")
    found = conflict_free_orders(source, target, 8)
    assert [read.num_consecutive(1, 8) for _, read in found] == [1, 2, 4]


def test_sums_of_index_bits_have_no_order():
    plain = parse_layout("64 r[32] l[1 2 4 8 16] w[]")
    assert not conflict_free_orders(parse_layout("64 r[32] l[1 2 4 8 48] w[]"), plain, 4)
    assert not conflict_free_orders(plain, parse_layout("64 r[] l[1 2 4 8 16] w[] x[2]"), 4)
