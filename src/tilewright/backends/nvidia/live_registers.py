"""Estimate, before LLVM and the assembler have seen a kernel, the registers that a thread of it cannot do without.

Live variable analysis (Aho, Lam, Sethi, Ullman, "Compilers", section 9.2.5) of the emitted LLVM IR. Counted is what no
order of instructions avoids: values that live from one basic block to another, and computed values that live across an
instruction with side effects and a result, such as a shuffle of a reduction, which others wait for. (What lives across a
store could be computed after it.) Predicates and addresses are not counted.
"""

from __future__ import annotations

import re
from typing import Any

from llvmlite import ir
from llvmlite.ir import instructions as llvm

from tilewright.backends.nvidia.lower import KernelCodegen
from tilewright.backends.nvidia.lower.instruction_order import is_pure, operands_of, registers_of

_LOADS = re.compile(r"\b(ld\.(global|shared)|ldmatrix)\b")
_PARTS = (
    llvm.CastInstr, llvm.ExtractValue, llvm.ExtractElement, llvm.InsertElement, llvm.ShuffleVector,
)  # fmt: skip


def live_registers(gen: KernelCodegen, limit: int) -> int:
    """The estimate; 0 if it is plain that it does not exceed `limit`."""
    blocks: list[Any] = gen.function.blocks
    sizes = {i: n for block in blocks for i in block.instructions if (n := _size(i))}
    if sum(sizes.values()) <= limit:
        return 0
    home = {
        i: number for number, block in enumerate(blocks) for i in block.instructions if i in sizes
    }
    leaving = _live_out(blocks, home)
    most = 0
    for number, block in enumerate(blocks):
        entering = {i for i in block.instructions if type(i) is llvm.PhiInstr and i in sizes}
        entering |= {v for v in leaving[number] if home[v] != number} | _used_first(
            block, number, home
        )
        most = max(most, sum(map(sizes.__getitem__, entering)))
        most = max(most, _most_across_effects(block, leaving[number], sizes))
    return most


def _size(instruction: Any) -> int:
    """Its registers. Those of several results are the instructions' that take them out."""
    kind = instruction.type
    return 0 if isinstance(kind, ir.BaseStructType) else registers_of(kind)


def _operands(instruction: Any, home: dict[Any, int]) -> list[Any]:
    return [v for v in operands_of(instruction) if isinstance(v, llvm.Instruction) and v in home]


def _used_first(block: Any, number: int, home: dict[Any, int]) -> set[Any]:
    """Values of other blocks that instructions of `block` use."""
    return {
        value
        for instruction in block.instructions
        if type(instruction) is not llvm.PhiInstr
        for value in _operands(instruction, home)
        if home[value] != number
    }


def _live_out(blocks: list[Any], home: dict[Any, int]) -> list[set[Any]]:
    """The values that are live at the end of each block."""
    numbers = {block: number for number, block in enumerate(blocks)}
    used = [_used_first(block, number, home) for number, block in enumerate(blocks)]
    given: list[set[Any]] = [set() for _ in blocks]
    for block in blocks:
        for phi in block.instructions:
            if type(phi) is not llvm.PhiInstr:
                break
            for value, source in phi.incomings:
                if isinstance(value, llvm.Instruction) and value in home:
                    given[numbers[source]].add(value)
    after = [_successors(block, numbers) for block in blocks]
    entering, changed = [set(each) for each in used], True
    while changed:
        changed = False
        for number in reversed(range(len(blocks))):
            leaving = given[number].union(*(entering[n] for n in after[number]))
            more = {v for v in leaving if home[v] != number} - entering[number]
            if more:
                entering[number] |= more
                changed = True
    return [given[n].union(*(entering[m] for m in after[n])) for n in range(len(blocks))]


def _successors(block: Any, numbers: dict[Any, int]) -> list[int]:
    end = block.terminator
    return [numbers[o] for o in end.operands if isinstance(o, ir.Block)] if end is not None else []


def _most_across_effects(block: Any, leaving: set[Any], sizes: dict[Any, int]) -> int:
    """The most registers of computed values that live across an instruction with side effects and a result."""
    loaded = _loaded(block)
    live = leaving - loaded
    now = most = sum(map(sizes.__getitem__, live))
    for instruction in reversed(block.instructions):
        if type(instruction) is llvm.PhiInstr:
            break
        gives = instruction in live
        if gives:
            live.discard(instruction)
            now -= sizes[instruction]
        for value in _operands(instruction, sizes):
            if value not in live and value not in loaded:
                live.add(value)
                now += sizes[value]
        if gives and now > most and not is_pure(instruction):
            most = now
    return most


def _loaded(block: Any) -> set[Any]:
    """Results of loads of a block, and parts of them: they may be loaded later, when they are used."""
    found: set[Any] = set()
    for instruction in block.instructions:
        kind = type(instruction)
        if (
            kind is llvm.LoadInstr
            or (kind is llvm.CallInstr and _loads(instruction.callee))
            or (
                isinstance(instruction, _PARTS) and not found.isdisjoint(_instructions(instruction))
            )
        ):
            found.add(instruction)
    return found


def _loads(callee: Any) -> bool:
    return type(callee) is ir.InlineAsm and _LOADS.search(callee.asm) is not None


def _instructions(instruction: Any) -> list[Any]:
    return [v for v in operands_of(instruction) if isinstance(v, llvm.Instruction)]
