"""Operands and guards that must be the same for all threads of a warp, a warpgroup or a CTA (PTX ISA).

What the compiler takes to be uniform (barriers, phases, membership) is checked where the text relies on it.
"""

import numpy as np
from tests.ptx.values import Fault, immediate

WARP, GROUP = 32, 128
_ALIGNED = ("bar", "ldmatrix", "stmatrix", "mma", "wgmma", "setmaxnreg")
"""All threads of a warp execute these, whether or not the text says `.aligned`."""
_MEMBERS = {"shfl": 4, "vote": 2, "redux": 2, "elect": 1}
"""Which operand of a `.sync` instruction names the lanes that take part."""
BARRIERS = 16
"""Named barriers of a CTA."""
_REGISTERS = range(24, 257, 8)
"""Registers per thread that `setmaxnreg` takes."""


def unit_of(op):
    """How many threads execute an instruction together."""
    return GROUP if op.name in ("wgmma", "setmaxnreg") else WARP


def check(machine, op, mask, guarded):
    """Raise Fault if what `guarded`, of the threads in `mask` that are there, execute is not uniform."""
    if op.name == "bra":
        if "uni" in op.mods:
            _all_or_none(machine, mask, guarded, WARP, "a branch that is said to be uniform")
        return
    warp_barrier = op.name == "bar" and "warp" in op.mods
    if "aligned" in op.mods or (op.name in _ALIGNED and not warp_barrier):
        whole = np.ones(machine.threads, bool)
        what = "a guard that differs among the threads that execute this together"
        _all_or_none(machine, whole, guarded, unit_of(op), what)
    if warp_barrier or op.name in _MEMBERS:
        members = op.operands[0 if warp_barrier else _MEMBERS[op.name]]
        _check_members(machine, members, guarded)
    elif op.name == "bar":
        _check_barrier(machine, op, guarded)
    elif op.name == "mbarrier" and op.mods[0] in ("try_wait", "test_wait"):
        _same(machine, machine.address(op.operands[1]), guarded, "the address of a memory barrier")
        _same(machine, machine.read(op.operands[2]), guarded, "the phase that is waited for")
    elif op.name == "setmaxnreg" and immediate(op.operands[0]) not in _REGISTERS:
        raise Fault(f"{op.operands[0]} registers")


def _all_or_none(machine, mask, guarded, unit, what):
    parts = machine.parts(unit)
    if ({*parts[guarded].tolist()}) & {*parts[mask & ~guarded].tolist()}:
        raise Fault(what)


def _same(machine, values, mask, what):
    """`values` of the threads in `mask` are one in each warp."""
    warps = machine.index[mask] // WARP
    pairs = {*zip(warps.tolist(), values[mask].tolist(), strict=True)}
    if len(pairs) > len({warp for warp, _ in pairs}):
        raise Fault(f"{what} differs in a warp")


def _check_members(machine, text, guarded):
    """The lanes that an instruction names are those that execute it."""
    low = np.uint64(0xFFFFFFFF)
    named = machine.read(text) & low
    for warp in np.unique(machine.index[guarded] // WARP):
        threads = machine.index[guarded & (machine.index // WARP == warp)]
        lanes = sum(1 << int(t) % WARP for t in threads)
        if (named[threads] != np.uint64(lanes)).any():
            raise Fault(f"lanes {lanes:#010x} execute it for lanes {int(named[threads[0]]):#010x}")


def _check_barrier(machine, op, guarded):
    numbers = machine.read(op.operands[0])
    _same(machine, numbers, guarded, "the number of a barrier")
    if (numbers[guarded] >= BARRIERS).any():
        raise Fault("a barrier that a CTA does not have")
    if len(op.operands) > 1:
        counts = machine.read(op.operands[1])
        _same(machine, counts, guarded, "the number of threads at a barrier")
        given = counts[guarded].astype(np.int64)
        if (given % WARP).any() or (given <= 0).any() or (given > machine.plan.threads).any():
            raise Fault("a barrier for a part of a warp, or for more threads than there are")
