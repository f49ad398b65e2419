"""The arguments of a launch as the interpreter of the IR takes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tilewright.runtime.specialize import ArgumentType, is_numpy_scalar, typed_items


def ir_arguments(types: Iterable[ArgumentType], values: Iterable[Any]) -> list[Any]:
    """Arrays as they are and plain numbers, one for each parameter of the kernel's IR."""
    found: list[Any] = []
    for argument, given in zip(types, values, strict=True):
        for kind, value in typed_items(argument.type, given):
            number = value.item() if is_numpy_scalar(value) else value
            if kind.is_int() and (bits := kind.primitive_bitwidth) > 1 and number >> (bits - 1) > 0:
                number -= 1 << bits  # held as a signed integer
            found.append(number)
    return found
