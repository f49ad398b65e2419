"""Operators: promotion, then the operation that fits the types."""

from __future__ import annotations

from typing import Any

from tilewright import dtypes as t
from tilewright.dtypes import constexpr, unwrap_constexpr
from tilewright.errors import KernelTypeError
from tilewright.semantics.casts import Casts
from tilewright.semantics.named import plain
from tilewright.semantics.promotion import is_exact, promote, promote_with_number
from tilewright.semantics.values import (
    PYTHON_BINARY,
    PYTHON_UNARY,
    TensorValue,
    describe,
    evaluate,
    type_text,
)

_INT_OPS = {"+": "arith.addi", "-": "arith.subi", "*": "arith.muli"}
_FLOAT_OPS = {"+": "arith.addf", "-": "arith.subf", "*": "arith.mulf", "/": "arith.divf"}
_BIT_OPS = {"&": "arith.andi", "|": "arith.ori", "^": "arith.xori", "<<": "arith.shli"}
_COMPARISONS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_DIVIDES = ("/", "//", "%")
_OPERANDS_ARE = "operands are tensors, Python numbers or tl.constexpr"
_POINTERS_TAKE = "pointers take + and - with integers, and comparisons"


class Arithmetic(Casts):
    """`binary`, `unary`, truth values, and the functional forms of the operators."""

    # ---- promotion -----------------------------------------------------------------------------

    def promote_pair(
        self, a: Any, b: Any, what: str, divides: bool = False, typed: bool = False
    ) -> tuple[TensorValue, TensorValue]:
        """Both operands in their common type and shape. Numbers only: no pointers.

        `typed`: a Python number takes part with its own type, as in Triton's comparisons, `tl.maximum` and others.
        """
        a, b = unwrap_constexpr(a), unwrap_constexpr(b)
        for value in (a, b):
            if isinstance(value, TensorValue) and value.dtype.is_ptr():
                raise _undefined(what, a, b, _POINTERS_TAKE)
        number_a, number_b = (not isinstance(v, TensorValue) for v in (a, b))
        if number_a and number_b:
            a = self.to_tensor(a)
            number_a = False
        if number_a or number_b:
            number, tensor = (a, b) if number_a else (b, a)
            if not isinstance(number, bool | int | float):
                is_none = "an argument that is None can only be asked for: `if x_ptr is not None:`"
                raise _undefined(what, a, b, is_none if number is None else _OPERANDS_ARE)
            try:
                kind = promote_with_number(tensor.dtype, number, divides, typed)
            except KernelTypeError as error:
                raise KernelTypeError(
                    f"{what} of {describe(a)} and {describe(b)}: {error.message}", help=error.help
                ) from None
            tensor = self.convert(tensor, kind)
            if kind.is_int_unsigned() and not kind.is_bool():
                number = int(number) % (1 << kind.primitive_bitwidth)
            other = self.filled(number, tensor.type)
            return (other, tensor) if number_a else (tensor, other)
        kind = promote(a.dtype, b.dtype, divides)
        x, y = self.broadcast_all([self.convert(a, kind), self.convert(b, kind)], what, (a, b))
        return x, y

    def _comparable(self, a: Any, b: Any, what: str) -> tuple[TensorValue, TensorValue]:
        """Both operands in the type in which Triton compares them, or in a narrower one that holds the number."""
        number, tensor = (b, a) if isinstance(a, TensorValue) else (a, b)
        exact = (
            isinstance(tensor, TensorValue)
            and isinstance(number, bool | int | float)
            and not tensor.dtype.is_ptr()
            and is_exact(tensor.dtype, number)
        )
        return self.promote_pair(plain(a), plain(b), what, typed=not exact)

    # ---- operators -----------------------------------------------------------------------------

    def binary(self, symbol: str, a: Any, b: Any) -> Any:
        """`a symbol b` for + - * / // % ** << >> & | ^ == != < <= > >=.

        Two compile-time operands give Python's result (a constexpr if one of them was one).
        """
        left, right = unwrap_constexpr(a), unwrap_constexpr(b)
        if not (isinstance(left, TensorValue) or isinstance(right, TensorValue)):
            text = f"{left!r} {symbol} {right!r}"
            value = evaluate(text, PYTHON_BINARY[symbol], left, right)
            folded = isinstance(a, constexpr) or isinstance(b, constexpr)
            return constexpr(value) if folded else value
        if symbol in _COMPARISONS:
            return self._compare(symbol, left, right)
        if self._has_pointer(left, right):
            return self._pointer_arithmetic(symbol, left, right)
        if symbol == "**":
            return self._power(left, right)
        if symbol in ("&", "|", "^", "<<", ">>"):
            return self._bitwise(symbol, left, right)
        if symbol in _DIVIDES:
            return self._divide(symbol, left, right)
        x, y = self.promote_pair(left, right, f"`{symbol}`")
        return self._lanewise((_FLOAT_OPS if x.dtype.is_floating() else _INT_OPS)[symbol], x, y)

    def _lanewise(self, name: str, *operands: TensorValue) -> TensorValue:
        """An operation on operands of one type, which is the result's; fp8 computes in fp32."""
        kind = operands[0].dtype
        if kind.is_fp8():
            operands = tuple(self.convert(v, t.float32) for v in operands)
        return self.convert(self.emit(name, operands, operands[0].type), kind)

    def _divide(self, symbol: str, a: Any, b: Any) -> TensorValue:
        kinds = [v.dtype for v in (a, b) if isinstance(v, TensorValue)]
        # a bool has no sign to disagree with
        integers = all(k.is_int() and not k.is_bool() for k in kinds) and not any(
            isinstance(v, float) for v in (a, b)
        )
        if integers and len({k.is_int_unsigned() for k in kinds}) == 2:
            raise KernelTypeError(
                f"Cannot use {symbol} with {describe(a)} and {describe(b)} because they have"
                " different signedness",
                help="convert one side so that both are signed or both unsigned",
            )
        x, y = self.promote_pair(a, b, f"`{symbol}`", divides=True)
        kind = x.dtype
        if symbol == "/":
            if kind.is_int():
                x, y = self.convert(x, t.float32), self.convert(y, t.float32)
            return self.emit("arith.divf", [x, y], x.type)
        if symbol == "//":
            if kind.is_floating():
                raise KernelTypeError(
                    f"`//` of {describe(a)} and {describe(b)}: floor division is for integers",
                    help="write tl.floor(a / b)",
                )
            name = "arith.divui" if kind.is_int_unsigned() else "arith.divsi"
        elif kind.is_floating():
            name = "tile.remf"
        else:
            name = "arith.remui" if kind.is_int_unsigned() else "arith.remsi"
        return self.emit(name, [x, y], x.type)

    def _bitwise(self, symbol: str, a: Any, b: Any) -> TensorValue:
        for value in (a, b):
            kind = value.dtype if isinstance(value, TensorValue) else None
            if isinstance(value, float) or (kind is not None and not kind.is_int()):
                raise KernelTypeError(
                    f"`{symbol}` has invalid operands of type {describe(a)} and {describe(b)}",
                    help="it needs integers or masks: compare first (x != 0), or .to(tl.int32, bitcast=True) for the bits",
                )
        x, y = self.promote_pair(a, b, f"`{symbol}`")
        name = _BIT_OPS.get(symbol)
        if name is None:  # `>>`: the sign of the left operand decides, not that of the result
            kind = a.dtype if isinstance(a, TensorValue) else x.dtype
            name = "arith.shrui" if kind.is_int_unsigned() else "arith.shrsi"
        return self.emit(name, [x, y], x.type)

    def _power(self, a: Any, b: Any) -> TensorValue:
        """A small constant integer exponent multiplies; anything else is C's `pow` in fp32 or fp64."""
        if isinstance(b, int) and not isinstance(b, bool) and 0 <= b <= 64:
            return self._integer_power(self.to_tensor(a), b)
        x, y = self.promote_pair(a, b, "`**`")
        kind = x.dtype
        if kind.is_int():
            raise KernelTypeError(
                f"`**` of {describe(a)} and {describe(b)}: an integer power needs a constant"
                " exponent from 0 to 64",
                help="convert the base with .to(tl.float32)",
            )
        wide = t.float64 if kind.is_fp64() else t.float32
        x, y = self.convert(x, wide), self.convert(y, wide)
        return self.convert(self.emit("math.powf", [x, y], x.type), kind)

    def _integer_power(self, x: TensorValue, exponent: int) -> TensorValue:
        result: Any = None
        square = x
        while exponent:
            if exponent & 1:
                result = square if result is None else self.binary("*", result, square)
            exponent >>= 1
            if exponent:
                square = self.binary("*", square, square)
        return self.filled(1, x.type) if result is None else result

    def _compare(self, symbol: str, a: Any, b: Any) -> Any:
        for value in (a, b):
            if value is None or isinstance(value, str):
                raise _undefined(f"`{symbol}`", a, b, _identity_help(symbol, value))
        if self._has_pointer(a, b):
            x, y = self._pointers_to_compare(symbol, a, b)
        else:
            x, y = self._comparable(a, b, f"`{symbol}`")
        name, kind = _COMPARISONS[symbol], x.dtype
        if kind.is_floating():
            if kind.is_fp8():
                x, y = self.convert(x, t.float32), self.convert(y, t.float32)
            predicate = "une" if name == "ne" else f"o{name}"
            return self.emit("tile.cmpf", [x, y], t.int1.with_shape(x.shape), predicate=predicate)
        if name not in ("eq", "ne"):
            unsigned = kind.is_ptr() or kind.is_int_unsigned()
            name = ("u" if unsigned else "s") + name
        return self.emit("tile.cmpi", [x, y], t.int1.with_shape(x.shape), predicate=name)

    # ---- pointers ------------------------------------------------------------------------------

    @staticmethod
    def _has_pointer(*values: Any) -> bool:
        return any(isinstance(v, TensorValue) and v.dtype.is_ptr() for v in values)

    def _pointers_to_compare(self, symbol: str, a: Any, b: Any) -> list[TensorValue]:
        for value in (a, b):
            number = isinstance(value, TensorValue) and value.dtype.is_int()
            if number and value.dtype.primitive_bitwidth < 64:
                help = (
                    "an address is an int64. If a number is meant, the launch gave an array for it"
                )
                raise _undefined(f"`{symbol}`", a, b, help)
        x, y = self.to_tensor(a), self.to_tensor(b)
        x, y = (
            self.convert(v, t.int64) if v.dtype.is_ptr() or v.dtype.is_int() else v for v in (x, y)
        )
        if x.dtype != y.dtype:
            raise _undefined(
                f"`{symbol}`", a, b, "a pointer compares with a pointer or an integer address"
            )
        kind = t.uint64
        x, y = self.broadcast_all([x, y], f"`{symbol}`")
        return [self.convert(v, kind) for v in (x, y)]

    def _pointer_arithmetic(self, symbol: str, a: Any, b: Any) -> TensorValue:
        if symbol == "+" and not self._has_pointer(a):
            a, b = b, a
        if symbol not in ("+", "-") or not self._has_pointer(a):
            raise _undefined(f"`{symbol}`", a, b, _POINTERS_TAKE)
        if self._has_pointer(b):
            return self._pointer_difference(symbol, a, b)
        offset = self.to_tensor(b)
        if not offset.dtype.is_int():
            raise KernelTypeError(
                f"a pointer offset must be an integer: `{symbol}` of {describe(a)} and {describe(b)}",
                help="convert the offset with .to(tl.int32) or .to(tl.int64)",
            )
        if offset.dtype.is_int_unsigned():
            offset = self.convert(self.convert(offset, t.uint64), t.int64)
        elif offset.dtype.primitive_bitwidth < 32:
            offset = self.convert(offset, t.int32)
        if symbol == "-":
            offset = self.emit("arith.subi", [self.filled(0, offset.type), offset], offset.type)
        pointer, offset = self.broadcast_all([a, offset], f"`{symbol}`")
        return self.emit("tile.addptr", [pointer, offset], pointer.type)

    def _pointer_difference(self, symbol: str, a: TensorValue, b: TensorValue) -> TensorValue:
        if symbol != "-" or a.dtype.element_ty != b.dtype.element_ty:
            help = "only pointers to one type can be subtracted; that gives a count of elements"
            raise _undefined(f"`{symbol}`", a, b, help)
        x, y = self.broadcast_all([self.convert(a, t.int64), self.convert(b, t.int64)], "`-`")
        size = self.filled(a.dtype.element_ty.itemsize, x.type)
        return self.emit("arith.divsi", [self.emit("arith.subi", [x, y], x.type), size], x.type)

    # ---- unary and truth -----------------------------------------------------------------------

    def unary(self, symbol: str, x: Any) -> Any:
        """`-x`, `+x`, `~x`, `not x`."""
        value = unwrap_constexpr(x)
        if not isinstance(value, TensorValue):
            result = PYTHON_UNARY[symbol](value)
            return constexpr(result) if isinstance(x, constexpr) else result
        if symbol == "not":
            return self.logical_not(value)
        if symbol == "+":
            return value
        kind = value.dtype
        if kind.is_ptr():
            raise KernelTypeError(f"unary `{symbol}` is not defined for {type_text(value.type)}")
        if symbol == "~":
            if not kind.is_int():
                raise KernelTypeError(
                    f"`~` needs an integer or a mask, got {type_text(value.type)}",
                    help="compare first, e.g. ~(x > 0)",
                )
            ones = self.filled(True if kind.is_bool() else -1, value.type)
            return self.emit("arith.xori", [value, ones], value.type)
        if kind.is_floating():
            return self._lanewise("arith.negf", value)
        return self.emit("arith.subi", [self.filled(0, value.type), value], value.type)

    def truth(self, x: Any) -> TensorValue:
        """A tensor as int1 (`x != 0`), element-wise."""
        return self.convert(self.to_tensor(x), t.int1)

    def condition(self, x: Any, what: str = "a condition") -> Any:
        """The condition of an `if` or `while`: a Python bool, or a scalar int1 tensor."""
        value = unwrap_constexpr(x)
        if not isinstance(value, TensorValue):
            return bool(value)
        if value.numel != 1:
            raise KernelTypeError(
                f"{what} must be a scalar, got {type_text(value.type)}",
                help="reduce it (tl.max(x.to(tl.int32)) != 0), or choose per lane with tl.where",
            )
        return self.truth(self.item(value) if value.shape else value)

    def item(self, x: Any) -> TensorValue:
        """The scalar in a one-element tile."""
        raise NotImplementedError  # in `reductions`

    def logical_not(self, x: Any) -> Any:
        """`not x` element-wise."""
        if not isinstance(unwrap_constexpr(x), TensorValue):
            return not unwrap_constexpr(x)
        return self.unary("~", self.truth(x))

    def logical_and(self, a: Any, b: Any) -> TensorValue:
        """`a and b` element-wise; both are evaluated."""
        return self.binary("&", self.truth(a), self.truth(b))

    def logical_or(self, a: Any, b: Any) -> TensorValue:
        """`a or b` element-wise; both are evaluated."""
        return self.binary("|", self.truth(a), self.truth(b))

    # ---- functional forms ----------------------------------------------------------------------

    def add(self, x: Any, y: Any, sanitize_overflow: Any = True) -> Any:
        return self.binary("+", x, y)

    def sub(self, x: Any, y: Any, sanitize_overflow: Any = True) -> Any:
        return self.binary("-", x, y)

    def mul(self, x: Any, y: Any, sanitize_overflow: Any = True) -> Any:
        return self.binary("*", x, y)

    def cdiv(self, x: Any, div: Any) -> Any:
        return self.binary("//", self.binary("+", x, self.binary("-", div, 1)), div)

    def where(self, condition: Any, x: Any, y: Any) -> TensorValue:
        mask = self.truth(condition)
        x, y = unwrap_constexpr(x), unwrap_constexpr(y)
        if self._has_pointer(x, y):
            x, y = self._pointer_choice(x, y)
        else:
            x, y = self.promote_pair(x, y, "tl.where")
        mask, x, y = self.broadcast_all([mask, x, y], "tl.where")
        return self.emit("tile.select", [mask, x, y], x.type)

    def _pointer_choice(self, x: Any, y: Any) -> list[TensorValue]:
        a, b = self.to_tensor(x), self.to_tensor(y)
        pointer = (a if a.dtype.is_ptr() else b).dtype
        if any(v.dtype.is_ptr() and v.dtype.const for v in (a, b)):
            pointer = t.pointer_type(pointer.element_ty, const=True)
        if any(v.dtype.is_ptr() and v.dtype.element_ty != pointer.element_ty for v in (a, b)):
            raise KernelTypeError(f"tl.where cannot choose between {describe(x)} and {describe(y)}")
        return [self.convert(v, pointer) for v in (a, b)]


def _identity_help(symbol: str, value: Any) -> str:
    """Help for the comparison of a runtime value with None or text."""
    if value is None and symbol in ("==", "!="):
        return f"test for None with `{'is' if symbol == '==' else 'is not'} None`"
    return _OPERANDS_ARE


def _undefined(what: str, a: Any, b: Any, help: str) -> KernelTypeError:
    return KernelTypeError(f"{what} is not defined for {describe(a)} and {describe(b)}", help=help)
