"""Shared memory: panels, swizzles, conversions through it, and its banks."""

import importlib.util
import operator
from itertools import product
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.layouts.bank_conflicts import bank_conflicts, min_wavefronts
from xdsl.dialects.builtin import f16, f32, f64, i8

from tilewright.backends.nvidia.lower.asynchronous import Place
from tilewright.backends.nvidia.lower.convert_layout import Panel, padding, same_threads
from tilewright.backends.nvidia.lower.memory import runs as runs_along
from tilewright.backends.nvidia.lower.scratch_tiles import SharedTile, runs_of
from tilewright.backends.nvidia.threads import Threads
from tilewright.layouts import Layout
from tilewright.layouts.blocked import (
    blocked,
    outer_product_layout,
    smem_transpose_layout,
    transposed_copy_layout,
)
from tilewright.layouts.fragments import INSTRUCTIONS, choose_warp_grid, choose_warpgroup_grid
from tilewright.layouts.shared import (
    LINEAR,
    SharedLayout,
    descriptor_bits,
    is_transposable,
    k_offset,
    line_padding,
    mn_offset,
    padded_swizzle,
    parse_shared,
    swizzle,
    wavefronts,
    widest_swizzle,
)

pytestmark = pytest.mark.sampled(4)

_spec = importlib.util.spec_from_file_location(
    "layout_strategies", Path(__file__).with_name("test_layouts.py")
)
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
layouts, held = _module.layouts, _module.held
SETTINGS = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
ELEMENTS = {1: i8, 2: f16, 4: f32, 8: f64}


@st.composite
def buffers(draw):
    size, dim = draw(st.sampled_from([1, 2, 4])), draw(st.integers(0, 1))
    length = draw(st.sampled_from([16, 32, 64, 96, 128, 256])) // size
    lines = draw(st.sampled_from([8, 16, 24, 64]))
    spans = [s for s in (LINEAR, 0) if length * size % max(16, s) == 0] + [32, 64, 128]
    rows, columns = (length, lines) if dim == 0 else (lines, length)
    span = draw(st.sampled_from(spans))
    pad = draw(st.sampled_from([0, line_padding(length, size)])) if span == LINEAR else 0
    return SharedLayout(rows, columns, size, dim, span, pad)


@SETTINGS
@given(buffers())
def test_each_element_has_its_own_place(layout):
    places = {layout.offset(r, c) for r in range(layout.rows) for c in range(layout.columns)}
    assert len(places) == layout.rows * layout.columns
    assert max(places) < layout.bytes and all(p % layout.size == 0 for p in places)
    if not layout.pad and layout.whole:
        assert places == set(range(0, layout.bytes, layout.size))
    assert parse_shared(str(layout)) == layout


@pytest.mark.parametrize(
    ("length", "span", "panels"),
    [(256, 128, 4), (224, 128, 4), (208, 128, 4), (240, 128, 4), (160, 128, 3), (144, 64, 5), (112, 128, 2),
     (96, 64, 3), (48, 32, 3), (24, 0, 3), (16, 32, 1), (8, 0, 1)],
)  # fmt: skip
def test_panels_that_boxes_bring_may_hold_more_than_the_tile(length, span, panels):
    layout = SharedLayout(64, length, 2, 1, padded_swizzle(length, 2))
    assert (layout.swizzle_bytes, layout.panels) == (span, panels)
    assert layout.panels * layout.width <= 1.25 * length
    assert layout.whole == (length * 2 % max(16, span) == 0)


@SETTINGS
@given(buffers())
def test_chunks_of_16_bytes_stay_together(layout):
    count = 16 // layout.size
    for along, line in product(
        range(0, layout.contiguous_extent, count), range(layout.strided_extent)
    ):
        places = [
            layout.offset(*((along + i, line) if layout.major_dim == 0 else (line, along + i)))
            for i in range(count)
        ]
        assert places == [places[0] + i * layout.size for i in range(count)]
        assert places[0] % 16 == 0


def test_swizzle_is_that_of_the_hardware():
    """CuTe's Swizzle<B, 4, 3>: 128-byte lines exchange chunk and line, shorter ones fewer bits."""
    for row, chunk in product(range(16), range(8)):
        assert swizzle(row * 128 + chunk * 16, 128) == row * 128 + (chunk ^ row & 7) * 16
    for row, chunk in product(range(16), range(4)):
        assert swizzle(row * 64 + chunk * 16, 64) == row * 64 + (chunk ^ row >> 1 & 3) * 16
    for row, chunk in product(range(16), range(2)):
        assert swizzle(row * 32 + chunk * 16, 32) == row * 32 + (chunk ^ row >> 2 & 1) * 16


@pytest.mark.parametrize("span", [32, 64, 128])
@pytest.mark.parametrize("k_dim", [0, 1])
@pytest.mark.parametrize("dim", [0, 1])
def test_descriptor_steps_reach_the_blocks_of_an_operand(span, k_dim, dim):
    """Adding `k_offset` and `mn_offset` to a descriptor's start goes to the first byte of a block."""
    width = span // 2
    shape = [64, 64]
    shape[dim] = 2 * max(width, 32)
    layout = SharedLayout(shape[0], shape[1], 2, dim, span)
    plain = SharedLayout(shape[0], shape[1], 2, dim, span)
    for k in range(0, shape[k_dim], 16):
        for mn in range(0, shape[1 - k_dim], width if dim != k_dim else 8):
            place = (mn, k) if k_dim == 1 else (k, mn)
            along, line = (place[0], place[1]) if dim == 0 else (place[1], place[0])
            panel, inside = divmod(along, width)
            unswizzled = panel * plain.panel_bytes + line * span + inside * 2
            assert k_offset(layout, k_dim, k) + mn_offset(layout, k_dim, mn) == unswizzled
    bits = descriptor_bits(layout, k_dim)
    assert bits >> 62 == {128: 1, 64: 2, 32: 3}[span]
    assert (bits >> 32 & 0x3FFF) << 4 == 8 * span
    if dim != k_dim:
        assert (bits >> 16 & 0x3FFF) << 4 == layout.panel_bytes


def test_widest_span():
    assert [widest_swizzle(n, 2) for n in (64, 32, 16, 8, 96)] == [128, 64, 32, 0, 64]


# ---- conversions ---------------------------------------------------------------------------------------


def runs(where, layout):
    return runs_of(where, layout, 16 // where.size)


def convert(source, target, element):
    """What lower_convert does, thread by thread: (register, lane, warp) of target -> element."""
    threads = [(i, w) for w in range(source.warp_count) for i in range(32)]
    if same_threads(source, target):
        return {
            (r, i, w): source.coordinates(source.register_of[o], i, w)
            for i, w in threads
            for r, o in enumerate(target.register_offsets)
        }
    where = SharedTile(None, element, source.shape, 0, padding(source, target, element))
    memory = {}
    for lane, warp in threads:
        for run in runs(where, source):
            start = where.flat(source.coordinates(run[0], lane, warp)) * where.size
            assert start % (where.size * len(run)) == 0  # wide stores are aligned
            for i, register in enumerate(run):
                memory[start + i * where.size] = source.coordinates(register, lane, warp)
    assert max(memory) < where.bytes
    found = {}
    for lane, warp in threads:
        offsets = target.register_offsets
        for run in runs(where, target):
            start = where.flat(target.coordinates(run[0], lane, warp)) * where.size
            assert start % (where.size * len(run)) == 0
            for i, register in enumerate(run):
                for same in [r for r, o in enumerate(offsets) if o == offsets[register]]:
                    found[same, lane, warp] = memory[start + i * where.size]
    return found


@st.composite
def pairs(draw):
    """Two layouts of one tile for the same threads: blocked, fragments, and permutations of those."""
    rows, columns = (16 << draw(st.integers(0, 2)) for _ in range(2))
    warps = draw(st.sampled_from([1, 2, 4, 8]))

    def one():
        kind = draw(st.sampled_from(["blocked", "sums", "left", "right", "turned"]))
        if kind in ("blocked", "turned"):
            order = (0, 1) if kind == "turned" else (1, 0)
            return blocked((rows, columns), warps, draw(st.sampled_from([1, 2, 4, 8])), order)
        instruction = INSTRUCTIONS["m16n8k16.f16"]
        if kind == "sums":
            return choose_warp_grid(instruction, rows, columns, warps).accumulator(rows, columns)
        if kind == "left":
            return choose_warp_grid(instruction, rows, 64, warps).left(rows, columns)
        return choose_warp_grid(instruction, 64, columns, warps).right(rows, columns)

    return one(), one()


@SETTINGS
@given(pairs(), st.sampled_from([1, 2, 4, 8]))
def test_conversions_bring_every_register_its_element(pair, size):
    source, target = pair
    found = convert(source, target, ELEMENTS[size])
    for lane, warp in product(range(32), range(target.warp_count)):
        for register in range(target.registers_per_thread):
            expected = target.coordinates(register, lane, warp)
            assert found[register, lane, warp] == expected


@SETTINGS
@given(layouts(mixed=False, copies=False), st.sampled_from([1, 2, 4, 8]), st.data())
def test_conversions_between_any_orders_of_bits(source, size, data):
    target = blocked(source.shape, source.warp_count, data.draw(st.sampled_from([1, 2, 4])))
    found = convert(source, target, ELEMENTS[size])
    for lane, warp in product(range(32), range(target.warp_count)):
        for register in range(target.registers_per_thread):
            expected = target.coordinates(register, lane, warp)
            assert found[register, lane, warp] == expected


# ---- banks ---------------------------------------------------------------------------------------------


def test_passes():
    assert wavefronts([4 * i for i in range(32)], 4) == 1  # a word a bank
    assert wavefronts([0] * 32, 4) == 1  # the same word for all
    assert wavefronts([128 * i for i in range(32)], 4) == 32  # one bank
    assert wavefronts([8 * i for i in range(32)], 4) == 2
    assert wavefronts([16 * i for i in range(32)], 16) == 4 == min_wavefronts(16)
    assert wavefronts([2 * i for i in range(32)], 2) == 1 == min_wavefronts(2)


@pytest.mark.parametrize("span", [32, 64, 128])
def test_swizzled_columns_meet_every_bank(span):
    """Eight lines of one chunk, as wgmma and ldmatrix read, without conflict; unswizzled with."""
    layout = SharedLayout(64, span // 2, 2, 1, span)
    for chunk in range(span // 16):
        column = [layout.offset(row, 8 * chunk) for row in range(8)]
        assert wavefronts(column, 16) == 1
        assert wavefronts([row * span + 16 * chunk for row in range(8)], 16) == span // 16


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("length", [16, 32, 64, 96, 128])
def test_padded_columns_meet_every_bank(length, size):
    """arXiv 2108.13191: lines of 136 out of 128; without padding the 8 lines wait for each other."""
    layout = SharedLayout(64, length, size, 1, LINEAR, line_padding(length, size))
    for chunk in range(length * size // 16):
        column = [layout.offset(row, chunk * (16 // size)) for row in range(8)]
        assert wavefronts(column, 16) == 1
    assert line_padding(128, 2) == 8


@pytest.mark.parametrize("rows", [64, 128])
@pytest.mark.parametrize("columns", [32, 64, 128])
def test_copies_to_swizzled_lines_have_no_conflicts(rows, columns):
    layout = SharedLayout(rows, columns, 2, 1, widest_swizzle(columns, 2))
    threads = blocked((rows, columns), 4, 8)
    runs = [list(range(8 * i, 8 * i + 8)) for i in range(threads.registers_per_thread // 8)]
    assert bank_conflicts(threads, layout.offset, 2, runs) == 0


def exchange_conflicts(layout, element, padded=True, pad=None):
    where = SharedTile(None, element, layout.shape, 0, pad)
    pieces = runs(where, layout)

    def address(*place):
        if padded:
            return where.flat(place) * where.size
        return (place[0] * layout.shape[1] + place[1]) * where.size

    return bank_conflicts(layout, address, where.size, pieces)


def test_padding_takes_the_conflicts_out_of_exchanges():
    """Sums go to shared memory by pairs, 8 rows at a time, in 2 passes each; rows come back whole."""
    sums = choose_warpgroup_grid(64, 64, 4).accumulator(64, 64)
    rows = blocked((64, 64), 4, 4)
    assert exchange_conflicts(rows, f32) == 0
    assert exchange_conflicts(sums, f32) <= exchange_conflicts(sums, f32, padded=False) / 3
    turned = blocked((64, 64), 4, 1, (0, 1))
    assert exchange_conflicts(turned, f32) < exchange_conflicts(turned, f32, padded=False) / 5


@pytest.mark.parametrize(("element", "pad"), [(f32, 32), (f16, 16)])
@pytest.mark.parametrize("columns", [64, 128, 256])
def test_conversions_of_sums_are_padded_until_there_are_no_conflicts(columns, element, pad):
    sums = choose_warpgroup_grid(64, columns, 4).accumulator(64, columns)
    rows = blocked((64, columns), 4, 16 // SharedTile(None, element, ()).size)
    assert padding(sums, rows, element) == pad
    assert exchange_conflicts(sums, element, pad=pad) == 0
    assert exchange_conflicts(rows, element, pad=pad) == 0


def test_a_thread_that_turns_its_registers_round_has_no_runs():
    """Lane 0's bit is also the register's: half of the lanes have the pair in the other order."""
    layout = Layout((64,), ((1,),), ((1,), (2,), (4,), (8,), (16,)), ((32,),))
    assert layout.num_consecutive(0, 4) == 1
    assert Layout((64,), ((1,),), ((2,), (4,), (8,), (16,), (32,)), ()).num_consecutive(0, 4) == 2


@pytest.mark.parametrize("warps", [1, 4, 8])
@pytest.mark.parametrize("shape", [(32, 128), (64, 64), (8, 32), (192, 32), (32, 256)])
@pytest.mark.parametrize("dim", [0, 1])
def test_turning_4_byte_elements_meets_every_bank_once(shape, dim, warps):
    """Every element has a holder; 8 lanes read neighbours, and what a warp writes is one pass."""
    layout = transposed_copy_layout(shape, warps, dim)
    assert layout.is_surjective
    buffer = SharedLayout(*shape, 4, dim, widest_swizzle(shape[dim], 4))
    for lane in range(8):
        start, here = layout.coordinates(0, 0, 0), layout.coordinates(0, lane, 0)
        assert here[1 - dim] - start[1 - dim] == lane and here[dim] == start[dim]
    if shape[dim] >= 32:
        assert bank_conflicts(layout, buffer.offset, 4) == 0


# ---- addresses in code -----------------------------------------------------------------------------------


class Numbers:
    """A builder that computes with Python's integers."""

    def __getattr__(self, name):
        done = {
            "add": operator.add, "mul": operator.mul, "and_": operator.and_, "xor": operator.xor,
            "shl": operator.lshift, "lshr": operator.rshift,
        }[name]  # fmt: skip
        return lambda a, b: done(getattr(a, "constant", a), getattr(b, "constant", b))


class OneThread:
    """Code generation for one thread, as numbers."""

    def __init__(self, lane, warp):
        self.lane, self.warp, self.builder, self.threads = lane, warp, Numbers(), self

    def coordinate(self, layout, dim):
        return layout.thread_offset(self.lane, self.warp)[dim]

    def at_start(self, key, make):
        return make(self.builder)

    with_offset = staticmethod(Threads.with_offset)


@SETTINGS
@given(buffers(), st.integers(0, 31), st.integers(0, 3), st.data())
def test_code_finds_every_register_in_a_buffer(shared, lane, warp, data):
    """`Place` splits an address into what the thread and what the register adds."""
    shape = (shared.rows, shared.columns)
    order = data.draw(st.sampled_from([(0, 1), (1, 0)]))
    layout = blocked(shape, 4, data.draw(st.sampled_from([1, 2, 4, 8])), order)
    place = Place(OneThread(lane, warp), 1 << 20, layout, shared)
    for register, offset in enumerate(layout.register_offsets):
        row, column = layout.coordinates(register, lane, warp)
        assert place.address(offset) == (1 << 20) + shared.offset(row, column)


@pytest.mark.parametrize("runs", list(product((False, True), repeat=2)))
@pytest.mark.parametrize(("shape", "warps"), [((128, 128), 8), ((128, 64), 4), ((64, 128), 8), ((32, 32), 4), ((16, 16), 1), ((192, 64), 4), ((192, 128), 12)])  # fmt: skip
def test_blocks_of_sums_are_square_and_read_without_conflicts(shape, warps, runs):
    """Every sum has one holder, a thread about as many rows as columns; 16 bytes of k, or of lines where
    a thread holds neighbours, are read by a warp in as few passes as there are quarters."""
    layout = outer_product_layout(shape, warps, runs)
    assert layout.is_surjective
    rows, columns = (len({offset[d] for offset in layout.register_offsets}) for d in (0, 1))
    if shape[0] * shape[1] >= 4 * 4 * 32 * warps and 192 not in shape:
        assert max(rows, columns) <= 2 * min(rows, columns)
    for d, extent in enumerate(shape):
        dim, kinds = (d, (extent, 32)) if runs[d] else (1 - d, (extent, 32))
        buffer = SharedLayout(*(kinds if d == 0 else kinds[::-1]), 4, dim, 128)
        if buffer.contiguous_extent * 4 % 128:
            continue
        for register, offset in enumerate(layout.register_offsets):
            if runs[d] and offset[d] % 4:
                continue
            lines = [layout.coordinates(register, lane, 0)[d] for lane in range(32)]
            for k in range(0, 32, 4):
                places = [buffer.offset(*((line, k) if d == 0 else (k, line))) for line in lines]
                assert wavefronts(places, 16) <= min_wavefronts(16)


@pytest.mark.parametrize(
    ("lines", "length", "size", "able"),
    [(32, 16, 1, True), (16, 16, 1, False), (64, 40, 1, False), (4, 32, 4, True), (8, 16, 4, False), (32, 32, 2, False)],
)  # fmt: skip
def test_what_can_be_turned(lines, length, size, able):
    assert is_transposable(lines, length, size) == able


@pytest.mark.parametrize("warps", [4, 8, 12])
@pytest.mark.parametrize(("lines", "length"), [(32, 128), (32, 64), (64, 128), (16, 64), (96, 192)])
def test_words_that_threads_turn_meet_every_bank_once(lines, length, warps):
    layout = smem_transpose_layout((lines, length), warps, 0)
    assert layout.is_surjective
    for dim, widest in ((1, 1), (0, 4)):
        held = SharedLayout(lines, length, 4, dim, widest_swizzle((lines, length)[dim], 4))
        taken = runs_along(layout, dim, 4)
        assert {len(run.registers) for run in taken} == {widest}
        registers = [run.registers for run in taken]
        assert bank_conflicts(layout, held.offset, 4, registers) == 0


def through_panels(source, target, element, count):
    """The element that each register of `target` gets, when rows go through memory in `count` panels."""
    rows = source.shape[0] // count
    where = SharedTile(
        None, element, (rows, *source.shape[1:]), 0, padding(source, target, element)
    )
    threads = list(product(range(32), range(source.warp_count)))

    def accesses(layout, number):
        panel = Panel(layout, rows, number)
        for lane, warp in threads:
            mine = layout.thread_offset(lane, warp)
            if panel.part_of_threads in (None, mine[0] // rows):
                base = where.flat((mine[0] % rows, *mine[1:]))
                for r, offset in enumerate(layout.register_offsets):
                    if panel.holds(offset):
                        place = base + where.flat(panel.inside(offset))
                        yield r, lane, warp, place, layout.coordinates(r, lane, warp)

    found = {}
    for number in range(count):
        memory = {}
        for *_, place, element_at in accesses(source, number):
            assert memory.setdefault(place, element_at) == element_at
            assert place * where.size < where.bytes
        for r, lane, warp, place, _ in accesses(target, number):
            assert (r, lane, warp) not in found
            found[r, lane, warp] = memory[place]
    return found


@pytest.mark.parametrize("count", [2, 4, 8])
@pytest.mark.parametrize(("source", "target"), [
    (blocked((128, 64), 4, 4), blocked((128, 64), 4, 4, (0, 1))),
    (choose_warpgroup_grid(128, 64, 8).accumulator(128, 64), blocked((128, 64), 8, 4)),
    (blocked((64, 128), 8, 4, (0, 1)), choose_warpgroup_grid(64, 128, 8).accumulator(64, 128)),
    (blocked((2048,), 4, 4), blocked((2048,), 4, 1)),
    (blocked((16, 16, 32), 4, 4), blocked((16, 16, 32), 4, 4, (0, 1, 2))),
])  # fmt: skip
def test_tiles_go_through_memory_in_panels(source, target, count):
    assert source.has_disjoint_bits and target.has_disjoint_bits
    found = through_panels(source, target, f32, count)
    assert len(found) == target.registers_per_thread * 32 * target.warp_count
    for (r, lane, warp), place in found.items():
        assert place == target.coordinates(r, lane, warp)
