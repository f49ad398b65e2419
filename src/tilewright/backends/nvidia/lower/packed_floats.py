"""Lower arithmetic on 16-bit floats to instructions on two elements of a 32-bit word (PTX ISA, `add.bf16x2`, `fma.rn.f16x2`).

Neighbouring registers of a tile, or those that already share a word, travel in one word from a load to a store. In single precision each pair takes four
conversions, two operations and one rounding; results are the same, since fp32 has more than twice the digits. Words are
`<2 x bfloat>` or `<2 x half>` to LLVM, which fuses products with sums as the flags allow.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from llvmlite import ir
from llvmlite.ir import instructions as llvm
from xdsl.dialects import arith
from xdsl.dialects.builtin import BFloat16Type, Float16Type, bf16, f32
from xdsl.ir import Attribute, Operation

from tilewright.backends.llvm.inline_ptx import inline_ptx
from tilewright.backends.llvm.math import ptx
from tilewright.backends.llvm.types import I16, I32, BFloatType, Value, call, elements
from tilewright.backends.nvidia.lower import KernelCodegen
from tilewright.backends.nvidia.lower.vector_access import joined, storage, unpack
from tilewright.dialects import tile
from tilewright.targets import Feature

PAIRS: dict[type[Attribute], tuple[ir.Type, str]] = {
    BFloat16Type: (ir.VectorType(BFloatType(), 2), "v2bf16"),
    Float16Type: (ir.VectorType(ir.HalfType(), 2), "v2f16"),
}
_ARITHMETIC = {"arith.addf": "fadd", "arith.subf": "fsub", "arith.mulf": "fmul"}
_INTRINSICS = {
    "arith.maxnumf": "maxnum", "arith.minnumf": "minnum", "arith.maximumf": "maximum", "arith.minimumf": "minimum",
    "math.absf": "fabs", "math.fma": "fma",
}  # fmt: skip
_COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


def lower_pairs(gen: KernelCodegen, op: Operation, operands: list[list[Value]]) -> list[Value]:
    """The results of registers 0, 1, … of an element-wise operation, an even number of them that are computed in pairs;
    none where the operation has no instruction for pairs."""
    count = max(map(len, operands), default=1) & ~1
    if not count or not op.results:
        return []
    if isinstance(op, arith.TruncFOp):
        kinds = tile.element_of(op.input), tile.element_of(op.result)
        return ptx.to_bf16_pairs(gen.builder, operands[0][:count]) if kinds == (f32, bf16) else []
    if isinstance(op, tile.MulSigmoidOp):
        xs, powers = (p[:count] for p in operands)
        return ptx.gate_pairs(gen.builder, gen.math, op.function.data, xs, powers)
    kind = tile.element_of(op.operands[0])
    pair, suffix = PAIRS.get(type(kind), (None, ""))
    if pair is None or not (op.name in _ARITHMETIC or op.name in _INTRINSICS or _is_comparison(op)):
        return []
    results: list[Value] = [None] * count
    for i, j in _register_pairs(operands, count):
        both = [(p[i], p[j]) if len(p) > 1 else (p[0], p[0]) for p in operands]
        values = [gen.builder.bitcast(_word(gen, two, kind), pair) for two in both]
        results[i], results[j] = _lowered(gen, op, values, suffix, kind)
    return results


def _register_pairs(operands: list[list[Value]], count: int) -> list[tuple[int, int]]:
    """Which of the registers 0, 1, … share a word: those that do in an operand, else neighbors. Changes of shape reorder
    registers; stages of a butterfly keep their words this way."""
    for parts in operands:
        words: dict[int, dict[int, int]] = {}
        for i, value in enumerate(parts[:count]):
            half = _half_of_word(value)
            if half is not None:
                words.setdefault(id(half[0]), {})[half[1]] = i
        if 2 * len(words) == count and all(len(halves) == 2 for halves in words.values()):
            return [(halves[0], halves[1]) for halves in words.values()]
    return [(i, i + 1) for i in range(0, count, 2)]


def combine_in_pairs(
    gen: KernelCodegen, name: str, values: list[Value], kind: Attribute
) -> tuple[Value, Value] | None:
    """An even number of 16-bit floats combined by a commutative operation to two, as a tree of operations on pairs; None
    where there is no instruction for pairs."""
    pair, suffix = PAIRS.get(type(kind), (None, ""))
    if pair is None or name not in _INTRINSICS or len(values) < 2 or len(values) % 2:
        return None
    b = gen.builder
    intrinsic = f"llvm.{_INTRINSICS[name]}.{suffix}"
    both = [(values[i], values[i + 1]) for i in range(0, len(values), 2)]
    words = [b.bitcast(_word(gen, two, kind), pair) for two in both]
    while len(words) > 1:
        odd = words[len(words) & ~1 :]
        words = [
            call(b, intrinsic, pair, *words[i : i + 2]) for i in range(0, len(words) & ~1, 2)
        ] + odd
    low, high = _halves(gen, words[0], kind)
    return low, high


def _is_comparison(op: Operation) -> bool:
    """Whether an operation compares numbers; tests for NaN need one operand only, and take no conversion."""
    return isinstance(op, tile.CmpFOp) and op.predicate.data not in ("ord", "uno")


def _lowered(
    gen: KernelCodegen, op: Operation, values: list[Value], suffix: str, kind: Any
) -> list[Value]:
    """The two results of one pair."""
    b, pair = gen.builder, values[0].type
    if isinstance(op, tile.CmpFOp):
        predicate = op.predicate.data
        compare = b.fcmp_ordered if predicate[0] == "o" else b.fcmp_unordered
        found = compare(_COMPARISONS[predicate[1:]], *values)
        return [*elements(b, found)]
    if op.name in _ARITHMETIC:
        made = getattr(b, _ARITHMETIC[op.name])(*values, flags=gen.math.flags)
    else:
        name = f"llvm.{_INTRINSICS[op.name]}.{suffix}"
        made = call(b, name, pair, *values)
    return _halves(gen, made, kind)


def _halves(gen: KernelCodegen, pair: Value, kind: Any) -> list[Value]:
    return unpack(gen, [gen.builder.bitcast(pair, I32)], 2, kind)


def _word(gen: KernelCodegen, values: tuple[Value, Value], kind: Any) -> Value:
    """Two registers in one word: the word that both were taken from, if it is one."""
    low, high = (_half_of_word(value) for value in values)
    if low is not None and high is not None and low[0] is high[0] and (low[1], high[1]) == (0, 1):
        return low[0]
    return joined([storage(gen, value, kind) for value in values], gen.builder)


def _half_of_word(value: Value) -> tuple[Value, int] | None:
    """The 32-bit word that a register is half of, and which; None for others."""
    if isinstance(value, llvm.CastInstr) and value.opname == "bitcast" and value.type != I16:
        value = value.operands[0]
    if not isinstance(value, llvm.ExtractElement):
        return None
    vector, index = value.operands
    if not isinstance(vector, llvm.CastInstr) or vector.type != ir.VectorType(I16, 2):
        return None
    return vector.operands[0], index.constant


# ---- comparisons of pairs, combined as words -------------------------------------------------------------
#
# A comparison of two elements at once gives two predicates, of which a thread has 7, or a word (PTX ISA, `set`). Words
# are combined two at a time by one instruction, and `ptxas` issues loads one by one where predicates run out.

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
            words.setdefault(kind, []).append(_word_of(gen, both[0].operands[0], kind))
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


def _word_of(gen: KernelCodegen, compared: llvm.FCMPInstr, kind: type) -> Value:
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
