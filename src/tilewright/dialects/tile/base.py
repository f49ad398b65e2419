"""The pointer type of the `tile` dialect, and what its operations ask of shapes and types."""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects.builtin import (
    DenseArrayBase,
    FixedBitwidthType,
    TensorType,
    VectorType,
)
from xdsl.ir import Attribute, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
)
from xdsl.utils.exceptions import VerifyException

from tilewright.dialects.tile.agreement import same_layout


@irdl_attr_definition
class PtrType(ParametrizedAttribute, TypeAttribute):
    """`!tile.ptr<f16>`: the address of an element in global memory."""

    name = "tile.ptr"
    pointee: Attribute


def shape_of(value: SSAValue | Attribute) -> tuple[int, ...]:
    """Extents of a tile value or type; `()` for a scalar."""
    kind = value.type if isinstance(value, SSAValue) else value
    return tuple(kind.get_shape()) if isinstance(kind, TensorType) else ()


def element_of(value: SSAValue | Attribute) -> Attribute:
    """Element type of a tile, or the scalar type itself."""
    kind = value.type if isinstance(value, SSAValue) else value
    return kind.element_type if isinstance(kind, TensorType) else kind


def with_shape(element: Attribute, shape: tuple[int, ...] | list[int]) -> Attribute:
    """`tensor<shape x element>`, or `element` for an empty shape."""
    return TensorType(element, shape) if len(shape) else element


def is_tile(value: SSAValue | Attribute) -> bool:
    kind = value.type if isinstance(value, SSAValue) else value
    return isinstance(kind, TensorType)


def element_bytes(element: Attribute) -> int:
    """Bytes one element takes in memory. Raises TypeError for types without a size."""
    if isinstance(element, PtrType):
        return 8
    if isinstance(element, FixedBitwidthType):
        return max(1, element.bitwidth // 8)
    raise TypeError(f"no memory size: {element}")


def scalar_of(value: SSAValue | Attribute) -> Attribute:
    """Element type of a tile or vector, or the scalar type itself."""
    kind = value.type if isinstance(value, SSAValue) else value
    return kind.element_type if isinstance(kind, TensorType | VectorType) else kind


def same_shape(op: IRDLOperation, *values: SSAValue | None) -> None:
    """All of one shape (of tiles, or of vectors)."""
    kinds = [v.type for v in values if v is not None]
    shapes = [k.get_shape() if isinstance(k, TensorType | VectorType) else () for k in kinds]
    if any(s != shapes[0] for s in shapes):
        raise VerifyException(f"{op.name}: shapes differ: {shapes}")


def elementwise(op: IRDLOperation, *values: SSAValue | None) -> None:
    """All of one shape, and in one layout: what is done lane by lane."""
    same_shape(op, *values)
    same_layout(op, *values)


def require_element(op: IRDLOperation, value: SSAValue | None, kind: Attribute, what: str) -> None:
    """Elements of `value`, if it is there, are of type `kind`."""
    if value is not None and scalar_of(value) != kind:
        raise VerifyException(f"{op.name}: {what} is {value.type}, elements of {kind} expected")


def require(condition: bool, message: str) -> None:
    if not condition:
        raise VerifyException(message)


def ints(attr: DenseArrayBase) -> tuple[int, ...]:
    return tuple(int(v) for v in cast(Any, attr).get_values())
