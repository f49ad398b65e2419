"""Properties of layouts, by simulating every register of every thread."""

from dataclasses import replace
from itertools import product
from math import prod

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tilewright.layouts import Layout, parse_layout
from tilewright.layouts.blocked import blocked, reduced_access_layout

SETTINGS = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def layouts(draw, repeats=True, mixed=True, copies=True):
    """Layouts of tiles of rank 1 to 3 that hold every element, some of them more than once."""
    rank = draw(st.integers(1, 3))
    bits = [draw(st.integers(0, 7 - 2 * rank + 1)) for _ in range(rank)]
    block = [1 << b for b in bits]
    vectors = [
        tuple(1 << b if d == dim else 0 for d in range(rank))
        for dim in range(rank)
        for b in range(bits[dim])
    ]
    vectors = draw(st.permutations(vectors))
    if mixed:  # adding one basis vector to another leaves them independent
        for _ in range(draw(st.integers(0, 3)) if len(vectors) > 1 else 0):
            i, j = draw(st.permutations(range(len(vectors))))[:2]
            vectors[i] = tuple(a ^ b for a, b in zip(vectors[i], vectors[j], strict=True))
    if copies and vectors and draw(st.booleans()):
        vectors = draw(st.permutations([*vectors, draw(st.sampled_from(vectors))]))
    zero = (0,) * rank
    warps = draw(st.integers(0, 3))
    lanes = [vectors.pop() if vectors and draw(st.booleans()) else zero for _ in range(5)]
    bases = [vectors.pop() if vectors and draw(st.booleans()) else zero for _ in range(warps)]
    times = tuple(draw(st.sampled_from([1, 1, 2, 3])) if repeats else 1 for _ in range(rank))
    shape = tuple(b * t for b, t in zip(block, times, strict=True))
    repeat = times if max(times) > 1 else ()
    groups = draw(st.sampled_from([1, 1, 3]))
    shared_out = [d for d, t in enumerate(times) if groups > 1 and t == groups]
    along = draw(st.sampled_from([-1, *shared_out]))
    return Layout(shape, tuple(vectors), tuple(lanes), tuple(bases), repeat, groups, along)


def threads(layout):
    return product(range(32), range(layout.warp_count))


def held(layout, lane, warp):
    """Coordinates of all registers of a thread, in order."""
    return [layout.coordinates(r, lane, warp) for r in range(layout.registers_per_thread)]


def elements(shape):
    return set(product(*map(range, shape)))


@SETTINGS
@given(layouts())
def test_text_is_read_back(layout):
    again = parse_layout(str(layout))
    assert again == layout
    assert [held(again, 5, 0)] == [held(layout, 5, 0)]


def test_other_text_is_no_layout():
    with pytest.raises(ValueError, match="not a layout"):
        parse_layout("64 r[1]")


@SETTINGS
@given(layouts())
def test_every_element_is_somewhere(layout):
    found = set()
    for lane, warp in threads(layout):
        found.update(held(layout, lane, warp))
    assert found == elements(layout.shape)
    assert layout.is_surjective


@SETTINGS
@given(layouts(copies=False), st.integers(0, 2))
def test_covers_is_said_of_no_other(layout, which):
    kinds = [layout.registers, layout.lanes, layout.warps]
    if not any(any(v) for v in kinds[which]):
        return
    kinds[which] = tuple((0,) * layout.rank for _ in kinds[which])
    registers, lanes, warps = kinds
    assert not replace(layout, registers=registers, lanes=lanes, warps=warps).is_surjective


@SETTINGS
@given(layouts())
def test_one_copy_of_each_is_left_without_the_replicated_bits(layout):
    off = {kind: layout.replicated(kind) for kind in ("registers", "lanes", "warps")}
    size = 1 << len(layout.registers)
    counts = dict.fromkeys(elements(layout.shape), 0)
    for lane, warp in threads(layout):
        if any(lane >> b & 1 for b in off["lanes"]) or any(warp >> b & 1 for b in off["warps"]):
            continue
        if layout.same_in_groups and warp >> len(layout.warps):
            continue
        for register, place in enumerate(held(layout, lane, warp)):
            if not any(register % size >> b & 1 for b in off["registers"]):
                counts[place] += 1
    assert set(counts.values()) == {1}


@SETTINGS
@given(layouts())
def test_holder_is_the_inverse(layout):
    for place in elements(layout.shape):
        assert layout.coordinates(*layout.holder(place)) == place


def test_nobody_holds_what_is_not_covered():
    with pytest.raises(ValueError, match="no thread has"):
        Layout((4,), ((1,),), ((0,),) * 5, ()).holder((2,))


@SETTINGS
@given(layouts(), st.data())
def test_drop_leaves_out_a_coordinate(layout, data):
    axis = data.draw(st.integers(0, layout.rank - 1))
    less = layout.drop(axis)
    for lane, warp in threads(layout):
        expected = {p[:axis] + p[axis + 1 :] for p in held(layout, lane, warp)}
        assert set(held(less, lane, warp)) == expected
    assert less.shape == layout.shape[:axis] + layout.shape[axis + 1 :]


@SETTINGS
@given(layouts(copies=False), st.data())
def test_insert_permute_and_flatten_axis_agree_with_coordinates(layout, data):
    axis = data.draw(st.integers(0, layout.rank))
    order = tuple(data.draw(st.permutations(range(layout.rank))))
    flat = data.draw(st.integers(0, layout.rank - 1))
    wider, turned, thin = layout.insert(axis), layout.permute(order), layout.flatten_axis(flat)
    for lane, warp in threads(layout):
        mine = held(layout, lane, warp)
        assert set(held(wider, lane, warp)) == {(*p[:axis], 0, *p[axis:]) for p in mine}
        assert set(held(turned, lane, warp)) == {tuple(p[d] for d in order) for p in mine}
        assert set(held(thin, lane, warp)) == {(*p[:flat], 0, *p[flat + 1 :]) for p in mine}
    if not layout.repeat:  # registers keep their order: operations need move nothing
        assert held(wider, 3, 0) == [(*p[:axis], 0, *p[axis:]) for p in held(layout, 3, 0)]
        assert held(turned, 3, 0) == [tuple(p[d] for d in order) for p in held(layout, 3, 0)]


def row_major(place, shape):
    flat = 0
    for c, e in zip(place, shape, strict=True):
        flat = flat * e + c
    return flat


@SETTINGS
@given(layouts(repeats=False), st.data())
def test_reshape_keeps_the_row_major_order(layout, data):
    bits = prod(layout.shape).bit_length() - 1
    cut = data.draw(st.integers(0, bits))
    shape = (1 << cut, 1 << bits - cut)
    other = layout.reshape(shape)
    for lane, warp in threads(layout):
        mine = [row_major(p, layout.shape) for p in held(layout, lane, warp)]
        assert [row_major(p, shape) for p in held(other, lane, warp)] == mine
    assert other.reshape(layout.shape) == layout


def test_reshape_of_copies_is_none():
    assert blocked((96, 4), 1, 1).reshape((4, 96)) is None


@SETTINGS
@given(
    st.lists(st.sampled_from([1, 2, 3, 4, 8, 16, 32, 48, 64]), min_size=1, max_size=3),
    st.sampled_from([1, 2, 4, 8, 12, 20]),
    st.sampled_from([1, 2, 4, 8]),
    st.data(),
)
def test_blocked_covers_and_gives_runs(shape, warps, run, data):
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    layout = blocked(tuple(shape), warps, run, order)
    assert layout.is_surjective
    assert layout.warp_count == warps
    assert layout.same_in_groups == (
        warps == 20 or (warps == 12 and not any(e % 3 == 0 for e in shape))
    )
    first, power = order[0], shape[order[0]] & -shape[order[0]]
    unit = [p[first] for p in held(layout, 0, 0)[: min(run, power)]]
    assert unit == list(range(min(run, power)))


@SETTINGS
@given(layouts())
def test_splitting_addresses_into_sums(layout):
    """`has_disjoint_bits` promises that thread and register parts need no exclusive or."""
    if not layout.has_disjoint_bits:
        return
    for lane, warp in threads(layout):
        thread = layout.thread_offset(lane, warp)
        for register, offset in enumerate(layout.register_offsets):
            total = tuple(a + b for a, b in zip(thread, offset, strict=True))
            assert total == layout.coordinates(register, lane, warp)


def test_parts_are_registers_of_all_threads():
    sums = parse_layout(
        "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"
    )
    assert sums.subtile(0, 64) is None  # warps have rows of their own
    part = sums.subtile(1, 64)
    assert part is not None and part.shape == (128, 64) and part.is_surjective
    assert sums.permute((1, 0)).subtile(0, 64) == part.permute((1, 0))
    thirds = parse_layout(
        "192x96 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0] x[3,3] g[3 0]"
    )
    cut = thirds.subtile(1, 32)
    assert cut is not None and cut.repeats == (3, 1) and thirds.subtile(0, 64) is None
    for number in range(3):
        for register, offset in enumerate(cut.register_offsets):
            whole = thirds.register_of[offset[0], offset[1] + 32 * number]
            for warp in range(12):
                row, column = cut.coordinates(register, 5, warp)
                assert thirds.coordinates(whole, 5, warp) == (row, column + 32 * number)


@SETTINGS
@given(
    st.tuples(*[st.sampled_from([1, 2, 8, 32, 48, 64, 256])] * 2),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([0, 1]),
    st.sampled_from([0, 1]),
    st.tuples(*[st.sampled_from(sizes) for sizes in ([1, 2, 4], [16, 32, 64], [1, 4, 16])]),
)
def test_layouts_of_reduced_accesses_cover_and_access_side_by_side(shape, warps, axis, dim, sizes):
    layout = reduced_access_layout(shape, warps, axis, dim, sizes)
    assert layout.is_surjective
    assert layout.warp_count == warps
    power, (access, row, run) = shape[dim] & -shape[dim], sizes
    access = min(access, power)
    assert [p[dim] for p in held(layout, 0, 0)[:access]] == list(range(access))
    if axis != dim and run <= row and 2 * access <= min(power, row):
        assert layout.lanes[0][dim] == access
