"""The functions of `tl.extra.libdevice` whose names say how they round: to nearest (`_rn`), towards zero (`_rz`),
down (`_rd`), up (`_ru`). `_rn` is never fused with another operation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright import dtypes as t
from tilewright.dtypes import unwrap_constexpr
from tilewright.semantics.special import Special
from tilewright.semantics.values import TensorValue

DIRECTIONS = ("rn", "rz", "rd", "ru")
#: operation -> how many arguments
OPERATIONS = {"add": 2, "sub": 2, "mul": 2, "div": 2, "fma": 3, "sqrt": 1, "rcp": 1}
#: conversions to floats: name -> (source, result)
CONVERSIONS = {
    "double2float": (t.float64, t.float32), "int2float": (t.int32, t.float32),
    "uint2float": (t.uint32, t.float32), "ll2float": (t.int64, t.float32),
    "ull2float": (t.uint64, t.float32), "ll2double": (t.int64, t.float64),
    "ull2double": (t.uint64, t.float64), "int2double": (t.int32, t.float64),
    "uint2double": (t.uint32, t.float64),
}  # fmt: skip
#: those that no direction changes, which libdevice has as `_rn` only
_EXACT = ("int2double", "uint2double")


class Rounding(Special):
    """Arithmetic and conversions that round in a direction."""

    def _rounded(self, operation: str, direction: str, args: tuple[Any, ...]) -> TensorValue:
        what = f"libdevice.{operation}_{direction}"
        if operation == "rcp":
            operation, args = "div", (1.0, *args)
        elif operation == "sub":
            operation, args = "add", (args[0], -unwrap_constexpr(args[1]))
        return self.float_function(f"{operation}_{direction}", args, what)

    def _converted(self, name: str, direction: str, value: Any) -> TensorValue:
        source, kind = CONVERSIONS[name]
        x = self.convert(self.to_tensor(unwrap_constexpr(value)), source)
        if direction == "rn":
            return self.convert(x, kind)
        if source.primitive_bitwidth == 64 and source.is_int():
            x = self._long_as_double(x, direction)
        x = self.convert(x, t.float64)
        if kind.is_fp64():
            return x
        # rounding twice in one direction is rounding once
        return self.convert(self.float_function(f"narrow_{direction}", (x,), name), kind)

    def _long_as_double(self, x: TensorValue, direction: str) -> TensorValue:
        """A 64-bit integer in fp64: the sum of its halves, which are exact."""
        high = self.convert(x >> 32, t.float64)
        low = self.convert(x & 0xFFFFFFFF, t.float64)
        parts = (high * 2.0**32, low)
        return self.float_function(f"add_{direction}", parts, "libdevice")


def _install() -> None:
    def arithmetic(operation: str, direction: str) -> Callable[..., Any]:
        def one(self: Rounding, arg0: Any) -> TensorValue:
            return self._rounded(operation, direction, (arg0,))

        def two(self: Rounding, arg0: Any, arg1: Any) -> TensorValue:
            return self._rounded(operation, direction, (arg0, arg1))

        def three(self: Rounding, arg0: Any, arg1: Any, arg2: Any) -> TensorValue:
            return self._rounded(operation, direction, (arg0, arg1, arg2))

        return (one, two, three)[OPERATIONS[operation] - 1]

    def conversion(name: str, direction: str) -> Callable[..., Any]:
        def method(self: Rounding, arg0: Any) -> TensorValue:
            return self._converted(name, direction, arg0)

        return method

    for direction in DIRECTIONS:
        for operation in OPERATIONS:
            name = f"libdevice_{operation}_{direction}"
            setattr(Rounding, name, arithmetic(operation, direction))
        for name in CONVERSIONS:
            if direction == "rn" or name not in _EXACT:
                setattr(Rounding, f"libdevice_{name}_{direction}", conversion(name, direction))


_install()
