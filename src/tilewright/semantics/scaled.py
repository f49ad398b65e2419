"""`dot_scaled`: dots of microscaled tiles, by way of `dot`."""

from __future__ import annotations

from typing import Any

from tilewright import dtypes as t
from tilewright.dtypes import unwrap_constexpr
from tilewright.errors import KernelTypeError
from tilewright.semantics.libdevice import Libdevice
from tilewright.semantics.values import TensorValue, describe

#: format -> the type of an element, and of its bits
_FORMATS: dict[str, tuple[Any, Any]] = {
    "e2m1": (None, t.uint8), "e4m3": (t.float8e4nv, t.uint8), "e5m2": (t.float8e5, t.uint8),
    "bf16": (t.bfloat16, t.uint16), "fp16": (t.float16, t.uint16),
}  # fmt: skip
_WHAT = "tl.dot_scaled"


class Scaled(Libdevice):
    """Formats of the OCP Microscaling specification 1.0."""

    def dot_scaled(
        self,
        lhs: Any,
        lhs_scale: Any,
        lhs_format: Any,
        rhs: Any,
        rhs_scale: Any,
        rhs_format: Any,
        acc: Any = None,
        fast_math: Any = False,
        lhs_k_pack: Any = True,
        rhs_k_pack: Any = True,
        out_dtype: Any = None,
    ) -> TensorValue:
        formats = [
            self.known_text(f, f"{_WHAT}: a format", tuple(_FORMATS))
            for f in (lhs_format, rhs_format)
        ]
        kind = t.float16 if "fp16" in formats else t.bfloat16
        fast = bool(unwrap_constexpr(fast_math))
        self._check_groups(unwrap_constexpr(lhs_scale), unwrap_constexpr(rhs_scale))
        a = self._scaled(lhs, lhs_scale, formats[0], 1, unwrap_constexpr(lhs_k_pack), kind, fast)
        b = self._scaled(rhs, rhs_scale, formats[1], 0, unwrap_constexpr(rhs_k_pack), kind, fast)
        return self.dot(a, b, acc, out_dtype=t.float32 if out_dtype is None else out_dtype)

    def _check_groups(self, lhs_scale: Any, rhs_scale: Any) -> None:
        """Reject scales that cover groups of different sizes along K."""
        scales = [s for s in (lhs_scale, rhs_scale) if isinstance(s, TensorValue)]
        if len(scales) == 2 and all(s.shape for s in scales):
            groups = [s.shape[-1] for s in scales]
            if groups[0] != groups[1]:
                raise KernelTypeError(
                    f"{_WHAT}: the scale factors differ: lhs_scale {describe(lhs_scale)} has {groups[0]}"
                    f" groups along K, rhs_scale {describe(rhs_scale)} has {groups[1]}",
                    help="one group size holds for both operands: scales are (M, K/group) and (N, K/group)",
                )

    def _scaled(
        self, x: Any, scale: Any, name: str, k: int, k_pack: Any, kind: t.dtype, fast: bool
    ) -> TensorValue:
        """An operand as numbers; `k` is the axis along which its groups lie."""
        if not isinstance(x, TensorValue) or len(x.shape) != 2:
            raise KernelTypeError(f"{_WHAT} needs tiles of two dimensions, got {describe(x)}")
        values = self._numbers(x, name, k if k_pack else 1 - k)
        scale = unwrap_constexpr(scale)
        if scale is None:
            return self.convert(values, kind)
        factors = self._factors(scale, values.shape[1 - k], values.shape[k], fast)
        if k == 0:
            factors = self.trans(factors)
        wide = self.convert(values, t.float32)
        return self.convert(wide * factors, kind)

    def _numbers(self, x: TensorValue, name: str, packed: int) -> TensorValue:
        """The elements of a tile of format `name`; two e2m1 share a byte along axis `packed`."""
        element, bits = _FORMATS[name]
        if element is not None and x.dtype == element:
            return x
        if x.dtype not in (bits, t.int8 if bits == t.uint8 else t.int16):
            wanted = f"{element} or {bits}" if element is not None else f"{bits}"
            raise KernelTypeError(f"{_WHAT}: a tile of format {name} is of {wanted}, not {x.dtype}")
        if element is not None:
            return self.cast(x, element, bitcast=True)
        rows, columns = x.shape
        word = self.convert(self.cast(x, t.uint8, bitcast=True), t.int32)
        low, high = (self._e2m1(word >> s) for s in (0, 4))
        both = self.join(low, high)
        if packed == 0:
            both = self.permute(both, 0, 2, 1)
        shape = (2 * rows, columns) if packed == 0 else (rows, 2 * columns)
        return self.reshaped(both, shape, _WHAT)

    def _e2m1(self, word: TensorValue) -> TensorValue:
        """The number that the low four bits are: sign, two of exponent, one of fraction."""
        fraction = word & 1
        exponent = (word >> 1) & 3
        normal = (fraction + 2) << self.maximum(exponent - 1, 0)
        doubled = self.where(exponent == 0, fraction, normal)
        size = self.convert(doubled, t.float32) * 0.5
        negative = (word & 8) != 0
        return self.where(negative, -size, size)

    def _factors(self, scale: Any, lines: int, k: int, fast: bool) -> TensorValue:
        """Scales (lines, groups) as fp32, one for each element (lines, k)."""
        fits = isinstance(scale, TensorValue) and len(scale.shape) == 2
        if not fits or scale.shape[0] != lines or k % scale.shape[1]:
            raise KernelTypeError(
                f"{_WHAT}: the scales of {lines} lines of {k} elements are a tile of ({lines}, "
                f"{k} / group), not {describe(scale)}"
            )
        if scale.dtype == t.float8e4nv:
            factors = self.convert(scale, t.float32)
        elif scale.dtype in (t.uint8, t.int8):
            word = self.convert(self.cast(scale, t.uint8, bitcast=True), t.int32)
            bits = word << 23
            bits = self.where(word == 0, 1 << 22, bits)  # 2 ** -127
            if not fast:
                bits = self.where(word == 255, 0x7FC00000, bits)
            factors = self.cast(self.convert(bits, t.int32), t.float32, bitcast=True)
        else:
            raise KernelTypeError(f"{_WHAT}: scales are uint8 or fp8e4nv, not {scale.dtype}")
        groups = scale.shape[1]
        spread = self.broadcast_to(self.expand_dims(factors, 2), lines, groups, k // groups)
        return self.reshaped(spread, (lines, k), _WHAT)
