"""Epilogues of a matmul: `tilewright.epilogue.bias(x)`, … for `matmul(…, epilogue=[…])`."""

from __future__ import annotations

from numbers import Real
from typing import Any

from tilewright.errors import LaunchError
from tilewright.generator.contraction import STEPS, WITH_NUMBER, Part
from tilewright.language.kernel_function import KernelFunction
from tilewright.runtime.specialize import element_type, is_array
from tilewright.runtime.tracebacks import caller_location


class epilogue:
    """Steps that `matmul` applies to the accumulator in registers, in the given order."""

    @staticmethod
    def bias(vector: Any, axis: str = "n") -> Part:
        """Add a vector: an element a column (`axis="n"`, as in a linear layer), or a row ("m").

        `vector` may have batch axes in front.
        """
        if axis not in ("m", "n"):
            raise _wrong(f"bias: axis {axis!r} is neither 'm' nor 'n'")
        return Part("add", (_array(vector, "bias"),), axis=axis)

    @staticmethod
    def residual(array: Any) -> Part:
        """Add an array that broadcasts to the result."""
        return Part("add", (_array(array, "residual"),))

    @staticmethod
    def scale(factor: Any, axis: str = "") -> Part:
        """Multiply by a number, or by an array: a vector with `axis` "m" or "n", else broadcast."""
        if axis not in ("", "m", "n"):
            raise _wrong(f"scale: axis {axis!r} is neither 'm' nor 'n'")
        if is_array(factor):
            return Part("multiply", (factor,), axis=axis)
        return Part("scale", number=_number(factor, "scale"))

    @staticmethod
    def relu() -> Part:
        """max(x, 0); NaN stays."""
        return Part("relu")

    @staticmethod
    def leaky_relu(slope: float = 0.01) -> Part:
        """x where x >= 0, else slope * x."""
        return Part("leaky_relu", number=_number(slope, "leaky_relu"))

    @staticmethod
    def gelu(approximate: str = "none") -> Part:
        """x Φ(x), by erf, or with `approximate="tanh"` by tanh."""
        if approximate not in ("none", "tanh"):
            raise _wrong(f"gelu: approximate={approximate!r} is neither 'none' nor 'tanh'")
        return Part("gelu_tanh" if approximate == "tanh" else "gelu")

    @staticmethod
    def silu() -> Part:
        """x / (1 + exp(-x))."""
        return Part("silu")

    @staticmethod
    def sigmoid() -> Part:
        """1 / (1 + exp(-x))."""
        return Part("sigmoid")

    @staticmethod
    def tanh() -> Part:
        """Hyperbolic tangent."""
        return Part("tanh")

    @staticmethod
    def cast(kind: Any) -> Part:
        """Round to a dtype here (the result is rounded to its own in any case)."""
        return Part("cast", dtype=element_type(kind))

    @staticmethod
    def apply(function: Any, *arrays: Any) -> Part:
        """Any element-wise function: a jit function of the accumulator and of tiles of `arrays`."""
        if not isinstance(function, KernelFunction):
            raise _wrong(
                f"epilogue: {function!r} is not a jit function", "decorate it with @tilewright.jit"
            )
        return Part("function", tuple(_array(x, "apply") for x in arrays), function=function)


def _array(value: Any, what: str) -> Any:
    if not is_array(value):
        raise _wrong(f"epilogue {what}: expected an array, got a {type(value).__name__}")
    return value


def _number(value: Any, what: str) -> float:
    if not isinstance(value, Real):
        raise _wrong(f"epilogue {what}: a {type(value).__name__} is not a number")
    return float(value)


def _wrong(text: str, help: str = "") -> LaunchError:
    """An error in the line of the user's that is running."""
    return LaunchError(text, help=help, location=caller_location())


def parts_of(given: Any) -> tuple[Part, ...]:
    """The steps of an `epilogue=` argument: one or several of Part, name, jit function.

    Raises LaunchError for anything else.
    """
    if given is None:
        return ()
    items = given if isinstance(given, (list, tuple)) else (given,)
    return tuple(_part(item) for item in items)


def _part(item: Any) -> Part:
    if isinstance(item, Part):
        return item
    named = _NAMED.get(item) if isinstance(item, str) else None
    if named is not None:
        return named
    if isinstance(item, KernelFunction):
        return Part("function", function=item)
    raise LaunchError(
        f"epilogue: {item!r} is not an epilogue step",
        help=f"use {', '.join(map(repr, sorted(_NAMED)))}, a jit function, or "
        "tilewright.epilogue.bias(x) and its like",
    )


#: steps that need nothing but their name
_NAMED = {
    name: Part(name)
    for name, count in STEPS.items()
    if count == 0 and name not in (*WITH_NUMBER, "cast")
} | {"leaky_relu": epilogue.leaky_relu()}
