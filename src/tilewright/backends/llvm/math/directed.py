"""Operations with directed rounding: `add_rz`, `mul_rd`, `div_ru`, `sqrt_rz`, `fma_rd`, `narrow_ru` …

GPUs have instructions for them. On a CPU the round-to-nearest result is corrected according to the sign of its error,
which is computed exactly with Knuth's two-sum or FMA. `…_rn` is the plain operation, never contracted with
another one. Sources: PTX ISA, "Floating point instructions"; Muller et al., *Handbook of
Floating-Point Arithmetic*, chapters 4 and 5.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from llvmlite import ir

from tilewright.backends.llvm.context import MathContext
from tilewright.backends.llvm.inline_ptx import inline_ptx
from tilewright.backends.llvm.math.common import Arithmetic
from tilewright.backends.llvm.types import Builder, constant, lane_type, like

_DIRECTIONS = ("rn", "rz", "rd", "ru")
_OPERATIONS = {"add": 2, "mul": 2, "div": 2, "sqrt": 1, "fma": 3, "narrow": 1}


class _Rounding(Arithmetic):
    """One operation on values of one type."""

    def __init__(self, b: Builder, ctx: MathContext, kind: Any) -> None:
        super().__init__(b, ctx, kind)
        self.double = isinstance(lane_type(kind), ir.DoubleType)
        self.bits = like(kind, ir.IntType(64 if self.double else 32))

    def plain(self, operation: str, *values: Any) -> Any:
        """Emit the operation with rounding to nearest."""
        if operation in ("sqrt", "fma"):
            return self.ctx.intrinsic(self.b, operation, *values)
        return getattr(self.b, f"f{operation}")(*values)

    def two_sum(self, x: Any, y: Any) -> tuple[Any, Any]:
        """Return x + y rounded to nearest, and its exact error."""
        b = self.b
        total = b.fadd(x, y)
        back = b.fsub(total, x)
        return total, b.fadd(b.fsub(x, b.fsub(total, back)), b.fsub(y, back))

    def scaled(self, small: Any, value: Any, *factors: float) -> Any:
        """Multiply `value` by all factors where `small` holds."""
        product = value
        for factor in factors:
            product = self.b.fmul(product, self.c(factor))
        return self.b.select(small, product, value)

    # ---- the error of each operation: only its sign is exact --------------------------------------

    def add(self, x: Any, y: Any) -> tuple[Any, Any]:
        return self.two_sum(x, y)

    def mul(self, x: Any, y: Any) -> tuple[Any, Any]:
        b = self.b
        product = b.fmul(x, y)
        small = b.fcmp_ordered("<", self.abs(product), self.c(self.small))
        least = b.fcmp_ordered("<", self.abs(x), self.abs(y))
        # scaling the smaller factor is exact and makes the error representable in the type
        low, high = b.select(least, x, y), b.select(least, y, x)
        lift = 2.0**540 if self.double else 2.0**75
        low = self.scaled(small, low, lift, lift)
        return product, self.fma(low, high, b.fneg(self.scaled(small, product, lift, lift)))

    def div(self, x: Any, y: Any) -> tuple[Any, Any]:
        b = self.b
        quotient = b.fdiv(x, y)
        small = b.fcmp_ordered("<", self.abs(x), self.c(self.small))
        over = self.scaled(small, x, self.scale)
        rest = self.fma(b.fneg(self.scaled(small, quotient, self.scale)), y, over)
        return quotient, self.ctx.intrinsic(b, "copysign", self.abs(rest), self._signs(rest, y))

    def _signs(self, x: Any, y: Any) -> Any:
        """Return a value with the sign of x * y."""
        b = self.b
        both = b.xor(b.bitcast(x, self.bits), b.bitcast(y, self.bits))
        return b.bitcast(both, self.kind)

    def sqrt(self, x: Any) -> tuple[Any, Any]:
        b = self.b
        root = self.ctx.intrinsic(b, "sqrt", x)
        small = b.fcmp_ordered("<", x, self.c(self.small))
        under = self.scaled(small, x, self.scale)
        part = self.scaled(small, root, math.sqrt(self.scale))
        return root, self.fma(b.fneg(part), part, under)

    def fma_with_error(self, x: Any, y: Any, z: Any) -> tuple[Any, Any]:
        """Return the FMA and its error; small operands are scaled first.

        Source: Boldo and Muller, *Exact and approximated error of the FMA*.
        """
        b = self.b
        result = self.fma(x, y, z)
        lift, limit = 2.0**540, self.c(2.0**-800)
        small = b.fcmp_ordered("<", self.abs(b.fmul(x, y)), self.c(self.small))
        least = b.fcmp_ordered("<", self.abs(x), self.abs(y))
        low, high = b.select(least, x, y), b.select(least, y, x)
        low = self.scaled(small, low, lift, lift)
        apart = b.and_(small, b.fcmp_unordered(">=", self.abs(z), limit))  # the result is z
        product = b.fmul(low, high)
        rest = self.fma(low, high, b.fneg(product))
        addend, goal = self.scaled(small, z, lift, lift), self.scaled(small, result, lift, lift)
        first, second = self.two_sum(addend, rest)
        third, fourth = self.two_sum(product, first)
        gamma = b.fadd(b.fsub(third, goal), fourth)
        return result, b.select(apart, product, b.fadd(gamma, second))

    @property
    def small(self) -> float:
        """Threshold below which errors of products may underflow."""
        return 2.0**-900 if self.double else 2.0**-90

    @property
    def scale(self) -> float:
        return 2.0**500 if self.double else 2.0**60

    # ---- correction ------------------------------------------------------------------------------

    def corrected(self, nearest: Any, error: Any, direction: str, finite: Any) -> Any:
        """Return `nearest`, or its adjacent value if `nearest` lies on the wrong side of the exact result."""
        b = self.b
        zero, infinity = self.c(0.0), self.c(math.inf)
        down, up = b.fcmp_ordered("<", error, zero), b.fcmp_ordered(">", error, zero)
        largest = self.c(1.7976931348623157e308 if self.double else 3.4028234663852886e38)
        overflow = b.and_(b.fcmp_ordered("==", self.abs(nearest), infinity), finite)
        positive = b.fcmp_ordered(">", nearest, zero)
        negative = b.fcmp_ordered("<", nearest, zero)
        if direction == "rz":
            step_in = b.or_(b.and_(positive, down), b.and_(negative, up))
            inward = b.sub(b.bitcast(nearest, self.bits), constant(self.bits, 1))
            result = b.select(step_in, b.bitcast(inward, self.kind), nearest)
            return b.select(overflow, self.ctx.intrinsic(b, "copysign", largest, nearest), result)
        away = down if direction == "rd" else up
        result = b.select(away, self.neighbor(nearest, direction), nearest)
        other = positive if direction == "rd" else negative
        bounded = self.ctx.intrinsic(b, "copysign", largest, nearest)
        return b.select(b.and_(overflow, other), bounded, result)

    def neighbor(self, x: Any, direction: str) -> Any:
        """Return the adjacent finite value below or above."""
        b = self.b
        one = constant(self.bits, 1)
        bits = b.bitcast(x, self.bits)
        outward, inward = b.add(bits, one), b.sub(bits, one)
        positive = b.fcmp_ordered(">", x, self.c(0.0))
        towards = (inward, outward) if direction == "rd" else (outward, inward)
        result = b.bitcast(b.select(positive, *towards), self.kind)
        least = b.bitcast(one, self.kind)
        least = b.fneg(least) if direction == "rd" else least
        return b.select(b.fcmp_ordered("==", x, self.c(0.0)), least, result)

    def finite(self, *values: Any) -> Any:
        found: Any = None
        for value in values:
            test = self.b.fcmp_ordered("<", self.abs(value), self.c(math.inf))
            found = test if found is None else self.b.and_(found, test)
        return found


def _on_cpu(operation: str, direction: str, b: Builder, ctx: MathContext, *values: Any) -> Any:
    kind = values[0].type
    r = _Rounding(b, ctx, kind)
    if direction == "rn" and operation != "narrow":
        return r.plain(operation, *values)
    if operation == "narrow":  # fp64 to fp32 with directed rounding, kept in fp64
        single = like(kind, ir.FloatType())
        s = _Rounding(b, ctx, single)
        nearest = b.fptrunc(values[0], single)
        error = b.fsub(values[0], b.fpext(nearest, kind))
        below = b.fcmp_ordered("<", error, r.c(0.0))
        above = b.fcmp_ordered(">", error, r.c(0.0))
        sign = b.select(below, s.c(-1.0), b.select(above, s.c(1.0), s.c(0.0)))
        result = s.corrected(nearest, sign, direction, r.finite(values[0]))
        return b.fpext(nearest if direction == "rn" else result, kind)
    if operation == "fma" and not r.double:
        # products are exact in fp64; two roundings in one direction equal one
        wide = like(kind, ir.DoubleType())
        x, y, z = (b.fpext(v, wide) for v in values)
        total = _on_cpu("add", direction, b, ctx, b.fmul(x, y), z)
        return b.fptrunc(_on_cpu("narrow", direction, b, ctx, total), kind)
    rule: Callable[..., tuple[Any, Any]] = getattr(
        r, "fma_with_error" if operation == "fma" else operation
    )
    nearest, error = rule(*values)
    result = r.corrected(nearest, error, direction, r.finite(*values))
    if operation == "div":  # division by zero is infinite in every rounding mode
        result = b.select(b.fcmp_ordered("==", values[1], r.c(0.0)), nearest, result)
    if operation in ("add", "fma") and direction == "rd":
        result = _negative_zero(r, operation, values, result)
    return result


def _negative_zero(r: _Rounding, operation: str, values: Any, result: Any) -> Any:
    """x - x is -0 when rounding down, unless both terms are +0."""
    b = r.b
    first, last = (values[0] if operation == "add" else b.fmul(*values[:2])), values[-1]
    bits = b.or_(b.bitcast(first, r.bits), b.bitcast(last, r.bits))
    any_negative = b.icmp_signed("<", bits, constant(r.bits, 0))
    exact_zero = b.and_(b.fcmp_ordered("==", result, r.c(0.0)), any_negative)
    return b.select(exact_zero, r.c(-0.0), result)


def _on_nvidia(operation: str, direction: str, b: Builder, ctx: MathContext, *values: Any) -> Any:
    kind = values[0].type
    direction = {"rd": "rm", "ru": "rp"}.get(direction, direction)  # to minus and plus infinity
    if operation == "narrow":
        made = inline_ptx(b, f"cvt.{direction}.f32.f64 $0, $1;", values, ir.FloatType())
        return b.fpext(made, kind)
    width = "f64" if isinstance(kind, ir.DoubleType) else "f32"
    places = ", ".join(f"${i}" for i in range(len(values) + 1))
    return inline_ptx(b, f"{operation}.{direction}.{width} {places};", values, kind)


def _function(operation: str, direction: str) -> Callable[..., Any]:
    def function(b: Builder, ctx: MathContext, *values: Any) -> Any:
        lower = _on_nvidia if ctx.on_nvidia else _on_cpu
        return lower(operation, direction, b, ctx, *values)

    return function


FUNCTIONS = {
    f"{operation}_{direction}": _function(operation, direction)
    for operation in _OPERATIONS
    for direction in _DIRECTIONS
}
"""Emitters by name. `tl.div_rn` of the language maps to `div_rn`."""
