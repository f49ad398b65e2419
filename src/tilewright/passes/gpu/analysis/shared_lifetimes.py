"""Lifetimes of shared-memory buffers in the function's entry block and in nested blocks.

A buffer is live from its first use in a block to the `gpu.local_dealloc` in the same block. In a loop body this holds
per iteration: the contents do not outlive the iteration. A buffer without `gpu.local_dealloc` is live until the program
ends.

Assumes: a `gpu.barrier` follows each `gpu.local_dealloc` in its block before any thread writes another buffer (the
interpreter checks it). So threads are synchronized between the last access to one buffer and the first write of
another one with a disjoint lifetime, in whichever order loops execute their blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import gpu
from tilewright.passes.analysis.edit import outermost_in
from tilewright.passes.gpu.analysis.buffer_views import buffer_users


@dataclass(frozen=True)
class _Interval:
    """Operations `first` … `last` of a block; unbounded if not `ends`."""

    block: Block
    first: int
    last: int
    ends: bool


class SharedLifetimes:
    """Lifetimes of the buffers of a function, as long as its operations stay where they are.

    `ends`: operations where buffers are to be deallocated, instead of where they are.
    """

    def __init__(self, function: FuncOp, ends: Mapping[SSAValue, Operation] | None = None) -> None:
        self._block = function.body.block
        self._ends = ends or {}
        self._positions: dict[Block, dict[Operation, int]] = {}
        self._intervals: dict[SSAValue, list[_Interval]] = {}

    def disjoint(self, one: SSAValue, other: SSAValue) -> bool:
        """Return whether one of two buffers is deallocated whenever the other is live."""
        return all(self._disjoint(a, b) for a in self._lifetime(one) for b in self._lifetime(other))

    def _disjoint(self, a: _Interval, b: _Interval) -> bool:
        in_a, in_b = _enclosing(a.block, b.block), _enclosing(b.block, a.block)
        if a.block is b.block:
            return (a.ends and a.last < b.first) or (b.ends and b.last < a.first)
        if in_a is not None:  # `b` is live in one operation of the block of `a`
            at = self._position(in_a)
            return (a.ends and a.last < at) or at < a.first
        if in_b is not None:
            at = self._position(in_b)
            return (b.ends and b.last < at) or at < b.first
        return True  # both end inside different operations, or regions, of one block

    def _lifetime(self, buffer: SSAValue) -> list[_Interval]:
        found = self._intervals.get(buffer)
        if found is None:
            users = buffer_users(buffer)
            end = self._ends.get(buffer)
            if end is not None:
                users = [op for op in users if not isinstance(op, gpu.LocalDeallocOp)]
            found = self._intervals[buffer] = self._intervals_of(users, end)
        return found

    def is_deallocated(self, buffer: SSAValue) -> bool:
        """Return whether the lifetime of a buffer ends before the program does."""
        return any(interval.ends for interval in self._lifetime(buffer))

    def _intervals_of(self, users: list[Operation], end: Operation | None) -> list[_Interval]:
        """Return one interval per block that deallocates; for nested blocks, the outermost."""
        deallocs = (
            [op for op in users if isinstance(op, gpu.LocalDeallocOp)] if end is None else [end]
        )
        users = users if end is None else [*users, end]
        blocks = list(dict.fromkeys(op.parent for op in deallocs))
        outermost = [
            block
            for block in blocks
            if block is not None
            and not any(b is not None and _enclosing(b, block) is not None for b in blocks)
        ]
        positions: dict[Block, list[int]] = {}
        for user in users:
            for block in outermost:
                within = block.find_ancestor_op_in_block(user)
                if within is not None:
                    positions.setdefault(block, []).append(self._position(within))
                    break
            else:  # live after the operation that deallocates it
                outer = [self._position(outermost_in(self._block, u)) for u in users]
                return [_Interval(self._block, min(outer), max(outer), ends=False)]
        return [_Interval(b, min(ps), max(ps), ends=True) for b, ps in positions.items()] or [
            _Interval(self._block, 0, -1, ends=False)
        ]

    def _position(self, op: Operation) -> int:
        block = op.parent
        if block is None:
            return 0
        found = self._positions.get(block)
        if found is None:
            found = self._positions[block] = {o: i for i, o in enumerate(block.ops)}
        return found[op]


def _enclosing(block: Block, inner: Block) -> Operation | None:
    """Return the operation of `block` that encloses the block `inner`, or None."""
    op = inner.parent_op()
    return op and block.find_ancestor_op_in_block(op)
