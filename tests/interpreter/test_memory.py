"""Loads, stores and atomics against NumPy indexing; bounds, races, unwritten memory."""

from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from tilewright import dtypes
from tilewright.errors import (
    DeadlockError,
    InterpreterError,
    KernelFault,
    OutOfBoundsError,
    RaceError,
    UnwrittenMemoryError,
)
from tilewright.interpreter import memory as memory_module
from tilewright.interpreter.arrays import numpy_dtype
from tilewright.interpreter.memory import Checks, Memory, PointerValue


def program(number):
    return SimpleNamespace(program=(number, 0, 0), location=None)


P0, P1 = program(0), program(1)


def values(kind, shape, seed=0):
    rng = np.random.default_rng(seed)
    if kind.is_bool():
        return rng.random(shape) < 0.5
    if kind.is_int():
        return rng.integers(-100, 100, shape).astype(numpy_dtype(kind))
    return rng.standard_normal(shape).astype(numpy_dtype(kind))


@pytest.mark.parametrize("kind", dtypes.ALL_SCALARS)
def test_load_and_store(kind):
    array = values(kind, (6, 10))
    expected = array.copy()
    memory = Memory()
    base = memory.register("x", array)
    offsets = np.arange(4)[:, None] * 10 + np.arange(8)[None, :]
    mask = values(dtypes.int1, (4, 8), 1)
    pointers = base.offset_by(offsets.astype(np.int32), kind.itemsize)
    other = values(kind, (4, 8), 2)
    got = memory.load(pointers, mask, other, array.dtype, P0)
    assert got.dtype == array.dtype
    assert got.tobytes() == np.where(mask, expected[:4, :8], other).tobytes()
    zeros = memory.load(pointers, mask, None, array.dtype, P0)
    assert not zeros[~mask].astype(np.float64).any()
    memory.store(pointers, other, mask, P0)
    expected[:4, :8][mask] = other[mask]
    assert array.tobytes() == expected.tobytes()
    assert memory.load(base, None, None, array.dtype, P0).tobytes() == expected[0, 0].tobytes()


def test_unaligned_and_mixed_widths():
    array = np.arange(32, dtype=np.uint8)
    memory = Memory()
    base = memory.register("x", array)
    odd = base.offset_by(np.array([1, 4, 6]), 1)
    expected = [int.from_bytes(bytes(array[i : i + 4]), "little") for i in (1, 4, 6)]
    assert memory.load(odd, None, None, np.int32, P0).tolist() == expected
    memory.store(odd.offset_by(8, 1), np.array([1, 2, 3], np.int16), None, P0)
    assert array[9:16].tolist() == [1, 0, 11, 2, 0, 3, 0]


def test_a_flag_is_a_byte():
    array = np.array([0, 1, 2, 255], np.uint8)
    memory = Memory()
    lanes = memory.register("x", array).offset_by(np.arange(4), 1)
    assert memory.load(lanes, None, None, bool, P0).tolist() == [False, True, True, True]


def test_strided_and_backward():
    whole = np.arange(40, dtype=np.float32).reshape(5, 8)
    view = whole[::-2, 1::3]
    memory = Memory()
    rows, columns = (s // 4 for s in view.strides)
    offsets = np.arange(3)[:, None] * rows + np.arange(3)[None, :] * columns
    lanes = memory.register("x", view).offset_by(offsets, 4)
    np.testing.assert_array_equal(memory.load(lanes, None, None, np.float32, P0), view)


@pytest.mark.parametrize("offset, element", [(-1, -1), (10, 10), (1 << 40, 1 << 40)])
def test_outside(offset, element):
    array = np.zeros(10, np.float32)
    memory = Memory()
    base = memory.register("x_ptr", array)
    with pytest.raises(OutOfBoundsError, match=f"'x_ptr'.*element {element}\n") as caught:
        memory.load(base.offset_by(offset, 4), None, None, np.float32, P1)
    assert "program (1, 0, 0)" in str(caught.value)
    with pytest.raises(OutOfBoundsError, match=r"tl.store writes"):
        memory.store(base.offset_by(offset, 4), np.float32(1), None, P0)
    with pytest.raises(OutOfBoundsError, match=r"tl.atomic_add updates"):
        memory.atomic("fadd", base.offset_by(offset, 4), np.float32(1), None, P0)


def test_a_wide_element_at_the_end():
    memory = Memory()
    base = memory.register("x", np.zeros(10, np.uint8))
    memory.load(base.offset_by(2, 1), None, None, np.int64, P0)
    with pytest.raises(OutOfBoundsError):
        memory.load(base.offset_by(3, 1), None, None, np.int64, P0)


def test_masked_lanes_may_be_anywhere_unless_checked():
    array = np.arange(4, dtype=np.int32)
    for checks in (Checks(), Checks(masked=True)):
        memory = Memory(checks)
        lanes = memory.register("x", array).offset_by(np.arange(8), 4)
        mask = np.arange(8) < 4
        if checks.masked:
            with pytest.raises(OutOfBoundsError, match=r"lane \[4\].*\(masked off\)"):
                memory.load(lanes, mask, None, np.int32, P0)
        else:
            assert memory.load(lanes, mask, None, np.int32, P0).tolist() == [0, 1, 2, 3, 0, 0, 0, 0]


def test_pointers_without_allocation_are_looked_up():
    a, b = np.arange(4, dtype=np.int32), np.arange(10, 14, dtype=np.int32)
    memory = Memory()
    pa, pb = memory.register("a", a), memory.register("b", b)
    take = np.array([True, False, True, False])
    lanes = PointerValue.combine(
        lambda x, y: np.where(take, x, y),
        [pa.offset_by(np.arange(4), 4), pb.offset_by(np.arange(4), 4)],
    )
    assert lanes.allocation is None
    assert memory.load(lanes, None, None, np.int32, P0).tolist() == [0, 11, 2, 13]
    memory.store(lanes, np.int32(5), take, P0)
    assert a.tolist() == [5, 1, 5, 3]
    same = PointerValue.combine(
        lambda x, y: np.where(take, x, y), [pa.offset_by(np.arange(4), 4)] * 2
    )
    assert same.allocation is pa.allocation
    with pytest.raises(OutOfBoundsError, match="every known array"):
        memory.load(PointerValue(np.array([8])), None, None, np.int32, P0)


def test_a_read_only_array():
    array = np.zeros(3)
    array.flags.writeable = False
    memory = Memory()
    with pytest.raises(KernelFault, match="read-only"):
        memory.store(memory.register("x", array), np.float64(1), None, P0)


def test_views_may_reach_their_base_unless_checked():
    whole = np.arange(10, dtype=np.int32)
    memory = Memory()
    base = memory.register("x", whole[2:5])
    assert memory.load(base.offset_by(-1, 4), None, None, np.int32, P0) == 1
    with pytest.raises(OutOfBoundsError, match=r"elements -2 … 7"):
        memory.load(base.offset_by(8, 4), None, None, np.int32, P0)
    memory = Memory(Checks(views=True))
    with pytest.raises(OutOfBoundsError, match=r"elements 0 … 2"):
        memory.load(memory.register("x", whole[2:5]).offset_by(3, 4), None, None, np.int32, P0)


ATOMICS = {
    "add": np.add, "max": np.maximum, "min": np.minimum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "xchg": lambda a, b: b,
    "umax": lambda a, b: np.maximum(a.view(np.uint32), b.view(np.uint32)).view(np.int32),
    "umin": lambda a, b: np.minimum(a.view(np.uint32), b.view(np.uint32)).view(np.int32),
}  # fmt: skip


@pytest.mark.parametrize("kind", ATOMICS)
def test_integer_atomics(kind):
    array = np.array([5, -7, 2**31 - 1, 0], np.int32)
    given = np.array([-3, 9, 1, -1], np.int32)
    expected = array.copy()
    mask = np.array([True, True, True, False])
    with np.errstate(over="ignore"):
        expected[mask] = ATOMICS[kind](expected, given)[mask]
    memory = Memory()
    lanes = memory.register("x", array).offset_by(np.arange(4), 4)
    before = array.copy()
    old = memory.atomic(kind, lanes, given, mask, P0)
    assert old.tolist() == [*before[:3], 0]
    assert array.tolist() == expected.tolist()


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_float_atomics_of_one_address_in_lane_order(kind):
    array = np.zeros(1, kind)
    memory = Memory()
    base = memory.register("x", array)
    lanes = base.map(lambda a: np.broadcast_to(a, (5,)))
    old = memory.atomic("fadd", lanes, np.arange(1, 6).astype(kind), None, P0)
    assert old.astype(np.float64).tolist() == [0, 1, 3, 6, 10]
    assert float(array[0]) == 15
    memory.atomic("fmax", base, np.float64("nan").astype(kind), None, P0)
    assert float(array[0]) == 15


def test_compare_and_swap():
    array = np.array([1, 2, 3], np.int64)
    memory = Memory()
    lanes = memory.register("x", array).offset_by(np.arange(3), 8)
    old = memory.compare_and_swap(lanes, np.array([1, 0, 3]), np.array([7, 8, 9]), P0)
    assert (old.tolist(), array.tolist()) == ([1, 2, 3], [7, 2, 9])


def test_an_unknown_atomic():
    memory = Memory()
    with pytest.raises(InterpreterError, match="nand"):
        memory.atomic("nand", memory.register("x", np.zeros(1, int)), 1, None, P0)


def test_a_wait_without_end(monkeypatch):
    monkeypatch.setattr(memory_module, "PATIENCE", 50)
    array = np.array([1], np.int32)
    memory = Memory()
    lock = memory.register("lock", array)
    with pytest.raises(DeadlockError, match="atomic_cas"):
        while memory.compare_and_swap(lock, np.int32(0), np.int32(1), P0):
            pass
    with pytest.raises(DeadlockError, match="load"):
        while memory.load(lock, None, None, np.int32, P0):
            pass


def test_unwritten_memory():
    array = np.empty(8, np.float32)
    memory = Memory(Checks(unwritten=True))
    base = memory.register("x", array, np.zeros(32, bool))
    memory.store(base.offset_by(np.arange(4), 4), np.zeros(4, np.float32), None, P0)
    memory.load(base.offset_by(np.arange(4), 4), None, None, np.float32, P0)
    lanes = base.offset_by(np.arange(8), 4)
    with pytest.raises(UnwrittenMemoryError, match=r"element 4 of 'x'.*lane \[4\] \(4 lanes"):
        memory.load(lanes, None, None, np.float32, P0)
    memory.load(lanes, np.arange(8) < 4, None, np.float32, P0)


# ---- races -----------------------------------------------------------------------------------------


@pytest.fixture
def shared():
    array = np.zeros(8, np.int32)
    memory = Memory(Checks(races=True))
    return memory, memory.register("x", array)


def load(memory, pointer, who):
    return memory.load(pointer, None, None, np.int32, who)


def store(memory, pointer, who):
    memory.store(pointer, np.int32(1), None, who)


def test_two_writers(shared):
    memory, x = shared
    store(memory, x.offset_by(np.arange(4), 4), P0)
    store(memory, x.offset_by(np.arange(4, 8), 4), P1)
    with pytest.raises(RaceError, match=r"element 3 of 'x'.*lane \[0\]"):
        store(memory, x.offset_by(np.arange(3, 5), 4), P1)


def test_read_after_write_and_write_after_read(shared):
    memory, x = shared
    store(memory, x, P0)
    load(memory, x, P0)
    with pytest.raises(RaceError, match=r"writes it, and tl.load"):
        load(memory, x, P1)
    y = x.offset_by(1, 4)
    load(memory, y, P0)
    load(memory, y, P1)
    with pytest.raises(RaceError, match=r"reads it, and tl.store"):
        store(memory, y, P1)
    assert load(memory, x.offset_by(2, 4), P1) == 0


def test_the_last_reader_does_not_hide_the_one_before(shared):
    memory, x = shared
    load(memory, x, P0)
    load(memory, x, P1)
    load(memory, x, P1)
    with pytest.raises(RaceError):
        store(memory, x, P1)


def test_atomics_may_meet_and_others_may_not_meet_them(shared):
    memory, x = shared
    memory.atomic("add", x, np.int32(1), None, P0)
    memory.atomic("add", x, np.int32(1), None, P1)
    with pytest.raises(RaceError):
        load(memory, x, program(2))


def test_atomics_order_programs(shared):
    memory, x = shared
    flag = x.offset_by(7, 4)
    store(memory, x, P0)
    memory.atomic("add", flag, np.int32(1), None, P0)
    memory.atomic("add", flag, np.int32(1), None, P1)
    assert load(memory, x, P1) == 1
    store(memory, x.offset_by(1, 4), P0)  # after P0's release: not ordered
    with pytest.raises(RaceError):
        load(memory, x.offset_by(1, 4), P1)


def test_relaxed_atomics_order_nothing(shared):
    memory, x = shared
    flag = x.offset_by(7, 4)
    store(memory, x, P0)
    memory.atomic("add", flag, np.int32(1), None, P0, "relaxed")
    memory.atomic("add", flag, np.int32(1), None, P1, "relaxed")
    with pytest.raises(RaceError):
        load(memory, x, P1)


def test_two_names_of_one_array():
    array = np.zeros(8, np.int32)
    memory = Memory(Checks(races=True))
    a, b = memory.register("a", array[4:].copy()), memory.register("b", array)
    c = memory.register("c", array[2:])
    store(memory, b.offset_by(3, 4), P0)
    with pytest.raises(RaceError, match="element 1 of 'c'"):
        store(memory, c.offset_by(1, 4), P1)
    store(memory, a, P1)
