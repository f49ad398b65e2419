"""State the alignment of accesses to shared memory, as far as it follows from how their addresses are computed.

LLVM joins neighboring accesses into vectors of 8 or 16 bytes where their alignment is known. That of a tile's element follows
from the layout: `(lane & 7) * 4` elements of 4 bytes are 16 bytes apart.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from llvmlite.ir import instructions as llvm

from tilewright.backends.llvm.types import Value
from tilewright.backends.nvidia.lower import KernelCodegen

_WIDEST = 16
"""Bytes of the widest access."""
_MOST = _WIDEST.bit_length() - 1
_DEPTH = 12
"""Instructions between an address and what it is computed from, at most."""
_SHARED = 3
"""The address space of shared memory."""


def align_shared_accesses(gen: KernelCodegen) -> None:
    """Raise the alignment of loads from and stores to shared memory to what is known of their addresses."""
    known: dict[int, int] = {}
    for block in gen.function.blocks:
        for access in block.instructions:
            kind = access.__class__
            if kind is llvm.LoadInstr:
                pointer = access.operands[0]
            elif kind is llvm.StoreInstr:
                pointer = access.operands[1]
            else:
                continue
            if getattr(pointer.type, "addrspace", 0) == _SHARED and access.align < _WIDEST:
                access.align = max(access.align, 1 << _zeros(pointer, known, _DEPTH))


def _zeros(value: Value, known: dict[int, int], depth: int) -> int:
    """A number of low bits, up to `_MOST`, that are zero in an integer or an address."""
    if value.__class__ is ir.Constant:
        number = value.constant
        return _of_number(number) if isinstance(number, int) else 0
    if isinstance(value, ir.GlobalVariable):
        return _of_number(value.align or 1)
    if not depth or not isinstance(value, llvm.Instruction):
        return 0
    found = known.get(id(value))
    if found is None:
        found = known[id(value)] = _of_instruction(value, known, depth - 1)
    return found


def _of_number(number: int) -> int:
    return min(_MOST, (number & -number).bit_length() - 1) if number else _MOST


def _of_instruction(value: Any, known: dict[int, int], depth: int) -> int:
    name, operands = value.opname, value.operands
    if name in ("add", "sub", "or", "xor", "getelementptr"):
        if name == "getelementptr" and not _counts_bytes(value):
            return 0
        zeros = _MOST
        for operand in operands:
            zeros = min(zeros, _zeros(operand, known, depth)) if zeros else 0
        return zeros
    if name in ("zext", "sext", "trunc", "ptrtoint", "inttoptr"):
        return _zeros(operands[0], known, depth)
    if name not in ("mul", "and", "shl"):
        return 0
    first, second = operands
    if name == "shl":
        shift = second.constant if second.__class__ is ir.Constant else 0
        return min(_MOST, _zeros(first, known, depth) + shift)
    zeros = _zeros(first, known, depth), _zeros(second, known, depth)
    return min(_MOST, sum(zeros)) if name == "mul" else max(zeros)


def _counts_bytes(value: Any) -> bool:
    """Whether a GEP adds its only index as bytes."""
    return len(value.operands) == 2 and str(value.source_etype) == "i8"
