"""Element-wise functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tilewright import dtypes as t
from tilewright.dtypes import constexpr, unwrap_constexpr
from tilewright.errors import KernelTypeError
from tilewright.semantics.named import named
from tilewright.semantics.promotion import promote, promote_with_number
from tilewright.semantics.reductions import Reductions, extreme_operation
from tilewright.semantics.values import TensorValue, describe, evaluate, type_text

#: MLIR's `math` dialect, by C name (libdevice's name without its `f` suffix)
_MATH_OPS = {
    "exp": "math.exp", "exp2": "math.exp2", "log": "math.log", "log2": "math.log2",
    "sin": "math.sin", "cos": "math.cos", "sqrt": "math.sqrt", "rsqrt": "math.rsqrt",
    "erf": "math.erf", "tanh": "math.tanh", "floor": "math.floor", "ceil": "math.ceil",
    "trunc": "math.trunc", "rint": "math.roundeven", "nearbyint": "math.roundeven",
    "fabs": "math.absf", "pow": "math.powf", "fma": "math.fma", "fmod": "tile.remf",
}  # fmt: skip


def _unary(function: str, what: str = "") -> Callable[[Any, Any], TensorValue]:
    """The method of a function of one float by its C name."""

    def method(self: Any, x: Any) -> TensorValue:
        return self.float_function(function, (x,), what or f"tl.{function}")

    return method


class Mathematics(Reductions):
    """`exp` … `softmax`. fp16, bf16 and fp8 compute in fp32 and round once."""

    # ---- how they are made ---------------------------------------------------------------------

    def float_function(self, name: str, args: Any, what: str, result: Any = None) -> TensorValue:
        """A floating function by its C name, on arguments promoted to one float type.

        `result` is the element type when it is not that of the arguments.
        """
        x, *rest = self._float_arguments(args, what)
        kind = x.dtype
        wide = t.float64 if kind.is_fp64() else t.float32
        values = [self.convert(v, wide) for v in (x, *rest)]
        target = (result or wide).with_shape(x.shape)
        op = _MATH_OPS.get(name)
        if op is not None:
            return self.convert(self.emit(op, values, target), kind)
        value = self.emit("tile.libm", values, target, function=name)
        return value if result is not None else self.convert(value, kind)

    def _float_arguments(self, args: Any, what: str) -> list[TensorValue]:
        plain = [unwrap_constexpr(a) for a in args]
        for value in plain:
            kind = value.dtype if isinstance(value, TensorValue) else None
            if kind is not None and not kind.is_floating():
                raise KernelTypeError(
                    f"{what} needs floats, got {describe(value)}",
                    help="convert it with .to(tl.float32)",
                )
        if not any(isinstance(v, TensorValue) for v in plain):
            plain = [float(v) if isinstance(v, int) else v for v in plain]
        values = self._promoted(plain, what)
        return self.broadcast_all(values, what)

    def _promoted(self, values: list[Any], what: str) -> list[TensorValue]:
        """All values in the type that pairwise promotion leads to."""
        if not any(isinstance(v, TensorValue) for v in values):
            values = [self.to_tensor(values[0]), *values[1:]]
        kinds = [v.dtype for v in values if isinstance(v, TensorValue)]
        kind = functools.reduce(promote, kinds)
        for value in values:
            if not isinstance(value, TensorValue):
                if not isinstance(value, bool | int | float):
                    raise KernelTypeError(f"{what} needs numbers, got {describe(value)}")
                kind = promote_with_number(kind, value, False)
        return [self._number_as(v, kind) for v in values]

    exp = _unary("exp")
    exp2 = _unary("exp2")
    log = _unary("log")
    log2 = _unary("log2")
    sin = _unary("sin")
    cos = _unary("cos")
    sqrt = _unary("sqrt")
    sqrt_rn = _unary("sqrt_rn")
    rsqrt = _unary("rsqrt")
    erf = _unary("erf")
    tanh = _unary("tanh")
    floor = _unary("floor")
    ceil = _unary("ceil")

    def abs(self, x: Any) -> TensorValue:
        value = self.to_tensor(x)
        kind = value.dtype
        if kind.is_ptr():
            raise KernelTypeError(f"tl.abs needs numbers, got {type_text(value.type)}")
        if kind.is_floating():
            if kind.is_fp8():
                return self.convert(self.abs(self.convert(value, t.float32)), kind)
            return self.emit("math.absf", [value], value.type)
        return value if kind.is_int_unsigned() else self.emit("math.absi", [value], value.type)

    def fma(self, x: Any, y: Any, z: Any) -> TensorValue:
        a, b, c = self._float_arguments([named(unwrap_constexpr(v)) for v in (x, y, z)], "tl.fma")
        if a.dtype.is_fp16() or a.dtype.is_bf16():  # one rounding, and pairs have an instruction
            return self.emit("math.fma", [a, b, c], a.type)
        return self.float_function("fma", (a, b, c), "tl.fma")

    def fdiv(self, x: Any, y: Any, ieee_rounding: Any = False, approx: Any = False) -> TensorValue:
        a, b = self._float_arguments((x, y), "tl.fdiv")
        kind = a.dtype
        wide = t.float64 if kind.is_fp64() else t.float32
        a, b = self.convert(a, wide), self.convert(b, wide)
        return self.convert(self.emit("arith.divf", [a, b], a.type), kind)

    def div_rn(self, x: Any, y: Any) -> TensorValue:
        return self.float_function("div_rn", (x, y), "tl.div_rn")

    def umulhi(self, x: Any, y: Any) -> TensorValue:
        a, b = self.promote_pair(x, y, "tl.umulhi", typed=True)
        if not a.dtype.is_int() or a.dtype.primitive_bitwidth < 32:
            raise KernelTypeError(
                f"tl.umulhi needs 32- or 64-bit integers, got {describe(x)} and {describe(y)}"
            )
        return self.emit("tile.umulhi", [a, b], a.type)

    # ---- choosing ------------------------------------------------------------------------------

    def maximum(self, x: Any, y: Any, propagate_nan: Any = None) -> TensorValue:
        return self._choose(">", x, y, propagate_nan, "tl.maximum")

    def minimum(self, x: Any, y: Any, propagate_nan: Any = None) -> TensorValue:
        return self._choose("<", x, y, propagate_nan, "tl.minimum")

    def _nan_wins(self, option: Any) -> bool:
        option = unwrap_constexpr(option)
        name = getattr(option, "name", option)
        if name not in (None, "NONE", "ALL"):
            raise KernelTypeError(
                f"propagate_nan is {describe(option)}", help="use tl.PropagateNan.ALL or NONE"
            )
        return name == "ALL"

    def _choose(self, symbol: str, x: Any, y: Any, propagate_nan: Any, what: str) -> TensorValue:
        x, y = self._bf16_as_fp32(x), self._bf16_as_fp32(y)
        a, b = self.promote_pair(x, y, what, typed=True)
        name = extreme_operation(symbol, a.dtype, self._nan_wins(propagate_nan))
        return self._lanewise(name, a, b)

    def clamp(self, x: Any, min: Any, max: Any, propagate_nan: Any = None) -> TensorValue:
        low = self.maximum(x, min, propagate_nan)
        return self.minimum(low, max, propagate_nan)

    # ---- built from the above ------------------------------------------------------------------

    def sigmoid(self, x: Any) -> TensorValue:
        value = self._float_arguments((x,), "tl.sigmoid")[0]
        kind = value.dtype
        wide = self._in_wide(value)
        decay = self.exp(-wide)
        return self.convert(1.0 / (1.0 + decay), kind)

    def mul_sigmoid(self, x: Any, y: Any) -> TensorValue:
        a, b = self._float_arguments((x, y), "tl.math.mul_sigmoid")
        power = -self._in_wide(b)
        return self.convert(self._divided_by_1_plus(self._in_wide(a), power, "exp"), a.dtype)

    def div_1p_exp2(self, x: Any, y: Any) -> TensorValue:
        a, b = self._float_arguments((x, y), "tl.math.div_1p_exp2")
        quotient = self._divided_by_1_plus(self._in_wide(a), self._in_wide(b), "exp2")
        return self.convert(quotient, a.dtype)

    def _divided_by_1_plus(self, x: TensorValue, power: TensorValue, function: str) -> TensorValue:
        """`x / (1 + function(power))` of fp32 or fp64, with `function` "exp" or "exp2"."""
        if x.dtype.is_fp64():
            decay = self.float_function(function, (power,), function)
            return x / (decay + 1.0)
        return self.emit("tile.mul_sigmoid", [x, power], x.type, function=function)

    def softmax(
        self, x: Any, dim: Any = None, keep_dims: Any = None, ieee_rounding: Any = False
    ) -> TensorValue:
        value = self.tile_argument(x, "tl.softmax")
        if not value.dtype.is_floating():
            raise KernelTypeError(f"tl.softmax needs floats, got {type_text(value.type)}")
        axis = 0 if unwrap_constexpr(dim) is None else dim
        wide = self._in_wide(value)
        shifted = wide - self.max(wide, axis, keep_dims=True)
        top = self.exp(shifted)
        return top / self.sum(top, axis, keep_dims=True)

    def next_power_of_2(self, n: Any) -> Any:
        value = self.known_int(n, "triton.next_power_of_2")
        rounded = 1 << max(value - 1, 0).bit_length()
        return constexpr(rounded) if isinstance(n, constexpr) else rounded

    def _fold_python(self, named: Any, plain: Any, args: tuple[Any, ...]) -> Any:
        if len(args) == 1:
            only = unwrap_constexpr(args[0])
            if isinstance(only, TensorValue):
                return only
            args = tuple(only)
        values = [unwrap_constexpr(a) for a in args]
        if not any(isinstance(v, TensorValue) for v in values):
            result = evaluate(f"{plain.__name__}{tuple(values)!r}", plain, values)
            return constexpr(result) if any(isinstance(a, constexpr) for a in args) else result
        result = values[0]
        for value in values[1:]:
            both = not (isinstance(result, TensorValue) or isinstance(value, TensorValue))
            result = plain((result, value)) if both else named(result, value)
        return result

    def python_min(self, *args: Any) -> Any:
        """`min(a, b, …)` in a kernel."""
        return self._fold_python(self.minimum, min, args)

    def python_max(self, *args: Any) -> Any:
        """`max(a, b, …)` in a kernel."""
        return self._fold_python(self.maximum, max, args)

    def python_abs(self, x: Any) -> Any:
        """`abs(x)` in a kernel."""
        value = unwrap_constexpr(x)
        return (
            self.abs(value)
            if isinstance(value, TensorValue)
            else evaluate(f"abs({value!r})", abs, value)
        )
