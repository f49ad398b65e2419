"""Products with an operand through registers: every thread has the rows that the instruction takes it to
have, and shared memory is asked no more often than it must."""

from itertools import product

import pytest
from tests.layouts.bank_conflicts import bank_conflicts

from tilewright.layouts.fragments import WgmmaInstruction, parse_wgmma
from tilewright.layouts.shared import SharedLayout
from tilewright.layouts.wgmma_partition import partition_wgmma

pytestmark = pytest.mark.sampled(3)

TILES = [
    (64, 64, 4), (128, 64, 4), (64, 128, 4), (128, 128, 4), (256, 64, 4), (64, 256, 4), (256, 128, 8),
    (128, 256, 8), (128, 128, 8), (256, 64, 8), (128, 64, 8), (192, 192, 12), (192, 128, 12), (128, 192, 12),
    (192, 256, 8), (256, 192, 8), (192, 64, 4), (96, 128, 8), (256, 256, 16), (128, 512, 8),
]  # fmt: skip


def made(through, m, n, warps):
    return partition_wgmma(WgmmaInstruction(8, "tf32", "tf32", through), m, n, warps)


def instruction_rows(found, warp, lane):
    """Rows of the instruction, 64 at a time, of which a thread has sums: PTX ISA, fragment D."""
    starts = {row for row, _ in found.plain.register_offsets if row % 64 == 0}
    own = found.plain.thread_offset(0, warp & ~3)[0]
    return [
        own + s + 16 * (warp % 4) + lane // 4 + 8 * high for s in sorted(starts) for high in (0, 1)
    ]


@pytest.mark.parametrize("through", ["a", "b"])
@pytest.mark.parametrize(("m", "n", "warps"), TILES)
def test_sums_are_where_the_operands_put_them(through, m, n, warps):
    found = made(through, m, n, warps)
    if found is None:
        assert min(m, n) < 128 or m % 64 or n % 64
        return
    k = 16
    sums, operand = found.accumulator_layout, found.operand(k)
    assert sums.shape == (m, n) and operand.shape == ((m, k) if through == "a" else (k, n))
    assert sums.is_surjective and sums.warp_count == operand.warp_count == warps
    held = set()
    for warp, lane in product(range(warps), range(32)):
        rows = [found.row_place(r) for r in instruction_rows(found, warp, lane)]
        mine = {sums.coordinates(r, lane, warp) for r in range(sums.registers_per_thread)}
        assert {at[0 if through == "a" else 1] for at in mine} == set(rows)
        held |= mine
        reads = {operand.coordinates(r, lane, warp) for r in range(operand.registers_per_thread)}
        ks = [8 * step + 4 * half + lane % 4 for step in range(k // 8) for half in (0, 1)]
        wanted = {(row, c) if through == "a" else (c, row) for row in rows for c in ks}
        assert reads == wanted
    assert len(held) == m * n


@pytest.mark.parametrize("through", ["", "a", "b"])
def test_places_are_a_permutation_inside_the_block(through):
    for m, n, warps in TILES:
        found = made(through, m, n, warps)
        if found is not None and through:
            assert sorted(map(found.row_place, range(found.rows))) == list(range(found.rows))
        if found is not None:
            assert found.place(0, 0) == (0, 0)
            assert found.plain == found.groups.accumulator(found.rows, found.columns)


@pytest.mark.parametrize("through", ["a", "b"])
@pytest.mark.parametrize(("m", "n", "warps"), TILES)
def test_nobody_waits_for_a_bank(through, m, n, warps):
    """Reads of the operand, and writes of the sums to the buffer of a box, in panels of 128 bytes."""
    found = made(through, m, n, warps)
    if found is None:
        return
    k, count = 32, found.at_once
    operand = found.operand(k)
    rows, columns = operand.shape
    shared = SharedLayout(rows, columns, 4, 0 if through == "a" else 1, 128)
    assert not bank_conflicts(
        operand, shared.offset, 4, neighbours(operand, shared.major_dim, count)
    )
    if through == "b":
        box = SharedLayout(m, n, 4, 1, 128)
        assert not bank_conflicts(
            found.accumulator_layout, box.offset, 4, neighbours(found.accumulator_layout, 1, count)
        )


def neighbours(layout, dim, count):
    """Registers in runs along a dimension."""
    assert layout.num_consecutive(dim, 4) == count
    starts = [o for o in layout.register_offsets if o[dim] % count == 0]
    step = (1, 0) if dim == 0 else (0, 1)
    return [
        [layout.register_of[tuple(c + i * s for c, s in zip(o, step, strict=True))] for i in range(count)]
        for o in starts
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["wgmma.k8.tf32.rs", "wgmma.k8.tf32.rs.swap_ab", "wgmma.k8.tf32"])
def test_text(text):
    instruction = parse_wgmma(text)
    assert str(instruction) == text
    assert instruction.majors == {"a": (0, 0), "b": (1, 1), "": (1, 0)}[instruction.through]


def test_products_too_small_for_the_transposed_form():
    assert made("b", 64, 32, 4) is None
    assert made("a", 32, 64, 4) is None
    assert made("b", 32, 64, 4) is not None


@pytest.mark.parametrize(
    ("through", "m", "n", "warps", "registers", "blocks", "room"),
    [
        ("b", 256, 128, 8, 255, 1, 12), ("b", 128, 256, 8, 255, 2, 6), ("b", 192, 256, 8, 255, 2, 2),
        ("b", 256, 192, 12, 168, 1, 1), ("b", 192, 256, 16, 128, 1, 0), ("a", 128, 128, 4, 255, 2, 6),
        ("b", 64, 256, 4, 255, 4, 3), ("b", 128, 256, 8, 168, 2, 0),
    ],
)  # fmt: skip
def test_room_for_operands_beside_the_sums(through, m, n, warps, registers, blocks, room):
    found = made(through, m, n, warps)
    assert (found.blocks, found.k_steps_per_batch(registers)) == (blocks, room)
    assert found.accumulator_layout.registers_per_thread == m * n // (32 * warps)
