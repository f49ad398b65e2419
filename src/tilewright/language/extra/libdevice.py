"""C's mathematical functions by libdevice's names: `tl.extra.libdevice.tanh(x)`.

All take floats (or what promotes to floats) and compute in fp32 or fp64. Also found as
`tl.extra.cuda.libdevice`, `tl.math` and `tl.libdevice`.
"""

from __future__ import annotations

from typing import Any

from tilewright.language.builtin import stub_like

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
    "rcbrt": "1 / cbrt(x).", "rint": "Nearest whole number, ties to even.",
    "round": "Nearest whole number, ties away from zero.", "rsqrt": "1 / sqrt(x).",
    "rsqrt_rn": "1 / sqrt(x).", "saturatef": "x limited to [0, 1].",
    "signbit": "1 if the sign bit is set (also of -0.0 and NaN), else 0.", "sin": "Sine.", "sinh": "Hyperbolic sine.",
    "sinpi": "sin(pi x).", "sqrt": "Square root.", "tan": "Tangent.",
    "tanh": "Hyperbolic tangent.", "tgamma": "Gamma function.", "trunc": "x without its fraction.",
    "y0": "Bessel function of the second kind, order 0.",
    "y1": "Bessel function of the second kind, order 1.", "isnan": "Whether x is NaN.",
    "isinf": "Whether x is infinite.", "isfinited": "Whether x is finite.",
    "isfinite": "Whether x is finite.", "finitef": "Whether x is finite.",
    "llrint": "Nearest int64, ties to even.", "llround": "Nearest int64, ties away from zero.",
    "fast_sinf": "Sine.", "fast_cosf": "Cosine.", "fast_tanf": "Tangent.",
    "fast_tanhf": "Hyperbolic tangent.", "fast_expf": "e ** x.", "fast_logf": "Natural logarithm.",
    "fast_log2f": "Logarithm to base 2.", "fast_log10f": "Logarithm to base 10.",
    "popc": "How many bits are set.", "clz": "How many leading bits are not set; of 0 the width.",
    "ffs": "Place of the lowest bit set, counted from 1; 0 of 0.", "brev": "Bits in reverse order.",
    "float_as_int": "Bits of an fp32 as int32.", "float_as_uint": "Bits of an fp32 as uint32.",
    "int_as_float": "fp32 of these bits.", "uint_as_float": "fp32 of these bits.",
    "double_as_longlong": "Bits of an fp64 as int64.", "longlong_as_double": "fp64 of these bits.",
    "erfinv": "The x with erf(x) = arg0.", "erfcinv": "The x with erfc(x) = arg0.",
    "normcdfinv": "The x with normcdf(x) = arg0.", "erfcx": "exp(x**2) erfc(x).",
    "cyl_bessel_i0": "Modified Bessel function of the first kind, order 0.",
    "cyl_bessel_i1": "Modified Bessel function of the first kind, order 1.",
    "ilogb": "Exponent of x, as int32.", "fast_exp10f": "10 ** x.",
    "double2hiint": "High 32 bits of an fp64.", "double2loint": "Low 32 bits of an fp64.",
    "rcp64h": "1 / x in the high 32 bits of an fp64; the low ones are 0.",
}  # fmt: skip
_TWO = {
    "atan2": "Angle of the point (arg1, arg0).", "copysign": "arg0 with the sign of arg1.",
    "fast_dividef": "arg0 / arg1.", "fast_powf": "arg0 ** arg1.", "fdim": "max(arg0 - arg1, 0).",
    "fmax": "The larger; a NaN loses.", "fmin": "The smaller; a NaN loses.",
    "fmod": "Remainder with the sign of arg0.", "hypot": "sqrt(arg0**2 + arg1**2).",
    "max": "The larger of two.", "min": "The smaller of two.",
    "mulhi": "High half of the product of integers, signed or unsigned.",
    "nextafter": "The float next to arg0 towards arg1.", "pow": "arg0 ** arg1, which may be integers.",
    "powf": "arg0 ** arg1.", "remainder": "IEEE remainder.",
    "umulhi": "High half of the product of unsigned integers.",
    "ldexp": "arg0 * 2 ** arg1, of an integer arg1, rounded once.", "scalbn": "arg0 * 2 ** arg1, of an integer arg1.",
    "rhypot": "1 / sqrt(arg0**2 + arg1**2).", "hadd": "(arg0 + arg1) >> 1 without overflow.",
    "rhadd": "(arg0 + arg1 + 1) >> 1 without overflow.",
    "mul24": "Low 32 bits of the product of the low 24 bits of two integers.",
    "hiloint2double": "fp64 of the bits (arg0, arg1), each 32.",
}  # fmt: skip


_THREE = {
    "norm3d": "Length of a vector of three numbers, without overflow on the way.",
    "rnorm3d": "1 / norm3d.", "sad": "|arg0 - arg1| + arg2 of 32-bit integers; arg2 and the result are uint32.",
    "fma": "`arg0 * arg1 + arg2`, rounded once.",
    "byte_perm": "Four of the eight bytes of (arg1, arg0), chosen by the low three bits of arg2's half bytes.",
}  # fmt: skip
_FOUR = {
    "norm4d": "Length of a vector of four numbers, without overflow on the way.", "rnorm4d": "1 / norm4d.",
}  # fmt: skip
_ROUNDED = {
    "rn": "rounded to nearest, never fused", "rz": "rounded towards zero",
    "rd": "rounded down", "ru": "rounded up",
}  # fmt: skip
_INTEGERS = {"int": "int32", "uint": "uint32", "ll": "int64", "ull": "uint64"}
for _suffix, _how in _ROUNDED.items():
    for _name, _text in {"sqrt": "Square root", "rcp": "1 / x"}.items():
        _ONE[f"{_name}_{_suffix}"] = f"{_text}, {_how}."
    for _name, _text in {"add": "+", "sub": "-", "mul": "*", "div": "/"}.items():
        _TWO[f"{_name}_{_suffix}"] = f"arg0 {_text} arg1, {_how}."
    _THREE[f"fma_{_suffix}"] = f"arg0 * arg1 + arg2, {_how}."
    for _name, _text in _INTEGERS.items():
        for _source in ("float", "double"):
            _ONE[f"{_source}2{_name}_{_suffix}"] = f"x as {_text}, {_how}."
            if not (_name.endswith("int") and _source == "double") or _suffix == "rn":
                _ONE[f"{_name}2{_source}_{_suffix}"] = f"An {_text} as {_source}, {_how}."
    _ONE[f"double2float_{_suffix}"] = f"fp64 as fp32, {_how}."


def _one(arg0: Any) -> Any: ...
def _two(arg0: Any, arg1: Any) -> Any: ...
def _three(arg0: Any, arg1: Any, arg2: Any) -> Any: ...
def _four(arg0: Any, arg1: Any, arg2: Any, arg3: Any) -> Any: ...


_STUBS = {
    name: stub_like(model, name, text, f"libdevice_{name}")
    for model, texts in ((_one, _ONE), (_two, _TWO), (_three, _THREE), (_four, _FOUR))
    for name, text in texts.items()
}
globals().update(_STUBS)

__all__ = list(_STUBS)  # pyright: ignore[reportUnsupportedDunderAll]
