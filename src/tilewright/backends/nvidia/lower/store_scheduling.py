"""The order in which registers are made that are written to shared memory.

Operations on tiles are emitted one after another, each for all registers of a thread. What the last of them
makes would be written when all is made, and the assembler leaves it at that: first arithmetic without
a store, then stores without arithmetic. After an epilogue whose units are busy it pays to have each word written
as soon as it is there.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from llvmlite.ir import instructions as kinds

_COMPUTES = ("llvm.fma.", "llvm.maximum.", "llvm.minimum.", "llvm.maxnum.", "llvm.minnum.", "llvm.fabs.", "llvm.sqrt.",
             "llvm.floor.", "llvm.ceil.", "llvm.trunc.", "llvm.roundeven.", "llvm.copysign.")  # fmt: skip
_FIXED = (
    kinds.PhiInstr, kinds.Terminator, kinds.StoreInstr, kinds.StoreAtomicInstr, kinds.LoadAtomicInstr,
    kinds.AtomicRMW, kinds.CmpXchg, kinds.Fence, kinds.AllocaInstr, kinds.InvokeInstr, kinds.LandingPadInstr,
)  # fmt: skip
_SHARED = 3
"""The address space of shared memory."""


def sink_to_stores(block: Any, writes: list[Any]) -> None:
    """Move what only computes, and reads of shared memory, from before `writes` to where a write needs it first.

    `writes`: the last effects of `block`, in order. What a write takes is computed before the write in front of it,
    what is read for it before the one in front of that: the latencies of one lie in the work of another.
    Nothing moves across anything else that has an effect. Reads pass writes: these go to buffers, which are disjoint from
    where tiles change their layouts.
    """
    instructions = block.instructions
    written = {id(each) for each in writes}
    start = len(instructions)
    while start and (id(instructions[start - 1]) in written or _moves(instructions[start - 1])):
        start -= 1
    if not all(id(each) in written or _moves(each) for each in instructions[start:]):
        return
    waiting = {id(each): each for each in instructions[start:] if id(each) not in written}
    needs = [_needed(write, waiting) for write in writes]
    ordered: dict[int, Any] = {}
    for i in range(-2, len(writes)):
        if i + 2 < len(writes):
            for each in needs[i + 2]:
                if isinstance(each, ir.LoadInstr):
                    ordered |= {id(e): e for e in (*_needed(each, waiting), each)}
        if -1 <= i < len(writes) - 1:
            ordered |= {id(e): e for e in needs[i + 1]}
        if i >= 0:
            ordered[id(writes[i])] = writes[i]
    ordered |= waiting  # what is needed elsewhere
    instructions[start:] = ordered.values()


def _needed(instruction: Any, waiting: dict[int, Any]) -> list[Any]:
    """What an instruction is computed from, of those that wait, in an order in which it can be."""
    found: dict[int, Any] = {}
    pending = [(operand, False) for operand in reversed(instruction.operands)]
    while pending:
        each, ready = pending.pop()
        if id(each) not in waiting or id(each) in found:
            continue
        if ready:
            found[id(each)] = each
            continue
        pending.append((each, True))
        pending += [(operand, False) for operand in reversed(each.operands)]
    return list(found.values())


def _moves(instruction: Any) -> bool:
    """Whether an instruction only computes, or reads shared memory."""
    if isinstance(instruction, kinds.LoadInstr):
        return instruction.operands[0].type.addrspace == _SHARED
    if isinstance(instruction, kinds.CallInstr):
        callee = instruction.callee
        if isinstance(callee, ir.InlineAsm):
            return not callee.side_effect
        return callee.name.startswith(_COMPUTES)
    return not isinstance(instruction, _FIXED)
