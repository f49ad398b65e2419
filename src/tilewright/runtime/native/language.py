"""The host-code language: typed Python functions, which `compiler` translates to LLVM IR.

Launching must not require a C compiler, so native host code is written in this subset.
Parameters and results are annotated, variables optionally; other variables have the type of their first value:

    i1 i8 i16 i32 i64 f32 f64   signed, `>>` is logical, `//` and `%` round as in C; `i64(x)` converts
    ptr                     an address; `Words`, `Ints`, `Pointers`, `Bytes`: of i64, i32, addresses, bytes
    a ctypes.Structure      the address of one: its fields are read and written by name, array fields by `field[i]`

Structures are shared with Python, which fills them in; a module's structures are global variables, its integers
constants. A function whose body is `...` is an external C or CPython function. Functions that use none of these also
run in Python.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, TypeAlias

i1: TypeAlias = bool
i8: TypeAlias = int
i16: TypeAlias = int
i32: TypeAlias = int
i64: TypeAlias = int
f32: TypeAlias = float
f64: TypeAlias = float
ptr: TypeAlias = Any
Words: TypeAlias = Any
Ints: TypeAlias = Any
Pointers: TypeAlias = Any
Bytes: TypeAlias = Any


@dataclass(frozen=True)
class External:
    """A variable or a function that something else defines; with `text`, the function in LLVM IR."""

    symbol: str
    returns: str = "ptr"
    parameters: tuple[str, ...] | None = None
    text: str = ""

    def __call__(self, *values: Any) -> Any: ...


def local(kind: Any, count: i64 = 1, align: i64 = 16) -> ptr:
    """Memory on the stack, for `count` of a kind."""


def ref(place: Any) -> ptr:
    """The address of a variable's element or field."""


def bits(value: float) -> i64:
    """The bits of a float, zeros above."""
    ...


def unsigned(value: i32) -> i64:
    """A wider integer with zeros above."""
    ...


def pointer(value: i64) -> ptr:
    """The address that a number is."""


def call(returns: Any, function: ptr, *values: Any) -> Any:
    """Call a function by its address."""


def overflows(a: i64, b: i64) -> i1:
    """Whether the product exceeds 64 bits."""
    ...


def pause() -> None:
    """One iteration of a spin loop."""


def volatile(place: Any) -> Any:
    """Volatile load: a signal handler or another thread may have changed the value."""


def set_volatile(place: Any, value: Any) -> None:
    """Write so that a handler sees it."""


def atomic(place: Any, order: str = "seq_cst") -> Any:
    """Read atomically."""


def set_atomic(place: Any, value: Any, order: str = "seq_cst") -> None:
    """Write atomically."""


def atomic_add(place: Any, value: Any, order: str = "seq_cst") -> Any:
    """Add atomically; return the old value."""


def compare_exchange(place: Any, old: Any, new: Any, order: str = "seq_cst seq_cst") -> i1:
    """Write `new` where `old` is, atomically; whether it was."""
    ...


sizeof = ctypes.sizeof
