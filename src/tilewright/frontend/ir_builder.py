"""The builder that creates tile IR from the operations that semantics requests by name.

Implements `semantics.builder.Builder`. Handles are `SSAValue`s. Operations go to the end of the
current block; `block()` switches to another one for the body of a control-flow operation.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    BoolAttr,
    DenseArrayBase,
    Float8E4M3FNType,
    Float8E5M2Type,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    UnitAttr,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import AttrSizedOperandSegments

from tilewright import dtypes
from tilewright.dialects.irdl import irdl_definition
from tilewright.dialects.tile import WRAPS, elementwise
from tilewright.errors import UnsupportedSyntax
from tilewright.ir.context import op_class
from tilewright.ir.types import ir_type, segment_sizes

_FASTMATH = arith.FastMathFlagsAttr("none")
_WRAPPING = frozenset(("arith.addi", "arith.subi", "arith.muli", "arith.shli"))
_UNSIGNED = {WRAPS: UnitAttr()}


@functools.lru_cache(maxsize=4096)
def _scalar_attribute(value: Any, kind: type) -> Attribute:
    """A property from a Python value; `kind` keeps True apart from 1 in the cache."""
    if kind is bool:
        return BoolAttr(value, i1)
    if kind is int:
        return IntegerAttr(value, i32 if -(2**31) <= value < 2**31 else i64)
    if kind is str:
        return StringAttr(value)
    raise TypeError(f"no attribute for {value!r}")


def _attribute(value: Any) -> Attribute:
    if isinstance(value, Attribute):
        return value
    if isinstance(value, tuple | list):
        if value and all(isinstance(v, bool) for v in value):
            return DenseArrayBase.from_list(i1, [int(v) for v in value])
        return DenseArrayBase.from_list(i64, list(value))
    return _scalar_attribute(value, type(value))


class _OpInfo:
    """Cached information for creating operations of one class."""

    __slots__ = ("cls", "defaults", "segmented")

    def __init__(self, name: str) -> None:
        self.cls = op_class(name)
        definition = irdl_definition(self.cls)
        self.segmented = any(
            isinstance(option, AttrSizedOperandSegments) for option in definition.options
        )
        self.defaults: dict[str, Attribute] = {}
        if "fastmath" in definition.properties:
            self.defaults["fastmath"] = _FASTMATH


@functools.cache
def _op_info(name: str) -> _OpInfo:
    return _OpInfo(name)


@functools.cache
def _is_lanewise(name: str) -> bool:
    dialect = name.partition(".")[0]
    if dialect in ("arith", "math", "scf") or name in ("tile.splat", "tile.program_id"):
        return True
    return _op_info(name).cls.__module__ == elementwise.__name__


def _not_lanewise(name: str) -> UnsupportedSyntax:
    return UnsupportedSyntax(
        f"a function of tl.map_elementwise only computes, element by element: {name} cannot be in it",
        help="do it outside, on whole tiles, and pass the result to the function",
    )


class IRBuilder:
    """Makes operations at the end of `current`. `location` is called for each new operation."""

    def __init__(self, current: Block, location: Callable[[], Any] | None = None) -> None:
        self.current = current
        self.location: Callable[[], Any] = location or (lambda: None)
        self.lanewise = False
        """Whether only operations on single lanes are allowed, which have no effects."""

    def insert(self, op: Operation) -> Operation:
        """Put `op` at the end of the current block, at the current source location."""
        op.location = self.location()
        self.current.add_op(op)
        return op

    @contextmanager
    def block(self, block: Block) -> Generator[Block]:
        """Build into `block` inside the `with`."""
        outer, self.current = self.current, block
        try:
            yield block
        finally:
            self.current = outer

    def op(
        self, name: str, operands: Sequence[Any], result_type: Any = None, **attributes: Any
    ) -> Any:
        """Make the operation called `name`.

        `operands` may hold None for an absent optional operand. `result_type` is a language type, a
        sequence of them, or None. Attributes that are None are left out. Returns the result's
        handle, a tuple of handles, or None, as `result_type` says.
        """
        if self.lanewise and not _is_lanewise(name):
            raise _not_lanewise(name)
        info = _op_info(name)
        properties = dict(info.defaults)
        for key, value in attributes.items():
            if value is not None:
                properties[key] = _attribute(value)
        if info.segmented:
            sizes = [0 if v is None else 1 for v in operands]
            properties["operandSegmentSizes"] = segment_sizes(*sizes)
        wraps = name in _WRAPPING and result_type.scalar.is_int_unsigned()
        several = isinstance(result_type, tuple | list)
        kinds = result_type if several else () if result_type is None else (result_type,)
        op = info.cls.create(
            operands=[v for v in operands if v is not None],
            result_types=[ir_type(kind) for kind in kinds],
            properties=properties,
            attributes=_UNSIGNED if wraps else {},
        )
        self.insert(op)
        if several:
            return tuple(op.results)
        return op.results[0] if op.results else None

    def constant(self, value: Any, result_type: dtypes.dtype) -> SSAValue:
        """A scalar constant; integers wrap to the type's width, floats round to it."""
        kind = ir_type(result_type)
        if result_type.is_floating():
            attribute: Attribute = _float(float(value), kind)
        else:
            attribute = _integer(int(value), result_type.primitive_bitwidth, kind)
        op = arith.ConstantOp.create(properties={"value": attribute}, result_types=[kind])
        self.insert(op)
        return op.results[0]

    def region_op(
        self,
        name: str,
        operands: Sequence[SSAValue],
        result_types: Sequence[Any],
        argument_types: Sequence[Any],
        combine: Callable[..., Sequence[SSAValue]],
        **attributes: Any,
    ) -> tuple[SSAValue, ...]:
        """An operation with one combine region (`tile.reduce`, `tile.scan`).

        `combine` gets the region's scalar arguments (types `argument_types`) and returns what
        `tile.yield` yields.
        """
        if self.lanewise:
            raise _not_lanewise(name)
        block = Block(arg_types=[ir_type(kind) for kind in argument_types])
        with self.block(block):
            values = combine(*block.args)
            self.op("tile.yield", list(values))
        op = op_class(name).create(
            operands=list(operands),
            result_types=[ir_type(kind) for kind in result_types],
            properties={key: _attribute(value) for key, value in attributes.items()},
            regions=[Region(block)],
        )
        self.insert(op)
        return tuple(op.results)


#: the largest numbers of the types that conversions saturate to
_LARGEST: dict[Any, float] = {Float8E4M3FNType(): 448.0, Float8E5M2Type(): 57344.0}


def _float(value: float, kind: Any) -> FloatAttr:
    largest = _LARGEST.get(kind, math.inf)
    value = max(-largest, min(value, largest)) if value == value else value
    try:
        return FloatAttr(value, kind)
    except OverflowError:  # beyond the largest finite value: rounds to infinity
        return FloatAttr(math.copysign(math.inf, value), kind)


@functools.lru_cache(maxsize=4096)
def _integer(value: int, width: int, kind: Any) -> IntegerAttr:
    value &= (1 << width) - 1
    if width > 1 and value >> (width - 1):
        value -= 1 << width
    return IntegerAttr(value, kind)
