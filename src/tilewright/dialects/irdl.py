"""The vocabulary in which dialects declare operations: IRDL's fields, traits and builtin types, and classes to begin from.

@operation
class SplatOp(PureOp):
    source = operand_def()
    result = result_def(TensorType)

declares `tile.splat` in a module of `tilewright.dialects.tile`, printed as `tile.splat %x : f32 to tensor<64xf32>`.
"""

# ruff: noqa: F401 - `import *` of this module gives all that operations are declared with

from __future__ import annotations

import functools
import re
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
    OptPropertyDef,
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
    """Decorates the class of an operation.

    Without a `name` it is called after its class and the dialect, which is its module's in `tilewright.dialects`;
    without an `assembly_format` it has the usual one. Operands of a `SegmentedOp` are accessed faster than by xDSL.
    """
    if "name" not in vars(kind):
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__.removesuffix("Op")).lower()
        kind.name = f"{kind.__module__.split('.')[2]}.{words}"
    kind.assembly_format = kind.assembly_format or _usual_format(kind)
    defined: Any = irdl_op_definition(kind)
    if issubclass(kind, SegmentedOp):
        for position, (name, operand) in enumerate(irdl_definition(kind).operands):
            setattr(defined, name, _accessor(position, operand))
    return defined


def _usual_format(kind: type[IRDLOperation]) -> str | None:
    """Operands and required properties, then the types of operands and results; None if a region or an operand that may
    be absent needs a format of its own."""
    fields: list[tuple[str, Any]] = [f for parent in kind.mro() for f in vars(parent).items()]

    def names(field: Any) -> list[str]:
        """The fields of the kind of this one."""
        return [n for n, f in fields if type(f) is type(field) and f.cls is not OptPropertyDef]

    operands, results = names(operand_def()), names(result_def())
    if names(region_def()) or any(getattr(f, "cls", None) is OptOperandDef for _, f in fields):
        return None
    values = " `,` ".join(f"${name}" for name in (*operands, *names(prop_def())))
    types = [" `,` ".join(f"type(${name})" for name in listed) for listed in (operands, results)]
    typed = " `to` ".join(filter(None, types))
    return f"{values} attr-dict {f'`:` {typed}' if typed else ''}".strip()


def irdl_definition(kind: Any) -> OpDef:
    """The IRDL definition of an operation's class."""
    return kind.get_irdl_definition()


def operations_of(module: Mapping[str, Any]) -> list[type[Operation]]:
    """The operations that a module, or those of a package, define, given its names; in the order of these."""
    return [
        kind
        for kind in module.values()
        if isinstance(kind, type)
        and kind.__module__.startswith(module["__name__"])
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
