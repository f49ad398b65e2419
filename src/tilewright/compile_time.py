"""`constexpr`: a value known when a kernel is compiled, and its type."""

from __future__ import annotations

import operator
import sys
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=True)
class constexpr_type:
    """The type of a `constexpr`: one type per value."""

    value: Any

    def __repr__(self) -> str:
        return f"constexpr_type[{self.value}]"


class constexpr:
    """A value known when the kernel is compiled. `.value` holds it; operators act on the values."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = unwrap_constexpr(value)

    @property
    def type(self) -> constexpr_type:
        """`constexpr_type(value)`."""
        return constexpr_type(self.value)

    def __repr__(self) -> str:
        return f"constexpr[{self.value!r}]"

    def __hash__(self) -> int:
        return hash((constexpr, self.value))

    def __bool__(self) -> bool:
        return bool(self.value)

    def __index__(self) -> int:
        return self.value.__index__()

    def __int__(self) -> int:
        return int(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __eq__(self, other: object) -> Any:
        if hasattr(type(other), "__tl_tensor__"):
            return NotImplemented  # the tensor compares element-wise
        return constexpr(self.value == unwrap_constexpr(other))

    def __ne__(self, other: object) -> Any:
        if hasattr(type(other), "__tl_tensor__"):
            return NotImplemented
        return constexpr(self.value != unwrap_constexpr(other))

    def __getitem__(self, key: Any) -> Any:
        return constexpr(self.value[unwrap_constexpr(key)])

    def __iter__(self) -> Any:
        return (constexpr(item) for item in self.value)

    def __len__(self) -> int:
        return len(self.value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.value(*args, **kwargs)


def unwrap_constexpr(value: Any) -> Any:
    """`value.value` for a constexpr, a Python number for a NumPy scalar, anything else unchanged."""
    held = value.value if isinstance(value, constexpr) else value
    numpy = sys.modules.get("numpy")  # no scalar of its is there before
    return held.item() if numpy is not None and isinstance(held, numpy.generic) else held


def _install_constexpr_operators() -> None:
    def binary(fn: Any, swapped: bool = False) -> Any:
        def method(self: constexpr, other: Any) -> Any:
            if not isinstance(other, (constexpr, int, float, bool, str, tuple, list, type(None))):
                return NotImplemented
            a, b = self.value, unwrap_constexpr(other)
            return constexpr(fn(b, a) if swapped else fn(a, b))

        return method

    arithmetic = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift")
    for name in (*arithmetic, "and", "or", "xor"):
        fn = getattr(operator, f"__{name}__")
        setattr(constexpr, f"__{name}__", binary(fn))
        setattr(constexpr, f"__r{name}__", binary(fn, swapped=True))
    for name in ("lt", "le", "gt", "ge"):
        setattr(constexpr, f"__{name}__", binary(getattr(operator, name)))
    for name in ("neg", "pos", "invert"):
        fn = getattr(operator, name)
        setattr(constexpr, f"__{name}__", lambda self, fn=fn: constexpr(fn(self.value)))


_install_constexpr_operators()
