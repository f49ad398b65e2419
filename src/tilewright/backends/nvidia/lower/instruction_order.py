"""Reorder the instructions of a block depth first where that lowers register pressure.

A tile operation is emitted for all registers of a thread at a time. Loaded values and the intermediate results of a
chain that ends in a reduction are therefore live for all registers at once. `ptxas` hoists loads as far as registers
permit but rarely sinks them. Example: a loop that sums a function of two rows of 32 elements per thread (KL divergence)
used 83 registers, one CTA of 512 threads per SM; with this reordering 38 registers and three CTAs. Between two
instructions with side effects (stores, barriers, shuffles), the operand tree of each result is emitted depth first,
loads right before their first use, if that lowers the estimated peak of live registers. Results do not change.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from typing import Any

from llvmlite import ir
from llvmlite.ir import instructions as llvm

from tilewright.backends.nvidia.lower import KernelCodegen
from tilewright.passes.gpu.order_instructions import ORDER_INSTRUCTIONS

_MIN_LOADED = 32
"""Minimum number of loaded registers of a segment that is considered."""
_MIN_PEAK = 48
"""Minimum peak in registers of a segment that is considered; below it occupancy does not improve."""
_MAX_SHARE = 0.75
"""Maximum ratio of the new peak to the old peak."""
_MAX_KEPT = 0.25
"""Maximum ratio of registers live after the segment to the peak, i.e. the segment is a reduction."""
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


def lower_register_peaks(gen: KernelCodegen) -> int:
    """Reorder the instructions of each block of a completely emitted kernel.

    Returns the most bytes that a thread loads between two instructions with side effects.
    """
    _remove_dead(gen.function.blocks)
    blocks = [(block, _segments(block, gen.held)) for block in gen.function.blocks]
    loaded_bytes = max(_loaded_bytes(segment) for _, s in blocks for segment, _ in s)
    if ORDER_INSTRUCTIONS not in gen.source.attributes:
        return loaded_bytes
    if not any(loaded >= _MIN_LOADED for _, s in blocks for _, loaded in s):
        return loaded_bytes
    outside = _used_elsewhere(blocks)
    for block, segments in blocks:
        instructions: list[Any] = []
        for segment, loaded in segments:
            instructions += (
                _ordered(segment, outside, gen.held) if loaded >= _MIN_LOADED else segment
            )
        block.instructions[:] = instructions
    return loaded_bytes


def _remove_dead(blocks: list[Any]) -> None:
    """Remove instructions without side effects whose results nobody uses: they would count as live to the end."""
    uses: dict[Any, int] = {i: 0 for block in blocks for i in block.instructions}
    for instruction in uses:
        for operand in operands_of(instruction):
            if operand.__class__ is not llvm.Constant and operand in uses:  # their hash is a text's
                uses[operand] += 1
    pending = [i for i, number in uses.items() if not number and is_pure(i)]
    dead: set[Any] = set()
    while pending:
        instruction = pending.pop()
        dead.add(instruction)
        for operand in operands_of(instruction):
            if isinstance(operand, llvm.Instruction):
                uses[operand] -= 1
                if not uses[operand] and is_pure(operand):
                    pending.append(operand)
    if dead:
        for block in blocks:
            block.instructions[:] = [i for i in block.instructions if i not in dead]


def operands_of(instruction: Any) -> list[Any]:
    if type(instruction) is llvm.PhiInstr:
        return [value for value, _ in instruction.incomings]
    return instruction.operands


def _loaded_bytes(segment: list[Any]) -> int:
    return sum(_bits(i.type) // 8 for i in segment if is_load(i))


def _segments(block: Any, held: set[Any]) -> list[tuple[list[Any], int]]:
    """Split a block into segments that may be reordered, each with the number of registers that it loads or takes
    from an optimization barrier (`held`), and single instructions with side effects (0)."""
    found: list[tuple[list[Any], int]] = []
    segment: list[Any] = []
    loaded = 0
    for instruction in block.instructions:
        if is_load(instruction):
            segment.append(instruction)
            loaded += registers_of(instruction.type)
        elif is_pure(instruction):
            segment.append(instruction)
            loaded += instruction in held and instruction.opname == "xor"
        else:
            found += [(segment, loaded), ([instruction], 0)]
            segment, loaded = [], 0
    return [*found, (segment, loaded)]


def _ordered(segment: list[Any], outside: set[Any], held: set[Any]) -> list[Any]:
    """Return a segment in depth-first order if that lowers its peak enough, else unchanged."""
    inside = set(segment)
    users: dict[Any, int] = {}
    for instruction in segment:
        for operand in instruction.operands:
            if operand in inside:
                users[operand] = users.get(operand, 0) + 1
    kept = {i for i in segment if i in outside or not users.get(i)}
    before = _peak(segment, inside, users, kept)
    is_planned = not held.isdisjoint(inside)
    is_reduced = sum(registers_of(i.type) for i in kept) <= _MAX_KEPT * before
    if before < _MIN_PEAK or not (is_reduced or is_planned):
        return segment
    used = {o for i in segment for o in i.operands if o in inside}
    found = [*depth_first([i for i in segment if i not in used], inside)]
    most = before if is_planned else _MAX_SHARE * before
    return found if _peak(found, inside, users, kept) <= most else segment


def depth_first(roots: Iterable[Any], inside: Container[Any]) -> dict[Any, None]:
    """Return these instructions and the operands `inside` that they need, in depth-first post-order."""
    found: dict[Any, None] = {}
    for root in roots:
        found.update(dict.fromkeys(tree_of(root, inside, found)))
    return found


def tree_of(root: Any, inside: Container[Any], done: Container[Any]) -> list[Any]:
    """Return what has to be emitted for an instruction, in depth-first post-order."""
    found: dict[Any, None] = {}
    pending = [(root, False)]
    while pending:
        instruction, complete = pending.pop()
        if complete:
            found[instruction] = None
        elif instruction not in found and instruction not in done:
            pending.append((instruction, True))
            operands = [o for o in operands_of(instruction) if o in inside]
            pending += [(o, False) for o in reversed(operands)]
    return list(found)


def _peak(order: list[Any], inside: set[Any], users: dict[Any, int], kept: set[Any]) -> int:
    """Return the maximum number of live registers defined in the segment."""
    left = dict(users)
    now = most = 0
    for instruction in order:
        now += registers_of(instruction.type)
        most = max(most, now)
        for operand in instruction.operands:
            if operand in inside:
                left[operand] -= 1
                if not left[operand] and operand not in kept:
                    now -= registers_of(operand.type)
    return most


def registers_of(kind: ir.Type) -> int:
    """Return the number of 32-bit registers. Predicates and addresses (offsets from few bases) count as 0."""
    if isinstance(kind, ir.IntType):
        return 0 if kind.width == 1 or kind.width == 64 else 1
    if isinstance(kind, ir.LiteralStructType):
        return sum(map(registers_of, kind.elements))
    if isinstance(kind, ir.VectorType):
        return -(-kind.count * _bits(kind.element) // 32)
    if isinstance(kind, ir.DoubleType):
        return 2
    return 0 if isinstance(kind, ir.PointerType | ir.VoidType) else 1


def _bits(kind: ir.Type) -> int:
    if isinstance(kind, ir.LiteralStructType):
        return sum(map(_bits, kind.elements))
    if isinstance(kind, ir.DoubleType):
        return 64
    return (
        kind.width if isinstance(kind, ir.IntType) else 16 if isinstance(kind, ir.HalfType) else 32
    )


def _used_elsewhere(blocks: list[tuple[Any, list[tuple[list[Any], int]]]]) -> set[Any]:
    """Return the instructions of segments to reorder that have users after the end of their segment."""
    where: dict[Any, int] = {}
    every = [segment for _, segments in blocks for segment in segments]
    for number, (segment, loaded) in enumerate(every):
        if loaded >= _MIN_LOADED:
            where.update(dict.fromkeys(segment, number))
    found: set[Any] = set()
    for number, (segment, _) in enumerate(every):
        for instruction in segment:
            for operand in operands_of(instruction):
                if operand.__class__ is not llvm.Constant and where.get(operand, number) != number:
                    found.add(operand)
    return found


def is_load(instruction: Any) -> bool:
    if type(instruction) is not llvm.CallInstr:
        return False
    callee = instruction.callee
    return type(callee) is ir.InlineAsm and _LOAD.match(callee.asm) is not None


def is_pure(instruction: Any) -> bool:
    kind = type(instruction)
    if kind is llvm.Instruction:
        return instruction.opname in _BINARY
    if kind is llvm.CallInstr:
        callee = instruction.callee
        if type(callee) is ir.InlineAsm:
            return not callee.side_effect
        return _PURE_CALLS.match(callee.name) is not None
    return kind in _PURE
