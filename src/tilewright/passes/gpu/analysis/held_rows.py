"""What a program has of its rows in registers while it waits for a reduction of one."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from xdsl.dialects import scf
from xdsl.dialects.builtin import i1
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from tilewright.dialects import tile
from tilewright.passes.analysis.edit import insert_before
from tilewright.passes.analysis.effects import is_pure, is_pure_elementwise, is_volatile
from tilewright.passes.gpu.analysis.strips import cannot_clobber, is_program_variant

_LOADS = (tile.LoadOp, tile.LoadViewOp)
_LOOPS = (scf.ForOp, scf.WhileOp)


class HeldRows:
    """Live ranges of the tiles that a function loads, carries in loops, or makes of such."""

    def __init__(self, function: FuncOp, late: Mapping[Operation, Operation] | None = None) -> None:
        """`late`: operations that are going to be done right before others (`late_operations`)."""
        late = late or {}
        self.order: dict[Operation, int] = {op: i for i, op in enumerate(function.walk())}
        self.ranges: dict[SSAValue, tuple[int, int]] = {}
        for op, at in self.order.items():
            results = op.results
            if isinstance(op, _LOOPS):
                self._carried(op, at)
            elif isinstance(op, _LOADS) or any(v in self.ranges for v in op.operands):
                while op in late:
                    op = late[op]
                    at = self.order[op] - 1
                for value in results:
                    self._hold(value, at)

    def _carried(self, loop: Operation, at: int) -> None:
        """What a loop carries is there as long as it runs."""
        end = self._end(loop)
        for region in loop.regions:
            for value in region.block.args:
                if _words(value):
                    self.ranges[value] = at, end
        for value in loop.results:
            self._hold(value, end)

    def _hold(self, value: SSAValue, start: int) -> None:
        if _words(value):
            uses = [self._needed_until(value, use.operation) for use in value.uses]
            self.ranges[value] = start, max(uses, default=start)

    def _needed_until(self, value: SSAValue, user: Operation) -> int:
        """Where a use is over: the end of the outermost loop around it that does not make the value."""
        last, block = self.order[user], _block_of(value)
        above = user
        while above.parent is not block and (outer := above.parent_op()) is not None:
            above = outer
            if isinstance(above, _LOOPS):
                last = self._end(above)
        return last

    def _end(self, op: Operation) -> int:
        """Of the last operation within one."""
        return max(self.order[inner] for inner in op.walk())

    def words(self) -> int:
        """The most words of 4 bytes that a program holds across one of its reductions."""
        reductions = [i for op, i in self.order.items() if isinstance(op, tile.ReduceOp)]
        return max(
            (
                sum(_words(v) for v, (start, end) in self.ranges.items() if start < at < end)
                for at in reductions
            ),
            default=0,
        )


def late_operations(function: FuncOp) -> dict[Operation, Operation]:
    """Loads of what all programs read (weights), and what is made of that alone, that may be done right before their
    first use, with that; the last of them first.

    Nothing in between may write what they read, which is found in caches then as well.
    """
    found: dict[Operation, Operation] = {}
    for block in (r.block for op in function.walk() for r in op.regions if r.blocks):
        shared: set[SSAValue] = set()
        for op in block.ops:
            if isinstance(op, _LOADS):
                alike = tile.is_tile(op.results[0]) and not is_program_variant(op)
                alike = alike and not (isinstance(op, tile.LoadOp) and is_volatile(op))
            else:
                alike = is_pure_elementwise(op) and any(v in shared for v in op.operands)
                alike = alike and all(v in shared or is_free(v) for v in op.operands)
            if alike:
                shared.update(op.results)
        sequence = list(block.ops)
        for op in [op for op in reversed(sequence) if shared.intersection(op.results)]:
            at = sequence.index(op)
            to = _first_use(op, sequence, at)
            if to > at + 1:
                found[op] = sequence[to]
                sequence.insert(to - 1, sequence.pop(at))
    return found


def sink(late: Mapping[Operation, Operation]) -> None:
    """Move `late_operations` to their first uses."""
    for op, first in late.items():
        op.detach()
        insert_before(op, first)


def _first_use(op: Operation, sequence: list[Operation], at: int) -> int:
    """Where the first operation is that uses a result, of those that come after `at`; `at` where it may not be
    moved there."""
    users = {use.operation for r in op.results for use in r.uses}
    for to in range(at + 1, len(sequence)):
        current = sequence[to]
        if current in users:
            return to
        if isinstance(current, tile.StoreOp | tile.StoreViewOp):
            if isinstance(op, _LOADS) and not cannot_clobber(op, current):
                return at
        elif not is_pure(current) and not isinstance(current, (*_LOADS, tile.AssumeOp)):
            return at
    return at


def is_free(value: SSAValue) -> bool:
    """Whether a value is no tile, or one of counters and numbers alone."""
    pending, seen = [value], {value}
    while pending:
        owner = pending.pop().owner
        if isinstance(owner, _LOADS) or not isinstance(owner, Operation):
            return False
        if not is_pure(owner) or owner.regions:
            return False
        new = [v for v in owner.operands if tile.is_tile(v) and v not in seen]
        seen.update(new)
        pending += new
    return True


def _block_of(value: SSAValue) -> object:
    return value.block if isinstance(value, BlockArgument) else value.owner.parent


def _words(value: SSAValue) -> int:
    """Words of 4 bytes of a tile that is no mask; 0 for others."""
    if not tile.is_tile(value) or tile.element_of(value) == i1:
        return 0
    return -(-prod(tile.shape_of(value)) * tile.element_bytes(tile.element_of(value)) // 4)
