"""The functions of `tl.extra.libdevice`, as methods `libdevice_<name>` of `Semantics`.

The ends of names say how they round: to nearest (`_rn`, never fused with another operation), towards zero (`_rz`),
down (`_rd`), up (`_ru`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tilewright import dtypes as t
from tilewright.dtypes import unwrap_constexpr
from tilewright.semantics.named import plain
from tilewright.semantics.special import Special
from tilewright.semantics.values import TensorValue

#: libdevice's name -> C's, one float argument
UNARY = {
    name: name
    for name in (
        "acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "ceil", "cos", "cosh", "erf",
        "erfc", "exp", "exp2", "expm1", "fabs", "floor", "j0", "j1", "lgamma", "log", "log10",
        "log1p", "log2", "logb", "nearbyint", "rint", "round", "rsqrt", "sin", "sinh", "sqrt",
        "tan", "tanh", "tgamma", "trunc", "y0", "y1",
    )
} | {
    "fast_sinf": "fast_sin", "fast_cosf": "fast_cos", "fast_tanf": "fast_tan", "fast_tanhf": "tanh",
    "fast_expf": "exp", "fast_logf": "fast_log", "fast_log2f": "fast_log2",
    "fast_log10f": "fast_log10", "fast_exp10f": "fast_exp10", "exp10": "exp10", "rsqrt_rn": "rsqrt",
}  # fmt: skip
BINARY = {
    name: name for name in ("atan2", "copysign", "fdim", "fmod", "hypot", "nextafter", "remainder")
} | {"fast_powf": "fast_pow", "fast_dividef": "fast_divide"}
PREDICATES = {
    "isnan": "isnan", "isinf": "isinf", "isfinited": "isfinite", "finitef": "isfinite",
    "isfinite": "isfinite",
}  # fmt: skip
#: rounding functions whose result is an integer
TO_INTEGER = {"llrint": ("rint", t.int64), "llround": ("round", t.int64)} | {
    f"{source}2{name}_{direction}": (function, kind)
    for source in ("float", "double")
    for name, kind in {"int": t.int32, "uint": t.uint32, "ll": t.int64, "ull": t.uint64}.items()
    for direction, function in {"rn": "rint", "rd": "floor", "ru": "ceil", "rz": "trunc"}.items()
}

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


_MULTIPLIED = 64
"""The largest constant exponent of `pow` that is computed by multiplications."""


class Libdevice(Special):
    """Functions that are not in the tables, and what those that round in a direction are made of."""

    def libdevice_abs(self, arg0: Any) -> TensorValue:
        return self.abs(arg0)

    def libdevice_pow(self, arg0: Any, arg1: Any) -> TensorValue:
        """`arg0 ** arg1`; an integer `arg1` may be of any size. Small constant integers multiply, as in CUDA's `powi`."""
        what, exponent = "libdevice.pow", unwrap_constexpr(arg1)
        if type(plain(exponent)) is int and 0 <= abs(exponent) <= _MULTIPLIED:
            x = self._float_arguments((arg0,), what)[0]
            wide = self._integer_power(self.convert(x, _wide(x)), abs(exponent))
            return self.convert(wide if exponent >= 0 else self.fdiv(1.0, wide), x.dtype)
        if not isinstance(exponent, TensorValue) or not exponent.dtype.is_int():
            return self.float_function("pow", (arg0, arg1), what)
        x = self._float_arguments((arg0,), what)[0]
        # A large integer loses its last bit in a float, and with it the sign of the result.
        size = self.float_function("pow", (self.abs(x), self.convert(exponent, _wide(x))), what)
        odd = (exponent & 1) != 0
        return self.where(odd, self.float_function("copysign", (size, x), what), size)

    libdevice_powf = libdevice_pow

    def libdevice_rcbrt(self, arg0: Any) -> TensorValue:
        return self.fdiv(1.0, self.float_function("cbrt", (arg0,), "libdevice.rcbrt"))

    def libdevice_sinpi(self, arg0: Any) -> TensorValue:
        return self.sin(self._half_turns(arg0))

    def libdevice_cospi(self, arg0: Any) -> TensorValue:
        return self.cos(self._half_turns(arg0))

    def _half_turns(self, x: Any) -> TensorValue:
        """pi times x reduced to [-1, 1], which is exact."""
        turns = self.float_function("rint", (self.binary("*", x, 0.5),), "libdevice.sinpi")
        return (x - turns * 2.0) * math.pi

    def libdevice_normcdf(self, arg0: Any) -> TensorValue:
        scaled = self.binary("*", arg0, -math.sqrt(0.5))
        return self.float_function("erfc", (scaled,), "libdevice.normcdf") * 0.5

    def libdevice_fma(self, arg0: Any, arg1: Any, arg2: Any) -> TensorValue:
        return self.fma(arg0, arg1, arg2)

    def libdevice_max(self, arg0: Any, arg1: Any) -> TensorValue:
        return self.maximum(arg0, arg1)

    def libdevice_min(self, arg0: Any, arg1: Any) -> TensorValue:
        return self.minimum(arg0, arg1)

    libdevice_fmax = libdevice_max
    libdevice_fmin = libdevice_min

    def libdevice_saturatef(self, arg0: Any) -> TensorValue:
        return self.clamp(arg0, 0.0, 1.0)

    def libdevice_mulhi(self, arg0: Any, arg1: Any) -> TensorValue:
        high = self.umulhi(arg0, arg1)
        if high.dtype.is_int_unsigned():
            return high
        x, y = self.convert(arg0, high.dtype), self.convert(arg1, high.dtype)
        for a, b in ((x, y), (y, x)):  # a negative factor counts as 2^bits more
            high = high - self.where(a < 0, b, 0)
        return high

    def libdevice_umulhi(self, arg0: Any, arg1: Any) -> TensorValue:
        return self.umulhi(arg0, arg1)

    def libdevice_signbit(self, arg0: Any) -> TensorValue:
        x = self._in_wide(self._float_arguments((arg0,), "libdevice.signbit")[0])
        kind = t.int64 if x.dtype.is_fp64() else t.int32
        return self.convert(self.cast(x, kind, bitcast=True) < 0, t.int32)

    # ---- rounding in a direction -------------------------------------------------------------

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


def _wide(x: TensorValue) -> t.dtype:
    return t.float64 if x.dtype.is_fp64() else t.float32


def _install_tables() -> None:
    def unary(name: str, function: str, result: Any = None, integer: Any = None) -> Any:
        def method(self: Libdevice, arg0: Any) -> TensorValue:
            value = self.float_function(function, (arg0,), f"libdevice.{name}", result)
            return value if integer is None else self.convert(value, integer)

        return method

    def binary(name: str, function: str) -> Any:
        def method(self: Libdevice, arg0: Any, arg1: Any) -> TensorValue:
            return self.float_function(function, (arg0, arg1), f"libdevice.{name}")

        return method

    def rounded(operation: str, direction: str) -> Callable[..., Any]:
        def one(self: Libdevice, arg0: Any) -> TensorValue:
            return self._rounded(operation, direction, (arg0,))

        def two(self: Libdevice, arg0: Any, arg1: Any) -> TensorValue:
            return self._rounded(operation, direction, (arg0, arg1))

        def three(self: Libdevice, arg0: Any, arg1: Any, arg2: Any) -> TensorValue:
            return self._rounded(operation, direction, (arg0, arg1, arg2))

        return (one, two, three)[OPERATIONS[operation] - 1]

    def conversion(name: str, direction: str) -> Callable[..., Any]:
        return lambda self, arg0: self._converted(name, direction, arg0)

    methods: dict[str, Any] = {name: unary(name, function) for name, function in UNARY.items()}
    methods |= {name: binary(name, function) for name, function in BINARY.items()}
    methods |= {name: unary(name, function, t.int1) for name, function in PREDICATES.items()}
    methods |= {name: unary(name, f, integer=kind) for name, (f, kind) in TO_INTEGER.items()}
    for direction in DIRECTIONS:
        methods |= {f"{name}_{direction}": rounded(name, direction) for name in OPERATIONS}
        converts = (n for n in CONVERSIONS if direction == "rn" or n not in _EXACT)
        methods |= {f"{name}_{direction}": conversion(name, direction) for name in converts}
    for name, method in methods.items():
        setattr(Libdevice, f"libdevice_{name}", method)


_install_tables()
