"""Element-wise functions. fp16, bf16 and fp8 compute in fp32 and round once (also `tl.math`)."""

from __future__ import annotations

import math as _math
from typing import Any

from tilewright.language.builtin import builtin, stub_like


def _one(x: Any) -> Any: ...
def _two(x: Any, y: Any, sanitize_overflow: Any = True) -> Any: ...


exp = stub_like(_one, "exp", "e to the power x.")
exp2 = stub_like(_one, "exp2", "2 to the power x.")
log = stub_like(_one, "log", "Natural logarithm.")
log2 = stub_like(_one, "log2", "Logarithm to base 2.")
sin = stub_like(_one, "sin", "Sine of radians.")
cos = stub_like(_one, "cos", "Cosine of radians.")
sqrt = stub_like(_one, "sqrt", "Square root.")
sqrt_rn = stub_like(_one, "sqrt_rn", "Square root, correctly rounded.")
rsqrt = stub_like(_one, "rsqrt", "1 / sqrt(x).")
erf = stub_like(_one, "erf", "Error function.")
tanh = stub_like(_one, "tanh", "Hyperbolic tangent.")
floor = stub_like(_one, "floor", "Largest whole number not above x, as a float.")
ceil = stub_like(_one, "ceil", "Smallest whole number not below x, as a float.")
abs = stub_like(_one, "abs", "Absolute value of integers or floats.")
sigmoid = stub_like(_one, "sigmoid", "1 / (1 + exp(-x)).")


@builtin()
def mul_sigmoid(x: Any, y: Any) -> Any:
    """`x * sigmoid(y)`, for which a GPU computes one reciprocal for two elements of fp32 (SiLU: `mul_sigmoid(x, x)`).

    The error is at most 4 ulp, or 2^-62 |x| where the sigmoid is that small.
    """


@builtin()
def div_1p_exp2(x: Any, y: Any) -> Any:
    """`x / (1 + 2 ** y)`, for which a GPU computes one reciprocal for two elements of fp32 (as `mul_sigmoid`).

    It is `x * sigmoid(-y * ln 2)` without the multiplication, for functions whose polynomial absorbs it.
    """


@builtin()
def softmax(x: Any, dim: Any = None, keep_dims: Any = None, ieee_rounding: Any = False) -> Any:
    """exp(x - max) / sum along `dim` (default 0), in the shape of `x`; fp32 for narrower floats."""


@builtin()
def fma(x: Any, y: Any, z: Any) -> Any:
    """`x * y + z`, rounded once."""


@builtin()
def fdiv(x: Any, y: Any, ieee_rounding: Any = False, approx: Any = False) -> Any:
    """`x / y` of floats, in their type."""


@builtin()
def div_rn(x: Any, y: Any) -> Any:
    """`x / y`, correctly rounded."""


@builtin()
def umulhi(x: Any, y: Any) -> Any:
    """High half of the double-width product of unsigned 32- or 64-bit integers."""


@builtin()
def maximum(x: Any, y: Any, propagate_nan: Any = None) -> Any:
    """The larger of two; a NaN loses unless `propagate_nan` is `tl.PropagateNan.ALL`. bf16 becomes fp32."""


@builtin()
def minimum(x: Any, y: Any, propagate_nan: Any = None) -> Any:
    """The smaller of two; a NaN loses unless `propagate_nan` is `tl.PropagateNan.ALL`. bf16 becomes fp32."""


@builtin()
def clamp(x: Any, min: Any, max: Any, propagate_nan: Any = None) -> Any:
    """`x` limited to `min` … `max`."""


add = stub_like(_two, "add", "`x + y`.")
sub = stub_like(_two, "sub", "`x - y`.")
mul = stub_like(_two, "mul", "`x * y`.")


@builtin(host=lambda x, div: (x + div - 1) // div)
def cdiv(x: Any, div: Any) -> Any:
    """`x / div` of integers, rounded up. Host code may call it too."""


def _next_power_of_2(n: int) -> int:
    return 1 << (int(n) - 1).bit_length() if n > 1 else 1


@builtin(host=_next_power_of_2)
def next_power_of_2(n: Any) -> Any:
    """The smallest power of two not below the constant `n`. Host code may call it too."""


#: what `tl.` has too: not the functions that Triton lacks
__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    name
    for name, value in globals().items()
    if hasattr(value, "__tl_builtin__") and value not in (mul_sigmoid, div_1p_exp2)
]

inf = float("inf")
nan = float("nan")
pi = _math.pi


def __getattr__(name: str) -> Any:
    """Functions that older versions of the language kept here: those of `tl.extra.libdevice`."""
    from tilewright.language.extra import libdevice  # noqa: PLC0415 - imports this module

    try:
        return getattr(libdevice, name)
    except AttributeError:
        raise AttributeError(
            f"module 'tilewright.language.math' has no attribute '{name}'"
        ) from None


def __dir__() -> list[str]:
    from tilewright.language.extra import libdevice  # noqa: PLC0415 - imports this module

    return sorted({*globals(), *libdevice.__all__})
