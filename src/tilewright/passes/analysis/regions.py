"""Rebuilding `scf` operations with other carried values or results."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import scf
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region, SSAValue


def terminator(region: Region) -> Operation:
    """The last operation of a single-block region."""
    last = region.block.last_op
    if last is None:
        raise ValueError("a block without terminator")
    return last


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
    """A loop with the bounds and the body (moved) of `loop`, and `inits` for carried values.

    The caller has already made the block arguments and the yield fit.
    """
    body = loop.detach_region(0)
    return scf.ForOp(loop.lb, loop.ub, loop.step, list(inits), body)


def without(values: Sequence[SSAValue], positions: Sequence[int]) -> list[SSAValue]:
    return [v for i, v in enumerate(values) if i not in positions]


def kept_results(
    count: int, positions: Sequence[int], new: Sequence[SSAValue]
) -> list[SSAValue | None]:
    """`new` spread over `count` places, None at `positions`."""
    rest = iter(new)
    return [None if i in positions else next(rest) for i in range(count)]
