"""Matrix products of tiles."""

from __future__ import annotations

import math
from typing import Any

from tilewright import dtypes as t
from tilewright.dtypes import unwrap_constexpr
from tilewright.errors import KernelTypeError
from tilewright.semantics.mathematics import Mathematics
from tilewright.semantics.values import TensorValue, describe, type_text

PRECISIONS = ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6")


#: format -> the type of an element, and of its bits
_FORMATS: dict[str, tuple[Any, Any]] = {
    "e2m1": (None, t.uint8), "e4m3": (t.float8e4nv, t.uint8), "e5m2": (t.float8e5, t.uint8),
    "bf16": (t.bfloat16, t.uint16), "fp16": (t.float16, t.uint16),
}  # fmt: skip
_WHAT = "tl.dot_scaled"


class Linalg(Mathematics):
    """`dot`, and `dot_scaled` of formats of the OCP Microscaling specification 1.0 by way of it."""

    def dot(
        self,
        input: Any,
        other: Any,
        acc: Any = None,
        input_precision: Any = None,
        allow_tf32: Any = None,
        max_num_imprecise_acc: Any = None,
        out_dtype: Any = None,
        trans_a: Any = False,
        trans_b: Any = False,
    ) -> TensorValue:
        a = self.trans(input) if unwrap_constexpr(trans_a) else input
        b = self.trans(other) if unwrap_constexpr(trans_b) else other
        a, b = self._dot_operands(a, b)
        kind = self._dot_type(a, b, unwrap_constexpr(acc), unwrap_constexpr(out_dtype))
        if a.dtype.is_int() and a.dtype.is_int_unsigned():
            # The IR is signless and its products are signed: unsigned values need one more bit.
            signed = t.int64 if a.dtype.primitive_bitwidth == 64 else t.int32
            a, b = self.convert(a, signed), self.convert(b, signed)
        precision = self._dot_precision(input_precision, allow_tf32)
        imprecise = self._dot_imprecise(a, b, max_num_imprecise_acc)
        shape = (*a.shape[:-1], b.shape[-1])
        if unwrap_constexpr(acc) is None:
            start = self.filled(0, kind.with_shape(shape))
        else:
            start = self.to_tensor(acc)
            if start.shape != shape:
                raise KernelTypeError(
                    f"tl.dot of {type_text(a.type)} and {type_text(b.type)} gives shape"
                    f" {list(shape)}, but acc is {type_text(start.type)}"
                )
        if len(shape) > 3:
            batch = (math.prod(shape[:-2]),)
            a, b, start = (self.reshaped(x, batch + x.shape[-2:], "tl.dot") for x in (a, b, start))
        result = self.emit(
            "tile.dot",
            [a, b, start],
            start.type,
            input_precision=precision,
            max_num_imprecise_acc=imprecise,
        )
        return self.reshaped(result, shape, "tl.dot")

    def _dot_operands(self, input: Any, other: Any) -> tuple[TensorValue, TensorValue]:
        a, b = self.tile_argument(input, "tl.dot"), self.tile_argument(other, "tl.dot")
        kinds = f"{describe(a)} and {describe(b)}"
        for x in (a, b):
            if x.dtype.is_ptr() or x.dtype.is_bool():
                raise KernelTypeError(f"tl.dot is not defined for {kinds}")
        if a.ndim != b.ndim or a.ndim < 2:
            raise KernelTypeError(
                f"tl.dot needs two tiles of equal rank, 2 or more: {kinds}",
                help="add a dimension with [None, :] or expand_dims",
            )
        if a.shape[-1] != b.shape[-2] or a.shape[:-2] != b.shape[:-2]:
            raise KernelTypeError(
                f"tl.dot of {kinds}: the inner extents are {a.shape[-1]} and {b.shape[-2]}"
                + (", and the batches differ" if a.shape[:-2] != b.shape[:-2] else ""),
                help="the left tile is [..., M, K], the right one [..., K, N]; transpose with .T",
            )
        if a.dtype != b.dtype and not (a.dtype.is_fp8() and b.dtype.is_fp8()):
            raise KernelTypeError(
                f"tl.dot of {kinds}: the element types differ",
                help=f"convert one of them, e.g. {_conversion(a.dtype, b.dtype)}",
            )
        return a, b

    def _dot_type(self, a: TensorValue, b: TensorValue, acc: Any, out: Any) -> Any:
        """The accumulator's type, checked against `acc` and `out_dtype`."""
        allowed = t.accumulators(a.dtype)
        if a.dtype.is_int() and out in (t.float32, a.dtype):
            out = None  # as in Triton, integers ignore its default and their own type: they add in int32
        wanted = acc.dtype if isinstance(acc, TensorValue) else out
        wanted = allowed[0] if wanted is None else self.known_dtype(wanted, "out_dtype")
        if isinstance(acc, TensorValue) and out is not None and self.known_dtype(out) != acc.dtype:
            raise KernelTypeError(f"tl.dot: acc is {acc.dtype} but out_dtype is {out}")
        if wanted == t.float32 and not a.dtype.is_int() and a.dtype.is_fp64():
            wanted = t.float64 if acc is None else wanted
        if wanted not in allowed:
            options = " or ".join(str(k) for k in allowed)
            raise KernelTypeError(
                f"tl.dot of {type_text(a.type)} and {type_text(b.type)} accumulates in {options},"
                f" not {wanted}",
                help=f"use an accumulator of {allowed[0]} and convert the result with .to(tl.{wanted.in_language})",
            )
        return wanted

    def _dot_precision(self, precision: Any, allow_tf32: Any) -> str:
        text = self.known_text(precision, "tl.dot: input_precision", ("", *PRECISIONS))
        allow = unwrap_constexpr(allow_tf32)
        if text and allow is not None:
            raise KernelTypeError(
                "tl.dot: input_precision and allow_tf32 exclude each other",
                help="use input_precision alone",
            )
        if allow is not None:
            return "tf32" if allow else "ieee"
        return text or self.dot_precision

    def _dot_imprecise(self, a: TensorValue, b: TensorValue, given: Any) -> int | None:
        """`max_num_imprecise_acc`, which concerns 8-bit floats only."""
        number = unwrap_constexpr(given)
        if number is None or not (a.dtype.is_fp8() and b.dtype.is_fp8()):
            return None
        if not isinstance(number, int) or not 0 <= number <= a.shape[-1]:
            raise KernelTypeError(
                f"tl.dot: max_num_imprecise_acc is {number}, but K is {a.shape[-1]}",
                help=f"give a number from 0 to {a.shape[-1]}, or leave it out for no limit",
            )
        return number

    # ---- microscaled tiles ------------------------------------------------------------------

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


def _conversion(a: Any, b: Any) -> str:
    """The conversion, as text, that gives operands of these types one type: the wider one."""
    wider_b = (b.is_floating(), b.primitive_bitwidth) > (a.is_floating(), a.primitive_bitwidth)
    name, kind = ("a", b) if wider_b else ("b", a)
    return f"{name}.to(tl.{kind.in_language})"
