"""The functions of `tl.extra.libdevice` on the bits of numbers, as methods `libdevice_<name>`.

Written in shifts and masks, which LLVM knows as the instructions that processors have for them.
Source: Warren, *Hacker's Delight*, chapters 5 and 7.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright import dtypes as t
from tilewright.dtypes import unwrap_constexpr
from tilewright.errors import KernelTypeError
from tilewright.semantics.linalg import Linalg
from tilewright.semantics.values import TensorValue, describe

#: name -> (type of the argument, type of the result), of functions that keep all bits
REINTERPRETED = {
    "float_as_int": (t.float32, t.int32), "float_as_uint": (t.float32, t.uint32),
    "int_as_float": (t.int32, t.float32), "uint_as_float": (t.uint32, t.float32),
    "double_as_longlong": (t.float64, t.int64), "longlong_as_double": (t.int64, t.float64),
}  # fmt: skip


class Bits(Linalg):
    """Counting and reversing bits. Arguments are 32 or 64 bits wide; counts are int32."""

    def libdevice_popc(self, arg0: Any) -> TensorValue:
        return self._counted(self._unsigned(arg0, "libdevice.popc"))

    def libdevice_clz(self, arg0: Any) -> TensorValue:
        x = self._unsigned(arg0, "libdevice.clz")
        width = x.dtype.primitive_bitwidth
        for shift in _halves(width, up=True):
            x = x | (x >> shift)
        return width - self._counted(x)

    def libdevice_ffs(self, arg0: Any) -> TensorValue:
        x = self._unsigned(arg0, "libdevice.ffs")
        below = x ^ (x - 1)  # it and those below it; of 0 all
        return self.where(x != 0, self._counted(below), 0)

    def libdevice_brev(self, arg0: Any) -> TensorValue:
        x = self._unsigned(arg0, "libdevice.brev")
        width = x.dtype.primitive_bitwidth
        for shift in _halves(width):
            mask = _stripes(width, shift)
            high = (x >> shift) & mask
            x = high | ((x & mask) << shift)
        kind = self.to_tensor(unwrap_constexpr(arg0)).dtype
        return self.convert(x, kind)

    def libdevice_byte_perm(self, arg0: Any, arg1: Any, arg2: Any) -> TensorValue:
        low, high = (
            self.convert(self._unsigned(v, "libdevice.byte_perm"), t.uint64) for v in (arg0, arg1)
        )
        both = low | (high << 32)
        selector = self._unsigned(arg2, "libdevice.byte_perm")
        result: Any = None
        for place in range(4):
            which = (selector >> (4 * place)) & 7
            shift = self.convert(which * 8, t.uint64)
            byte = (both >> shift) & 0xFF
            byte = byte << (8 * place)
            result = byte if result is None else result | byte
        return self.convert(self.convert(result, t.uint32), self._type_of(arg0))

    def libdevice_sad(self, arg0: Any, arg1: Any, arg2: Any) -> TensorValue:
        x, y = self.promote_pair(arg0, arg1, "libdevice.sad")
        larger, smaller = self.maximum(x, y), self.minimum(x, y)
        distance = self.convert(larger - smaller, t.uint32)
        return distance + self._unsigned(arg2, "libdevice.sad")

    def libdevice_hadd(self, arg0: Any, arg1: Any) -> TensorValue:
        return self._average(arg0, arg1, 0)

    def libdevice_rhadd(self, arg0: Any, arg1: Any) -> TensorValue:
        return self._average(arg0, arg1, 1)

    def _average(self, arg0: Any, arg1: Any, more: int) -> TensorValue:
        x, y = self.promote_pair(arg0, arg1, "libdevice.hadd")
        wide = t.uint64 if x.dtype.is_int_unsigned() else t.int64
        total = self.convert(x, wide) + self.convert(y, wide)
        return self.convert((total + more) >> 1, x.dtype)

    def libdevice_mul24(self, arg0: Any, arg1: Any) -> TensorValue:
        x, y = self.promote_pair(arg0, arg1, "libdevice.mul24")
        parts = [(v << 8) >> 8 for v in (x, y)]
        return self.binary("*", *parts)

    def libdevice_hiloint2double(self, arg0: Any, arg1: Any) -> TensorValue:
        high, low = (
            self.convert(self._unsigned(v, "libdevice.hiloint2double"), t.uint64)
            for v in (arg0, arg1)
        )
        return self.cast((high << 32) | low, t.float64, bitcast=True)

    def libdevice_double2hiint(self, arg0: Any) -> TensorValue:
        return self.convert(self._bits_of_double(arg0) >> 32, t.int32)

    def libdevice_double2loint(self, arg0: Any) -> TensorValue:
        return self.convert(self._bits_of_double(arg0), t.int32)

    def libdevice_rcp64h(self, arg0: Any) -> TensorValue:
        inverse = self._bits_of_double(self.fdiv(1.0, self._double(arg0)))
        return self.cast(inverse & -(1 << 32), t.float64, bitcast=True)

    def _double(self, value: Any) -> TensorValue:
        return self.convert(self.to_tensor(unwrap_constexpr(value)), t.float64)

    def _bits_of_double(self, value: Any) -> TensorValue:
        return self.cast(self._double(value), t.int64, bitcast=True)

    def _type_of(self, value: Any) -> t.dtype:
        return self.to_tensor(unwrap_constexpr(value)).dtype

    def _unsigned(self, value: Any, what: str) -> TensorValue:
        x = self.to_tensor(unwrap_constexpr(value))
        if not x.dtype.is_int() or x.dtype.primitive_bitwidth not in (32, 64):
            raise KernelTypeError(
                f"{what} needs integers of 32 or 64 bits, got {describe(x)}",
                help="convert it with .to(tl.int32)",
            )
        return self.convert(x, t.uint32 if x.dtype.primitive_bitwidth == 32 else t.uint64)

    def _counted(self, x: TensorValue) -> TensorValue:
        """Bits set in an unsigned x: sums of neighbors, pairs, halves of bytes, then bytes."""
        width = x.dtype.primitive_bitwidth
        ones, twos, fours = (_stripes(width, n) for n in (1, 2, 4))
        x = x - ((x >> 1) & ones)
        x = (x & twos) + ((x >> 2) & twos)
        x = (x + (x >> 4)) & fours
        total = (x * _each(width)) >> (width - 8)
        return self.convert(total, t.int32)


def _halves(width: int, up: bool = False) -> list[int]:
    """1, 2, 4 … width/2 or the reverse."""
    shifts = [1 << i for i in range(width.bit_length() - 1)]
    return shifts if up else shifts[::-1]


def _stripes(width: int, run: int) -> int:
    """`run` ones, `run` zeros and so on, from the lowest bit up."""
    return sum(((1 << run) - 1) << at for at in range(0, width, 2 * run))


def _each(width: int) -> int:
    """A one in every byte."""
    return sum(1 << at for at in range(0, width, 8))


def _install_reinterpreted() -> None:
    def method_for(name: str, source: t.dtype, target: t.dtype) -> Callable[..., Any]:
        def method(self: Bits, arg0: Any) -> TensorValue:
            x = self.to_tensor(unwrap_constexpr(arg0))
            if x.dtype.primitive_bitwidth != source.primitive_bitwidth or (
                x.dtype.is_floating() != source.is_floating()
            ):
                raise KernelTypeError(f"libdevice.{name} needs {source}, got {describe(x)}")
            return self.cast(x, target, bitcast=True)

        return method

    for name, (source, target) in REINTERPRETED.items():
        setattr(Bits, f"libdevice_{name}", method_for(name, source, target))


_install_reinterpreted()
