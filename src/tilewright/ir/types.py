"""Language types to IR types and back. The IR is signless: `uint8` and `int8` both give `i8`."""

from __future__ import annotations

import functools
from typing import Any, cast

from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    DenseArrayBase,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerAttr,
    IntegerType,
    TensorType,
    i32,
)
from xdsl.ir import Attribute, BlockArgument, Operation, OpResult, SSAValue

from tilewright import dtypes
from tilewright.ir.context import type_class

_FLOATS: dict[str, AnyFloat] = {
    "fp8e4nv": Float8E4M3FNType(), "fp8e5": Float8E5M2Type(), "fp16": Float16Type(),
    "bf16": BFloat16Type(), "fp32": Float32Type(), "fp64": Float64Type(),
}  # fmt: skip
_FLOAT_NAMES: dict[Attribute, str] = {attr: name for name, attr in _FLOATS.items()}
#: short names of language types by the names of IR types; integers are signed
SHORT_NAMES = {
    "f16": "fp16", "bf16": "bf16", "f32": "fp32", "f64": "fp64", "f8E4M3FN": "fp8e4nv", "f8E5M2": "fp8e5",
    "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64",
}  # fmt: skip


@functools.lru_cache(maxsize=4096)
def ir_type(language_type: Any) -> Attribute:
    """The IR type of a `dtype`, `pointer_type` or `block_type`. Raises TypeError for anything else.

    Equal language types give the identical attribute object.
    """
    if isinstance(language_type, dtypes.block_type):
        return TensorType(ir_type(language_type.scalar), language_type.shape)
    if isinstance(language_type, dtypes.pointer_type):
        pointer: Any = type_class("tile.ptr")
        return pointer(ir_type(language_type.element_ty))
    if isinstance(language_type, dtypes.dtype):
        if language_type.is_floating():
            return _FLOATS[language_type.name]
        if language_type.is_int():
            return integer_type(language_type.primitive_bitwidth)
    raise TypeError(f"{language_type!r} has no IR type")


@functools.lru_cache(maxsize=256)
def integer_type(width: int) -> IntegerType:
    """The signless integer type of `width` bits, made once: making an attribute verifies it."""
    return IntegerType(width)


@functools.lru_cache(maxsize=4096)
def integer_attribute(number: int, width: int) -> IntegerAttr[IntegerType]:
    """`number : i<width>`, wrapped to the width, made once."""
    return IntegerAttr(number, integer_type(width), truncate_bits=True)


@functools.lru_cache(maxsize=4096)
def segment_sizes(*sizes: int) -> DenseArrayBase[IntegerType]:
    """`operandSegmentSizes` of an operation with groups of operands, made once."""
    return DenseArrayBase.from_list(i32, list(sizes))


def width_of(kind: Attribute) -> int:
    """The bits of an integer type. Requires: `kind` is an `IntegerType`."""
    return cast(IntegerType, kind).width.data


def position_of(value: SSAValue) -> int:
    """The index of a value among the results, or the block arguments, of its owner."""
    return cast("OpResult | BlockArgument", value).index


def defining_op(value: SSAValue) -> Operation:
    """The operation whose result a value is. Requires: the value is no block argument."""
    return cast(Operation, value.owner)


@functools.lru_cache(maxsize=4096)
def language_type(attribute: Any) -> Any:
    """The language type of an IR type; integers come back signed, i1 as `int1`. Raises TypeError."""
    if isinstance(attribute, TensorType):
        return dtypes.block_type(
            language_type(attribute.element_type), tuple(attribute.get_shape())
        )
    if isinstance(attribute, IntegerType):
        return dtypes.from_short_name(f"i{attribute.width.data}")
    if attribute in _FLOAT_NAMES:
        return dtypes.from_short_name(_FLOAT_NAMES[attribute])
    if attribute.name == "tile.ptr":
        return dtypes.pointer_type(language_type(attribute.pointee))
    raise TypeError(f"{attribute} has no language type")
