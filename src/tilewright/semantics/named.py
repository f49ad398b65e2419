"""Numbers that kernels gave a name: known at compile time, with the type of a tensor.

Triton makes a tensor of what a name is assigned: after `zero = 8`, `x - zero` of uint8 is int32, where `x - 8` is uint8.
Here such numbers stay Python numbers, so that they can be extents, but promotion takes their own type into account.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv, "mod": operator.mod,
    "floordiv": operator.floordiv, "pow": operator.pow, "lshift": operator.lshift, "rshift": operator.rshift,
    "and": operator.and_, "or": operator.or_, "xor": operator.xor,
}  # fmt: skip
_UNARY = {"neg": operator.neg, "pos": operator.pos, "invert": operator.invert, "abs": abs}


class NamedInt(int):
    """An integer that has a name. Arithmetic with it gives named numbers."""


class NamedFloat(float):
    """A floating-point number that has a name. Arithmetic with it gives named numbers."""


def named(value: Any) -> Any:
    """A Python number as one that has a name; anything else as it is."""
    if isinstance(value, bool | NamedInt | NamedFloat):
        return value
    if isinstance(value, int):
        return NamedInt(value)
    return NamedFloat(value) if isinstance(value, float) else value


def plain(value: Any) -> Any:
    """A number without its name; anything else as it is."""
    if isinstance(value, NamedInt):
        return int(value)
    return float(value) if isinstance(value, NamedFloat) else value


def _binary(function: Callable[[Any, Any], Any], reflected: bool) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        if not isinstance(other, int | float):
            return NotImplemented
        pair = (plain(other), plain(self)) if reflected else (plain(self), plain(other))
        return named(function(*pair))

    return method


def _unary(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda self: named(function(plain(self)))


for kind in (NamedInt, NamedFloat):
    for name, function in _OPERATORS.items():
        setattr(kind, f"__{name}__", _binary(function, reflected=False))
        setattr(kind, f"__r{name}__", _binary(function, reflected=True))
    for name, function in _UNARY.items():
        setattr(kind, f"__{name}__", _unary(function))
    setattr(kind, "value", property(plain))  # noqa: B010 -- what a constexpr has
