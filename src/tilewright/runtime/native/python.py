"""Host code that reads a launch's grid and arguments from Python objects, for launchers of any target."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from tilewright.runtime.drivers.argument_guards import ANY, holds
from tilewright.runtime.native.language import *

#: how a slot's value is fetched from a Python object; "skip" leaves no slot, a "blob" is the address of a parameter
KINDS = {
    "address": 1, "numpy": 2, "numpy_written": 3, "int": 4, "uint": 5, "fp32": 6, "fp64": 7,
    "bool": 8, "skip": 9, "blob": 10,
}  # fmt: skip
NUMPY, NUMPY_WRITTEN, INT, FP32 = (KINDS[k] for k in ("numpy", "numpy_written", "int", "fp32"))
FP64, BOOL, SKIP, BLOB = (KINDS[k] for k in ("fp64", "bool", "skip", "blob"))
#: return codes of a launcher, in addition to None and `argument_guards.OTHER_CASE`
BAD_GRID, OUT_OF_MEMORY, READ_ONLY, BAD_CALL = 1, 2, 3, 4
LARGEST_EXTENT = 2147483647
NUMPY_WRITEABLE = 0x400

_Py_NoneStruct = External("_Py_NoneStruct")


class NumpyArray(ctypes.Structure):
    """NumPy's array object as far as its stable ABI goes."""

    _fields_ = [
        ("head", ctypes.c_int64 * 2),
        ("data", ctypes.c_int64),
        ("rest", ctypes.c_int64 * 5),
        ("flags", ctypes.c_int32),
    ]


def PyLong_AsVoidPtr(number: ptr) -> ptr: ...
def PyLong_FromLongLong(value: i64) -> ptr: ...
def PyLong_FromUnsignedLongLong(value: i64) -> ptr: ...
def PyLong_AsLongLong(number: ptr) -> i64: ...
def PyLong_AsUnsignedLongLong(number: ptr) -> i64: ...
def PyFloat_AsDouble(number: ptr) -> f64: ...
def PyObject_IsTrue(item: ptr) -> i32: ...
def PyTuple_Size(values: ptr) -> i64: ...
def PyTuple_GetItem(values: ptr, i: i64) -> ptr: ...
def PyErr_Occurred() -> ptr: ...
def PyErr_Clear() -> None: ...
def PyEval_SaveThread() -> ptr: ...
def PyEval_RestoreThread(state: ptr) -> None: ...
def Py_IncRef(item: ptr) -> None: ...
def Py_BuildValue(format: ptr, *values: i64) -> ptr: ...


def none() -> ptr:
    """None, as a result."""
    Py_IncRef(_Py_NoneStruct)
    return _Py_NoneStruct


def read_grid(grid: ptr, out: Words) -> i64:
    """The product of the extents in a tuple, -1 if it is not a valid grid; writes the three extents."""
    n = PyTuple_Size(grid)
    total = i64(1)
    out[1] = 1
    out[2] = 1
    if not 0 < n < 4:
        total = -1
    for i in range(n):
        if total < 0:
            break
        extent = PyLong_AsLongLong(PyTuple_GetItem(grid, i))
        out[i] = extent
        if not 0 <= extent <= LARGEST_EXTENT or overflows(total, extent):
            total = -1
        else:
            total *= extent
    if total < 0:
        PyErr_Clear()
    return total


def fetch(kind: i8, item: ptr) -> i64:
    """The slot of a number; PyErr_Occurred() says whether it was one."""
    if kind == INT:
        return PyLong_AsLongLong(item)
    if kind == FP32:
        return bits(f32(PyFloat_AsDouble(item)))
    if kind == FP64:
        return bits(PyFloat_AsDouble(item))
    if kind == BOOL:
        return unsigned(PyObject_IsTrue(item))
    return PyLong_AsUnsignedLongLong(item)


def meets(condition: i8, value: i64) -> i1:
    """Whether a fetched value satisfies a condition; False for values outside 64 bits (an error is set)."""
    if condition == ANY:
        return True
    if value == -1 and PyErr_Occurred():
        return False
    return holds(condition, value)


def launch_record(kind: Any, kinds: Sequence[str], conditions: Sequence[int]) -> Any:
    """Memory of a launch record with the kinds of its arguments, of which each may have a condition."""
    start = ctypes.sizeof(kind)
    memory = ctypes.create_string_buffer(start + max(2 * len(kinds), 1))
    asked = [*conditions, *[ANY] * (len(kinds) - len(conditions))]
    memory[start : start + 2 * len(kinds)] = bytes([*(KINDS[k] for k in kinds), *asked])
    record = kind.from_buffer(memory)
    record.arguments, record.slots = len(kinds), sum(k != "skip" for k in kinds)
    return memory
