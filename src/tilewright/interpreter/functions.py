"""Functions of floats: `math.*` and `tile.libm`, computed in fp64 and rounded once; inline assembly is rejected."""

from __future__ import annotations

import ctypes
import ctypes.util
import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from tilewright.errors import InterpreterError
from tilewright.interpreter import exact
from tilewright.interpreter.arrays import numpy_dtype
from tilewright.interpreter.numbers import to_narrow, wide
from tilewright.interpreter.registry import Attributes, Kinds, implements


def _lanewise(function: Callable[..., float]) -> Callable[..., Any]:
    """A scalar function on arrays; what it cannot do is NaN or an infinity."""

    def safe(*values: float) -> float:
        try:
            return float(function(*values))
        except OverflowError:
            return math.inf
        except ValueError:
            return math.nan

    return np.vectorize(safe, otypes=[np.float64])


def _of_c(name: str) -> Callable[..., Any]:
    """A function of C's math library that neither Python nor NumPy has."""

    def function(x: np.ndarray) -> Any:
        library = ctypes.CDLL(ctypes.util.find_library("m"))
        found = getattr(library, name)
        found.restype, found.argtypes = ctypes.c_double, [ctypes.c_double]
        return np.vectorize(found, otypes=[np.float64])(x)

    return function


def _round_half_away(x: np.ndarray) -> np.ndarray:
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "expm1": np.expm1, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh,
    "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "cbrt": np.cbrt, "sqrt": np.sqrt, "rsqrt": lambda x: 1.0 / np.sqrt(x), "fabs": np.abs,
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint,
    "nearbyint": np.rint, "round": _round_half_away, "pow": np.power, "atan2": np.arctan2,
    "fmod": np.fmod, "hypot": np.hypot, "copysign": np.copysign, "nextafter": np.nextafter,
    "fdim": lambda x, y: np.where(x > y, x - y, np.where(np.isnan(x) | np.isnan(y), np.nan, 0.0)),
    "remainder": _lanewise(math.remainder), "erf": _lanewise(math.erf),
    "erfc": _lanewise(math.erfc), "tgamma": _lanewise(math.gamma),
    "lgamma": _lanewise(math.lgamma),
    **{name: _of_c(name) for name in ("j0", "j1", "y0", "y1")},
    "logb": lambda x: np.where(x == 0, -np.inf, np.frexp(x)[1] - 1.0),
    "div_rn": np.divide, "sqrt_rn": np.sqrt, "divide": np.divide, "exp10": lambda x: np.power(10.0, x),
}  # fmt: skip
_PREDICATES: dict[str, Callable[..., Any]] = {
    "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite,
}  # fmt: skip


def _rounded(kinds: Kinds, value: Any) -> list[Any]:
    kind = numpy_dtype(kinds[0])
    array = np.asarray(value, np.float64)
    with np.errstate(all="ignore"):
        return [(to_narrow(array, kind) if kind.itemsize < 4 else array.astype(kind))[()]]


_EXACT = {
    f"{operation}_{direction}": exact.meaning(f"{operation}_{direction}")
    for operation in exact.OPERATIONS
    for direction in exact.DIRECTIONS
}


def evaluate(name: str, kinds: Kinds, values: Sequence[Any]) -> list[Any]:
    """C's `name` of floats, in the type of the result."""
    if name in _EXACT and name not in _FUNCTIONS:
        return [_EXACT[name](*values)[()]]
    function = _FUNCTIONS.get(name.removeprefix("fast_"))
    if function is None:
        raise InterpreterError(f"the interpreter does not know the function {name}")
    if name == "nextafter":  # a neighbor in the type itself
        return [np.nextafter(*values).astype(numpy_dtype(kinds[0]))[()]]
    with np.errstate(all="ignore"):
        return _rounded(kinds, function(*(wide(v).astype(np.float64) for v in values)))


def _register(ir_name: str, c_name: str) -> None:
    def meaning(ctx: Any, attributes: Any, kinds: Kinds, *values: Any) -> Any:
        return evaluate(c_name, kinds, values)

    implements(ir_name)(meaning)


for _c_name in _FUNCTIONS:
    _ir_name = {"pow": "powf", "fabs": "absf", "rint": "roundeven"}.get(_c_name, _c_name)
    _register(f"math.{_ir_name}", _c_name)


@implements("math.fma")
def _fma(ctx: Any, attributes: Any, kinds: Kinds, a: Any, b: Any, c: Any) -> Any:
    x, y, z = (wide(v) for v in (a, b, c))
    with np.errstate(all="ignore"):
        if x.dtype == np.float64:
            return [_EXACT["fma_rn"](x, y, z)[()]]
        return _rounded(kinds, x.astype(np.float64) * y.astype(np.float64) + z.astype(np.float64))


@implements("math.absi")
def _absolute(ctx: Any, attributes: Any, kinds: Kinds, value: Any) -> Any:
    with np.errstate(all="ignore"):
        return [np.abs(np.asarray(value))[()]]


@implements("tile.mul_sigmoid")
def _gate(ctx: Any, attributes: Any, kinds: Kinds, value: Any, power: Any) -> Any:
    with np.errstate(all="ignore"):
        rest = _FUNCTIONS[attributes["function"]](wide(power).astype(np.float64))
        return _rounded(kinds, wide(value) / (1.0 + rest))


@implements("tile.libm")
def _libm(ctx: Any, attributes: Attributes, kinds: Kinds, *values: Any) -> Any:
    name = attributes["function"]
    if name in _PREDICATES:
        return [_PREDICATES[name](wide(values[0]))[()]]
    return evaluate(name, kinds, values)


@implements("tile.inline_asm")
def inline_asm(ctx: Any, attributes: Any, result_types: Any, *operands: Any) -> NoReturn:
    """Raises InterpreterError."""
    raise InterpreterError(
        "tl.inline_asm_elementwise holds PTX, which only NVIDIA GPUs run",
        help="write the operation with tl functions (tl.extra.libdevice has most of C's math)",
    )
