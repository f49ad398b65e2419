"""The vocabulary in which dialects declare operations: IRDL's fields, traits and builtin types, and classes to begin from.

@operation
class SplatOp(PureOp):
    name = "tile.splat"
    source = operand_def()
    result = result_def(TensorType)
    assembly_format = "$source attr-dict `:` type($source) `to` type($result)"
"""

# ruff: noqa: F401 - `import *` of this module gives all that operations are declared with

from __future__ import annotations

import functools
import struct
from collections.abc import Mapping
from typing import Any, TypeVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    UnitAttr,
    VectorType,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    OpDef,
    OptOperandDef,
    ParsePropInAttrDict,
    VarOperandDef,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsTerminator, NoTerminator, Pure
from xdsl.utils.exceptions import VerifyException


class Op(IRDLOperation):
    """An operation; properties that its format does not name are printed among the attributes."""

    irdl_options = (ParsePropInAttrDict(),)


class PureOp(Op):
    """An operation without side effects."""

    traits = traits_def(Pure())


class SegmentedOp(Op):
    """An operation with several groups of operands of any number, whose sizes are a property."""

    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())


_Kind = TypeVar("_Kind", bound=type[IRDLOperation])


def operation(kind: _Kind) -> _Kind:
    """Decorates the class of an operation; of a `SegmentedOp`, operands are accessed faster than by xDSL."""
    defined: Any = irdl_op_definition(kind)
    if issubclass(kind, SegmentedOp):
        for position, (name, operand) in enumerate(irdl_definition(kind).operands):
            setattr(defined, name, _accessor(position, operand))
    return defined


def irdl_definition(kind: Any) -> OpDef:
    """The IRDL definition of an operation's class."""
    return kind.get_irdl_definition()


def operations_of(module: Mapping[str, Any]) -> list[type[Operation]]:
    """The operations that a module defines, given its names, in the order of their definition."""
    return [
        kind
        for kind in module.values()
        if isinstance(kind, type)
        and kind.__module__ == module["__name__"]
        and issubclass(kind, Operation)
        and "name" in vars(kind)
    ]


@functools.lru_cache(maxsize=4096)
def _places(sizes: bytes) -> tuple[slice, ...]:
    """The slice of the operands per group; `sizes` are i32."""
    places, start = [], 0
    for size in struct.unpack(f"<{len(sizes) // 4}i", sizes):
        places.append(slice(start, start + size))
        start += size
    return tuple(places)


def _accessor(position: int, definition: Any) -> property:
    def place(op: Any) -> slice:
        return _places(op.properties["operandSegmentSizes"].data.data)[position]

    def several(op: Any) -> Any:
        return op.operands[place(op)]

    def one(op: Any) -> Any:
        return op.operands[place(op).start]

    def one_or_none(op: Any) -> Any:
        at = place(op)
        return op.operands[at.start] if at.stop > at.start else None

    if isinstance(definition, VarOperandDef):
        return property(one_or_none if isinstance(definition, OptOperandDef) else several)
    return property(one)
