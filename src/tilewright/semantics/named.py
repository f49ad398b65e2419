"""Numbers that kernels gave a name: known at compile time, with the type of a tensor.

Triton makes a tensor of what a name is assigned: after `zero = 8`, `x - zero` of uint8 is int32, where `x - 8` is uint8.
Here such numbers stay Python numbers, so that they can be extents, but promotion takes their own type into account, and
integers (all of int32: larger ones become scalars) wrap and divide as int32 does. Floating-point numbers stay exact.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any


def _quotient(a: Any, b: Any) -> Any:
    """`a // b`: of integers rounded towards zero, as on tensors."""
    exact = a // b
    return exact + 1 if isinstance(exact, int) and exact < 0 and exact * b != a else exact


def _remainder(a: Any, b: Any) -> Any:
    both = isinstance(a, int) and isinstance(b, int)
    return a - _quotient(a, b) * b if both else a % b


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv, "mod": _remainder,
    "floordiv": _quotient, "pow": operator.pow, "lshift": operator.lshift, "rshift": operator.rshift,
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
        result = function(*pair)
        if isinstance(result, int) and isinstance(other, int) and -(1 << 31) <= other < 1 << 31:
            result = (result + (1 << 31)) % (1 << 32) - (1 << 31)
        return named(result)

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
    kind.__name__ = kind.__mro__[1].__name__  # which Python's error texts show


def deferring(kind: type) -> dict[str, Any]:
    """Operators of a subclass of `kind` that leave arithmetic with named numbers to these."""

    def method(plain_operator: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def defers(self: Any, other: Any) -> Any:
            leaves = isinstance(other, NamedInt | NamedFloat)
            return NotImplemented if leaves else plain_operator(self, other)

        return defers

    names = [f"__{name}__" for name in _OPERATORS]
    return {name: method(getattr(kind, name)) for name in names if hasattr(kind, name)}
