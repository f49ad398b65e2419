"""A builder that writes equal integer arithmetic of a block once, and none on constants' bits.

Every access computes where its thread is and whether it is within bounds. LLVM would find what is the
same; but to make an instruction here, print it, parse it and find it costs more than to look it up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

#: methods whose instruction depends on nothing but the arguments and has no effect
_PURE = (
    "add", "sub", "mul", "shl", "lshr", "ashr", "and_", "or_", "xor", "zext", "sext", "trunc",
    "ptrtoint", "icmp_signed", "icmp_unsigned",
)  # fmt: skip


class SharingBuilder(ir.IRBuilder):
    """An `ir.IRBuilder` whose integer arithmetic, comparisons and casts give an earlier value of the same
    block where there is one. Instructions that get flags or names are made anew."""

    def __init__(self, block: Any = None) -> None:
        super().__init__(block)
        self._made: dict[tuple[Any, ...], Any] = {}
        self._made_in: Any = None

    def shared(self, make: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """`make(self, *arguments)`, or what it gave before in this block."""
        block: Any = self._block
        if block is not self._made_in:
            self._made, self._made_in = {}, block
        key = (make, *map(_identity, arguments))
        found = self._made.get(key)
        if found is None or self._anchor != len(
            block.instructions
        ):  # it may stand behind this place
            found = self._made[key] = make(self, *arguments)
        return found


def _identity(argument: Any) -> Any:
    """Equal for arguments that are the same: a constant is its number (or its text, which takes longer to
    compare), anything else itself."""
    if type(argument) is ir.Constant and type(argument.type) is ir.IntType:
        return argument.type.width, argument.constant
    return argument


def _sharing(make: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: SharingBuilder, *arguments: Any, **more: Any) -> Any:
        return make(self, *arguments, **more) if more else self.shared(make, arguments)

    return method


for _name in _PURE:
    setattr(SharingBuilder, _name, _sharing(getattr(ir.IRBuilder, _name)))
