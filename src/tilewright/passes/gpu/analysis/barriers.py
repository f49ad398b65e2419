"""Find CTA barriers in a loop that order no conflicting accesses.

A barrier is needed if an access between the barrier before it and itself conflicts with one between itself and the
barrier after it: same buffer, and one of the two writes. Asynchronous copies write from their issue on (reads by other
threads must be complete) and are visible after their wait; an MMA reads from its issue to its wait. Exchanges in scratch
have their own barriers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import takewhile

from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.ir.walk import ancestors, following, preceding
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

    def conflicts_with(self, later: _Touched) -> bool:
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
        before, after = (_reached(barrier, body, walk) for walk in (preceding, following))
        if not touched(before).conflicts_with(touched(after)):
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
    after = next((o for o in following(op) if not isinstance(o, gpu.LocalDeallocOp)), None)
    return isinstance(after, gpu.BarrierOp)


_Walk = Callable[[Operation], Iterator[Operation]]
"""`preceding` or `following`."""


def _reached(barrier: Operation, body: Block, walk: _Walk) -> list[Operation]:
    """Operations from a barrier in one direction to the next one, round the loop and beyond it."""
    found, open_ = _run(walk(barrier))
    if open_:
        ops = reversed(body.ops) if walk is preceding else body.ops
        found += _run(takewhile(lambda op: op is not barrier, ops))[0]
        found += _outside(body.parent_op(), walk)
    return found


def _run(ops: Iterable[Operation]) -> tuple[list[Operation], bool]:
    """Operations up to a barrier, and whether there is none."""
    found: list[Operation] = []
    for op in ops:
        if isinstance(op, _ANY):
            return found, False
        found.append(op)
    return found, True


def _outside(op: Operation | None, walk: _Walk) -> list[Operation]:
    """What runs before or after a loop, up to a barrier; in loops and branches, all that the function
    has."""
    if op is None:
        return []
    found, open_ = _run(walk(op))
    function = next((above for above in ancestors(op) if isinstance(above, FuncOp)), None)
    if open_ and op.parent_op() is not function:
        return [o for o in function.walk() if not o.regions] if function is not None else []
    return found
