"""An llvmlite function with faster naming and printing of instructions.

With llvmlite, printing a kernel takes as long as building it, because it supports changes after printing. This module
omits that support; the printed text is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from llvmlite.ir import instructions
from llvmlite.ir._utils import NameScope

_ODD = frozenset('\\"')


class _Names(NameScope):
    """llvmlite's name scope; default names (".1", ".2" …) are not checked for conflicts."""

    def __init__(self, before: NameScope) -> None:
        self._useset, self._basenamemap = before._useset, before._basenamemap

    def register(self, name: str, deduplicate: bool = False) -> str:
        if name or not deduplicate:
            return super().register(name, deduplicate)
        number = self._basenamemap[""] = self._basenamemap[""] + 1
        return f".{number}"


class KernelFunction(ir.Function):
    """`ir.Function` with faster printing. Requires: no explicit value name is a dot and a number."""

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
    if type(instruction.type) is ir.VoidType:
        return write(instruction)
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


def _typed(values: Any) -> str:
    return ", ".join([f"{value.type} {_reference(value)}" for value in values])


def _element(self: Any) -> str:
    """Text of `extractelement` and `insertelement`."""
    return f"{self.opname} {_typed(self.operands)}"


def _select(self: Any) -> str:
    return f"select {' '.join(self.flags)} {_typed(self.operands)}"


def _compare(self: Any) -> str:
    lhs, rhs = self.operands
    flags = "".join([f" {flag}" for flag in self.flags])
    return f"{self.opname}{flags} {self.op} {lhs.type} {_reference(lhs)}, {_reference(rhs)}"


def _gep(self: Any) -> str:
    op = "getelementptr inbounds" if self.inbounds else "getelementptr"
    return f"{op} {self.source_etype}, {_typed(self.operands)}"


def _call(self: Any) -> str:
    """Text of a call of a function or inline assembly. Attributes of arguments and variable arguments are rare."""
    callee = self.callee
    kind = callee.function_type
    if self.cconv or self.tail or self.arg_attributes or kind.var_arg:
        buf: list[str] = []
        self.descr(buf)
        return "".join(buf).rstrip()
    returned = kind.return_type
    attributes = "".join([f" {each}" for each in self.attributes._to_list(returned)])
    flags = "".join([f" {each}" for each in self.fastmath._to_list(returned)])
    arguments = _typed(self.operands[1:])
    return f"call{flags} {returned} {callee.get_reference()}({arguments}){attributes}"


def _phi(self: Any) -> str:
    pairs = ", ".join([f"[{_reference(v)}, {b.get_reference()}]" for v, b in self.incomings])
    return f"phi {' '.join(self.flags)} {self.type} {pairs}"


_WRITERS: dict[type, Callable[[Any], str]] = {
    instructions.Instruction: _plain,
    instructions.CastInstr: _cast,
    instructions.ExtractValue: _extract,
    instructions.ExtractElement: _element,
    instructions.InsertElement: _element,
    instructions.SelectInstr: _select,
    instructions.ICMPInstr: _compare,
    instructions.FCMPInstr: _compare,
    instructions.GEPInstr: _gep,
    instructions.CallInstr: _call,
    instructions.PhiInstr: _phi,
}
"""Printers of the most frequent instructions with a result."""
