"""`reinterpret`: an array for a launch, seen with another element type of the same width."""

from __future__ import annotations

import math
from typing import Any

from tilewright.errors import LaunchError
from tilewright.runtime.specialize import array_address, element_type


class TensorWrapper:
    """An array reinterpreted with another element type of the same size (`reinterpret`).

    Methods that create arrays (`new_empty`, `clone`, `cpu`, `to`) return wrappers with the same type.
    """

    def __init__(self, base: Any, dtype: Any) -> None:
        self.base = base.base if isinstance(base, TensorWrapper) else base
        self.dtype = dtype

    @property
    def data(self) -> Any:
        """The underlying array. Assign a view of it to change the wrapper's address and extent."""
        return (
            getattr(self.base, "data", self.base) if hasattr(self.base, "data_ptr") else self.base
        )

    @data.setter
    def data(self, value: Any) -> None:
        self.base = value.base if isinstance(value, TensorWrapper) else value

    @property
    def shape(self) -> Any:
        return getattr(self.base, "shape", ())

    @property
    def device(self) -> Any:
        return getattr(self.base, "device", "cpu")

    @property
    def is_cuda(self) -> bool:
        return bool(getattr(self.base, "is_cuda", False))

    def data_ptr(self) -> int:
        return array_address(self.base)[0]

    def stride(self, *args: Any) -> Any:
        """Strides in elements."""
        if hasattr(self.base, "stride"):
            return self.base.stride(*args)
        strides = tuple(s // self.base.itemsize for s in self.base.strides)
        return strides[args[0]] if args else strides

    def numel(self) -> int:
        """Number of elements."""
        return math.prod(map(int, self.shape))

    def element_size(self) -> int:
        return element_type(self.dtype).itemsize

    def new_empty(self, *sizes: Any) -> TensorWrapper:
        """An uninitialized array of this type on this device: `new_empty(4, 8)` or `new_empty((4, 8))`."""
        if hasattr(self.base, "new_empty"):
            return TensorWrapper(self.base.new_empty(*sizes), self.dtype)
        import numpy

        shape = sizes[0] if len(sizes) == 1 else sizes
        return TensorWrapper(numpy.empty(shape, self.base.dtype), self.dtype)

    def clone(self) -> TensorWrapper:
        """A copy with its own memory."""
        copy = getattr(self.base, "clone", None) or self.base.copy
        return TensorWrapper(copy(), self.dtype)

    def cpu(self) -> TensorWrapper:
        """The same values in host memory."""
        return TensorWrapper(
            self.base.cpu() if hasattr(self.base, "cpu") else self.base, self.dtype
        )

    def to(self, device: Any) -> TensorWrapper:
        """The same values on `device`."""
        return TensorWrapper(self.base.to(device), self.dtype)

    def copy_(self, other: Any) -> TensorWrapper:
        """Take the bits of another wrapper's or array's elements."""
        source = other.base if isinstance(other, TensorWrapper) else other
        if hasattr(self.base, "copy_"):
            self.base.copy_(source)
        else:
            self.base[...] = source
        return self

    def __repr__(self) -> str:
        return f"TensorWrapper[{self.dtype}]({self.base!r})"


def reinterpret(tensor: Any, dtype: Any) -> Any:
    """`tensor` for a launch, with its elements taken as `dtype` (ours, NumPy's or torch's).

    Raises LaunchError when `tensor` is no array or the widths differ.
    """
    wanted = element_type(dtype)
    _, have = array_address(tensor)
    if have.itemsize != wanted.itemsize:
        raise LaunchError(
            f"reinterpret: {have} has {have.itemsize} bytes an element, {wanted} {wanted.itemsize}",
            help="choose a dtype of the same width",
        )
    base = tensor.base if isinstance(tensor, TensorWrapper) else tensor
    return base if element_type(base.dtype) == wanted else TensorWrapper(base, wanted)
