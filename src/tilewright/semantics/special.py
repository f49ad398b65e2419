"""Functions of `tl.extra.libdevice` that C's library does not have, from polynomials (`special_tables`).

They are written in operations that every target has. Largest errors, in units in the last place of the result,
are in the docstrings and checked by the tests; on a GPU those of its `exp` and `log` come on top.
"""

from __future__ import annotations

import math
from typing import Any

from tilewright import dtypes as t
from tilewright.dtypes import unwrap_constexpr
from tilewright.semantics import special_tables as tables
from tilewright.semantics.bits import Bits
from tilewright.semantics.values import TensorValue

_Table = tuple[float, float, tuple[float, ...]]


class Special(Bits):
    """Inverse error functions, scaled ones, modified Bessel functions, exponents of floats."""

    # ---- inverses of error functions -------------------------------------------------------------

    def libdevice_erfinv(self, arg0: Any) -> TensorValue:
        """The x with erf(x) = arg0: 3 ulp in fp32, 4 in fp64."""
        y, kind = self._special_argument(arg0, "erfinv")
        below = 1.0 - self.abs(y)
        product = below * (1.0 + self.abs(y))
        return self.convert(self._inverse_erf(y, product), kind)

    def libdevice_erfcinv(self, arg0: Any) -> TensorValue:
        """The x with erfc(x) = arg0: 4 ulp in fp32, 5 in fp64 (of arg0 - 1, where arg0 is near 1)."""
        y, kind = self._special_argument(arg0, "erfcinv")
        return self.convert(self._inverse_erfc(y), kind)

    def libdevice_normcdfinv(self, arg0: Any) -> TensorValue:
        """The x with normcdf(x) = arg0, with the errors of `erfcinv`."""
        y, kind = self._special_argument(arg0, "normcdfinv")
        found = self._inverse_erfc(y * 2.0)
        return self.convert(found * -math.sqrt(2.0), kind)

    def _inverse_erfc(self, y: TensorValue) -> TensorValue:
        # 1 - (1 - y)^2, without the difference that loses what a small y is
        product = y * (2.0 - y)
        return self._inverse_erf(1.0 - y, product)

    def _inverse_erf(self, y: TensorValue, product: TensorValue) -> TensorValue:
        """erfinv(y) where product = 1 - y^2; infinite at 1, NaN beyond."""
        w = -self.log(product)
        root = self.sqrt(w)
        double = y.dtype.is_fp64()
        near = self._table(w, tables.ERFINV_64 if double else tables.ERFINV_32)
        middle = self._table(root, tables.ERFINV_ROOT_64 if double else tables.ERFINV_ROOT_32)
        far = self._table(root, tables.ERFINV_FAR_64 if double else tables.ERFINV_FAR_32)
        if double:
            last = self._table(root, tables.ERFINV_LAST_64)
            far = self.where(root < 8.0, far, last)
        outer = self.where(root < 4.0, middle, far) * root
        ratio = self.where(w < 6.0, near, outer)
        found = y * ratio
        limit = y * math.inf
        return self.where(product == 0.0, limit, found)

    # ---- the scaled error function -----------------------------------------------------------------

    def libdevice_erfcx(self, arg0: Any) -> TensorValue:
        """exp(x^2) erfc(x): 4 ulp in fp32, 6 in fp64; for negative x as accurate as exp."""
        x, kind = self._special_argument(arg0, "erfcx")
        size = self.abs(x)
        q = self.fdiv(size - 3.0, size + 3.0)
        q = self.where(size < 1e30, q, 1.0)
        table = tables.ERFCX_64 if x.dtype.is_fp64() else tables.ERFCX_32
        half = size + 0.5
        scaled = self.fdiv(self._table(q, table) * 0.5, half)
        square = x * x
        rest = self.fma(x, x, -square)
        power = self.exp(square)
        power = self.where(power < math.inf, self.fma(power, rest, power), power)
        mirrored = power * 2.0 - scaled
        found = self.where(x < 0.0, mirrored, scaled)
        return self.convert(found, kind)

    # ---- modified Bessel functions -----------------------------------------------------------------

    def libdevice_cyl_bessel_i0(self, arg0: Any) -> TensorValue:
        """Modified Bessel function of the first kind, order 0: 4 ulp in fp32, 6 in fp64."""
        x, kind = self._special_argument(arg0, "cyl_bessel_i0")
        double = x.dtype.is_fp64()
        near = tables.I0_64 if double else tables.I0_32
        far = tables.I0_FAR_64 if double else tables.I0_FAR_32
        return self.convert(self._bessel(self.abs(x), near, far, None), kind)

    def libdevice_cyl_bessel_i1(self, arg0: Any) -> TensorValue:
        """Modified Bessel function of the first kind, order 1: 4 ulp in fp32, 6 in fp64."""
        x, kind = self._special_argument(arg0, "cyl_bessel_i1")
        double = x.dtype.is_fp64()
        near = tables.I1_64 if double else tables.I1_32
        far = tables.I1_FAR_64 if double else tables.I1_FAR_32
        size = self.abs(x)
        found = self._bessel(size, near, far, size * 0.5)
        return self.convert(self.float_function("copysign", (found, x), "libdevice"), kind)

    def _bessel(self, size: TensorValue, near: _Table, far: _Table, factor: Any) -> TensorValue:
        """Below 8 a polynomial of (x / 2)^2, above it e^x / sqrt(x) times one of 1 / x."""
        half = size * 0.5
        low = self._horner(half * half, near[2])
        if factor is not None:
            low = low * factor
        power = self.exp(half)  # e^x overflows before the function does
        share = self.fdiv(self._table(self.fdiv(1.0, size), far), self.sqrt(size))
        high = power * share * power
        high = self.where(power < math.inf, high, power)
        return self.where(size < 8.0, low, high)

    # ---- exponents ---------------------------------------------------------------------------------

    def libdevice_ilogb(self, arg0: Any) -> TensorValue:
        """The exponent of x as int32; of 0 and NaN the smallest int32, of infinities the largest."""
        x, _ = self._special_argument(arg0, "ilogb")
        double = x.dtype.is_fp64()
        integer, digits, bias = (t.int64, 52, 1023) if double else (t.int32, 23, 127)
        shift = digits + 1
        small = self.abs(x) < 2.0 ** (1 - bias)
        normal = self.where(small, x * 2.0**shift, x)
        field = self.cast(normal, integer, bitcast=True) >> digits
        exponent = (field & (2 * bias + 1)) - bias
        exponent = self.convert(exponent, t.int32)
        exponent = self.where(small, exponent - shift, exponent)
        infinite = self.abs(x) == math.inf
        exponent = self.where(infinite, self.filled(2**31 - 1, exponent.type), exponent)
        none = self.logical_or(x == 0.0, x != x)
        return self.where(none, self.filled(-(2**31), exponent.type), exponent)

    def libdevice_ldexp(self, arg0: Any, arg1: Any) -> TensorValue:
        x, kind = self._special_argument(arg0, "ldexp")
        n = self.to_tensor(unwrap_constexpr(arg1))
        x, n = self.broadcast_all([x, self.convert(n, t.int32)], "libdevice.ldexp")
        n = self.minimum(self.maximum(n, -2300), 2300)
        if not x.dtype.is_fp64():  # exact in fp64 as far as fp32 reaches
            n = self.minimum(self.maximum(n, -400), 400)
            product = self.convert(x, t.float64) * self._power_of_two(n)
            return self.convert(self.convert(product, t.float32), kind)
        # Three factors in the normal range; the first ones keep x normal, so that only the last one rounds.
        for _ in range(2):
            high, low = n > 1023, n < -969
            factor = self.where(high, 2.0**1023, self.where(low, 2.0**-969, 1.0))
            step = self.where(high, 1023, self.where(low, -969, 0))
            wide = self.where(low, x * self.convert(factor, t.float64), x)
            x = self.where(high, x * self.convert(factor, t.float64), wide)
            n = n - step
        return self.convert(x * self._power_of_two(n), kind)

    libdevice_scalbn = libdevice_ldexp

    def _power_of_two(self, n: TensorValue) -> TensorValue:
        """2 ** n in fp64, for n from -1022 to 1023."""
        biased = self.convert(n + 1023, t.int64)
        return self.cast(biased << 52, t.float64, bitcast=True)

    # ---- lengths -----------------------------------------------------------------------------------

    def libdevice_norm3d(self, arg0: Any, arg1: Any, arg2: Any) -> TensorValue:
        return self._norm((arg0, arg1, arg2), "norm3d", False)

    def libdevice_norm4d(self, arg0: Any, arg1: Any, arg2: Any, arg3: Any) -> TensorValue:
        return self._norm((arg0, arg1, arg2, arg3), "norm4d", False)

    def libdevice_rhypot(self, arg0: Any, arg1: Any) -> TensorValue:
        return self._norm((arg0, arg1), "rhypot", True)

    def libdevice_rnorm3d(self, arg0: Any, arg1: Any, arg2: Any) -> TensorValue:
        return self._norm((arg0, arg1, arg2), "rnorm3d", True)

    def libdevice_rnorm4d(self, arg0: Any, arg1: Any, arg2: Any, arg3: Any) -> TensorValue:
        return self._norm((arg0, arg1, arg2, arg3), "rnorm4d", True)

    def _norm(self, args: tuple[Any, ...], name: str, inverse: bool) -> TensorValue:
        """2 ulp. The largest is scaled to about 1, so that squares neither overflow nor vanish."""
        values = self._float_arguments(args, f"libdevice.{name}")
        kind = values[0].dtype
        wide = t.float64 if kind.is_fp64() else t.float32
        sizes = [self.abs(self.convert(v, wide)) for v in values]
        most = sizes[0]
        for size in sizes[1:]:
            most = self.maximum(most, size)
        exponent = self.libdevice_ilogb(most)
        usable = self.logical_and(most > 0.0, most < math.inf)
        exponent = self.where(usable, exponent, 0)
        total: Any = None
        for size in sizes:
            part = self.libdevice_ldexp(size, -exponent)
            square = part * part
            total = square if total is None else total + square
        root = self.float_function("sqrt", (total,), name)
        if inverse:
            root = self.float_function("div_rn", (1.0, root), name)
            exponent = -exponent
        found = self.libdevice_ldexp(root, exponent)
        infinite = most == math.inf  # also where another one is NaN
        return self.convert(self.where(infinite, 0.0 if inverse else math.inf, found), kind)

    # ---- pieces ------------------------------------------------------------------------------------

    def _special_argument(self, value: Any, name: str) -> tuple[TensorValue, t.dtype]:
        """The argument in fp32 or fp64, and the type of the result."""
        x = self._float_arguments((value,), f"libdevice.{name}")[0]
        wide = t.float64 if x.dtype.is_fp64() else t.float32
        return self.convert(x, wide), x.dtype

    def _table(self, x: TensorValue, table: _Table) -> TensorValue:
        """A polynomial of `x` scaled to [-1, 1], by Horner's rule; beyond its range the value at the end."""
        low, high, coefficients = table
        scaled = self.fma(x, 2.0 / (high - low), -(high + low) / (high - low))
        return self._horner(self.minimum(self.maximum(scaled, -1.0), 1.0), coefficients)

    def _horner(self, x: TensorValue, coefficients: tuple[float, ...]) -> TensorValue:
        result = self.filled(coefficients[-1], x.type)
        for value in reversed(coefficients[:-1]):
            result = self.fma(result, x, self.filled(value, x.type))
        return result
