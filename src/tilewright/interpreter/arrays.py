"""The memory of an array: address, element type and the bytes a kernel may touch.

Works on anything a launch takes: NumPy arrays (ml_dtypes too, any strides), objects with
`__array_interface__`, tensors with `data_ptr()` (torch is never imported), DLPack producers.
"""

from __future__ import annotations

import ctypes
import dataclasses
from dataclasses import dataclass
from typing import Any, cast

import ml_dtypes
import numpy as np

from tilewright import dtypes
from tilewright.dtypes import dtype
from tilewright.errors import LaunchError


@dataclass(frozen=True)
class ArrayMemory:
    """One array: `address` of its first element, `[base, base + nbytes)` its allocation.

    `[first, last)` are the bytes of the array itself, which may be a view of part of the
    allocation. `owner` keeps the memory alive.
    """

    address: int
    element: dtype
    base: int
    nbytes: int
    first: int
    last: int
    read_only: bool
    owner: Any


def array_memory(value: Any) -> ArrayMemory:
    """Describe `value`. Raises LaunchError for what is no array on the CPU."""
    wrapped = getattr(value, "base", None)
    if type(value).__name__ == "TensorWrapper" and wrapped is not None:
        inner = array_memory(wrapped)
        return dataclasses.replace(inner, element=_element(value.dtype), owner=value)
    if isinstance(value, np.ndarray):
        return _numpy(value, value)
    if hasattr(value, "data_ptr"):
        return _tensor(value)
    return _numpy(numpy_view(value), value)


def numpy_view(value: Any) -> np.ndarray:
    """NumPy's array for the same memory. Raises LaunchError for what is no array on the CPU."""
    try:
        if hasattr(value, "__array_interface__"):
            return np.asarray(value)
        if hasattr(value, "__dlpack__"):
            return np.from_dlpack(value)
    except (BufferError, TypeError, ValueError, RuntimeError) as error:
        raise LaunchError(
            f"the {type(value).__name__} cannot be read as an array on the CPU: {error}",
            help="pass a NumPy array or a torch tensor",
        ) from None
    raise LaunchError(f"expected an array, got a {type(value).__name__}")


def array_layout(value: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape, and strides in elements, of an array; () and () if it does not say both."""
    if type(value).__name__ == "TensorWrapper":
        value = getattr(value, "base", value)
    shape: Any = getattr(value, "shape", None)
    stride: Any = getattr(value, "stride", None)
    if isinstance(value, np.ndarray):
        return value.shape, tuple(s // value.itemsize for s in value.strides)
    if shape is None or not callable(stride):
        return (), ()
    return tuple(int(n) for n in shape), tuple(int(s) for s in cast(Any, stride)())


def view_bytes(base: int, nbytes: int) -> np.ndarray:
    """The bytes at `[base, base + nbytes)` as an array onto that very memory."""
    if nbytes <= 0:
        return np.empty(0, np.uint8)
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(base))


def _element(array_dtype: Any) -> dtype:
    if isinstance(array_dtype, dtype):
        return array_dtype
    if isinstance(array_dtype, type):
        array_dtype = np.dtype(array_dtype)
    name = getattr(array_dtype, "name", None) or str(array_dtype)
    try:
        if getattr(array_dtype, "isnative", True) is False:
            raise KeyError(name)
        return dtypes.from_array_name(name)
    except KeyError:
        raise LaunchError(
            f"arrays of dtype {array_dtype} cannot be passed to a kernel",
            help="convert it: " + ", ".join(t.array_name for t in dtypes.ALL_SCALARS),
        ) from None


def _numpy(array: np.ndarray, owner: Any) -> ArrayMemory:
    first, last = np.lib.array_utils.byte_bounds(array) if array.size else _nothing(array)
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    base, end = first, last
    if root is not array and root.size:
        low, high = np.lib.array_utils.byte_bounds(root)
        # `as_strided` and foreign buffers may reach beyond what their base says
        base, end = min(first, low), max(last, high)
    return ArrayMemory(
        array.ctypes.data,
        _element(array.dtype),
        base,
        end - base,
        first,
        last,
        not array.flags.writeable,
        owner,
    )


def _nothing(array: np.ndarray) -> tuple[int, int]:
    address = array.ctypes.data
    return address, address


def _tensor(tensor: Any) -> ArrayMemory:
    address = tensor.data_ptr()
    element = _element(tensor.dtype)
    first, last = address, address + _extent(tensor, element.itemsize)
    base, end = first, last
    storage = getattr(tensor, "untyped_storage", None)
    if storage is not None:
        memory = storage()
        base, end = memory.data_ptr(), memory.data_ptr() + memory.nbytes()
    return ArrayMemory(address, element, base, end - base, first, last, False, tensor)


def _extent(tensor: Any, itemsize: int) -> int:
    """Bytes from a tensor's first element to the end of its last; strides are never negative."""
    shape = tuple(int(n) for n in getattr(tensor, "shape", ()))
    if any(n == 0 for n in shape):
        return 0
    stride = getattr(tensor, "stride", None)
    if stride is None:
        return int(np.prod(shape, dtype=np.int64)) * itemsize
    steps: Any = stride() if callable(stride) else stride
    span = sum((n - 1) * int(s) for n, s in zip(shape, steps, strict=True))
    return (span + 1) * itemsize


def numpy_dtype(kind: Any) -> np.dtype:
    """NumPy type for values of language type `kind`: integers always signed, pointers as int64.

    bf16 and fp8 are ml_dtypes'.
    """
    scalar = kind.scalar
    if scalar.is_ptr():
        return np.dtype(np.int64)
    if scalar.is_int() and not scalar.is_bool():
        return np.dtype(f"int{scalar.primitive_bitwidth}")
    if scalar.is_bf16() or scalar.is_fp8():
        return np.dtype(getattr(ml_dtypes, scalar.array_name))
    return np.dtype(scalar.array_name)
