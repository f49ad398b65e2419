"""The semantics of operations: IR name → a function on NumPy values, and the attributes it receives.

A function takes the context (program, grid, memory, location), the operation's attributes as plain
Python values, the language types of its results, and its operands: NumPy scalars and arrays, or
`PointerValue`s; None for an absent optional operand. It returns the list of results. Nothing here
knows xDSL, so that the debugger can call the same functions without any IR.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
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
from tilewright.errors import InterpreterError
from tilewright.ir.types import language_type

Function = Callable[..., Sequence[Any]]
Attributes = Mapping[str, Any]
"""The attributes of an operation by name, as plain Python values."""
Kinds = Sequence[Any]
"""The language types of its results."""

_FUNCTIONS: dict[str, Function] = {}
#: operations that only rearrange elements, so that their meaning applies to marks on them, too
MOVES: set[str] = set()
_MODULES = ("numbers", "functions", "tiles", "accesses", "vectors")


def implements(*names: str, moves: bool = False) -> Callable[[Function], Function]:
    """Make the decorated function the meaning of the operations called `names`.

    `moves`: it only rearranges or repeats elements of its operands, whatever they are.
    """

    def register(function: Function) -> Function:
        for name in names:
            if name in _FUNCTIONS:
                raise InterpreterError(f"two meanings of {name}")
            _FUNCTIONS[name] = function
        MOVES.update(names if moves else ())
        return function

    return register


def names() -> tuple[str, ...]:
    """Every operation that has a meaning."""
    _load()
    return tuple(sorted(_FUNCTIONS))


def _load() -> None:
    for module in _MODULES:
        importlib.import_module(f"tilewright.interpreter.{module}")


def call(
    name: str,
    ctx: Any,
    attributes: Mapping[str, Any],
    result_types: Sequence[Any],
    operands: Sequence[Any],
) -> list[Any]:
    """The results of one operation. Raises InterpreterError when it has no meaning here."""
    function = _FUNCTIONS.get(name)
    if function is None:
        _load()
        function = _FUNCTIONS.get(name)
        if function is None:
            raise InterpreterError(f"the interpreter does not know {name}")
    return list(function(ctx, attributes, result_types, *operands))


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
