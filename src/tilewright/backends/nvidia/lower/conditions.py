"""Combine comparisons of pairs of 16-bit floats as words.

A comparison of two elements at once gives two predicates, of which a thread has 7, or a word (PTX ISA, `set`). Words
are combined two at a time by one instruction, and `ptxas` issues loads one by one where predicates run out.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from llvmlite import ir
from llvmlite.ir import instructions as llvm
from xdsl.dialects.builtin import BFloat16Type, Float16Type

from tilewright.backends.llvm.inline_ptx import inline_ptx
from tilewright.backends.llvm.types import I32, Value
from tilewright.backends.nvidia.lower import KernelCodegen
from tilewright.backends.nvidia.lower.packed_floats import PAIRS
from tilewright.targets import Feature

_OPERATIONS = {"arith.andi": "and", "arith.ori": "or"}
_FORMS = {
    BFloat16Type: ("bf16x2", 0x3F803F80),
    Float16Type: ("f16x2", 0x3C003C00),
}
"""Types of instructions, and two numbers 1 as a word: that both comparisons hold."""


def combine_comparisons(gen: KernelCodegen, name: str, values: list[Value]) -> list[Value]:
    """Conditions with the same conjunction ("arith.andi") or disjunction ("arith.ori") as `values`: fewer, where there
    are comparisons of two pairs or more."""
    if name not in _OPERATIONS:
        return values
    opcode = _OPERATIONS[name]
    leaves = list({id(v): v for value in values for v in _leaves(value, opcode)}.values())
    halves: dict[int, list[Value]] = {}
    for leaf in leaves:
        if isinstance(leaf, llvm.ExtractElement):
            halves.setdefault(id(leaf.operands[0]), []).append(leaf)
    rest, words = list(leaves), dict[type, list[Value]]()
    for both in halves.values():
        kind = _kind(gen, both[0].operands[0])
        if kind is not None and len(both) == 2:
            words.setdefault(kind, []).append(_word(gen, both[0].operands[0], kind))
            rest = [leaf for leaf in rest if leaf not in both]
    if sum(map(len, words.values())) < 2:
        return values
    return rest + [_of_words(gen, opcode, kind, found) for kind, found in words.items()]


def _leaves(value: Value, opcode: str) -> Iterator[Value]:
    """The conditions of which one operation makes a condition, without its identity."""
    if isinstance(value, llvm.Instruction) and value.opname == opcode:
        for operand in value.operands:
            yield from _leaves(operand, opcode)
    elif not isinstance(value, ir.Constant) or bool(value.constant) != (opcode == "and"):
        yield value


def _kind(gen: KernelCodegen, value: Value) -> type | None:
    """The type of the pairs that a comparison with an instruction for words compares."""
    if not isinstance(value, llvm.FCMPInstr):
        return None
    kind = next((k for k in _FORMS if PAIRS[k][0] == value.operands[0].type), None)
    if kind is BFloat16Type and not gen.target.has(Feature.BF16_COMPARISONS):
        return None
    return kind


def _word(gen: KernelCodegen, compared: llvm.FCMPInstr, kind: type) -> Value:
    """The result of a comparison as a word."""
    b, (suffix, _) = gen.builder, _FORMS[kind]
    predicate = compared.op[1:] + ("u" if compared.op[0] == "u" else "")
    operands = [b.bitcast(v, I32) for v in compared.operands]
    text = f"set.{predicate}.{suffix}.{suffix} $0, $1, $2;"
    return inline_ptx(b, text, operands, I32)


def _of_words(gen: KernelCodegen, opcode: str, kind: type, words: list[Value]) -> Value:
    """The condition that all comparisons hold, or one of them: a word above 1 then, which is no test for 0 that `ptxas`
    makes part of the last `or` (measured: it leaves one load of eight in flight with that, and all with this)."""
    b, (_, ones) = gen.builder, _FORMS[kind]
    if opcode == "and":
        return b.icmp_unsigned("==", functools.reduce(b.and_, words), ones)
    return b.icmp_unsigned(">", functools.reduce(b.or_, words), 1)
