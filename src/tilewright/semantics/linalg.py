"""Matrix products of tiles."""

from __future__ import annotations

import math
from typing import Any

from tilewright import dtypes as t
from tilewright.dtypes import unwrap_constexpr
from tilewright.errors import KernelTypeError
from tilewright.semantics.reductions import Reductions
from tilewright.semantics.values import TensorValue, describe, type_text

PRECISIONS = ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6")


class Linalg(Reductions):
    """`dot`."""

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


def _conversion(a: Any, b: Any) -> str:
    """The conversion, as text, that gives operands of these types one type: the wider one."""
    wider_b = (b.is_floating(), b.primitive_bitwidth) > (a.is_floating(), a.primitive_bitwidth)
    name, kind = ("a", b) if wider_b else ("b", a)
    return f"{name}.to(tl.{kind.in_language})"
