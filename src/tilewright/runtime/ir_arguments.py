"""The arguments of a launch as the interpreter of the IR takes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tilewright.dtypes import constexpr
from tilewright.runtime.specialize import ArgumentType, is_numpy_scalar


def ir_arguments(types: Iterable[ArgumentType], values: Iterable[Any]) -> list[Any]:
    """Arrays as they are and plain numbers, one for each parameter of the kernel's IR."""
    found: list[Any] = []
    for kind, value in zip(types, values, strict=True):
        _collect(kind.type, value, found)
    return found


def _collect(kind: Any, value: Any, found: list[Any]) -> None:
    if isinstance(kind, constexpr):
        return
    if isinstance(kind, tuple):
        for item_kind, item in zip(kind, value, strict=True):
            _collect(item_kind, item, found)
    elif kind.is_ptr():
        found.append(value)
    else:
        number = value.item() if is_numpy_scalar(value) else value
        bits = kind.primitive_bitwidth
        if kind.is_int() and bits > 1 and number >> (bits - 1) > 0:  # held as a signed integer
            number -= 1 << bits
        found.append(number)
