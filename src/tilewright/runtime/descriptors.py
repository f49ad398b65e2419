"""`TensorDescriptor`: an array and a block shape, made on the host and passed to a kernel.

    desc = TensorDescriptor.from_tensor(x, block_shape=[64, 32])
    kernel[grid](desc, ...)          # in the kernel: desc.load([row, column])

The compiler sees a named tuple of pointer, shape, strides and the constant block shape. In the kernel it is a
descriptor as from `tl.make_tensor_descriptor`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tilewright import dtypes
from tilewright.dtypes import constexpr
from tilewright.errors import LaunchError

ALIGNMENT = 16
"""Bytes that the first element and every stride but the last are multiples of."""


@dataclass
class TensorDescriptor:
    """An array on the host, read and written by kernels in blocks of `block_shape`.

    Attributes:
        base: a NumPy array, torch tensor or other array. Its first element is at a multiple of 16
            bytes.
        shape, strides: extents and strides in elements, one per dimension (1 to 5). The last stride is
            1, the others are multiples of 16 bytes.
        block_shape: extents of a block; may be assigned before a launch (by an autotuner's hook).
        padding: "zero" or "nan": the value of elements out of bounds.
        round_f32_to_tf32: accepted for Triton's sake; tensor cores round by themselves.

    Raises LaunchError, from the constructor or the launch, if these conditions do not hold.
    """

    base: Any
    shape: Sequence[int]
    strides: Sequence[int]
    block_shape: Sequence[int]
    padding: str = "zero"
    round_f32_to_tf32: bool = False

    def __post_init__(self) -> None:
        self.check()

    @staticmethod
    def from_tensor(
        tensor: Any,
        block_shape: Sequence[int],
        padding: str = "zero",
        round_f32_to_tf32: bool = False,
    ) -> TensorDescriptor:
        """A descriptor of a whole array."""
        if callable(getattr(tensor, "stride", None)):
            strides = tensor.stride()
        else:
            strides = [step // tensor.itemsize for step in tensor.strides]
        return TensorDescriptor(
            tensor, list(tensor.shape), list(strides), list(block_shape), padding, round_f32_to_tf32
        )

    @property
    def dtype(self) -> Any:
        """Element type of the array."""
        return self.base.dtype

    def check(self) -> None:
        """Raises LaunchError if no kernel could use it."""
        from tilewright.runtime.specialize import array_address

        rank = len(self.block_shape)
        if not 1 <= rank <= 5 or len(self.shape) != rank or len(self.strides) != rank:
            raise LaunchError(
                f"TensorDescriptor: shape {list(self.shape)}, strides {list(self.strides)} and "
                f"block_shape {list(self.block_shape)} do not have the same 1 to 5 dimensions"
            )
        if min(self.shape) < 0:
            raise LaunchError(f"TensorDescriptor: shape {list(self.shape)} has a negative extent")
        if self.padding not in ("zero", "nan"):
            raise LaunchError(f"TensorDescriptor: padding is 'zero' or 'nan', not {self.padding!r}")
        address, element = array_address(self.base)
        if address % ALIGNMENT:
            raise LaunchError(
                "TensorDescriptor: its array does not begin at a multiple of 16 bytes",
                help="copy the array, or pass it as a pointer",
            )
        if self.strides[-1] != 1:
            raise LaunchError(
                f"TensorDescriptor: the last stride is {self.strides[-1]}, and must be 1",
                help="describe the transposed array, or make it contiguous",
            )
        odd = [step for step in self.strides[:-1] if step * element.itemsize % ALIGNMENT]
        if odd:
            raise LaunchError(
                f"TensorDescriptor: a stride of {odd[0]} elements of {element.itemsize} bytes is not a "
                "multiple of 16 bytes",
                help="pad the rows, or pass the array as a pointer",
            )

    def opened(self) -> Any:
        """The kernel's argument: a named tuple that the compiler knows."""
        from tilewright.semantics.memory import TensorDescriptor as Opened

        self.check()
        return Opened(
            self.base,
            tuple(map(int, self.shape)),
            tuple(map(int, self.strides)),
            constexpr(tuple(map(int, self.block_shape))),  # pyright: ignore[reportArgumentType]
            constexpr(self.padding),  # pyright: ignore[reportArgumentType]
        )


_DESCRIBED = re.compile(r"tensordesc<\s*(\w+)\s*\[([\d\s,]+)\]\s*>")


def described_type(text: str) -> Any:
    """The type of a descriptor that a signature names, such as "tensordesc<fp16[64, 32]>"; None for other text.

    As in Triton, extents are int32 and strides int64. Padding is zero.
    """
    from tilewright.semantics.memory import TensorDescriptor as Opened

    found = _DESCRIBED.fullmatch(text.strip())
    if found is None:
        return None
    try:
        element = dtypes.from_short_name(found[1])
    except KeyError:
        return None
    block = tuple(int(extent) for extent in found[2].split(","))
    shape = (dtypes.int32,) * len(block)
    strides = (*(dtypes.int64,) * (len(block) - 1), constexpr(1))
    pointer: Any = dtypes.pointer_type(element)
    return Opened(pointer, shape, strides, constexpr(block), constexpr("zero"))  # pyright: ignore[reportArgumentType]


class DescriptorKind(NamedTuple):
    """The specialization key of a descriptor argument."""

    base: type
    """Class of its array."""
    rank: int


class TupleKind(NamedTuple):
    """The specialization key of a tuple of torch tensors."""

    items: tuple[type, ...]
    """Classes of its items."""


ArgumentClass = type | DescriptorKind | TupleKind


def class_of(value: Any) -> ArgumentClass:
    """The class of an argument; of a descriptor also that of its array, and how many dimensions it has; of a tuple of
    tensors those of its items."""
    kind = type(value)
    if kind is TensorDescriptor:
        return DescriptorKind(type(value.base), len(value.shape))
    if kind is tuple and value and all(hasattr(type(item), "data_ptr") for item in value):
        return TupleKind(tuple(map(type, value)))
    return kind


def arrays_of(value: Any) -> Any:
    """The object that tells where an argument lives: the array of a descriptor."""
    return value.base if type(value) is TensorDescriptor else opened(value)


def native_kinds(kind: Any, value: Any) -> list[str]:
    """How generated code passes an argument of type `kind` (`specialize.ArgumentType`): one word a value,
    "skip" where the kernel has no slot for it. Of a descriptor: address, shape, strides; of a tuple of tensors their
    addresses."""
    from tilewright.runtime.specialize import slot_kind

    if isinstance(class_of(value), TupleKind):
        return [slot_kind(item) for item in kind.type]
    if type(value) is not TensorDescriptor:
        return [kind.kind or "skip"]
    base, shape, strides, *_ = kind.type
    return [
        "skip" if isinstance(item, constexpr) else slot_kind(item)
        for item in (base, *shape, *strides)
    ]


def opened(value: Any) -> Any:
    """The named tuple for a descriptor (or for those in a tuple), anything else unchanged."""
    if isinstance(value, TensorDescriptor):
        return value.opened()
    if type(value) is tuple and any(isinstance(item, TensorDescriptor) for item in value):
        return tuple(map(opened, value))
    return value


def _descriptors(name: str, kind: Any, value: Any) -> Iterator[tuple[str, Any, Any]]:
    """Name, type and value of each descriptor in an argument."""
    if type(kind).__name__ == "TensorDescriptor":
        yield name, kind, value
    elif isinstance(kind, tuple):
        fields: Any = getattr(kind, "_fields", range(len(kind)))
        for field, part, item in zip(fields, kind, value, strict=True):
            yield from _descriptors(f"{name}.{field}", part, item)


def whole_lines(kind: Any, value: Any) -> bool:
    """Whether the rows of the descriptors in an argument end at multiples of 16 bytes, as TMA stores require
    (False if there are none)."""
    found = [
        item.shape[-1] * part[0].element_ty.itemsize % ALIGNMENT == 0
        for _, part, item in _descriptors("", kind, value)
    ]
    return bool(found) and all(found)


def extents_are_known(kind: Any, value: Any) -> bool:
    """Whether no extent and no stride of the descriptors in an argument is negative (False where there are none)."""
    found = [min((*item.shape, *item.strides)) >= 0 for _, _, item in _descriptors("", kind, value)]
    return bool(found) and all(found)


def nonnegative(name: str, kind: Any) -> set[str]:
    """Names of the integers in a descriptor's type, of one with `extents_are_known`."""
    return {
        f"{path}.{what}.{i}"
        for path, (_, shape, strides, *_), _ in _descriptors(name, kind, kind)
        for what, items in (("shape", shape), ("strides", strides))
        for i, item in enumerate(items)
        if not isinstance(item, constexpr)
    }


def divisors(name: str, kind: Any, whole: bool = False) -> dict[str, int]:
    """Argument name → divisor, for the fields of a descriptor's type (`whole`: of a descriptor with
    `whole_lines`)."""
    found: dict[str, int] = {}
    for path, (base, shape, strides, *_), _ in _descriptors(name, kind, kind):
        step = math.lcm(ALIGNMENT, base.element_ty.itemsize) // base.element_ty.itemsize
        found[f"{path}.base"] = ALIGNMENT
        for i, stride in enumerate(strides):
            if not isinstance(stride, constexpr):
                found[f"{path}.strides.{i}"] = step
        if whole and not isinstance(shape[-1], constexpr):
            found[f"{path}.shape.{len(shape) - 1}"] = step
    return found
