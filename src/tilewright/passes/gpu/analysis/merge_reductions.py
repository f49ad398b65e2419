"""Merge independent reductions into one multi-operand reduction, so that they share one exchange between CTAs."""

from __future__ import annotations

from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region, SSAValue

from tilewright.dialects import tile
from tilewright.passes.analysis.edit import end_of, erase, insert_before, replace_values


def merge_reductions(function: FuncOp) -> None:
    """Merge each reduction with the first reduction of its block that has its shape and follows its inputs."""
    for block in [r.block for op in function.walk() for r in op.regions if r.blocks]:
        merged: list[tile.ReduceOp] = []
        for op in list(block.ops):
            if not isinstance(op, tile.ReduceOp):
                continue
            place = {each: i for i, each in enumerate(block.ops)}
            at = next((i for i, other in enumerate(merged) if _takes(other, op, place)), None)
            if at is None:
                merged.append(op)
            else:
                merged[at] = _merge(merged[at], op)


def _takes(first: tile.ReduceOp, second: tile.ReduceOp, place: dict[Operation, int]) -> bool:
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
