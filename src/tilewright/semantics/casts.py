"""Conversions between types."""

from __future__ import annotations

import math
from typing import Any

from tilewright import dtypes as t
from tilewright.dtypes import unwrap_constexpr
from tilewright.errors import KernelTypeError
from tilewright.semantics.base import SemanticsBase
from tilewright.semantics.values import TensorValue, evaluate, type_text


class Casts(SemanticsBase):
    """`tl.cast`, `x.to`, and the conversions that promotion inserts."""

    def cast(
        self, input: Any, dtype: Any, fp_downcast_rounding: Any = None, bitcast: Any = False
    ) -> TensorValue:
        x = self.to_tensor(input)
        target = self.known_dtype(dtype)
        rounding = self.known_text(
            fp_downcast_rounding, "fp_downcast_rounding", ("", "rtne", "rtz")
        )
        if self.known_bool(bitcast, "bitcast"):
            return self._bitcast(x, target)
        source = x.dtype
        if rounding and source != target:
            narrows = (
                source.is_floating()
                and target.is_floating()
                and target.primitive_bitwidth < source.primitive_bitwidth
            )
            if not narrows:
                raise KernelTypeError(
                    f"fp_downcast_rounding is for conversions to a narrower float, not"
                    f" {source} to {target}"
                )
            if rounding == "rtz":
                return self.emit("tile.fp_cast", [x], target.with_shape(x.shape), rounding="rtz")
        return self.convert(x, target)

    def to(
        self, input: Any, dtype: Any, fp_downcast_rounding: Any = None, bitcast: Any = False
    ) -> TensorValue:
        """`x.to(dtype)`: the method form of `cast`."""
        return self.cast(input, dtype, fp_downcast_rounding, bitcast)

    def convert(self, x: TensorValue, target: Any) -> TensorValue:
        """`x` with elements of scalar type `target`, by value."""
        source = x.dtype
        if source == target:
            return x
        if source.is_ptr() or target.is_ptr():
            return self._convert_pointer(x, target)
        if source.is_floating():
            if target.is_floating():
                return self._float_to_float(x, target)
            return self._float_to_int(x, target)
        if target.is_floating():
            return self._int_to_float(x, target)
        return self._int_to_int(x, target)

    def _number_as(self, value: Any, kind: Any) -> TensorValue:
        """A tensor converted to scalar type `kind`, or a Python number as a constant of it."""
        if kind.is_ptr() or not isinstance(value, bool | int | float):
            return self.convert(self.to_tensor(value), kind)
        if kind.is_bool():
            return self.constant(value != 0, kind)
        if kind.is_int() and isinstance(value, float):
            if not math.isfinite(value):  # unspecified, as for a tensor
                return self.convert(self.to_tensor(value), kind)
            value = int(value)
        return self.constant(value, kind)

    def _as(self, name: str, x: TensorValue, target: Any) -> TensorValue:
        return self.emit(name, [x], target.with_shape(x.shape))

    def _retype(self, x: TensorValue, target: Any) -> TensorValue:
        """Other signedness: the same bits under another language type."""
        return self.tensor(x.handle, target.with_shape(x.shape))

    def _float_to_float(self, x: TensorValue, target: t.dtype) -> TensorValue:
        source, a, b = x.dtype, x.dtype.primitive_bitwidth, target.primitive_bitwidth
        if a == b or (source.is_fp8() and not target.is_fp32()):
            # There is no direct conversion between two types of one width, and none from fp8 that
            # every target has; both are exact to fp32.
            x = self._as("arith.extf", x, t.float32)
            a = 32
            if b == 32:
                return x
        return self._as("arith.extf" if b > a else "arith.truncf", x, target)

    def _float_to_int(self, x: TensorValue, target: t.dtype) -> TensorValue:
        if x.dtype.is_fp8():
            x = self.convert(x, t.float32)
        if target.is_bool():
            zero = self.filled(0.0, x.type)
            return self.emit("tile.cmpf", [x, zero], target.with_shape(x.shape), predicate="une")
        return self._as("arith.fptoui" if target.is_int_unsigned() else "arith.fptosi", x, target)

    def _int_to_float(self, x: TensorValue, target: t.dtype) -> TensorValue:
        name = "arith.uitofp" if x.dtype.is_int_unsigned() else "arith.sitofp"
        if target.is_fp8():
            return self.convert(self._as(name, x, t.float32), target)
        return self._as(name, x, target)

    def _int_to_int(self, x: TensorValue, target: t.dtype) -> TensorValue:
        source, a, b = x.dtype, x.dtype.primitive_bitwidth, target.primitive_bitwidth
        if target.is_bool():
            zero = self.filled(0, x.type)
            return self.emit("tile.cmpi", [x, zero], target.with_shape(x.shape), predicate="ne")
        if b < a:
            return self._as("arith.trunci", x, target)
        if b > a:
            return self._as("arith.extui" if source.is_int_unsigned() else "arith.extsi", x, target)
        return self._retype(x, target)

    def _convert_pointer(self, x: TensorValue, target: Any) -> TensorValue:
        source = x.dtype
        if source.is_ptr() and target.is_ptr():
            if source.element_ty == target.element_ty:
                return self.tensor(x.handle, target.with_shape(x.shape))
            return self._as("tile.bitcast", x, target)
        if source.is_ptr() and target.is_int():
            return self.convert(self._as("tile.ptr_to_int", x, t.int64), target)
        if source.is_int() and target.is_ptr():
            return self._as("tile.int_to_ptr", self.convert(x, t.int64), target)
        raise KernelTypeError(
            f"{type_text(x.type)} cannot be converted to {target}",
            help="pointers convert to and from integers only",
        )

    def _bitcast(self, x: TensorValue, target: Any) -> TensorValue:
        source = x.dtype
        if source == target:
            return x
        if source.is_ptr() or target.is_ptr():
            return self._convert_pointer(x, target)
        if source.primitive_bitwidth != target.primitive_bitwidth:
            raise KernelTypeError(
                f"bitcast from {source} ({source.primitive_bitwidth} bits) to {target}"
                f" ({target.primitive_bitwidth} bits)",
                help="bitcast needs types of one width; leave bitcast out to convert the value",
            )
        if source.is_int() and target.is_int():
            return self._retype(x, target)
        return self._as("tile.bitcast", x, target)

    def python_int(self, x: Any = 0) -> Any:
        """`int(x)` in a kernel: a constant stays one; a scalar becomes int32, or int64 if wider."""
        x = unwrap_constexpr(x)
        if not isinstance(x, TensorValue):
            return evaluate(f"int({x!r})", int, x)
        kind = x.dtype
        if kind.is_int() and not kind.is_bool():
            return x
        return self.convert(x, t.int64 if kind.is_ptr() or kind.is_fp64() else t.int32)

    def python_float(self, x: Any = 0.0) -> Any:
        """`float(x)` in a kernel: a constant stays one; a tensor becomes fp32 unless it is a float."""
        x = unwrap_constexpr(x)
        if not isinstance(x, TensorValue):
            return evaluate(f"float({x!r})", float, x)
        return x if x.dtype.is_floating() else self.convert(x, t.float32)

    def python_bool(self, x: Any = False) -> Any:
        """`bool(x)` in a kernel: x != 0."""
        x = unwrap_constexpr(x)
        return self.convert(x, t.int1) if isinstance(x, TensorValue) else bool(x)
