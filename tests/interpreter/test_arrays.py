"""Addresses, element types and allocations of everything a launch takes."""

import ml_dtypes
import numpy as np
import pytest

from tilewright import dtypes
from tilewright.errors import LaunchError
from tilewright.interpreter.arrays import array_memory, numpy_dtype, view_bytes


@pytest.mark.parametrize("kind", [k for k in dtypes.ALL_SCALARS])
def test_numpy_dtypes(kind):
    name = kind.array_name
    array = np.zeros(8, getattr(ml_dtypes, name, None) or name)
    memory = array_memory(array)
    assert memory.element == kind
    assert (memory.address, memory.base, memory.nbytes) == (
        array.ctypes.data, array.ctypes.data, array.nbytes,
    )  # fmt: skip
    assert numpy_dtype(kind).itemsize == kind.itemsize


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[1:, ::2], lambda a: a.T, lambda a: a[::-1], lambda a: a[:, 2:3],
        lambda a: np.broadcast_to(a[0], (7, 6)), lambda a: a.reshape(-1)[5:],
    ],
)  # fmt: skip
def test_views_belong_to_what_they_view(view):
    whole = np.arange(24, dtype=np.float32).reshape(4, 6)
    memory = array_memory(view(whole))
    assert memory.address == view(whole).ctypes.data
    assert (memory.base, memory.nbytes) == (whole.ctypes.data, whole.nbytes)
    assert memory.base <= memory.first <= memory.address < memory.last <= memory.base + 96


def test_reading_only():
    array = np.zeros(3)
    array.flags.writeable = False
    assert array_memory(array).read_only


class Interface:
    def __init__(self, array):
        self.array = array
        self.__array_interface__ = array.__array_interface__


class Producer:
    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **keywords):
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("wrap", [Interface, Producer])
def test_protocols(wrap):
    array = np.arange(12, dtype=np.int16)
    memory = array_memory(wrap(array))
    assert memory.address == array.ctypes.data
    assert memory.element == dtypes.int16
    assert memory.last - memory.first == array.nbytes


def test_torch():
    torch = pytest.importorskip("torch")
    whole = torch.zeros(10, 4, dtype=torch.bfloat16)
    view = whole[2:, 1:3]
    memory = array_memory(view)
    assert memory.element == dtypes.bfloat16
    assert memory.address == view.data_ptr()
    assert (memory.base, memory.nbytes) == (whole.data_ptr(), 80)
    assert (memory.first, memory.last) == (view.data_ptr(), view.data_ptr() + 2 * (7 * 4 + 2))


def test_empty():
    assert array_memory(np.empty((0, 3))).nbytes == 0
    assert view_bytes(0, 0).size == 0


@pytest.mark.parametrize("value", [3, "x", np.zeros(2, complex), np.zeros(2, ">f4"), [1, 2]])
def test_no_arrays(value):
    with pytest.raises(LaunchError):
        array_memory(value)


def test_a_view_of_bytes_writes_through():
    array = np.zeros(4, np.int32)
    view_bytes(array.ctypes.data, array.nbytes)[4] = 7
    assert array.tolist() == [0, 7, 0, 0]
