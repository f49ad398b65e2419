"""C's mathematical functions by libdevice's names: `tl.extra.libdevice.tanh(x)`.

All take floats (or what promotes to floats) and compute in fp32 or fp64. Also found as
`tl.extra.cuda.libdevice`, `tl.math` and `tl.libdevice`.
"""

from __future__ import annotations

from typing import Any

from tilewright.language.builtin import builtin

_ONE = {
    "acos": "Arc cosine.", "acosh": "Inverse hyperbolic cosine.", "asin": "Arc sine.",
    "asinh": "Inverse hyperbolic sine.", "atan": "Arc tangent.",
    "atanh": "Inverse hyperbolic tangent.", "cbrt": "Cube root.",
    "ceil": "Smallest whole number not below x.", "cos": "Cosine.", "cosh": "Hyperbolic cosine.",
    "cospi": "cos(pi x).", "erf": "Error function.", "erfc": "1 - erf(x).", "exp": "e ** x.",
    "exp10": "10 ** x.", "exp2": "2 ** x.", "expm1": "exp(x) - 1.", "fabs": "Absolute value.",
    "abs": "Absolute value.", "floor": "Largest whole number not above x.",
    "j0": "Bessel function of the first kind, order 0.",
    "j1": "Bessel function of the first kind, order 1.", "lgamma": "log |gamma(x)|.",
    "log": "Natural logarithm.", "log10": "Logarithm to base 10.", "log1p": "log(1 + x).",
    "log2": "Logarithm to base 2.", "logb": "Exponent of x, as a float.",
    "nearbyint": "Nearest whole number, ties to even.", "normcdf": "Normal distribution function.",
    "rcbrt": "1 / cbrt(x).", "rcp_rn": "1 / x.", "rint": "Nearest whole number, ties to even.",
    "round": "Nearest whole number, ties away from zero.", "rsqrt": "1 / sqrt(x).",
    "rsqrt_rn": "1 / sqrt(x).", "saturatef": "x limited to [0, 1].",
    "signbit": "Whether the sign bit is set.", "sin": "Sine.", "sinh": "Hyperbolic sine.",
    "sinpi": "sin(pi x).", "sqrt": "Square root.", "sqrt_rn": "Square root.", "tan": "Tangent.",
    "tanh": "Hyperbolic tangent.", "tgamma": "Gamma function.", "trunc": "x without its fraction.",
    "y0": "Bessel function of the second kind, order 0.",
    "y1": "Bessel function of the second kind, order 1.", "isnan": "Whether x is NaN.",
    "isinf": "Whether x is infinite.", "isfinited": "Whether x is finite.",
    "isfinite": "Whether x is finite.", "finitef": "Whether x is finite.",
    "llrint": "Nearest int64, ties to even.", "llround": "Nearest int64, ties away from zero.",
    "float2int_rn": "Nearest int32, ties to even.", "float2int_rd": "floor(x) as int32.",
    "float2int_ru": "ceil(x) as int32.", "float2int_rz": "trunc(x) as int32.",
    "fast_sinf": "Sine.", "fast_cosf": "Cosine.", "fast_tanf": "Tangent.",
    "fast_tanhf": "Hyperbolic tangent.", "fast_expf": "e ** x.", "fast_logf": "Natural logarithm.",
    "fast_log2f": "Logarithm to base 2.", "fast_log10f": "Logarithm to base 10.",
    "popc": "How many bits are set.", "clz": "How many bits above the highest set one are not set.",
    "ffs": "Place of the lowest bit set, counted from 1; 0 of 0.", "brev": "Bits in reverse order.",
    "float_as_int": "Bits of an fp32 as int32.", "float_as_uint": "Bits of an fp32 as uint32.",
    "int_as_float": "fp32 of these bits.", "uint_as_float": "fp32 of these bits.",
    "double_as_longlong": "Bits of an fp64 as int64.", "longlong_as_double": "fp64 of these bits.",
}  # fmt: skip
_TWO = {
    "atan2": "Angle of the point (arg1, arg0).", "copysign": "arg0 with the sign of arg1.",
    "div_rn": "arg0 / arg1.", "div_rz": "arg0 / arg1 in fp32, rounded towards zero.",
    "fast_dividef": "arg0 / arg1.", "fast_powf": "arg0 ** arg1.", "fdim": "max(arg0 - arg1, 0).",
    "fmax": "The larger; a NaN loses.", "fmin": "The smaller; a NaN loses.",
    "fmod": "Remainder with the sign of arg0.", "hypot": "sqrt(arg0**2 + arg1**2).",
    "max": "The larger of two.", "min": "The smaller of two.",
    "mulhi": "High half of the product of unsigned integers.",
    "nextafter": "The float next to arg0 towards arg1.", "pow": "arg0 ** arg1, which may be integers.",
    "powf": "arg0 ** arg1.", "remainder": "IEEE remainder.",
    "umulhi": "High half of the product of unsigned integers.",
}  # fmt: skip


def _one(name: str, text: str) -> Any:
    def function(arg0: Any) -> Any: ...

    function.__name__, function.__qualname__, function.__doc__ = name, name, text
    return builtin(f"libdevice_{name}")(function)


def _two(name: str, text: str) -> Any:
    def function(arg0: Any, arg1: Any) -> Any: ...

    function.__name__, function.__qualname__, function.__doc__ = name, name, text
    return builtin(f"libdevice_{name}")(function)


@builtin("libdevice_fma")
def fma(arg0: Any, arg1: Any, arg2: Any) -> Any:
    """`arg0 * arg1 + arg2`, rounded once."""


globals().update({name: _one(name, text) for name, text in _ONE.items()})
globals().update({name: _two(name, text) for name, text in _TWO.items()})

__all__ = [*_ONE, *_TWO, "fma"]  # pyright: ignore[reportUnsupportedDunderAll]
