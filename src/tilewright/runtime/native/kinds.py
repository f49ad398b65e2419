"""Types of host code, and values of them in LLVM IR (see `language`)."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any


class HostCodeError(Exception):
    """Host code that is not in the language: a mistake in this package."""


@dataclass(frozen=True)
class Kind:
    """A type: its name in LLVM IR, and for addresses what is there (a structure, a kind, or unknown)."""

    llvm: str
    to: Any = None

    @property
    def width(self) -> int:
        """Bits of an integer."""
        return int(self.llvm[1:]) if self.llvm[0] == "i" else 0

    @property
    def stride(self) -> int:
        """Bytes from one element at an address to the next."""
        if isinstance(self.to, Kind):
            return {"i1": 1, "i8": 1, "i32": 4, "float": 4}.get(self.to.llvm, 8)
        return 1 if self.to is None else ctypes.sizeof(self.to)


@dataclass(frozen=True)
class Value:
    """An operand; an integer in the source has no kind until something gives it one."""

    kind: Kind | None
    text: str

    def as_(self, kind: Kind) -> str:
        """The operand where `kind` is wanted."""
        fits = self.kind is None or self.kind == kind or self.kind.llvm == kind.llvm == "ptr"
        if not fits:
            raise HostCodeError(f"{self.text} is {self.kind}, wanted is {kind}")
        return self.text


I1, I8, I16, I32, I64 = (Kind(f"i{width}") for width in (1, 8, 16, 32, 64))
F32, F64, VOID, PTR = Kind("float"), Kind("double"), Kind("void"), Kind("ptr")
#: kinds by their names in `language`
KINDS = {
    "i1": I1, "i8": I8, "i16": I16, "i32": I32, "i64": I64, "f32": F32, "f64": F64, "ptr": PTR, "str": PTR,
    "Words": Kind("ptr", I64), "Ints": Kind("ptr", I32), "Pointers": Kind("ptr", PTR), "Bytes": Kind("ptr", I8),
}  # fmt: skip
_FIELDS: dict[Any, Kind] = {
    ctypes.c_void_p: PTR, ctypes.c_int64: I64, ctypes.c_uint64: I64, ctypes.c_int32: I32,
    ctypes.c_uint32: I32, ctypes.c_uint8: I8,
}  # fmt: skip


def of_field(field: Any) -> tuple[Kind, bool]:
    """The kind of a ctypes type, and whether a field of it is in place: an array or structure, not a value."""
    if issubclass(field, ctypes.Array):
        return Kind("ptr", _FIELDS.get(field._type_, field._type_)), True
    if issubclass(field, ctypes.Structure):
        return Kind("ptr", field), True
    return _FIELDS[field], False


@dataclass(frozen=True)
class Signature:
    """The signature of a function."""

    symbol: str
    returns: Kind
    parameters: tuple[Kind, ...]
    variadic: bool = False

    @property
    def type(self) -> str:
        """The function type in a call; variadic functions list all arguments."""
        listed = ", ".join([*(kind.llvm for kind in self.parameters), *["..."] * self.variadic])
        return f"{self.returns.llvm} ({listed})"

    @property
    def declaration(self) -> str:
        return f"declare {self.type.replace(' (', f' {self.symbol}(', 1)}"
