"""Program ids, creation of tiles, hints, printing and assertions."""

from __future__ import annotations

from typing import Any

from tilewright import dtypes as t
from tilewright.dtypes import constexpr, unwrap_constexpr
from tilewright.errors import KernelTypeError, StaticAssertError
from tilewright.semantics.arithmetic import Arithmetic
from tilewright.semantics.values import TensorValue, describe, type_text


class Program(Arithmetic):
    """`program_id` … `device_assert`."""

    def program_id(self, axis: Any) -> TensorValue:
        return self._grid("tile.program_id", axis)

    def num_programs(self, axis: Any) -> TensorValue:
        return self._grid("tile.num_programs", axis)

    def _grid(self, name: str, axis: Any) -> TensorValue:
        number = self.known_int(axis, f"{name.replace('tile', 'tl')}: axis")
        if number not in (0, 1, 2):
            what = name.removeprefix("tile.")
            raise KernelTypeError(f"{what} axis must be 0, 1, or 2 but got {number}")
        return self.emit(name, [], t.int32, axis=number)

    def arange(self, start: Any, end: Any) -> TensorValue:
        low = self.known_int(start, "tl.arange: start")
        high = self.known_int(end, "tl.arange: end")
        extent = high - low
        if extent <= 0:
            raise KernelTypeError(
                "arange's end argument must be greater than the start argument, got"
                f" tl.arange({low}, {high})"
            )
        if extent & (extent - 1) and not self.any_extents:
            rounded = 1 << extent.bit_length()
            raise KernelTypeError(
                f"arange's range must be a power of 2, but tl.arange({low}, {high}) has {extent} elements",
                help=f"use tl.arange({low}, {low + rounded}) and a mask for the first {extent}",
            )
        if not -(2**31) <= low <= high <= 2**31:
            raise KernelTypeError(f"tl.arange({low}, {high}) does not fit int32")
        return self.lanes(low, high)

    def lanes(self, start: int, end: int) -> TensorValue:
        """`arange` without the power-of-two rule, for semantics' own use."""
        kind = t.block_type(t.int32, (end - start,))
        return self.emit("tile.arange", [], kind, start=start, end=end)

    def full(self, shape: Any, value: Any, dtype: Any) -> TensorValue:
        return self._full("tl.full", shape, value, dtype)

    def _full(self, what: str, shape: Any, value: Any, dtype: Any) -> TensorValue:
        extents = self.shape_argument(shape, what)
        kind = self.known_dtype(dtype)
        value = unwrap_constexpr(value)
        if isinstance(value, TensorValue):
            if value.numel != 1:
                raise KernelTypeError(f"{what}: value must be a scalar, got {describe(value)}")
            scalar = self.convert(self.item(value) if value.shape else value, kind)
        else:
            scalar = self._number_as(value, kind)
        return self.splat(scalar, extents)

    def zeros(self, shape: Any, dtype: Any) -> TensorValue:
        return self._full("tl.zeros", shape, 0, dtype)

    def zeros_like(self, input: Any) -> TensorValue:
        x = self.to_tensor(input)
        if x.dtype.is_ptr():
            raise KernelTypeError(f"tl.zeros_like needs numbers, got {describe(x)}")
        return self.filled(0, x.type)

    def full_like(self, input: Any, value: Any) -> TensorValue:
        x = self.to_tensor(input)
        return self.broadcast_shape(self.convert(self.to_tensor(value), x.dtype), x.shape)

    # ---- hints ---------------------------------------------------------------------------------

    def multiple_of(self, input: Any, values: Any) -> Any:
        return self._hint("multiple_of", input, values)

    def max_contiguous(self, input: Any, values: Any) -> Any:
        return self._hint("max_contiguous", input, values)

    def max_constancy(self, input: Any, values: Any) -> Any:
        return self._hint("max_constancy", input, values)

    def _hint(self, kind: str, input: Any, values: Any) -> Any:
        x = unwrap_constexpr(input)
        numbers = self.known_ints(values, f"tl.{kind}: values")
        if not isinstance(x, TensorValue):
            return input
        if len(numbers) != max(1, x.ndim):
            if len(numbers) != 1:
                raise KernelTypeError(
                    f"tl.{kind}: {len(numbers)} values for {type_text(x.type)}",
                    help="give one value for each dimension",
                )
            numbers = numbers * x.ndim
        return self.emit("tile.hint", [x], x.type, kind=kind, values=numbers)

    def assume(self, cond: Any) -> None:
        value = self.condition(cond, "tl.assume")
        if isinstance(value, TensorValue):
            self.builder.op("tile.assume", [value.handle])

    def debug_barrier(self) -> None:
        self.builder.op("tile.barrier", [])

    # ---- printing and assertions ---------------------------------------------------------------

    def device_print(self, prefix: Any, *args: Any, hex: Any = False) -> None:
        text = unwrap_constexpr(prefix)
        if not isinstance(text, str):
            raise KernelTypeError(
                f"tl.device_print: the first argument must be a string, got {describe(prefix)}",
                help='write tl.device_print("x", x)',
            )
        values = []
        for arg in args:
            if isinstance(unwrap_constexpr(arg), str):
                text = f"{text} {unwrap_constexpr(arg)}".strip()
            else:
                values.append(self.to_tensor(arg))
        self.builder.op(
            "tile.print",
            [v.handle for v in values],
            prefix=text,
            hex=self.known_bool(hex, "hex"),
            signed=tuple(v.dtype.is_int() and not v.dtype.is_int_unsigned() for v in values),
        )

    def python_print(self, *args: Any, **ignored: Any) -> None:
        """Python's `print` in a kernel: text goes to the prefix, the rest is printed."""
        texts = [unwrap_constexpr(a) for a in args]
        words = " ".join(x for x in texts if isinstance(x, str))
        self.device_print(words, *[x for x in texts if not isinstance(x, str)])

    def device_assert(self, cond: Any, msg: Any = "", mask: Any = None) -> None:
        if not self.debug:
            return
        held = self.truth(cond)
        if unwrap_constexpr(mask) is not None:
            held = self.logical_or(held, self.logical_not(self.to_tensor(mask)))
        text = self.known_text(msg, "tl.device_assert: msg")
        self.builder.op("tile.assert", [held.handle], message=text)

    def static_assert(self, cond: Any, msg: Any = "") -> None:
        value = unwrap_constexpr(cond)
        if isinstance(value, TensorValue):
            raise KernelTypeError(
                f"tl.static_assert needs a compile-time condition, got {describe(value)}",
                help="use tl.device_assert for values known when the kernel runs",
            )
        if not value:
            text = unwrap_constexpr(msg)
            raise StaticAssertError(f"static assertion failed{f': {text}' if text else ''}")

    def static_print(self, *values: Any, sep: Any = " ", end: Any = "\n", **ignored: Any) -> None:
        shown = [unwrap_constexpr(v) for v in values]
        print(*shown, sep=unwrap_constexpr(sep), end=unwrap_constexpr(end), flush=True)

    def to_constexpr(self, value: Any) -> constexpr:
        """`tl.constexpr(value)` in a kernel."""
        value = unwrap_constexpr(value)
        if isinstance(value, TensorValue):
            raise KernelTypeError(
                f"{describe(value)} is known only at run time, so it is not a constexpr"
            )
        return constexpr(value)
