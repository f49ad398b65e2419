"""Build the producer warp: the copies of scheduled loops and the scalars they depend on, loop by loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr, LocationAttr, i1, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.passes.analysis.edit import (
    Mapping,
    backward_slice,
    branch,
    end_of,
    erase,
    initial,
    insert_before,
    yielded,
)
from tilewright.passes.analysis.effects import has_effect, is_pure
from tilewright.passes.analysis.emit import Emitter
from tilewright.passes.gpu.analysis.accesses import may_clobber
from tilewright.passes.gpu.analysis.copy_engines import tma_loads
from tilewright.passes.gpu.scheduling.ring import Position, Ring, advance, constant


@dataclass(frozen=True)
class Slice:
    """Backward slice of values of a loop's body: operations of the body, in order, and loop-carried scalars."""

    inside: list[Operation]
    carried: list[BlockArgument]
    outside: list[Operation]
    """Top-level operations of the function in the slice, in order."""


def slice_of(function: FuncOp, loop: scf.ForOp, values: list[SSAValue]) -> Slice | None:
    """Return the slice of `values` and of the loop's bounds. None if it contains anything but scalars that any warp
    can compute: tiles, results of other loops, loads from memory that the kernel writes."""

    def repeatable(op: Operation) -> bool:
        return _repeatable(op, function) and not any(map(tile.is_tile, op.results))

    found = backward_slice(loop.body.block, values, repeatable, carried=True)
    if found is None or any(map(tile.is_tile, found[1])):
        return None
    inside, carried = found
    needed = [*values, *loop.operands[:3], *map(initial, carried)]
    needed += [v for op in inside for v in op.operands]
    outside = backward_slice(function.body.block, needed, repeatable)
    return None if outside is None else Slice(inside, carried, outside[0])


def _repeatable(op: Operation, function: FuncOp) -> bool:
    """Return whether another warp may recompute a scalar: the operation is pure, or a load from memory that the
    kernel does not write."""
    if isinstance(op, tile.LoadOp) and not has_effect(op):
        return not may_clobber(function, [op.pointer])
    return is_pure(op) and not op.regions


def producer_warp(registers: Sequence[int], location: LocationAttr) -> gpu.ProducerWarpOp:
    """A producer warp, in no block yet, that does nothing so far: the `scf.yield` at its end is a place for operations,
    which `insert_producer` takes away. `registers`: per producer and per consumer thread; () where both keep theirs."""
    names = ("producer_registers", "consumer_registers") if registers else ()
    return gpu.ProducerWarpOp.create(
        properties={n: IntegerAttr(r, i32) for n, r in zip(names, registers, strict=True)},
        regions=[Region(Block([scf.YieldOp.create()]))],
        location=location,
    )


def insert_producer(produce: gpu.ProducerWarpOp, before: Operation) -> None:
    """Insert a producer warp that is complete."""
    erase(end_of(produce.body.block))
    insert_before(produce, before)


def producer_loop(
    loop: scf.ForOp,
    carried: Sequence[BlockArgument],
    outside: Mapping,
    first: Position,
    stages: int,
    issue: Callable[[Mapping, Position, Operation], Mapping],
    before: Operation,
) -> scf.ForOp:
    """Insert the producer's part of a loop, whose last two results are the position of its rings after it.

    `carried`: scalars of the loop that copies depend on. `outside`: values from before it -> those of the producer.
    `issue` emits an iteration, given its values, position and end, and returns the values with those computed in it.
    """

    def there(value: SSAValue) -> SSAValue:
        return outside.get(value, value)

    inits = [*(there(initial(a)) for a in carried), first.stage, first.phase]
    e = Emitter(before, loop.location)
    new, inner = e.loop([there(v) for v in loop.operands[:3]], inits)
    counter, *scalars, stage, phase = new.body.block.args
    at, end = Position(stage, phase), inner.anchor
    state = {
        **outside,
        loop.body.block.args[0]: counter,
        **dict(zip(carried, scalars, strict=True)),
    }
    mapping = issue(state, at, end)
    after = advance(at, stages, end)
    yields = (mapping.get(v, v) for v in map(yielded, carried))
    end.operands = [*yields, after.stage, after.phase]
    return new


class Producer:
    """Builds the region of a producer warp."""

    def __init__(self, anchor: Operation, registers: tuple[int, int]) -> None:
        """`registers`: per producer and per consumer thread."""
        self._anchor = anchor
        self._op = producer_warp(registers, anchor.location)
        self._mapping: Mapping = {}

    def add(
        self, loop: scf.ForOp, rings: list[Ring], taken: Slice, stages: int, at: Position | None
    ) -> Position:
        """Emit the copies of a loop from a ring position on (None: all stages are empty); return the final position."""
        end = end_of(self._op.body.block)
        for op in taken.outside:
            if op.results and op.results[0] in self._mapping:
                continue
            insert_before(op.clone(self._mapping), end)
        first = at or Position(
            constant(0, end), constant(1, end)
        )  # the phase before the first counts as complete

        def issue(mapping: Mapping, at: Position, end: Operation) -> Mapping:
            for op in taken.inside:
                insert_before(op.clone(mapping), end)
            for ring in rings:
                _load(ring, mapping, at, end)
            return mapping

        new = producer_loop(loop, taken.carried, self._mapping, first, stages, issue, end)
        return Position(*new.results[-2:])

    def finish(self) -> None:
        """Insert the producer region at the kernel's entry."""
        insert_producer(self._op, self._anchor)


def _load(ring: Ring, mapping: Mapping, at: Position, before: Operation) -> None:
    """Wait until a stage is empty, then issue the group's copies to it."""
    wait = gpu.MbarrierWaitOp.create(operands=[ring.empty, at.stage, at.phase])
    elect = gpu.ElectOp.create(result_types=[i1])
    maps = [[t.root, *shape] for t, shape in zip(ring.tiles, ring.shapes, strict=True)]
    places = [[mapping.get(v, v) for v in place] for place in ring.coordinates]
    group = ring.group
    loads = tma_loads(
        group.copies, ring.tiles, maps, places, ring.full, at.stage, group.bytes_per_stage
    )
    for op in (wait, elect, branch(elect.result, loads)):
        insert_before(op, before)
