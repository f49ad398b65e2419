"""Lower floating-point functions on NVIDIA GPUs to approximate PTX instructions; libdevice provides the rest.

Instructions and error bounds are those of the PTX ISA, "Floating point instructions".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir

from tilewright.backends.llvm.context import MathContext
from tilewright.backends.llvm.inline_ptx import inline_ptx
from tilewright.backends.llvm.math.common import Single
from tilewright.backends.llvm.types import Builder, constant

_LOG2_E = 1 / math.log(2)
_TWO_THIRDS = 0x3F2AAAAB
"""Bits of 2/3."""
_ROOT_OF_HALF = 0x3F3504F3
"""Bits of sqrt(1/2)."""
_INFINITY = 0x7F800000
LOG = (
    3.3333215117e-01, -2.4999797344e-01, 2.0010405779e-01, -1.6680487990e-01, 1.4005868137e-01,
    -1.2184261531e-01, 1.3984438777e-01, -1.2891682982e-01,
)  # fmt: skip

POW = (8.3333332046e-02, 1.2500105412e-02, 2.2294658920e-03, 4.6064608534e-04)


def _instruction(b: Builder, text: str, x: Any) -> Any:
    return inline_ptx(b, f"{text} $0, $1;", [x], x.type)


def exp(b: Builder, ctx: MathContext, x: Any) -> Any:
    """`ex2.approx` of `x log2(e)`; relative error below 2^-22 (1 + |x| / 2)."""
    return exp2(b, ctx, b.fmul(x, constant(x.type, _LOG2_E)))


def exp2(b: Builder, ctx: MathContext, x: Any) -> Any:
    """`ex2.approx.ftz.f32`: 2 ulp; results below 2^-126 are 0, as in Triton.

    Without `ftz` each costs an additional comparison and two multiplications, a quarter of the instructions of
    an attention loop.
    """
    return _instruction(b, "ex2.approx.ftz.f32", x)


def rsqrt(b: Builder, ctx: MathContext, x: Any) -> Any:
    """`rsqrt.approx.ftz.f32`: relative error below 2^-22.9; infinite below 2^-126, as in Triton."""
    return _instruction(b, "rsqrt.approx.ftz.f32", x)


def sqrt(b: Builder, ctx: MathContext, x: Any) -> Any:
    """`sqrt.approx.ftz.f32`: relative error below 2^-23; 0 below 2^-126, as in Triton (`tl.sqrt_rn` is exact).

    `sqrt.rn.f32` takes 19 instructions and a branch.
    """
    return _instruction(b, "sqrt.approx.ftz.f32", x)


def log(b: Builder, ctx: MathContext, x: Any) -> Any:
    """Natural logarithm, at most 1 ulp; -infinity below 2^-126, as in Triton."""
    s = Single(b, ctx, x.type)
    near_one, exponent = _log_parts(s, x)
    return _log_edges(s, x, s.fma(exponent, s.c(math.log(2)), near_one))


def log2(b: Builder, ctx: MathContext, x: Any) -> Any:
    """Logarithm to base 2, at most 2 ulp; -infinity below 2^-126, as in Triton."""
    s = Single(b, ctx, x.type)
    near_one, exponent = _log_parts(s, x)
    high = float(np.float32(_LOG2_E))
    low = s.fma(near_one, s.c(_LOG2_E - high), exponent)
    return _log_edges(s, x, s.fma(near_one, s.c(high), low))


def _log_parts(s: Single, x: Any) -> tuple[Any, Any]:
    """(log m, e as a float) with x = m 2^e and m in [2/3, 4/3), for normal x."""
    b = s.b
    bits = s.as_bits(x)
    exponent = b.and_(b.sub(bits, s.i(_TWO_THIRDS)), s.i(-(1 << 23)))
    f = b.fsub(s.as_float(b.sub(bits, exponent)), s.c(1.0))
    square = b.fmul(f, f)
    tail = s.fma(s.poly(f, LOG), f, s.c(-0.5))
    return s.fma(tail, square, f), b.fmul(b.sitofp(exponent, s.kind), s.c(2.0**-23))


def _log_edges(s: Single, x: Any, result: Any) -> Any:
    """-inf below 2^-126, NaN for negative numbers and NaN, +inf at +inf."""
    b = s.b
    special = b.icmp_unsigned(">=", s.as_bits(x), s.i(_INFINITY))
    result = s.select(special, s.fma(x, s.c(math.inf), s.c(math.inf)), result)
    tiny = s.less(s.abs(x), s.c(2.0**-126))
    return s.select(tiny, s.c(-math.inf), result)


def power(b: Builder, ctx: MathContext, x: Any, y: Any) -> Any:
    """x to the power y: 3 ulp, 6 where the result is above 2^100 or below 2^-100; edges as C's `pow`.

    2^(y log2 |x|) with a logarithm of two floats. Without branches, which keep the code of one element from
    overlapping that of the next: libdevice's `powf` has five, and 30 instructions more.
    """
    s = Single(b, ctx, x.type)
    size = s.abs(x)
    log, low = _long_log2(s, size)
    product = b.fmul(y, log)
    finite = s.less(s.abs(product), s.c(256.0))  # differences of infinities are NaN
    rest = s.fma(y, low, s.fma(y, log, b.fneg(product)))
    rest = s.select(finite, rest, s.c(0.0))
    one = b.or_(b.fcmp_ordered("==", y, s.c(0.0)), b.fcmp_ordered("==", size, s.c(1.0)))
    product = s.select(one, s.c(0.0), product)  # also 0^0, and 1 to the power of an infinity
    power_of_two = _instruction(b, "ex2.approx.f32", product)
    magnitude = b.fmul(power_of_two, s.fma(rest, s.c(math.log(2)), s.c(1.0)))
    return _signed_power(s, x, y, magnitude)


def _long_log2(s: Single, x: Any) -> tuple[Any, Any]:
    """log2 x as a sum of two floats for x >= 0, with 30 bits; -infinity below 2^-126, and x if it is not finite.

    With x = m 2^e and m in [sqrt(1/2), sqrt(2)), log m = t + t^3 p(t^2) where t = 2 (m - 1) / (m + 1). The rounding error
    of t is made up for by `tail`.
    """
    b = s.b
    bits = s.as_bits(x)
    exponent = b.and_(b.sub(bits, s.i(_ROOT_OF_HALF)), s.i(-(1 << 23)))
    mantissa = s.as_float(b.sub(bits, exponent))
    whole = b.fmul(b.sitofp(exponent, s.kind), s.c(2.0**-23))
    f = b.fsub(mantissa, s.c(1.0))
    inverse = reciprocal(b, b.fadd(mantissa, s.c(1.0)))
    t = b.fmul(b.fadd(f, f), inverse)
    difference = b.fsub(f, t)
    tail = b.fmul(s.fma(b.fneg(t), f, b.fadd(difference, difference)), inverse)
    square = b.fmul(t, t)
    cubic = b.fmul(s.poly(square, tuple(c * _LOG2_E for c in POW)), square)
    high = float(np.float32(_LOG2_E))
    first = s.fma(t, s.c(high), whole)
    low = s.fma(t, s.c(high), b.fsub(whole, first))
    low = s.fma(t, s.c(_LOG2_E - high), s.fma(tail, s.c(high), low))
    low = s.fma(cubic, t, s.fma(b.fmul(cubic, s.c(3.0)), tail, low))
    total = b.fadd(first, low)
    low = b.fsub(low, b.fsub(total, first))
    total = s.select(s.less(x, s.c(2.0**-126)), s.c(-math.inf), total)
    return s.select(s.less(x, s.c(math.inf)), total, x), low


def _signed_power(s: Single, x: Any, y: Any, magnitude: Any) -> Any:
    """|x|^y with the sign of x for odd y; NaN of finite negative x for a y that is no integer."""
    b = s.b
    half = b.fmul(y, s.c(0.5))
    integral = b.fcmp_ordered("==", s.ctx.intrinsic(b, "trunc", y), y)
    odd = b.fcmp_unordered("!=", s.ctx.intrinsic(b, "trunc", half), half)
    sign = s.select(b.and_(integral, odd), s.i(-(1 << 31)), s.i(0))
    result = s.as_float(b.or_(s.as_bits(magnitude), b.and_(s.as_bits(x), sign)))
    negative = b.and_(s.less(x, s.c(0.0)), b.fcmp_ordered(">", x, s.c(-math.inf)))
    undefined = b.and_(negative, b.not_(integral))
    return s.select(undefined, s.c(math.nan), result)


def divide(b: Builder, x: Any, y: Any) -> Any:
    """`x (1/y)` with both scaled so that `1/y` is a normal number: 2 ulp, over the whole range.

    Equivalent to `div.full.f32`, which ptxas expands likewise. With the explicit expansion, LICM hoists the
    operations that depend on `y` only. A constant's reciprocal is a constant. Scales that no value of `y` needs are left out:
    `y` of a square root is never small or large, nor is it small above a constant.
    """
    kind = x.type
    if isinstance(y, ir.Constant) and 2.0**-126 < abs(y.constant) < 2.0**126:
        return b.fmul(x, constant(kind, 1 / y.constant))
    above = _power_above_one(y)
    if above is not None:  # the reciprocal of y / 4 is always normal (4 ulp from 2^126 on)
        power, one = above
        quarter = constant(kind, 0.25)
        operands = [power, quarter, constant(kind, 0.25 * one)]
        less = inline_ptx(b, "fma.rn.f32 $0, $1, $2, $3;", operands, kind)
        inverse = reciprocal(b, less)
        return b.fmul(x, b.fmul(inverse, quarter))
    small, large = _needs_scale(y)
    if not (small or large):
        return b.fmul(x, reciprocal(b, y))
    size = _instruction(b, "abs.f32", y)
    scale = constant(kind, 1.0)
    if large:
        is_large = b.fcmp_ordered(">", size, constant(kind, 2.0**126))
        scale = b.select(is_large, constant(kind, 0.25), scale)
    if small:
        is_small = b.fcmp_ordered("<", size, constant(kind, 2.0**-126))
        scale = b.select(is_small, constant(kind, 2.0**24), scale)
    inverse = reciprocal(b, b.fmul(y, scale))
    return b.fmul(b.fmul(x, scale), inverse)


def _needs_scale(y: Any) -> tuple[bool, bool]:
    """Whether a divisor may be below 2^-126, but not 0, and whether it may be above 2^126, but not infinite: there its reciprocal
    is no normal number. Square roots are 0 or at least 2^-63, and below 2^64."""
    name, operands = _called(y)
    if name.startswith("sqrt.approx.ftz"):
        return False, False
    if name in ("llvm.maxnum.f32", "llvm.maximum.f32"):
        constants = [float(v.constant) for v in operands if isinstance(v, ir.Constant)]
        others = [v for v in operands if not isinstance(v, ir.Constant)]
        if len(constants) == len(others) == 1 and 2.0**-126 <= constants[0] <= 2.0**126:
            return False, _needs_scale(others[0])[1]
    if getattr(y, "opname", "") == "fadd":
        roots = [v for v in y.operands if _called(v)[0].startswith("sqrt.approx.ftz")]
        terms = [float(v.constant) for v in y.operands if isinstance(v, ir.Constant)]
        if len(roots) == len(terms) == 1 and 2.0**-126 <= terms[0] <= 2.0**64:
            return False, False
    return True, True


def _called(value: Any) -> tuple[str, list[Any]]:
    """The text of an instruction or the name of an intrinsic whose result a value is, and its operands."""
    callee = getattr(value, "callee", None)
    if callee is None:
        return "", []
    return (callee.asm if isinstance(callee, ir.InlineAsm) else callee.name), [*value.args]


def _power_above_one(y: Any) -> tuple[Any, float] | None:
    """Match `y = e + c` with `e` a result of `exp2` and a constant `c >= 1`, e.g. 1 + e^x. Returns (e, c) or None."""
    if getattr(y, "opname", "") != "fadd":
        return None
    powers = [v for v in y.operands if _is_power(v)]
    others = [float(v.constant) for v in y.operands if isinstance(v, ir.Constant)]
    return (powers[0], others[0]) if len(powers) == len(others) == 1 and others[0] >= 1.0 else None


def _is_power(value: Any) -> bool:
    """Return whether a value is a result of `exp2`, i.e. nonnegative, infinity or NaN."""
    return _called(value)[0].startswith("ex2.approx")


def reciprocal(b: Builder, x: Any) -> Any:
    """`rcp.approx.ftz.f32`: 1 ulp if neither `x` nor the result is subnormal."""
    return _instruction(b, "rcp.approx.ftz.f32", x)


_TO_BF16_PAIR = "cvt.rn.bf16x2.f32 $0, $1, $2;"


def to_bf16(b: Builder, x: Any) -> Any:
    """Convert fp32 to the bits of the nearest bf16, NaN to 0x7fff.

    Uses `cvt.rn.bf16x2.f32` with a zero operand, because `cvt.rn.bf16.f32` has an eighth of its rate. The result is
    in the high half, as in the fp32 representation of the bf16 value.
    """
    word, half = ir.IntType(32), ir.IntType(16)
    both = inline_ptx(b, _TO_BF16_PAIR, [x, ir.Constant(x.type, 0.0)], word)
    return b.trunc(b.lshr(both, ir.Constant(word, 16)), half)


def rounded_to_bf16(bits: Any) -> Any | None:
    """Return the 32-bit word from which `to_bf16` extracted `bits`, which is a valid fp32 pattern; None otherwise."""
    shifted = _operand_of(bits, "trunc")
    word = _operand_of(shifted, "lshr") if shifted is not None else None
    called = getattr(word, "callee", None)
    if word is None or not isinstance(called, ir.InlineAsm) or called.asm != _TO_BF16_PAIR:
        return None
    low = word.operands[-1]
    return word if isinstance(low, ir.Constant) else None


def _operand_of(value: Any, opname: str) -> Any | None:
    return value.operands[0] if getattr(value, "opname", "") == opname else None


def to_bf16_pairs(b: Builder, values: list[Any]) -> list[Any]:
    """`cvt.rn.bf16x2.f32`: convert two values per instruction; the scalar instruction has a quarter of the rate."""
    word, half = ir.IntType(32), ir.IntType(16)
    made: list[Any] = []
    for low, high in zip(values[::2], values[1::2], strict=True):
        both = inline_ptx(b, _TO_BF16_PAIR, [high, low], word)
        made += [b.trunc(both, half), b.trunc(b.lshr(both, ir.Constant(word, 16)), half)]
    return made


def fast_divide(b: Builder, ctx: MathContext, x: Any, y: Any) -> Any:
    """x (1/y): 2 ulp where 2^-126 < |y| < 2^126, as CUDA's `__fdividef`."""
    return b.fmul(x, reciprocal(b, y))


def _scaled(text: str, factor: float) -> Callable[..., Any]:
    """A function whose result is that of an instruction, times a constant."""

    def function(b: Builder, ctx: MathContext, x: Any) -> Any:
        result = _instruction(b, text, x)
        return result if factor == 1.0 else b.fmul(result, constant(x.type, factor))

    return function


fast_sin = _scaled("sin.approx.ftz.f32", 1.0)
fast_cos = _scaled("cos.approx.ftz.f32", 1.0)
fast_log2 = _scaled("lg2.approx.ftz.f32", 1.0)


def fast_tan(b: Builder, ctx: MathContext, x: Any) -> Any:
    """Quotient of the approximations of sine and cosine."""
    return fast_divide(b, ctx, fast_sin(b, ctx, x), fast_cos(b, ctx, x))


def fast_pow(b: Builder, ctx: MathContext, x: Any, y: Any) -> Any:
    """2^(y log2 x), as CUDA's `__powf`."""
    return exp2(b, ctx, b.fmul(y, fast_log2(b, ctx, x)))


def fast_exp10(b: Builder, ctx: MathContext, x: Any) -> Any:
    """`ex2.approx` of `x log2(10)`."""
    return exp2(b, ctx, b.fmul(x, constant(x.type, math.log2(10))))


_LARGEST = 62.9
"""log2 of what may be a factor of two, whose product's reciprocal is a normal number."""
_CUT = 2.0**-62.5


def gate_pairs(
    b: Builder, ctx: MathContext, name: str, xs: list[Any], powers: list[Any]
) -> list[Any]:
    """x / (1 + 2^p), or e^p by `name`, of an even number of elements; 0 where that is 2^-62.5 x or less.

    With a and b for the sums of two, `1/a = b r` and `1/b = a r` where `r = 1/(a b)`: three results, not four, of the
    unit that makes powers and reciprocals, which takes 8 cycles for a warp. Limits keep the product from
    overflowing, and a NaN (which `minnum` drops) from the other element.
    """
    single = xs[0].type if xs else ir.FloatType()
    sums = []
    for given in powers:
        power = given if name == "exp2" else b.fmul(given, constant(single, _LOG2_E))
        limited = ctx.intrinsic(b, "minnum", power, constant(single, _LARGEST))
        sums.append(b.fadd(exp2(b, ctx, limited), constant(single, 1.0)))
    made = []
    for i in range(0, len(xs), 2):
        inverse = reciprocal(b, b.fmul(sums[i], sums[i + 1]))
        for x, other in ((xs[i], sums[i + 1]), (xs[i + 1], sums[i])):
            operands = [other, inverse, constant(single, -_CUT)]
            text = "fma.rn.sat.f32 $0, $1, $2, $3;"
            share = inline_ptx(b, text, operands, single)
            made.append(b.fmul(x, share))
    return made


def gate_exp2(b: Builder, ctx: MathContext, x: Any, power: Any) -> Any:
    """x / (1 + 2^p) of one element."""
    return gate_pairs(b, ctx, "exp2", [x, x], [power, power])[0]


def gate_exp(b: Builder, ctx: MathContext, x: Any, power: Any) -> Any:
    """x / (1 + e^p) of one element."""
    return gate_pairs(b, ctx, "exp", [x, x], [power, power])[0]


SINGLE = {"exp": exp, "exp2": exp2, "pow": power, "log": log, "log2": log2, "sqrt": sqrt, "rsqrt": rsqrt, "gate_exp": gate_exp,
          "gate_exp2": gate_exp2, "fast_divide": fast_divide, "fast_sin": fast_sin, "fast_cos": fast_cos,
          "fast_tan": fast_tan, "fast_log": _scaled("lg2.approx.ftz.f32", math.log(2)), "fast_log2": fast_log2,
          "fast_log10": _scaled("lg2.approx.ftz.f32", math.log10(2)), "fast_pow": fast_pow,
          "fast_exp10": fast_exp10}  # fmt: skip
