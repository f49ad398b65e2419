"""Division of vectors of integers through floating point.

CPUs have no such instruction: LLVM divides lane by lane, which takes 6 to 18 cycles each. The quotient of two integers in a
floating-point type with p digits, truncated, is exact if the dividend is below 2^p: a quotient that is not whole is farther from
the next integer than its rounding error. The divisor may be any number: one that has more digits than fit is above the dividend.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from tilewright.backends.llvm.context import MathContext
from tilewright.backends.llvm.types import F32, F64, Builder, Value, constant_lanes, like

_LEAST_LANES = 4


def divide(
    b: Builder, ctx: MathContext, dividend: Any, divisor: Any, signed: bool, remainder: bool
) -> Value | None:
    """The quotient (rounded towards 0) or the remainder of vectors; None where LLVM's own code is as good, or the dividend
    is not known to be small enough. The divisor has neither zeros nor, if signed, -1."""
    kind = dividend.type
    if ctx.on_nvidia or not isinstance(kind, ir.VectorType) or kind.count < _LEAST_LANES:
        return None
    width = kind.element.width
    if width == 64:
        # other targets convert 64-bit integers lane by lane
        small = _is_small(ctx, dividend, signed)
        if not small or not ctx.target.has("avx512dq") or _is_power(divisor):
            return None
    elif isinstance(divisor, ir.Constant):  # becomes a multiplication
        return None
    wide = like(kind, F64 if width >= 32 else F32)
    to_float, to_int = (b.sitofp, b.fptosi) if signed else (b.uitofp, b.fptoui)
    quotient = to_int(b.fdiv(to_float(dividend, wide), to_float(divisor, wide)), kind)
    found = b.sub(dividend, b.mul(quotient, divisor)) if remainder else quotient
    if width == 64:
        ctx.small[id(found)] = found
    return found


def _is_small(ctx: MathContext, value: Any, signed: bool) -> bool:
    """Whether a 64-bit vector is known to hold numbers of 33 bits: extended ones, and quotients and remainders of such.
    Negative ones are large if they are read without a sign."""
    if signed and id(value) in ctx.small:
        return True
    extensions = ("sext", "zext") if signed else ("zext",)
    if not isinstance(value, ir.instructions.CastInstr) or value.opname not in extensions:
        return False
    source: Any = value.operands[0].type
    return source.element.width <= 32


def _is_power(divisor: Any) -> bool:
    """Whether a divisor is a constant power of two, by which LLVM divides with shifts."""
    numbers = constant_lanes(divisor)
    return bool(numbers) and all(isinstance(n, int) and n > 0 and n & (n - 1) == 0 for n in numbers)
