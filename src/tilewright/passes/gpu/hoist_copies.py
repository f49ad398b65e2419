"""`hoist-copies`: issue the copies of straight-line code before anything waits for one of them.

`promote-shared` puts the copies of a dot's operands in front of the dot, and waits for them there. Passes over loops
issue them iterations ahead. Outside loops, and in loops that are not pipelined, dots that follow each other take a
latency of memory each. This pass moves the copies of a block up, as far as their addresses are known, each group
behind the one before, and waits for one group at a time:

    copy a; commit; wait 0           copy a; commit
    dot a                            copy b; commit
    copy b; commit; wait 0     ->    wait 1
    dot b                            dot a
                                     wait 0
                                     dot b

A copy passes loads, dots and other operations without effects, accesses of other buffers, and barriers, if nothing of
an earlier iteration still reads its buffer. It passes no store, branch or loop, and no barrier behind one. Buffers are live longer: the pass leaves
functions whose buffers take more than half of an SM's shared memory as they are, unless as many CTAs share an SM. Requires `promote-shared`; runs after
the passes that schedule loops, and before `deallocate-shared`, which ends lifetimes. Ensures: groups are committed in
the order in which they are waited for.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.ir.walk import following, innermost_loop, operations_between, preceding
from tilewright.passes.analysis.edit import backward_slice, insert_before
from tilewright.passes.analysis.effects import is_pure, is_volatile
from tilewright.passes.base import FunctionPass
from tilewright.passes.gpu.analysis.buffer_views import buffer_root, buffer_users
from tilewright.passes.gpu.analysis.shared_allocation import (
    SharedAllocation,
    allocated,
    buffer_bytes,
    end_of_use,
)
from tilewright.targets import TargetInfo

_BUFFER_ACCESSES = (
    gpu.LocalAllocOp, gpu.LocalDeallocOp, gpu.LocalLoadOp, gpu.LocalStoreOp, gpu.LocalTransposeOp,
    gpu.MemdescTransOp,
)  # fmt: skip
_COMPUTES = (tile.DotOp, gpu.WgmmaOp, gpu.WgmmaWaitOp, gpu.ConvertLayoutOp, tile.ReduceOp)
_ENOUGH_CTAS = 4
"""CTAs on an SM that issue copies while others compute: chains of dots rarely have registers for more."""


@dataclass
class _Group:
    """The copies of a commit group, and the wait that follows the commit."""

    copies: list[gpu.AsyncCopyOp]
    commit: gpu.AsyncCommitGroupOp
    wait: gpu.AsyncWaitOp
    buffers: set[SSAValue] = field(init=False)

    def __post_init__(self) -> None:
        self.buffers = {copy.buffer for copy in self.copies}


class HoistCopies(FunctionPass):
    relevant_ops = ("gpu.async_copy",)
    requires = ("promote-shared",)

    def run(self, function: FuncOp, target: TargetInfo) -> None:
        copies = [op for op in function.walk() if isinstance(op, gpu.AsyncCopyOp)]
        if copies and _have_room(copies, function, target):
            for block in {op.parent: None for op in copies}:
                if block is not None:
                    _hoist(block)


def _have_room(copies: list[gpu.AsyncCopyOp], function: FuncOp, target: TargetInfo) -> bool:
    """Whether buffers may be live longer: all at once take half of an SM's shared memory, or as many CTAs share an SM, or enough,
    if those of copies are live as long as all others."""
    now = SharedAllocation(function).end
    longest = now + sum(map(buffer_bytes, {buffer_root(copy.buffer) for copy in copies}))
    limit = target.shared_bytes
    enough = min(_ENOUGH_CTAS, limit // max(1, now))
    return allocated(function) <= limit // 2 or limit // longest >= enough


def _hoist(block: Block) -> None:
    groups = _groups(block)
    for number, group in enumerate(groups):
        _move_up(block, group, groups[:number])
    for group in groups:
        between = operations_between(group.commit, group.wait)
        later = sum(isinstance(op, gpu.AsyncCommitGroupOp) for op in between)
        group.wait.properties["pending"] = IntegerAttr(later, i32)


def _groups(block: Block) -> list[_Group]:
    """The groups of a block that are waited for where they are committed."""
    found: list[_Group] = []
    copies: list[gpu.AsyncCopyOp] = []
    for op in block.ops:
        if isinstance(op, gpu.AsyncCopyOp):
            copies.append(op)
        elif isinstance(op, gpu.AsyncCommitGroupOp):
            wait = op.next_op
            if copies and isinstance(wait, gpu.AsyncWaitOp) and not wait.pending.value.data:
                found.append(_Group(copies, op, wait))
            copies = []
    return found


def _move_up(block: Block, group: _Group, before: list[_Group]) -> None:
    """Move a group of copies up to the first place where they may be issued, with what computes their addresses."""
    operands = [value for copy in group.copies for value in copy.operands]
    needed = backward_slice(block, operands, stop=lambda op: not is_pure(op))
    if needed is None:
        return
    moved = {*needed[0], *group.copies, group.commit}
    fixed = {value.owner for op in moved for value in op.operands} - moved
    waits, commits = {other.wait for other in before}, {other.commit for other in before}
    free = _is_free_at_barriers(block, group)
    first: Operation = group.copies[0]
    ordered: Operation | None = None
    for op in preceding(first):
        passes = op in moved or op in waits or _passes(op, group.buffers, free)
        if op in fixed or op in commits:
            break
        if not passes:  # a barrier may order what it does before the copies
            first = ordered or first
            break
        if isinstance(op, gpu.BarrierOp):
            ordered = first
        first = op
    taken = [op for op in [first, *following(first)] if op in moved]
    place = next(op for op in [first, *following(first)] if op not in moved)
    if place is group.wait:
        return
    for op in taken:
        insert_before(op, place)


def _passes(op: Operation, buffers: set[SSAValue], free: bool) -> bool:
    """Whether copies to these buffers may be issued before `op` instead of after it."""
    if isinstance(op, gpu.BarrierOp):
        return free
    if isinstance(op, tile.Load):
        return not is_volatile(op)
    if isinstance(op, _BUFFER_ACCESSES):
        return buffers.isdisjoint(op.operands) and buffers.isdisjoint(op.results)
    return is_pure(op) or isinstance(op, _COMPUTES)


def _is_free_at_barriers(block: Block, group: _Group) -> bool:
    """Whether reads of the buffers by an earlier execution of `block` are over at its end."""
    if innermost_loop(group.commit) is None:
        return True
    users = [op for buffer in group.buffers for op in buffer_users(buffer)]
    if any(block.find_ancestor_op_in_block(op) is None for op in users):
        return False
    ends = [end_of_use(op, block) for op in users]
    return all(
        end is not None and any(isinstance(op, gpu.BarrierOp) for op in following(end))
        for end in ends
    )
