"""Epilogues of matmuls on the accumulator in registers: scaling, α and β, biases, activations.

Epilogues compute in fp32 (fp64 for fp64). Integer accumulators stay integers as long as the steps preserve integers
(adding integers, ReLU). The result is rounded once, to the output's type, or at a "cast" step.
"""

from __future__ import annotations

import math
from typing import Any

from tilewright import language as tl
from tilewright.errors import KernelTypeError
from tilewright.language.builtin import extern
from tilewright.language.kernel_function import KernelFunction

#: log2 of the normal distribution's upper tail as a polynomial of x in [0, 5.5] (`scripts/fit_math.py`), from the
#: highest power on; from there to `_TAIL_END` it falls on, to 2^-50
_TAIL = (
    8.470423581e-06, -5.390632360e-05, -4.212258533e-04, 7.389253056e-03, -5.269109279e-02,
    -4.591531576e-01, -1.151110941e00, -9.999998965e-01,
)  # fmt: skip
_TAIL_END = 10.0
_HALF_ROOT = math.sqrt(0.5)
#: (1 + tanh u) / 2 = 1 / (1 + 2^(first x + third x³)) with GELU's u(x)
_FIRST = -2.0 * math.sqrt(2.0 / math.pi) / math.log(2)
_THIRD = 0.044715 * _FIRST


@KernelFunction
def apply_epilogue(acc: Any, addend: Any, extras: Any, args: Any, c: Any) -> Any:
    """α, β and the steps of contraction `c` applied to a tile, in the output's type.

    `extras` has a value for each of the contraction's extras: tiles of two dimensions that broadcast to the tile, or
    scalars.
    """
    x = acc
    if x.dtype.is_floating() and (c.has_alpha or c.addend is not None or c.epilogue):
        x = x.to(c.compute)
    if c.has_alpha:
        x = x.to(c.compute) * args.alpha
    if c.addend is not None:
        x = x.to(c.compute) + addend.to(c.compute) * args.beta
    used = 0
    for i in tl.static_range(len(c.epilogue)):
        count = len(c.epilogue[i].extras)
        number = getattr(args, f"number{i}", None)
        x = apply_step(c.epilogue[i], x, number, extras[used : used + count], c)
        used += count
    return x.to(c.out.dtype)


@KernelFunction
def apply_step(step: Any, x: Any, number: Any, extras: Any, c: Any) -> Any:
    kind = step.kind
    if kind == "function":
        check_arguments(step, *extras)
        return result_like(step, step.function(x, *extras), x)
    if kind == "cast":
        return x.to(step.dtype)
    if kind == "relu":
        return tl.maximum(x, 0).to(x.dtype) if x.dtype.is_int() else relu(x.to(c.compute))
    if kind == "add" or kind == "multiply":
        other = extras[0]
        if not (x.dtype.is_int() and other.dtype.is_int()):
            x, other = x.to(c.compute), other.to(c.compute)
        return x + other if kind == "add" else x * other
    x = x.to(c.compute)
    if kind == "scale":
        return x * number
    if kind == "leaky_relu":
        scaled = x * number
        return tl.where(x >= 0.0, x, scaled)
    if kind == "gelu":
        return gelu(x)
    if kind == "gelu_tanh":
        return tl.math.div_1p_exp2(x, x * (x * x * _THIRD + _FIRST))
    if kind == "silu":
        return tl.math.mul_sigmoid(x, x)
    if kind == "sigmoid":
        return 1.0 / (tl.exp(-x) + 1.0)
    tl.static_assert(kind == "tanh")
    return tl.math.tanh(x)


@KernelFunction
def relu(x: Any) -> Any:
    return tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL)


@KernelFunction
def gelu(x: Any) -> Any:
    """x Φ(x) = max(x, 0) - |x| Φ(-|x|), in single precision with Φ(-|x|) = 2^p(|x|).

    The error is at most 9e-8 |x| with a correctly rounded 2^p, as with the usual form by erf, and 2e-7 |x| with a
    GPU's 2^p, in a third of erf's instructions and with fewer registers: one polynomial for all x, no
    cancellation. NaN is preserved, infinity gives infinity, minus infinity less than 1e-14 in magnitude.
    """
    if x.dtype.is_fp64():
        return x * 0.5 * (tl.erf(x * _HALF_ROOT) + 1.0)
    size = tl.minimum(tl.abs(x), _TAIL_END)
    power = _TAIL[0]
    for coefficient in _TAIL[1:]:
        power = size * power + coefficient
    return relu(x) - size * tl.exp2(power)


@extern
def check_arguments(step: Any, *extras: Any) -> None:
    """Check that the function of a step takes its arrays. Raises KernelTypeError."""
    if not isinstance(step.function, KernelFunction):  # an `ElementwiseBody`
        return
    try:
        step.function.signature_of_fn.bind(None, *extras)
    except TypeError as error:
        raise KernelTypeError(
            f"epilogue {step.function.fn.__name__} takes the accumulator and {len(extras)} arrays: {error}",
            help="tilewright.epilogue.apply(function, *arrays) passes arrays",
            location=step.function.location(),
        ) from None


@extern
def result_like(step: Any, value: Any, x: Any) -> Any:
    """The result of a step's function, in the shape of its first argument. Raises KernelTypeError if it does not
    broadcast to that."""
    if not isinstance(step.function, KernelFunction):  # an `ElementwiseBody`
        return value
    name = step.function.fn.__name__
    kind = getattr(value, "dtype", None)
    if kind is None or not (kind.is_floating() or kind.is_int()):
        raise KernelTypeError(
            f"epilogue {name} returns {'nothing' if value is None else value!r}, not a tile",
            help="return a tile of numbers with the shape of the first argument",
            location=step.function.location(),
        )
    sizes = zip(value.shape[::-1], x.shape[::-1], strict=False)
    if len(value.shape) > 2 or any(a not in (1, b) for a, b in sizes):
        raise KernelTypeError(
            f"epilogue {name} returns {value.type} for a tile of {x.type}",
            help="an epilogue is element-wise: its result has the shape of its first argument",
            location=step.function.location(),
        )
    if kind.is_bool():
        value = value.to(tl.int32)
    return tl.broadcast(value, x)[0]
