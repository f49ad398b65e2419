"""Arithmetic on scalars and vectors that the functions are made of: `Single` for fp32, and what fp64 shares with it."""

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir

from tilewright.backends.llvm.context import MathContext
from tilewright.backends.llvm.types import (
    I32,
    Builder,
    Value,
    by_parts,
    call,
    constant,
    lanes,
    like,
    mangled,
)


class Arithmetic:
    """Arithmetic on scalars or vectors of one type."""

    def __init__(self, b: Builder, ctx: MathContext, kind: ir.Type) -> None:
        self.b, self.ctx, self.kind = b, ctx, kind

    def c(self, value: float) -> Value:
        return constant(self.kind, value)

    def fma(self, x: Any, y: Any, z: Any) -> Any:
        return self.ctx.intrinsic(self.b, "fma", x, y, z)

    def abs(self, x: Any) -> Any:
        return self.ctx.intrinsic(self.b, "fabs", x)

    def round(self, x: Any) -> Any:
        """To the nearest integer, ties to even."""
        return self.ctx.intrinsic(self.b, "roundeven", x)

    def poly(self, x: Any, coefficients: tuple[float, ...]) -> Any:
        """Horner evaluation; lowest power first."""
        result: Any = self.c(coefficients[-1])
        for value in reversed(coefficients[:-1]):
            result = self.fma(result, x, self.c(value))
        return result

    def select(self, condition: Any, x: Any, y: Any) -> Any:
        return self.b.select(condition, x, y)

    def less(self, x: Any, y: Any) -> Any:
        return self.b.fcmp_ordered("<", x, y)

    def equal(self, x: Any, y: Any) -> Any:
        return self.b.fcmp_ordered("==", x, y)

    def copysign(self, magnitude: Any, sign: Any) -> Any:
        return self.ctx.intrinsic(self.b, "copysign", magnitude, sign)

    def clamp(self, x: Any, low: float, high: float | None) -> Any:
        """`x` within bounds; NaN stays NaN."""
        x = self.select(self.less(x, self.c(low)), self.c(low), x)
        if high is None:
            return x
        return self.select(self.less(self.c(high), x), self.c(high), x)

    def with_edges_of_log(self, x: Any, found: Any) -> Any:
        """-inf at 0, NaN below, +inf at +inf, NaN for NaN."""
        found = self.select(self.equal(x, self.c(math.inf)), x, found)
        found = self.select(self.equal(x, self.c(0.0)), self.c(-math.inf), found)
        return self.select(self.b.fcmp_unordered("<", x, self.c(0.0)), self.c(math.nan), found)


class Single(Arithmetic):
    """fp32 arithmetic on scalars or vectors of one shape."""

    def __init__(self, b: Builder, ctx: MathContext, kind: ir.Type) -> None:
        super().__init__(b, ctx, kind)
        self.bits = like(kind, I32)

    def i(self, value: int) -> Value:
        return constant(self.bits, value)

    def as_bits(self, x: Any) -> Any:
        return self.b.bitcast(x, self.bits)

    def as_float(self, x: Any) -> Any:
        return self.b.bitcast(x, self.kind)

    def to_int(self, x: Any) -> Any:
        return self.b.fptosi(x, self.bits)

    @property
    def scales_in_hardware(self) -> bool:
        """Whether `scale` is `vscalefps`, which takes any float for `n`, infinities included."""
        return lanes(self.kind) >= 16 and self.ctx.target.has("avx512f")

    def scale(self, x: Any, n: Any) -> Any:
        """`x * 2^n` for an integral float `n`; overflow, subnormals and NaN as in IEEE 754.

        With AVX-512 this is `vscalefps`, register by register; elsewhere two factors, each a valid
        power of two.
        """
        if self.scales_in_hardware:
            return by_parts(self.b, [x, n], 16, self._scalef)
        if self.ctx.target.has("avx512f"):
            name = f"llvm.ldexp.{mangled(self.kind)}.{mangled(self.bits)}"
            return call(self.b, name, self.kind, x, self.to_int(n))
        n = self.clamp(n, -300.0, 300.0)
        whole = self.to_int(n)
        half = self.b.ashr(whole, self.i(1))
        result = x
        for part in (half, self.b.sub(whole, half)):
            # |part| <= 150 still leaves a normal exponent only within [-126, 127]: clamp in two steps
            low = self.b.select(self.b.icmp_signed("<", part, self.i(-126)), self.i(-126), part)
            low = self.b.select(self.b.icmp_signed(">", low, self.i(127)), self.i(127), low)
            power = self.b.shl(self.b.add(low, self.i(127)), self.i(23))
            result = self.b.fmul(result, self.as_float(power))
        return result

    def _scalef(self, x: Any, n: Any) -> Any:
        every, rounding = ir.Constant(ir.IntType(16), -1), ir.Constant(I32, 4)
        operands = x, n, constant(x.type, 0.0), every, rounding
        return call(self.b, "llvm.x86.avx512.mask.scalef.ps.512", x.type, *operands)
