"""Build the producer warp: the copies of scheduled loops and the scalars they depend on, loop by loop."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr, i1, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.passes.analysis.edit import branch, end_of, insert_before
from tilewright.passes.analysis.effects import has_effect, is_pure
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
    body, top = loop.body.block, function.body.block
    needed: set[Operation] = set()
    carried: list[BlockArgument] = []
    pending = [*values, loop.lb, loop.ub, loop.step]
    while pending:
        value = pending.pop()
        if isinstance(value, BlockArgument):
            if value.block is body and value.index > 0 and value not in carried:
                carried.append(value)
                pending += [end_of(body).operands[value.index - 1], loop.iter_args[value.index - 1]]
            if value.block not in (body, top) or tile.is_tile(value):
                return None
            continue
        op = value.owner
        if not isinstance(op, Operation) or op in needed:
            continue
        if op.parent not in (body, top) or tile.is_tile(value) or not _repeatable(op, function):
            return None
        needed.add(op)
        pending += op.operands
    inside = [op for op in body.ops if op in needed]
    return Slice(inside, carried, [op for op in top.ops if op in needed])


def _repeatable(op: Operation, function: FuncOp) -> bool:
    """Return whether another warp may recompute a scalar: the operation is pure, or a load from memory that the
    kernel does not write."""
    if isinstance(op, tile.LoadOp) and not has_effect(op):
        return not may_clobber(function, [op.pointer])
    return is_pure(op) and not op.regions


class Producer:
    """Builds the region of a producer warp."""

    def __init__(self, anchor: Operation) -> None:
        self._end = scf.YieldOp.create()
        self._block = Block([self._end])
        self._anchor = anchor
        self._mapping: dict[SSAValue, SSAValue] = {}

    def add(
        self, loop: scf.ForOp, rings: list[Ring], taken: Slice, stages: int, at: Position | None
    ) -> Position:
        """Emit the copies of a loop from a ring position on (None: all stages are empty); return the final position."""
        end = self._end
        for op in taken.outside:
            if op.results and op.results[0] in self._mapping:
                continue
            insert_before(op.clone(self._mapping), end)
        first = at or Position(
            constant(0, end), constant(1, end)
        )  # the phase before the first counts as complete
        new = self._loop(loop, rings, taken, stages, first)
        insert_before(new, end)
        return Position(*new.results[-2:])

    def _loop(
        self, loop: scf.ForOp, rings: list[Ring], taken: Slice, stages: int, first: Position
    ) -> scf.ForOp:
        there = self._there
        inits = [there(loop.iter_args[a.index - 1]) for a in taken.carried]
        scalars = [*inits, first.stage, first.phase]
        end = scf.YieldOp.create()
        kinds = [loop.body.block.args[0].type, *(v.type for v in scalars)]
        inside = Block([end], arg_types=kinds)
        counter, *carried, stage, phase = inside.args
        mapping = {**self._mapping, loop.body.block.args[0]: counter}
        mapping.update(zip(taken.carried, carried, strict=True))
        for op in taken.inside:
            insert_before(op.clone(mapping), end)
        for ring in rings:
            _load(ring, mapping, Position(stage, phase), end)
        after = [end_of(loop.body.block).operands[a.index - 1] for a in taken.carried]
        following = advance(Position(stage, phase), stages, end)
        yields = [*(mapping.get(v, v) for v in after), following.stage, following.phase]
        end.operands = yields
        return scf.ForOp.create(
            operands=[there(loop.lb), there(loop.ub), there(loop.step), *scalars],
            result_types=[v.type for v in scalars],
            regions=[Region(inside)],
            location=loop.location,
        )

    def _there(self, value: SSAValue) -> SSAValue:
        return self._mapping.get(value, value)

    def finish(self, registers: tuple[int, int]) -> None:
        """Insert the producer region at the kernel's entry. `registers`: per producer and per consumer thread."""
        self._end.detach()
        region = Region(self._block)
        produce = gpu.ProducerWarpOp.create(
            regions=[region],
            properties={
                "producer_registers": IntegerAttr(registers[0], i32),
                "consumer_registers": IntegerAttr(registers[1], i32),
            },
            location=self._anchor.location,
        )
        insert_before(produce, self._anchor)


def _load(ring: Ring, mapping: dict[SSAValue, SSAValue], at: Position, before: Operation) -> None:
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
