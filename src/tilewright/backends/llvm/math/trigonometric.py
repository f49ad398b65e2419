"""sin and cos in single precision."""

from __future__ import annotations

import math
from decimal import Decimal, getcontext
from typing import Any

import numpy as np

from tilewright.backends.llvm.context import MathContext
from tilewright.backends.llvm.math import library
from tilewright.backends.llvm.math.common import Single
from tilewright.backends.llvm.types import Builder

SIN = (-1.6666666642e-01, 8.3333293741e-03, -1.9839330999e-04, 2.7182744872e-06)
COS = (4.1666666623e-02, -1.3888883738e-03, 2.4799515897e-05, -2.7209893462e-07)
_LIMIT = 30000.0
"""Beyond it the three-part reduction loses digits, and the C library takes over."""


def _parts() -> tuple[float, float, float]:
    """pi/2 as a sum of three fp32 numbers."""
    getcontext().prec = 60
    half_pi = Decimal("1.5707963267948966192313216916397514420985846996875529104875")
    parts = []
    for _ in range(3):
        part = float(np.float32(float(half_pi)))
        parts.append(part)
        half_pi -= Decimal(part)
    return parts[0], parts[1], parts[2]


_PARTS = _parts()


def _reduced(s: Single, x: Any) -> tuple[Any, Any]:
    """(x - n pi/2, n as integer)."""
    n = s.round(s.b.fmul(x, s.c(2 / math.pi)))
    r = x
    for part in _PARTS:
        r = s.fma(n, s.c(-part), r)
    return r, s.to_int(n)


def _quadrant(b: Builder, ctx: MathContext, x: Any, shift: int) -> Any:
    s = Single(b, ctx, x.type)
    r, n = _reduced(s, s.select(s.less(s.abs(x), s.c(_LIMIT)), x, s.c(0.0)))
    n = b.add(n, s.i(shift))
    z = b.fmul(r, r)
    sine = s.fma(b.fmul(r, z), s.poly(z, SIN), r)
    cosine = s.fma(b.fmul(z, z), s.poly(z, COS), s.fma(z, s.c(-0.5), s.c(1.0)))
    odd = b.icmp_signed("!=", b.and_(n, s.i(1)), s.i(0))
    value = s.select(odd, cosine, sine)
    sign = b.shl(b.and_(n, s.i(2)), s.i(30))
    return s.as_float(b.xor(s.as_bits(value), sign))


def _with_fallback(b: Builder, ctx: MathContext, x: Any, fast: Any, name: str) -> Any:
    """`fast` where |x| is moderate; the library for the whole vector if some lane is not."""
    s = Single(b, ctx, x.type)
    large = b.not_(s.less(s.abs(x), s.c(_LIMIT)))
    return library.where_any(b, ctx, large, name, [x], fast)


def sin(b: Builder, ctx: MathContext, x: Any) -> Any:
    """Sine, at most 1.6 ulp for |x| < 30000 (relative to the larger of |sin x| and 2^-24 n), beyond
    as the C library. On NVIDIA GPUs libdevice's, which branches around its own reduction of large arguments."""
    if ctx.on_nvidia:
        return library.call(b, ctx, "sin", [x])
    s = Single(b, ctx, x.type)
    fast = _quadrant(b, ctx, x, 0)
    fast = s.select(b.fcmp_ordered("==", x, s.c(0.0)), x, fast)  # keeps the sign of -0
    return _with_fallback(b, ctx, x, fast, "sin")


def cos(b: Builder, ctx: MathContext, x: Any) -> Any:
    """Cosine; as `sin`."""
    if ctx.on_nvidia:
        return library.call(b, ctx, "cos", [x])
    return _with_fallback(b, ctx, x, _quadrant(b, ctx, x, 1), "cos")
