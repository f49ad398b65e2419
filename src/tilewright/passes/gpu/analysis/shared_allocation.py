"""Allocate shared memory: offsets of buffers from their lifetimes.

Lifetimes are those in the program's block (`program_block`) and in nested blocks.
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
from math import prod
from typing import Any

from xdsl.dialects import scf
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.ir.walk import following
from tilewright.layouts.shared import ALIGNMENT
from tilewright.passes.analysis.edit import insert_before, outermost_in
from tilewright.passes.gpu.analysis.buffer_views import buffer_users, program_block
from tilewright.passes.gpu.analysis.num_ctas import warps_of
from tilewright.passes.gpu.analysis.strips import EXCHANGES

BARRIER = 8
"""Bytes of one memory barrier."""
_VECTOR = 16
"""Bytes of the widest access."""
_MOST_CTAS = 32
"""CTAs of an SM."""


def buffer_bytes(buffer: SSAValue) -> int:
    """Bytes of all stages of a buffer."""
    kind: Any = buffer.type
    return gpu.shared_layout_of(buffer).bytes * kind.stages.data


def dead_buffers(function: FuncOp, op: Operation) -> list[SSAValue]:
    """Buffers whose last use is before the operation of the program's block that holds `op`."""
    plan = SharedAllocation(function)
    return [
        a.result
        for a in function.walk()
        if isinstance(a, gpu.LocalAllocOp) and plan.over(a.result, op)
    ]


def bytes_beside(function: FuncOp, buffers: list[SSAValue], loop: scf.ForOp | None = None) -> int:
    """Bytes of all other buffers that cannot have the place of `buffers`; those that the block of `loop` uses only before
    it or after it can, as `deallocate-shared` releases them."""
    plan = SharedAllocation(function)
    others = [a.result for a in function.walk() if isinstance(a, gpu.LocalAllocOp)]
    return sum(
        buffer_bytes(other)
        for other in others
        if other not in buffers
        and not all(plan.have_disjoint_lifetimes(other, b) for b in buffers)
        and not (loop is not None and _is_used_beside(other, loop))
    )


def _is_used_beside(buffer: SSAValue, loop: scf.ForOp) -> bool:
    """Whether a buffer is used in the block of `loop` only: before the loop, or after it."""
    order = {op: i for i, op in enumerate(loop.parent.ops)} if loop.parent is not None else {}
    users = [
        loop.parent and loop.parent.find_ancestor_op_in_block(op) for op in buffer_users(buffer)
    ]
    places = [order.get(op, order[loop]) - order[loop] for op in users if op is not None]
    return 0 < len(places) == len(users) and (max(places) < 0 or min(places) > 0)


def release_between_loops(function: FuncOp) -> None:
    """Release, after each operation of the program's block, the buffers that it alone uses, where
    later ones could have their place."""
    block = program_block(function)
    buffers = [a.result for a in function.walk() if isinstance(a, gpu.LocalAllocOp)]
    users = {b: {outermost_in(block, op) for op in buffer_users(b)} for b in buffers}
    order = {op: i for i, op in enumerate(block.ops)}
    last = max((order[op] for ops in users.values() for op in ops), default=-1)
    for op in list(block.ops):
        mine = [b for b in buffers if users[b] == {op}]
        follows = any(order[op] < min(map(order.__getitem__, u)) for u in users.values() if u)
        behind = op.next_op
        if op.regions and mine and order[op] < last and follows and behind is not None:
            insert_before(gpu.LocalDeallocOp.create(operands=mine), behind)
            insert_before(gpu.BarrierOp.create(), behind)


def release_at_barriers(function: FuncOp) -> None:
    """Give back, at each barrier of the program's block, the buffers whose last use is over, where later ones
    could have their place: chains of MMAs outside of loops need few at a time."""
    block = program_block(function)
    order = {op: i for i, op in enumerate(block.ops)}
    first, last = dict[SSAValue, int](), dict[SSAValue, int]()
    for op in function.walk():
        if not isinstance(op, gpu.LocalAllocOp):
            continue
        users = buffer_users(op.result)
        if users and not any(isinstance(user, gpu.LocalDeallocOp) for user in users):
            places = [order[outermost_in(block, user)] for user in users]
            overs = [order[over] for user in users if (over := end_of_use(user, block)) is not None]
            if len(overs) == len(users):
                first[op.result], last[op.result] = min(places), max(overs)
    begins = max(first.values(), default=-1)
    for barrier in [op for op in block.ops if isinstance(op, gpu.BarrierOp)]:
        now = order[barrier]
        dead = [buffer for buffer, over in last.items() if over < now]
        if dead and begins > now:
            insert_before(gpu.LocalDeallocOp.create(operands=dead), barrier)
            for buffer in dead:
                del last[buffer]


def end_of_use(op: Operation, block: Block) -> Operation | None:
    """The operation of `block` after which a use of a buffer is over: of an MMA, the wait for it; None where that is in
    a later iteration."""
    if isinstance(op, gpu.TmaStoreOp):
        return None
    if not isinstance(op, gpu.WgmmaOp):
        return outermost_in(block, op)
    within: Operation | None = op
    while within is not None:
        for later in following(within):
            if isinstance(later, gpu.WgmmaWaitOp) and later.pending.value.data == 0:
                return outermost_in(block, later)
        within = within.parent_op() if within.parent is not block else None
    return None


class SharedAllocation:
    """Each buffer where no other is that is live at the same time; scratch space begins after those in use.

    `ends`: where buffers are to be deallocated, instead of where they are.
    """

    def __init__(self, function: FuncOp, ends: Mapping[SSAValue, Operation] | None = None) -> None:
        self._block = program_block(function)
        self._order = {op: i for i, op in enumerate(self._block.ops)}
        self._lifetimes = SharedLifetimes(function, ends)
        self._places: dict[SSAValue, tuple[int, int]] = {}
        self._first: dict[SSAValue, int] = {}
        self._last: dict[SSAValue, int] = {}
        ops = list(function.walk())
        buffers: list[SSAValue] = [op.result for op in ops if type(op) is gpu.LocalAllocOp]
        for buffer in buffers:
            self._note(buffer)
        self._place_all(ops, buffers)
        end = self.end
        self._mbarriers = (end, end)
        for op in ops:
            if type(op) is gpu.MbarrierInitOp:
                kind: Any = op.result.type
                self._note(op.result)
                start = -(-end // BARRIER) * BARRIER
                end = start + BARRIER * kind.stages.data
                self._places[op.result] = (start, end)
        self._mbarriers = (self._mbarriers[0], end)

    def reserve_behind(self, size: int, scratch: int, limit: int) -> int | None:
        """Reserve bytes that are neither a buffer's nor scratch space at any time; returns the first. None if fewer CTAs
        share `limit` bytes then, each with so many bytes of scratch space."""
        low, high = self._mbarriers
        start = -(-high // _VECTOR) * _VECTOR
        ctas, before = (limit // max(1, end + scratch) for end in (start + size, high))
        if size == 0 or ctas < max(1, min(before, _MOST_CTAS)):
            return None
        self._mbarriers = (low, start + size)
        return start

    def _note(self, value: SSAValue) -> None:
        uses = [self._top(op) for op in buffer_users(value)]
        self._first[value], self._last[value] = min(uses, default=0), max(uses, default=-1)

    def _place_all(self, ops: list[Operation], buffers: list[SSAValue]) -> None:
        """Place the buffers that are live to the end of the program, then the others in the order of their first use,
        or, if that takes fewer bytes, the largest first."""
        released = [b for b in buffers if self._lifetimes.is_deallocated(b)]
        for buffer in buffers:
            if buffer not in released:
                self._put(buffer, buffer_bytes(buffer))
        if not released:
            return
        order = {op: i for i, op in enumerate(ops)}
        first = {b: min(order[op] for op in buffer_users(b)) for b in released}
        fixed, plans = dict(self._places), list[dict[SSAValue, tuple[int, int]]]()
        for key in (first.__getitem__, lambda b: (-buffer_bytes(b), first[b])):
            self._places = dict(fixed)
            for buffer in sorted(released, key=key):
                self._put(buffer, buffer_bytes(buffer))
            plans.append(self._places)
        self._places = min(plans, key=lambda places: max(end for _, end in places.values()))

    def _put(self, value: SSAValue, size: int) -> None:
        """The lowest offset that no buffer live at the same time has."""
        taken = sorted(
            place
            for other, place in self._places.items()
            if not self.have_disjoint_lifetimes(other, value)
        )
        start = 0
        for low, high in taken:
            if start + size <= low:
                break
            start = max(start, -(-high // ALIGNMENT) * ALIGNMENT)
        self._places[value] = (start, start + size)

    @property
    def end(self) -> int:
        """The byte after the last buffer."""
        return max((end for _, end in self._places.values()), default=0)

    def have_disjoint_lifetimes(self, one: SSAValue, other: SSAValue) -> bool:
        """Return whether one of two buffers is deallocated whenever the other is live."""
        return self._lifetimes.disjoint(one, other)

    def overlap(self, one: SSAValue, other: SSAValue) -> bool:
        """Return whether two buffers have bytes in common."""
        (low, high), (start, end) = self._places[one], self._places[other]
        return low < end and start < high

    @property
    def used(self) -> bool:
        """Whether there is any buffer."""
        return bool(self._places)

    def _top(self, op: Operation) -> int:
        """Position of the operation of the program's block that `op` is in."""
        top = self._block.find_ancestor_op_in_block(op)
        return 0 if top is None else self._order[top]

    def place(self, buffer: SSAValue) -> tuple[int, int]:
        """First byte of a buffer, and the byte after its last stage."""
        return self._places[buffer]

    def over(self, buffer: SSAValue, op: Operation) -> bool:
        """Whether a buffer is used, but not by `op` or anything after it, nor released yet."""
        return not _is_deallocated(buffer) and 0 <= self._last[buffer] < self._top(op)

    def free_from(self, op: Operation) -> int:
        """The byte after the last buffer that `op` or something after it uses."""
        now = self._top(op)
        ends = [end for b, (_, end) in self._places.items() if self._last[b] >= now]
        return -(-max(ends, default=0) // 128) * 128

    def scratch_from(self, op: Operation, size: int) -> int:
        """The first byte for `size` bytes of scratch memory at `op`: after the buffers that are still in
        use, and never over an mbarrier. An mbarrier object stays one until it is invalidated: data
        written over it is undefined (PTX ISA, "mbarrier.inval"; seen on an H200: rows of NaN)."""
        start = self.free_from(op)
        low, high = self._mbarriers
        return (
            -(-high // 128) * 128 if start < high and low < start + size and low < high else start
        )

    def scratch_room(self, op: Operation, limit: int) -> int:
        """The most bytes of scratch memory in one piece at `op`, of `limit` bytes in all."""
        start = self.free_from(op)
        low, high = self._mbarriers
        if low == high or start >= high:
            return max(0, limit - start)
        return max(0, low - start, limit - -(-high // 128) * 128)


def _is_deallocated(buffer: SSAValue) -> bool:
    return any(isinstance(use.operation, gpu.LocalDeallocOp) for use in buffer.uses)


def allocated(function: FuncOp) -> int:
    """Bytes of shared memory that the buffers of a function take."""
    return sum(
        buffer_bytes(op.result) for op in function.walk() if isinstance(op, gpu.LocalAllocOp)
    )


_PADDING = 64
"""The most bytes after each row of a tile that changes its layout."""


def max_scratch_bytes(function: FuncOp) -> int:
    """Bytes of shared memory that reductions and conversions take, at most."""
    warps, most = warps_of(function), 0
    for op in function.walk():
        if isinstance(op, tile.ReduceOp):
            sums = sum(map(tile.bytes_of, op.results))
            most = max(most, warps * (sums + _PADDING))
        elif isinstance(op, gpu.ConvertLayoutOp):
            *rows, length = tile.shape_of(op.source)
            most = max(most, prod(rows) * (length * tile.element_bytes(op.source) + _PADDING))
    return EXCHANGES // 2 + most


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
        self._block = program_block(function)
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
