"""Epilogues of matmuls on the accumulator in registers: scaling, α and β, biases, activations.

Epilogues compute in fp32 (fp64 for fp64). Integer accumulators stay integers as long as the steps preserve integers
(adding integers, ReLU). The result is rounded once, to the output's type, or at a "cast" step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tilewright import dtypes
from tilewright.errors import KernelTypeError, SourceLocation
from tilewright.generator.contraction import Contraction, Step
from tilewright.generator.elementwise import ElementwiseBody
from tilewright.generator.tracing import Tracer
from tilewright.semantics.values import TensorValue, type_text

#: a `TensorValue`; its operators are defined at run time
Tile = Any

#: log2 of the normal distribution's upper tail as a polynomial of x in [0, 5.5] (`scripts/fit_math.py`);
#: from there to `_TAIL_END` it falls on, to 2^-50
_TAIL = (
    -9.999998965e-01, -1.151110941e00, -4.591531576e-01, -5.269109279e-02, 7.389253056e-03,
    -4.212258533e-04, -5.390632360e-05, 8.470423581e-06,
)  # fmt: skip
_TAIL_END = 10.0


class Epilogue:
    """Applies α, β and the steps of a contraction to a tile.

    `extras` has a value for each of the contraction's extras: tiles of two dimensions that broadcast to
    the tile, or scalars. `number(name)` gives a scalar argument.
    """

    def __init__(
        self, tracer: Tracer, contraction: Contraction, number: Callable[[str], Any]
    ) -> None:
        self.tracer, self.s = tracer, tracer.semantics
        self.contraction = contraction
        self.compute = contraction.compute
        self.number = number

    def apply(self, accumulator: Tile, addend: Tile | None, extras: Sequence[Tile]) -> Tile:
        """The tile to be stored, in the output's type."""
        c, x = self.contraction, accumulator
        if x.dtype.is_floating() and (c.has_alpha or addend is not None or c.epilogue):
            x = self.s.convert(x, self.compute)
        if c.has_alpha:
            x = self._float(x) * self.number("alpha")
        if addend is not None:
            x = self._float(x) + self._float(addend) * self.number("beta")
        rest = list(extras)
        for index, step in enumerate(c.epilogue):
            count = len(step.extras)
            x = self._step(step, index, x, rest[:count])
            del rest[:count]
        return self.s.convert(x, c.out.dtype)

    def _float(self, x: Tile) -> Tile:
        return self.s.convert(x, self.compute)

    def _like(self, extra: Tile, x: Tile) -> Tile:
        """An extra tensor converted to the type of `x`."""
        both = x.dtype.is_int() and extra.dtype.is_int()
        return extra if both else self._float(extra)

    def _step(self, step: Step, index: int, x: Tile, extras: list[Tile]) -> Tile:
        if step.kind == "function":
            return self._function(step, x, extras)
        if step.kind == "cast":
            return self.s.convert(x, step.dtype)
        if step.kind == "relu" and x.dtype.is_int():
            return self.s.maximum(x, 0)
        if step.kind in ("add", "multiply"):
            other = self._like(extras[0], x)
            x = x if other.dtype.is_int() else self._float(x)
            return x + other if step.kind == "add" else x * other
        value = self._float(x)
        if step.has_number:
            number = self.number(f"number{index}")
            scaled = value * number
            return scaled if step.kind == "scale" else self.s.where(value >= 0.0, value, scaled)
        return getattr(self, f"_{step.kind}")(value)

    def _relu(self, x: Tile) -> Tile:
        return self.s.maximum(x, 0.0, "ALL")

    def _gelu(self, x: Tile) -> Tile:
        """x Φ(x) = max(x, 0) - |x| Φ(-|x|), in single precision with Φ(-|x|) = 2^p(|x|).

        The error is at most 9e-8 |x| with a correctly rounded 2^p, as with the usual form by erf, and 2e-7 |x| with a
        GPU's 2^p, in a third of erf's instructions and with fewer registers: one polynomial for all x, no
        cancellation. NaN is preserved, infinity gives infinity, minus infinity less than 1e-14 in magnitude.
        """
        if x.dtype.is_fp64():
            return x * 0.5 * (self.s.erf(x * math.sqrt(0.5)) + 1.0)
        size = self.s.minimum(self.s.abs(x), _TAIL_END)
        power: Tile = _TAIL[-1]
        for coefficient in _TAIL[-2::-1]:
            power = size * power + coefficient
        return self._relu(x) - size * self.s.exp2(power)

    def _gelu_tanh(self, x: Tile) -> Tile:
        # (1 + tanh u) / 2 = 1 / (1 + exp(-2u)), which is cheaper
        first = -2.0 * math.sqrt(2.0 / math.pi) / math.log(2)
        return self.s.divided_by_1_plus(x, x * (x * x * (0.044715 * first) + first), "exp2")

    def _sigmoid(self, x: Tile) -> Tile:
        return 1.0 / (self.s.exp(-x) + 1.0)

    def _silu(self, x: Tile) -> Tile:
        return self.s.mul_sigmoid(x, x)

    def _tanh(self, x: Tile) -> Tile:
        return self.s.tanh(x)

    def _function(self, step: Step, x: Tile, extras: list[Tile]) -> Tile:
        if isinstance(step.function, ElementwiseBody):
            return step.function.emit(self.tracer, [x, *extras])
        name = step.function.fn.__name__
        try:
            step.function.signature_of_fn.bind(x, *extras)
        except TypeError as error:
            raise KernelTypeError(
                f"epilogue {name} takes the accumulator and {len(extras)} arrays: {error}",
                help="tilewright.epilogue.apply(function, *arrays) passes arrays",
                location=_definition(step.function),
            ) from None
        value = self.tracer.user_function(step.function, [x, *extras])
        if not isinstance(value, TensorValue) or not (
            value.dtype.is_floating() or value.dtype.is_int()
        ):
            raise KernelTypeError(
                f"epilogue {name} returns {'nothing' if value is None else value!r}, not a tile",
                help="return a tile of numbers with the shape of the first argument",
                location=_definition(step.function),
            )
        shape = value.shape
        if len(shape) > 2 or any(
            a not in (1, b) for a, b in zip(shape[::-1], x.shape[::-1], strict=False)
        ):
            raise KernelTypeError(
                f"epilogue {name} returns {type_text(value.type)} for a tile of {type_text(x.type)}",
                help="an epilogue is element-wise: its result has the shape of its first argument",
                location=_definition(step.function),
            )
        if value.dtype.is_bool():
            value = self.s.convert(value, dtypes.int32)
        return self.s.broadcast_shape(value, x.shape)


def _definition(function: Any) -> Any:
    return SourceLocation(
        function.file, function.first_line, function.column_offset, function=function.fn.__name__
    )
