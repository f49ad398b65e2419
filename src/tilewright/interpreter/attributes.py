"""Attributes and types of IR as the interpreter's functions get them: plain values, language types."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    VectorType,
)
from xdsl.ir import Attribute

from tilewright import dtypes
from tilewright.ir.types import language_type


def kind_of(attribute: Attribute) -> Any:
    """The language type of a scalar, tile or vector type."""
    if isinstance(attribute, VectorType):
        return dtypes.block_type(
            language_type(attribute.element_type), tuple(attribute.get_shape())
        )
    return language_type(attribute)


def plain(attribute: Any) -> Any:
    """An attribute as a plain Python value."""
    if isinstance(attribute, IntegerAttr):
        value = attribute.value.data
        kind = attribute.type
        is_bool = isinstance(kind, IntegerType) and kind.width.data == 1
        return bool(value) if is_bool else value
    if isinstance(attribute, FloatAttr):
        return attribute.value.data
    if isinstance(attribute, StringAttr):
        return attribute.data
    if isinstance(attribute, DenseArrayBase):
        return tuple(attribute.get_values())
    if isinstance(attribute, ArrayAttr):
        return tuple(plain(a) for a in attribute.data)
    return attribute
