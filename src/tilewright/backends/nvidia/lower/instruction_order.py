"""Order of the instructions of a block: loaded values are consumed one after another where that needs fewer registers.

A tile operation is emitted for all registers of a thread at a time, so that what is loaded, and each intermediate
result of a chain that ends in a reduction, is there for all of them at once. `ptxas` moves loads up as far as it has
registers, but hardly moves them down: a loop that sums a function of two rows of 32 elements a thread (KL divergence)
took 83 registers, one CTA of 512 threads per SM; in the order of this module 38 and three CTAs. Between two instructions with effects
(stores, barriers, shuffles), the tree of operands of each result is emitted depth first, loads in front of their first
use, where that lowers the estimated peak of live registers. What is computed does not change.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from llvmlite import ir
from llvmlite.ir import instructions as llvm

from tilewright.passes.gpu.order_instructions import ORDER_INSTRUCTIONS

if TYPE_CHECKING:
    from tilewright.backends.nvidia.codegen import KernelCodegen

_MIN_LOADED = 32
"""Registers that the loads of a segment have at least, for it to be looked at."""
_MIN_PEAK = 48
"""Registers below which nothing is gained."""
_MAX_SHARE = 0.75
"""Of the peak before, that the peak after may have."""
_MAX_KEPT = 0.25
"""Of the peak, that values may have which are used behind the segment: the others are reduced to these."""
_LOAD = re.compile(r"^(@\$\d+ )?ld\.global(?!\.(cv|volatile|relaxed|acquire))[^;]*;$")
_PURE_CALLS = re.compile(
    r"llvm\.(fma|fmuladd|fabs|floor|ceil|trunc|rint|round|minnum|maxnum|minimum|maximum|copysign|exp2|sqrt|abs|umin|umax|"
    r"smin|smax|ctpop|ctlz|cttz|fshl|fshr|bitreverse|bswap|nvvm\.(ex2|lg2|rcp|rsqrt|sqrt|fma|fmin|fmax|ff2|f2|prmt))"
)
_PURE = frozenset((
    llvm.CastInstr, llvm.ICMPInstr, llvm.FCMPInstr, llvm.SelectInstr, llvm.GEPInstr, llvm.ExtractValue,
    llvm.InsertValue, llvm.ExtractElement, llvm.InsertElement, llvm.ShuffleVector,
))  # fmt: skip
_BINARY = frozenset((
    "add", "sub", "mul", "shl", "lshr", "ashr", "and", "or", "xor", "fadd", "fsub", "fmul", "fdiv", "fneg", "udiv",
    "sdiv", "urem", "srem", "frem",
))  # fmt: skip


def lower_register_peaks(gen: KernelCodegen) -> None:
    """Reorder the instructions of each block of a kernel that is completely emitted."""
    if ORDER_INSTRUCTIONS not in gen.source.attributes:
        return
    blocks = [(block, _segments(block, gen.held)) for block in gen.function.blocks]
    if not any(loaded >= _MIN_LOADED for _, s in blocks for _, loaded in s):
        return
    outside = _used_elsewhere(blocks)
    for block, segments in blocks:
        instructions: list[Any] = []
        for segment, loaded in segments:
            instructions += (
                _ordered(segment, outside, gen.held) if loaded >= _MIN_LOADED else segment
            )
        block.instructions[:] = instructions


def _segments(block: Any, held: set[Any]) -> list[tuple[list[Any], int]]:
    """Runs of instructions that may be reordered, with the registers of what they load or take from an optimization
    barrier (`held`), and others (0)."""
    found: list[tuple[list[Any], int]] = []
    segment: list[Any] = []
    loaded = 0
    for instruction in block.instructions:
        if _is_load(instruction):
            segment.append(instruction)
            loaded += _registers(instruction.type)
        elif _is_pure(instruction):
            segment.append(instruction)
            loaded += instruction in held and instruction.opname == "xor"
        else:
            found += [(segment, loaded), ([instruction], 0)]
            segment, loaded = [], 0
    return [*found, (segment, loaded)]


def _ordered(segment: list[Any], outside: set[Any], held: set[Any]) -> list[Any]:
    """The instructions of a segment in the better of two orders."""
    inside = set(segment)
    users: dict[Any, int] = {}
    for instruction in segment:
        for operand in instruction.operands:
            if operand in inside:
                users[operand] = users.get(operand, 0) + 1
    kept = {i for i in segment if i in outside or not users.get(i)}
    before = _peak(segment, inside, users, kept)
    is_planned = not held.isdisjoint(inside)
    is_reduced = sum(_registers(i.type) for i in kept) <= _MAX_KEPT * before
    if before < _MIN_PEAK or not (is_reduced or is_planned):
        return segment
    found = _depth_first(segment, inside)
    most = before if is_planned else _MAX_SHARE * before
    return found if _peak(found, inside, users, kept) <= most else segment


def _depth_first(segment: list[Any], inside: set[Any]) -> list[Any]:
    """Instructions behind their operands, each of which follows its own."""
    used = {o for i in segment for o in i.operands if o in inside}
    done: set[Any] = set()
    found: list[Any] = []
    for root in [i for i in segment if i not in used]:
        pending = [(root, False)]
        while pending:
            instruction, complete = pending.pop()
            if complete:
                found.append(instruction)
            elif instruction not in done:
                done.add(instruction)
                pending.append((instruction, True))
                operands = [o for o in instruction.operands if o in inside and o not in done]
                pending += [(o, False) for o in reversed(operands)]
    return found


def _peak(order: list[Any], inside: set[Any], users: dict[Any, int], kept: set[Any]) -> int:
    """The most registers at once of what the segment makes."""
    left = dict(users)
    now = most = 0
    for instruction in order:
        now += _registers(instruction.type)
        most = max(most, now)
        for operand in instruction.operands:
            if operand in inside:
                left[operand] -= 1
                if not left[operand] and operand not in kept:
                    now -= _registers(operand.type)
    return most


def _registers(kind: ir.Type) -> int:
    """Registers of 4 bytes; none of predicates, and of addresses, which are offsets from a few."""
    if isinstance(kind, ir.IntType):
        return 0 if kind.width == 1 or kind.width == 64 else 1
    if isinstance(kind, ir.LiteralStructType):
        return sum(map(_registers, kind.elements))
    if isinstance(kind, ir.VectorType):
        return -(-kind.count * _bits(kind.element) // 32)
    if isinstance(kind, ir.DoubleType):
        return 2
    return 0 if isinstance(kind, ir.PointerType | ir.VoidType) else 1


def _bits(kind: ir.Type) -> int:
    return (
        kind.width if isinstance(kind, ir.IntType) else 16 if isinstance(kind, ir.HalfType) else 32
    )


def _used_elsewhere(blocks: list[tuple[Any, list[tuple[list[Any], int]]]]) -> set[Any]:
    """Instructions of segments with loads to reorder that have users behind the end of their segment."""
    where: dict[Any, int] = {}
    every = [segment for _, segments in blocks for segment in segments]
    for number, (segment, loaded) in enumerate(every):
        if loaded >= _MIN_LOADED:
            where.update(dict.fromkeys(segment, number))
    found: set[Any] = set()
    for number, (segment, _) in enumerate(every):
        for instruction in segment:
            operands = instruction.operands
            if isinstance(instruction, llvm.PhiInstr):
                operands = [value for value, _ in instruction.incomings]
            for operand in operands:
                if where.get(operand, number) != number:
                    found.add(operand)
    return found


def _is_load(instruction: Any) -> bool:
    if type(instruction) is not llvm.CallInstr:
        return False
    callee = instruction.callee
    return type(callee) is ir.InlineAsm and _LOAD.match(callee.asm) is not None


def _is_pure(instruction: Any) -> bool:
    kind = type(instruction)
    if kind is llvm.Instruction:
        return instruction.opname in _BINARY
    if kind is llvm.CallInstr:
        callee = instruction.callee
        if type(callee) is ir.InlineAsm:
            return not callee.side_effect
        return _PURE_CALLS.match(callee.name) is not None
    return kind in _PURE
