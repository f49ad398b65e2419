"""A function whose instructions are named and printed in few steps.

To write its text took as long as to make the instructions. The text is that of llvmlite, which keeps names
and texts for code that changes later what it has printed; nobody does so here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from llvmlite.ir import instructions
from llvmlite.ir._utils import NameScope

_ODD = frozenset('\\"')


class _Names(NameScope):
    """llvmlite's names, the usual ones (".1", ".2" …) without asking whether they are taken."""

    def __init__(self, before: NameScope) -> None:
        self._useset, self._basenamemap = before._useset, before._basenamemap

    def register(self, name: str, deduplicate: bool = False) -> str:
        if name or not deduplicate:
            return super().register(name, deduplicate)
        number = self._basenamemap[""] = self._basenamemap[""] + 1
        return f".{number}"


class KernelFunction(ir.Function):
    """`ir.Function`, written faster. No value may be called a dot and a number."""

    def __init__(self, module: ir.Module, kind: ir.FunctionType, name: str) -> None:
        super().__init__(module, kind, name)
        self.scope = _Names(self.scope)

    def descr_body(self, buf: list[str]) -> None:
        """Append the text of all blocks."""
        for block in self.blocks:
            buf.append(f"{block._format_name()}:\n")
            buf += [f"  {_line(instruction)}\n" for instruction in block.instructions]


def _line(instruction: Any) -> str:
    """The text of an instruction."""
    write = _WRITERS.get(type(instruction))
    name = instruction._name
    if write is None or instruction.metadata or not _ODD.isdisjoint(name):
        return str(instruction)
    return f'%"{name}" = {write(instruction)}'


def _reference(value: Any) -> str:
    if isinstance(value, ir.Instruction):
        name = value._name
        return f'%"{name}"' if _ODD.isdisjoint(name) else value.get_reference()
    return value.get_reference()


def _plain(self: Any) -> str:
    operands = ", ".join([_reference(value) for value in self.operands])
    return f"{' '.join((self.opname, *self.flags))} {self.type} {operands}"


def _cast(self: Any) -> str:
    (value,) = self.operands
    return f"{self.opname} {value.type} {_reference(value)} to {self.type}"


def _extract(self: Any) -> str:
    value = self.aggregate
    return f"extractvalue {value.type} {_reference(value)}, {', '.join(map(str, self.indices))}"


def _phi(self: Any) -> str:
    pairs = ", ".join([f"[{_reference(v)}, {b.get_reference()}]" for v, b in self.incomings])
    return f"phi {' '.join(self.flags)} {self.type} {pairs}"


_WRITERS: dict[type, Callable[[Any], str]] = {
    instructions.Instruction: _plain,
    instructions.CastInstr: _cast,
    instructions.ExtractValue: _extract,
    instructions.PhiInstr: _phi,
}
"""Of those that make a value and are many."""
