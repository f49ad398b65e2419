"""Rebuilding `scf` operations with other carried values or results."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import scf
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from tilewright.passes.analysis.edit import end_of, rebuild
from tilewright.passes.analysis.effects import has_effect

NO_UNROLL = "tile.no_unroll"
"""Attribute of an `scf.for`: a pass has chosen how many copies of its body there are."""


def post_order(function: FuncOp) -> list[Operation]:
    """All operations below `function`, each after those in its regions."""
    found: list[Operation] = []

    def visit(region: Region) -> None:
        for block in region.blocks:
            for op in block.ops:
                for inner in op.regions:
                    visit(inner)
                found.append(op)

    visit(function.body)
    return found


def replace(old: Operation, new: Operation, results: Sequence[SSAValue | None]) -> None:
    """Erase `old`; `results` replace its results (None: unused). Inserts `new` if it is in no block."""
    new.location = old.location
    block = old.parent
    if block is None:
        raise ValueError("the operation is in no block")
    if new.parent is None:
        block.insert_op_before(new, old)
    for result, value in zip(old.results, results, strict=True):
        if value is not None:
            if value.name_hint is None:
                value.name_hint = result.name_hint
            result.replace_all_uses_with(value)
    block.erase_op(old)


def drop_block_args(block: Block, positions: Sequence[int]) -> None:
    for position in sorted(positions, reverse=True):
        block.erase_arg(block.args[position])


def rebuild_for(loop: scf.ForOp, inits: Sequence[SSAValue]) -> scf.ForOp:
    """`loop` with `inits` for carried values; the caller has made the block arguments and the yield fit."""
    return rebuild(loop, [*loop.operands[:3], *inits], [v.type for v in inits])


def without(values: Sequence[SSAValue], positions: Sequence[int]) -> list[SSAValue]:
    return [v for i, v in enumerate(values) if i not in positions]


def kept_results(
    count: int, positions: Sequence[int], new: Sequence[SSAValue]
) -> list[SSAValue | None]:
    """`new` spread over `count` places, None at `positions`."""
    rest = iter(new)
    return [None if i in positions else next(rest) for i in range(count)]


def remove_carried(loop: scf.ForOp, values: dict[int, SSAValue]) -> scf.ForOp:
    """`loop` without the carried values at the positions in `values`.

    Inside and after the loop they are replaced by `values[position]`, which is defined before it.
    """
    block, last = loop.body.block, end_of(loop.body.block)
    places = list(values)
    for position, value in values.items():
        block.args[position + 1].replace_all_uses_with(value)
        loop.results[position].replace_all_uses_with(value)
    last.operands = without(list(last.operands), places)
    drop_block_args(block, [p + 1 for p in places])
    new = rebuild_for(loop, without(list(loop.iter_args), places))
    replace(loop, new, kept_results(len(loop.results), places, list(new.results)))
    return new


def unused_carried(loop: scf.ForOp) -> list[int]:
    """Positions of carried values that only serve to compute themselves."""
    block, last = loop.body.block, end_of(loop.body.block)
    dead = {p for p, result in enumerate(loop.results) if result.first_use is None}
    if not dead:
        return []
    live: set[Operation] = set()
    work: list[Operation] = [op for op in block.ops if has_effect(op)]
    values = [v for p, v in enumerate(last.operands) if p not in dead]
    while work or values:
        while values:
            value = values.pop()
            if isinstance(value, BlockArgument) and value.block is block:
                position = value.index - 1
                if position in dead:
                    dead.discard(position)
                    values.append(last.operands[position])
            elif isinstance(value.owner, Operation):
                work.append(value.owner)
        if work:
            op = work.pop()
            if op not in live:
                live.add(op)
                values += [v for inner in op.walk() for v in inner.operands]
    return sorted(dead)
