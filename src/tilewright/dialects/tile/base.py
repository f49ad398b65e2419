"""Pointer type, traits and common verification of tile operations."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, cast

from xdsl.dialects.builtin import DenseArrayBase, FixedBitwidthType, TensorType, VectorType
from xdsl.ir import (
    Attribute,
    BlockArgument,
    Operation,
    OpResult,
    ParametrizedAttribute,
    SSAValue,
    TypeAttribute,
)
from xdsl.irdl import irdl_attr_definition
from xdsl.traits import OpTrait
from xdsl.utils.exceptions import VerifyException

from tilewright.dialects.tile.layout_verification import same_layout

WRAPS = "tile.wraps"
"""Attribute of an integer sum, difference, product or left shift of unsigned numbers: it wraps also where it
forms an address. Without it the operation is a signed one, of which the language promises more there."""


@irdl_attr_definition
class PtrType(ParametrizedAttribute, TypeAttribute):
    """`!tile.ptr<f16>`: the address of an element in global memory."""

    name = "tile.ptr"
    pointee: Attribute


# Every class of xDSL is abstract in Python's sense, so `isinstance` asks the class in Python code; the
# functions below are called thousands of times a kernel, and compare classes first.
_VALUES = frozenset((OpResult, BlockArgument))


def _type_of(value: SSAValue | Attribute) -> Attribute:
    """The type of a value, or the type given."""
    if type(value) in _VALUES or isinstance(value, SSAValue):
        return cast(SSAValue, value).type
    return value


def shape_of(value: SSAValue | Attribute) -> tuple[int, ...]:
    """Extents of a tile value or type; `()` for a scalar."""
    kind = _type_of(value)
    return tuple([extent.data for extent in kind.shape.data]) if type(kind) is TensorType else ()


def element_of(value: SSAValue | Attribute) -> Attribute:
    """Element type of a tile, or the scalar type itself."""
    kind = _type_of(value)
    return kind.element_type if type(kind) is TensorType else kind


@functools.lru_cache(maxsize=4096)
def _tile_type(element: Attribute, shape: tuple[int, ...]) -> TensorType:
    return TensorType(element, shape)


def with_shape(element: Attribute, shape: Sequence[int]) -> Attribute:
    """`tensor<shape x element>`, or `element` for an empty shape."""
    return _tile_type(element, tuple(shape)) if len(shape) else element


def is_tile(value: SSAValue | Attribute) -> bool:
    kind = _type_of(value)
    return type(kind) is TensorType


def has_tiles(op: Operation) -> bool:
    """Whether an operand or result of `op` itself is a tile."""
    return any(map(is_tile, (*op.operands, *op.results)))


def element_bytes(element: SSAValue | Attribute) -> int:
    """Bytes that an element, given by a scalar or tile or its type, takes in memory. Raises TypeError for types
    without a size."""
    if isinstance(element, SSAValue | TensorType):
        element = element_of(element)
    if type(element) is PtrType:
        return 8
    if isinstance(element, FixedBitwidthType):
        return max(1, element.bitwidth // 8)
    raise TypeError(f"no memory size: {element}")


def elements_of(value: SSAValue | Attribute) -> int:
    """The number of elements of a tile; 1 for a scalar."""
    return prod(shape_of(value))


def bytes_of(value: SSAValue | Attribute) -> int:
    """Bytes that a tile or scalar takes in memory."""
    return elements_of(value) * element_bytes(value)


def scalar_of(value: SSAValue | Attribute) -> Attribute:
    """Element type of a tile or vector, or the scalar type itself."""
    kind = value.type if isinstance(value, SSAValue) else value
    return kind.element_type if isinstance(kind, TensorType | VectorType) else kind


def same_shape(op: Operation, *values: SSAValue | None) -> None:
    """All of one shape (of tiles, or of vectors)."""
    kinds = [v.type for v in values if v is not None]
    shapes = [k.get_shape() if isinstance(k, TensorType | VectorType) else () for k in kinds]
    if any(s != shapes[0] for s in shapes):
        raise VerifyException(f"{op.name}: shapes differ: {shapes}")


def same_lanes(op: Operation, *values: SSAValue | None) -> None:
    """All of one shape, and in one layout: what is done element-wise."""
    same_shape(op, *values)
    same_layout(op, *values)


def require_element(op: Operation, value: SSAValue | None, kind: Attribute, what: str) -> None:
    """Elements of `value`, if it is there, are of type `kind`."""
    if value is not None and scalar_of(value) != kind:
        raise VerifyException(f"{op.name}: {what} is {value.type}, elements of {kind} expected")


def require(condition: bool, message: str) -> None:
    if not condition:
        raise VerifyException(message)


def ints(attr: DenseArrayBase) -> tuple[int, ...]:
    return tuple(map(int, cast(Any, attr).get_values()))


@dataclass(frozen=True)
class Elementwise(OpTrait):
    """Each lane of the result depends on the same lane of the operands only. Operands are scalars or of one shape."""

    cheap: bool = False
    """Whether it costs about as much as an integer addition, so that fused loops rematerialize it."""


@dataclass(frozen=True)
class MovesLanes(OpTrait):
    """The result consists of elements of the operands at other coordinates.

    Operands go through memory: scratch on a CPU, shared memory on a GPU. Remaps whose elements stay in their thread
    (`tile.trans`, `tile.reshape` …) do not have this trait.
    """


@functools.cache
def elementwise_trait(kind: type[Operation]) -> Elementwise | None:
    """The `Elementwise` trait of an operation class, if it has one."""
    return kind.get_trait(Elementwise)


@functools.cache
def _moves_lanes(kind: type[Operation]) -> bool:
    return kind.has_trait(MovesLanes, value_if_unregistered=False)


def moves_lanes(op: Operation) -> bool:
    """Whether `op` has the trait `MovesLanes`."""
    return _moves_lanes(type(op))
