"""Live ranges of rows that are held in registers across reductions; merge reductions, and sink operations to their uses."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects import scf
from xdsl.dialects.builtin import i1
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from tilewright.dialects import tile
from tilewright.ir.walk import closure, sources
from tilewright.passes.analysis.edit import end_of, erase, insert_before, replace_values
from tilewright.passes.analysis.effects import is_pure, is_pure_elementwise, is_volatile
from tilewright.passes.gpu.analysis.strips import cannot_clobber, is_program_variant

_LOOPS = (scf.ForOp, scf.WhileOp)


class HeldRows:
    """Live ranges of loaded tiles, loop-carried tiles and values computed from them."""

    def __init__(self, function: FuncOp, late: Mapping[Operation, Operation] | None = None) -> None:
        """`late`: operations that will be moved to right before others (`late_operations`)."""
        late = late or {}
        self.order: dict[Operation, int] = {op: i for i, op in enumerate(function.walk())}
        self.ranges: dict[SSAValue, tuple[int, int]] = {}
        for op, at in self.order.items():
            results = op.results
            if isinstance(op, _LOOPS):
                self._carried(op, at)
            elif isinstance(op, tile.Load) or any(v in self.ranges for v in op.operands):
                while op in late:
                    op = late[op]
                    at = self.order[op] - 1
                for value in results:
                    self._hold(value, at)

    def _carried(self, loop: Operation, at: int) -> None:
        """Record loop-carried values, which are live for the whole loop."""
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
        """Return the end of a use: the end of the outermost loop around it that does not define the value."""
        last, block = self.order[user], _block_of(value)
        above = user
        while above.parent is not block and (outer := above.parent_op()) is not None:
            above = outer
            if isinstance(above, _LOOPS):
                last = self._end(above)
        return last

    def _end(self, op: Operation) -> int:
        """Return the position of the last operation nested in `op`."""
        return max(self.order[inner] for inner in op.walk())

    def words(self) -> int:
        """Return the maximum number of 4-byte words per program that are live across a reduction."""
        reductions = [i for op, i in self.order.items() if isinstance(op, tile.ReduceOp)]
        return max(
            (
                sum(_words(v) for v, (start, end) in self.ranges.items() if start < at < end)
                for at in reductions
            ),
            default=0,
        )


def late_operations(function: FuncOp) -> dict[Operation, Operation]:
    """Return program-invariant loads (weights), and operations on those alone, that may sink to their first use.

    Maps each operation to the user it moves to, last operation first. Requires: no operation in between writes
    the loaded memory. The delayed loads still hit in cache, because all programs read the same data.
    """
    found: dict[Operation, Operation] = {}
    for block in function.walk_blocks():
        shared: set[SSAValue] = set()
        for op in block.ops:
            if isinstance(op, tile.Load):
                alike = tile.is_tile(op.results[0]) and not is_program_variant(op)
                alike = alike and not is_volatile(op)
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
        insert_before(op, first)


def _first_use(op: Operation, sequence: list[Operation], at: int) -> int:
    """Return the position of the first user after `at`, or `at` if `op` must not be moved there."""
    users = {use.operation for r in op.results for use in r.uses}
    for to in range(at + 1, len(sequence)):
        current = sequence[to]
        if current in users:
            return to
        if isinstance(current, tile.Store):
            if isinstance(op, tile.Load) and not cannot_clobber(op, current):
                return at
        elif not is_pure(current) and not isinstance(current, (tile.Load, tile.AssumeOp)):
            return at
    return at


def is_free(value: SSAValue) -> bool:
    """Return whether a value is rematerializable: pure operations on constants and indices, without loads."""
    made = (v.owner for v in closure([value], lambda v: filter(tile.is_tile, sources(v))))
    return all(
        isinstance(op, Operation)
        and not isinstance(op, tile.Load)
        and is_pure(op)
        and not op.regions
        for op in made
    )


def _block_of(value: SSAValue) -> object:
    return value.block if isinstance(value, BlockArgument) else value.owner.parent


def _words(value: SSAValue) -> int:
    """Return the 4-byte words of a tile; 0 for masks and scalars."""
    if not tile.is_tile(value) or tile.element_of(value) == i1:
        return 0
    return -(-tile.bytes_of(value) // 4)


def merge_reductions(function: FuncOp) -> None:
    """Merge independent reductions, which then share one exchange between CTAs: each with the first of its block that has
    its shape and follows its inputs."""
    for block in list(function.walk_blocks()):
        merged: list[tile.ReduceOp] = []
        for op in list(block.ops):
            if not isinstance(op, tile.ReduceOp):
                continue
            place = {each: i for i, each in enumerate(block.ops)}
            at = next((i for i, other in enumerate(merged) if _takes_in(other, op, place)), None)
            if at is None:
                merged.append(op)
            else:
                merged[at] = _merge(merged[at], op)


def _takes_in(first: tile.ReduceOp, second: tile.ReduceOp, place: dict[Operation, int]) -> bool:
    """Return whether two reductions are compatible and the operands of the second are defined before the first."""
    alike = tile.shape_of(first.inputs[0]) == tile.shape_of(second.inputs[0])
    alike = alike and first.axis == second.axis
    needed = [*second.operands, *(v for op in second.combine.block.ops for v in op.operands)]
    return alike and all(
        place.get(v.owner, -1) < place[first] for v in needed if isinstance(v.owner, Operation)
    )


def _merge(first: tile.ReduceOp, second: tile.ReduceOp) -> tile.ReduceOp:
    """Replace two reductions by one of the operands of both, at the position of the first."""
    both = (first, second)
    inputs = [v for op in both for v in op.inputs]
    elements = [tile.element_of(v) for v in inputs]
    block = Block(arg_types=[*elements, *elements])
    yielded: list[SSAValue] = []
    begin = 0
    for op in both:
        count = len(op.inputs)
        mine = range(begin, begin + count)
        args = [block.args[side * len(inputs) + i] for side in range(2) for i in mine]
        mapping: dict[SSAValue, SSAValue] = dict(zip(op.combine.block.args, args, strict=True))
        end = end_of(op.combine.block)
        for inner in op.combine.block.ops:
            if inner is not end:
                block.add_op(inner.clone(mapping))
        yielded += [mapping.get(v, v) for v in end.operands]
        begin += count
    block.add_op(tile.YieldOp.create(operands=yielded))
    new = tile.ReduceOp.create(
        operands=inputs,
        result_types=[r.type for op in both for r in op.results],
        properties={"axis": first.axis},
        regions=[Region(block)],
        location=first.location,
    )
    insert_before(new, first)
    replace_values([r for op in both for r in op.results], new.results)
    for op in both:
        erase(op)
    return new
