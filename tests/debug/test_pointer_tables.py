"""Addresses in arrays, as in grouped products: which arrays they reach."""

import ctypes

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright import debug
from tilewright.errors import OutOfBoundsError


@pytest.fixture(params=["1", "ir"], autouse=True)
def interpreted(request, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_INTERPRET", request.param)


@tw.jit
def sum_groups(table_ptr, sizes_ptr, o_ptr, BLOCK: tl.constexpr):
    group = tl.program_id(0)
    x_ptr = tl.load(table_ptr + group).to(tl.pointer_type(tl.float32))
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < tl.load(sizes_ptr + group), other=0.0)
    tl.store(o_ptr + group, tl.sum(x))


@tw.jit
def gather_through(table_ptr, o_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    pointers = tl.load(table_ptr + i).to(tl.pointer_type(tl.float32), bitcast=True)
    tl.store(o_ptr + i, tl.load(pointers))


def addresses(arrays):
    return np.array([a.ctypes.data for a in arrays])


def test_arrays_in_lists_and_in_local_variables():
    arrays = [np.arange(n, dtype=np.float32) for n in (5, 9, 16)]
    alone = np.ones(3, np.float32)
    table, sizes = addresses([*arrays, alone]), np.array([5, 9, 16, 3])
    out = np.zeros(4, np.float32)
    with debug.checks("all"):
        sum_groups[(4,)](table, sizes, out, BLOCK=16)
    assert out.tolist() == [10, 36, 120, 3]
    gather_through[(1,)](table, out, BLOCK=4)
    assert out.tolist() == [0, 0, 0, 1]


class Unhashable(type):
    def __eq__(cls, other):
        return cls is other


class Vector(np.ndarray):
    pass


def test_arrays_of_a_subclass_beside_objects_of_any_class():
    held = {
        "x": np.arange(4, dtype=np.float32).view(Vector),
        "other": Unhashable("Other", (), {})(),
    }
    out = np.zeros(1, np.float32)
    sum_groups[(1,)](addresses([held["x"]]), np.array([4]), out, BLOCK=4)
    assert out[0] == 6


def test_beyond_the_end_of_such_an_array():
    memory = np.zeros(64, np.float32)
    arrays = [memory[:8].copy(), np.zeros(8, np.float32)]
    with pytest.raises(OutOfBoundsError) as caught:
        sum_groups[(2,)](addresses(arrays), np.array([8, 9]), np.zeros(2, np.float32), BLOCK=16)
    assert "outside 'ndarray [8]' (fp32, elements 0 … 7, 32 bytes)" in str(caught.value)
    assert "program (1, 0, 0): 1 of 16 lanes: lane [8] → element 8" in str(caught.value)


def test_torch_tensors():
    torch = pytest.importorskip("torch")
    tensors = {name: torch.arange(4.0) + i for i, name in enumerate("ab")}
    table = torch.tensor([t.data_ptr() for t in tensors.values()])
    out = torch.zeros(2)
    sum_groups[(2,)](table, torch.tensor([4, 3]), out, BLOCK=4)
    assert out.tolist() == [6, 6]


def test_unknown_addresses_and_registered_arrays():
    memory = (ctypes.c_float * 8)(*range(8))
    table, out = np.array([ctypes.addressof(memory)]), np.zeros(1, np.float32)
    with pytest.raises(OutOfBoundsError) as caught:
        sum_groups[(1,)](table, np.array([8]), out, BLOCK=8)
    text = str(caught.value)
    assert "tl.load reads outside every known array in program (0, 0, 0)" in text
    assert hex(table[0]) in text and "tilewright.debug.register_arrays" in text
    assert "test_pointer_tables.py:" in text

    class Foreign:
        __array_interface__ = {
            "shape": (8,), "typestr": "<f4", "version": 3, "data": (ctypes.addressof(memory), False),
        }  # fmt: skip

    given = Foreign()
    debug.register_arrays(weights=given)
    sum_groups[(1,)](table, np.array([8]), out, BLOCK=8)
    assert out.tolist() == [28]
    with pytest.raises(OutOfBoundsError, match=r"outside 'weights'.*elements 0 … 7"):
        sum_groups[(1,)](table, np.array([9]), out, BLOCK=16)
    debug.forget_arrays(given)
    with pytest.raises(OutOfBoundsError, match="every known array"):
        sum_groups[(1,)](table, np.array([8]), out, BLOCK=8)


@tw.jit
def null_pointer(o_ptr, flag):
    p = tl.cast(0, tl.int64).to(tl.pointer_type(tl.float32))
    if flag > 0:
        p = o_ptr
    if p.to(tl.int64) != 0:
        tl.store(p, 1.0)


def test_null_pointers_are_no_addresses():
    out = np.zeros(1, np.float32)
    null_pointer[(1,)](out, 0)
    assert out[0] == 0
    null_pointer[(1,)](out, 7)
    assert out[0] == 1
