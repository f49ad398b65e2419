"""Barriers in a loop that order nothing.

A barrier is needed where, between the barrier before it and the one after it, an access on its far side
meets one on its near side in the same buffer, and one of the two writes. Copies in flight write when they
are started (what others have read must be over) and are seen from their wait on; an MMA reads from its
start to its wait. Exchanges in scratch space bring their own barriers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.passes.analysis.edit import erase
from tilewright.passes.gpu.analysis.buffer_views import buffer_root

_ANY = (gpu.BarrierOp, tile.BarrierOp)


@dataclass
class _Touched:
    """Buffers that operations read and write, as what comes later and as what came earlier has it."""

    reads: set[SSAValue] = field(default_factory=set)
    written: set[SSAValue] = field(default_factory=set)
    """Written by then: what is read later has to be seen."""
    writes: set[SSAValue] = field(default_factory=set)
    """Written from then on: what was read earlier must be over."""

    def meets(self, later: _Touched) -> bool:
        """Whether a barrier is needed between these accesses and `later` ones."""
        stored = self.written & later.writes & later.written
        return bool(self.reads & later.writes or self.written & later.reads or stored)


def remove_redundant_barriers(body: Block, kept: Operation) -> None:
    """Take away the barriers of a loop's body, other than `kept`, that order no accesses."""
    mmas = [op for op in body.walk() if isinstance(op, gpu.WgmmaOp)]
    copied = {op.buffer for op in body.walk() if isinstance(op, gpu.AsyncCopyOp)}

    def touched(ops: Iterable[Operation]) -> _Touched:
        found = _Touched()
        for op in ops:
            for inner in op.walk():
                _add(found, inner, mmas, copied)
        return found

    for barrier in [op for op in body.ops if isinstance(op, gpu.BarrierOp) and op is not kept]:
        before, after = _around(barrier, body)
        if not touched(before).meets(touched(after)):
            erase(barrier)


def _add(found: _Touched, op: Operation, mmas: list[gpu.WgmmaOp], copied: set[SSAValue]) -> None:
    match op:
        case gpu.LocalStoreOp():
            found.written.add(op.buffer)
            found.writes.add(op.buffer)
        case gpu.LocalTransposeOp():
            found.reads.add(op.source)
            found.written.add(op.target)
            found.writes.add(op.target)
        case gpu.LocalLoadOp():
            found.reads.add(op.buffer)
        case gpu.WgmmaOp():
            found.reads.update(map(buffer_root, (op.lhs, op.rhs)))
        case gpu.WgmmaWaitOp():
            for mma in mmas:
                found.reads.update(map(buffer_root, (mma.lhs, mma.rhs)))
        case gpu.AsyncCopyOp() | gpu.TmaLoadOp():
            found.writes.add(op.buffer)
        case gpu.AsyncWaitOp():
            found.written |= copied
        case gpu.LocalDeallocOp() if not _ends_at_barrier(op):
            found.reads.update(op.buffers)
            found.writes.update(op.buffers)
        case _:
            pass


def _ends_at_barrier(op: Operation) -> bool:
    """Whether a barrier follows a deallocation before the memory is reused."""
    following = op.next_op
    while isinstance(following, gpu.LocalDeallocOp):
        following = following.next_op
    return isinstance(following, gpu.BarrierOp)


def _around(barrier: Operation, body: Block) -> tuple[list[Operation], list[Operation]]:
    """Operations from the barrier before to this one, and from this one to the next, round the loop and
    beyond it."""
    loop = body.parent_op()
    before, open_start = _run(barrier, forward=False)
    after, open_end = _run(barrier, forward=True)
    if open_start:  # of the iteration before, and before the loop
        before += _run(body.last_op, forward=False, stop=barrier, include=True)[0]
        before += _outside(loop, forward=False)
    if open_end:
        after += _run(body.first_op, forward=True, stop=barrier, include=True)[0]
        after += _outside(loop, forward=True)
    return before, after


def _run(
    start: Operation | None, forward: bool, stop: Operation | None = None, include: bool = False
) -> tuple[list[Operation], bool]:
    """Operations from `start` on, to a barrier, and whether the block's end was reached first."""
    found: list[Operation] = []
    current = start
    if current is not None and not include:
        current = current.next_op if forward else current.prev_op
    while current is not None and current is not stop:
        if isinstance(current, _ANY):
            return found, False
        found.append(current)
        current = current.next_op if forward else current.prev_op
    return found, current is None


def _outside(op: Operation | None, forward: bool) -> list[Operation]:
    """What runs before or after a loop, up to a barrier; in loops and branches, all that the function
    has."""
    if op is None:
        return []
    found, ends = _run(op, forward)
    above = op.parent_op()
    if ends and above is not None and not isinstance(above, FuncOp):
        while above is not None and not isinstance(above, FuncOp):
            above = above.parent_op()
        return [o for o in above.walk() if not o.regions] if above is not None else []
    return found
