"""Fragments of tensor cores are those of the PTX ISA, and tile products of any extents are covered."""

from itertools import product

import pytest

from tilewright.layouts import Layout
from tilewright.layouts.fragments import (
    INSTRUCTIONS,
    ROWS,
    WarpGrid,
    WgmmaInstruction,
    batched,
    choose_warp_grid,
    choose_warpgroup_grid,
    ldmatrix_lanes,
    ldmatrix_layout,
    mma_layouts,
    paired_lines,
    parse_wgmma,
    wgmma_a_layout,
)

#: consecutive k in one 32-bit register
PACK = {"f16": 2, "bf16": 2, "tf32": 1, "s8": 4, "u8": 4, "e4m3": 4, "e5m2": 4, "f64": 1}


@pytest.mark.parametrize("name", [n for n, row in INSTRUCTIONS.items() if row.adjacent == 1])
def test_one_instruction(name):
    """PTX ISA, "Matrix fragments": g is the lane's group of four, q its place in it."""
    instruction = INSTRUCTIONS[name]
    m, n, k, pack = instruction.m, instruction.n, instruction.k, PACK[name.split(".")[1]]
    one = WarpGrid(instruction, 1, 1)
    a, b, c = one.left(m, k), one.right(k, n), one.accumulator(m, n)
    halves = m // 8
    for lane in range(32):
        g, q = lane // 4, lane % 4
        for r in range(a.registers_per_thread):
            word, j = divmod(r, pack)
            row, column = g + 8 * (word % halves), q * pack + 4 * pack * (word // halves) + j
            assert a.coordinates(r, lane, 0) == (row, column)
        for r in range(b.registers_per_thread):
            word, j = divmod(r, pack)
            assert b.coordinates(r, lane, 0) == (q * pack + 4 * pack * word + j, g)
        for r in range(c.registers_per_thread):
            assert c.coordinates(r, lane, 0) == (g + 8 * (r // 2), 2 * q + r % 2)


@pytest.mark.sampled(6, full=6)
@pytest.mark.parametrize("name", INSTRUCTIONS)
@pytest.mark.parametrize("warps", [1, 2, 4, 8, 12])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (4, 2, 2), (2, 8, 1), (8, 16, 4), (3, 4, 1), (4, 6, 3)])  # fmt: skip
def test_operands_of_a_warp_meet(name, warps, m, n, k):
    """Each warp has the rows of A and columns of B that its sums are made of."""
    instruction = INSTRUCTIONS[name]
    m, n, k = m * instruction.m, n * instruction.n, k * instruction.k
    where = choose_warp_grid(instruction, m, n, warps)
    assert where.rows * where.columns * where.groups == warps
    a, b, c = where.left(m, k), where.right(k, n), where.accumulator(m, n)
    for layout in (a, b, c):
        assert layout.is_surjective and layout.warp_count == warps
    for warp in range(warps):
        rows = {a.coordinates(r, i, warp)[0] for r in range(a.registers_per_thread) for i in range(32)}  # fmt: skip
        columns = {b.coordinates(r, i, warp)[1] for r in range(b.registers_per_thread) for i in range(32)}  # fmt: skip
        for r in range(c.registers_per_thread):
            for lane in range(32):
                row, column = c.coordinates(r, lane, warp)
                assert row in rows and column in columns


@pytest.mark.parametrize("n", [8, 16, 64, 128, 256])
def test_sums_of_a_warp_group(n):
    """PTX ISA, "Register fragments for wgmma.mma_async", D: element i of thread t."""
    layout = choose_warpgroup_grid(64, n, 4).accumulator(64, n)
    assert layout.registers_per_thread == n // 2
    for t in range(128):
        for i in range(n // 2):
            row = 16 * (t // 32) + t % 32 // 4 + 8 * (i >> 1 & 1)
            column = 8 * (i >> 2) + 2 * (t % 4) + (i & 1)
            assert layout.coordinates(i, t % 32, t // 32) == (row, column)


@pytest.mark.parametrize("n", [16, 64])
def test_sums_are_the_next_operand(n):
    """Packed pairs of sums are the operand A of the next 16-bit product (k16), register by register."""
    layout = choose_warpgroup_grid(64, n, 4).accumulator(64, n)
    for t in range(128):
        for step in range(n // 16):
            for r in range(4):
                for half in range(2):
                    row = 16 * (t // 32) + t % 32 // 4 + 8 * (r & 1)
                    k = 16 * step + 8 * (r >> 1) + 2 * (t % 4) + half
                    element = 8 * step + 2 * r + half
                    assert layout.coordinates(element, t % 32, t // 32) == (row, k)


@pytest.mark.parametrize(("m", "n", "warps"), [(64, 64, 4), (128, 64, 8), (64, 128, 8), (256, 32, 16), (192, 16, 4)])  # fmt: skip
def test_warp_groups_share_a_product(m, n, warps):
    groups = choose_warpgroup_grid(m, n, warps)
    if m % (64 * groups.rows):
        pytest.skip("rows of the group do not divide")
    layout = groups.accumulator(m, n)
    assert layout.warp_count == warps and 4 * groups.rows * groups.columns == warps
    if m & (m - 1) == 0:
        assert layout.is_surjective
        assert not any(layout.replicated(kind) for kind in ("registers", "lanes", "warps"))


@pytest.mark.parametrize(
    ("m", "n", "warps", "place"),
    [
        (192, 192, 12, (3, 1)), (192, 96, 12, (3, 1)), (384, 64, 12, (3, 1)), (128, 192, 12, (1, 3)),
        (192, 128, 24, (3, 2)), (128, 192, 8, (2, 1)), (256, 96, 16, (4, 1)), (192, 64, 4, (1, 1)),
    ],
)  # fmt: skip
def test_extents_that_are_no_powers_of_two(m, n, warps, place):
    groups = choose_warpgroup_grid(m, n, warps)
    assert (groups.rows, groups.columns) == place
    layout = groups.accumulator(m, n)
    assert layout.warp_count == warps and layout.is_surjective
    held = [layout.coordinates(r, lane, warp) for warp in range(warps) for lane in range(32)
            for r in range(layout.registers_per_thread)]  # fmt: skip
    assert len(held) == len(set(held)) == m * n
    for warp in range(0, warps, 4):  # a group has whole stretches of 64 rows and of 8 columns
        for r in range(layout.registers_per_thread):
            row, column = layout.coordinates(r, 0, warp)
            inside = layout.register_offsets[r]
            assert row % 64 == inside[0] % 64 and column % 8 == inside[1] % 8


@pytest.mark.parametrize(("m", "n", "warps"), [(64, 64, 12), (96, 64, 4), (128, 192, 16), (192, 64, 20)])  # fmt: skip
def test_products_that_warp_groups_do_not_share(m, n, warps):
    assert choose_warpgroup_grid(m, n, warps) is None or m == 192


def test_too_few_warps_or_rows_are_no_group():
    assert choose_warpgroup_grid(64, 64, 2) is None
    assert choose_warpgroup_grid(32, 64, 4) is None
    assert choose_warpgroup_grid(64, 8, 8) is None


def test_batches_are_further_registers():
    one = choose_warp_grid(INSTRUCTIONS["m16n8k16.f16"], 16, 8, 1).accumulator(16, 8)
    four = batched(one, 4)
    assert four.is_surjective and four.registers_per_thread == 4 * one.registers_per_thread
    for r in range(four.registers_per_thread):
        batch, inside = divmod(r, one.registers_per_thread)
        assert four.coordinates(r, 9, 0) == (batch, *one.coordinates(inside, 9, 0))


@pytest.mark.parametrize(
    ("batch", "m", "n", "warps", "registers"),
    [(16, 16, 16, 4, 32), (2, 32, 16, 8, 4), (3, 16, 16, 2, 12), (1, 16, 8, 2, 4), (12, 16, 16, 12, 24), (4, 64, 64, 4, 128)],
)  # fmt: skip
def test_warps_split_a_batch_first(batch, m, n, warps, registers):
    """A warp has the operands of the products that it computes, and each product as few warps as there are for it."""
    a, b, acc = mma_layouts("m16n8k16.f16", (m, n, 32), warps, batch)
    assert acc.registers_per_thread == registers
    for layout, extents in ((a, (m, 32)), (b, (32, n)), (acc, (m, n))):
        assert layout.shape == (batch, *extents) and layout.warp_count == warps
        assert layout.is_surjective
        for warp in range(warps):
            held = {layout.coordinates(r, 0, warp)[0] for r in range(layout.registers_per_thread)}
            mine = {acc.coordinates(r, 0, warp)[0] for r in range(acc.registers_per_thread)}
            assert held == mine


@pytest.mark.parametrize("text", ["wgmma.k16.bf16", "wgmma.k8.tf32", "wgmma.k32.e4m3.e5m2"])
def test_group_instructions_as_text(text):
    assert str(parse_wgmma(text)) == text
    assert parse_wgmma(text).any_major == ("k16" in text)


def test_other_text_is_no_group_instruction():
    with pytest.raises(ValueError, match="not an instruction"):
        parse_wgmma("m16n8k16.f16")


def matrices(lanes, coordinates, along_k, size, rows):
    """What ldmatrix gives to each lane: for each matrix, the coordinates in its 32 bits."""
    layout = Layout((1 << 10, 1 << 10), (), lanes, ())
    chunk, found = 16 // size, {}
    inner = (0, 1) if rows == along_k else (1, 0)  # the direction of a line in memory
    for i, lane in product(range(4), range(32)):
        if along_k:  # line lane / 4, bytes 4 * (lane % 4) …
            named = layout.coordinates(0, 8 * i + lane // 4, 0)
            starts = [(named, (lane % 4) * chunk // 4 + j) for j in range(chunk // 4)]
        else:  # transposed: element lane / 4 of lines 2 * (lane % 4) and the next
            lines = [layout.coordinates(0, 8 * i + 2 * (lane % 4) + j, 0) for j in range(2)]
            starts = [(named, lane // 4) for named in lines]
        found[i, lane] = [
            tuple(a + b + c * step for a, b, c in zip(named, coordinates, inner, strict=True))
            for named, step in starts
        ]
    return found


def test_sums_are_operands_of_pairs():
    """With pairs of neighbors along k, sums are where the left operand of the next product has to be."""
    for warps in (1, 2, 4):
        where = choose_warp_grid(INSTRUCTIONS["m16n8k8.tf32.pairs"], 16 * warps, 32, warps, ROWS)
        sums, left = where.accumulator(16 * warps, 32), where.left(16 * warps, 32)
        assert sums.lanes == left.lanes
        assert sums.warps == left.warps
        assert set(sums.registers) == set(left.registers)


@pytest.mark.parametrize(
    "name", [n for n, row in INSTRUCTIONS.items() if row.m == 16 and row.adjacent == 1]
)
@pytest.mark.parametrize("along_k", [True, False])
def test_ldmatrix_brings_the_fragments(name, along_k):
    """Both operands of an instruction, 4 matrices at once, lie as its layouts say."""
    i = INSTRUCTIONS[name]
    size = 4 // i.pack
    if not along_k and size != 2:
        return  # only 16-bit elements are transposed
    where = choose_warp_grid(i, 64, 64, 4)
    for rows, layout in ((True, where.left(64, 2 * i.k)), (False, where.right(2 * i.k, 64))):
        pair = 0 if rows else paired_lines(layout)
        lanes = ldmatrix_lanes(size, rows, along_k, pair)
        k, line = i.k, 32
        found = matrices(lanes, (line, k) if rows else (k, line), along_k, size, rows)
        half = 4 * i.pack
        if rows:
            places = [(line, k), (line + 8, k), (line, k + half), (line + 8, k + half)]
        else:
            places = [(k, line), (k + half, line), (k, line + pair), (k + half, line + pair)]
        for (matrix, lane), elements in found.items():
            place = places[matrix]
            step = (0, 1) if rows else (1, 0)
            for j, element in enumerate(elements):
                offset = tuple(p + j * s for p, s in zip(place, step, strict=True))
                assert layout.coordinates(layout.register_of[offset], lane, 0) == element


@pytest.mark.parametrize("shape", [(96, 96), (192, 96), (96, 192), (64, 64)])
@pytest.mark.parametrize("warps", [4, 12])
def test_every_warp_names_lines_of_its_own_part(shape, warps):
    i = INSTRUCTIONS["m16n8k16.f16"]
    m, n = shape
    where = choose_warp_grid(i, m, n, warps)
    for rows, layout in ((True, where.left(m, 32)), (False, where.right(32, n))):
        pair = 0 if rows else paired_lines(layout)
        found = ldmatrix_layout(layout, ldmatrix_lanes(2, rows, True, pair))
        for warp in range(warps):
            assert found.thread_offset(0, warp) == layout.thread_offset(0, warp)


@pytest.mark.parametrize("pack", [1, 2, 4])
@pytest.mark.parametrize(("m", "n", "k", "warps"), [
    (64, 64, 32, 4), (128, 64, 64, 8), (128, 64, 32, 4), (192, 128, 64, 12), (64, 64, 96, 4),
])  # fmt: skip
def test_left_operands_of_warp_groups_in_registers(pack, m, n, k, warps):
    """PTX ISA, fragments of matrix A of m64k16 (16 bits), m64k8 (tf32) and m64k32 (8 bits)."""
    instruction = {1: WgmmaInstruction(8, "tf32", "tf32"), 2: WgmmaInstruction(16, "f16", "f16"),
                   4: WgmmaInstruction(32, "s8", "s8")}[pack]  # fmt: skip
    layout = wgmma_a_layout(instruction, m, n, k, warps)
    assert layout.is_surjective and not layout.replicated("warps")
    blocks = m // 64 // (warps // 4)
    for warp, lane in product(range(warps), range(32)):
        held = {layout.coordinates(r, lane, warp) for r in range(layout.registers_per_thread)}
        wanted = set()
        for block, step, word, i in product(
            range(blocks), range(0, k, 8 * pack), range(4), range(pack)
        ):
            row = warp % 4 * 16 + lane // 4 + 8 * (word & 1)
            column = step + lane % 4 * pack + 4 * pack * (word >> 1) + i
            wanted.add((row, column, block))
        assert {(r % 64, c) for r, c in held} == {(r, c) for r, c, _ in wanted}
        assert len(held) == len(wanted)
    sums = choose_warpgroup_grid(m, n, warps).accumulator(m, k)
    assert (layout == sums) == (pack == 2)


def test_groups_that_share_columns_out_take_no_rows_from_registers():
    assert wgmma_a_layout(WgmmaInstruction(16, "f16", "f16"), 64, 128, 64, 8) is None
    assert wgmma_a_layout(WgmmaInstruction(16, "f16", "f16"), 64, 128, 24, 4) is None
