"""Order operations so that those over one iteration space stand together.

Groups are formed in program order, and an operation over another space closes the open group. Kernels with tiles of
two dimensions compute coordinates of rows and of columns in between (`iy` for one load, then that load, then `iy + 1`
for the next): each would part two groups over the whole tile, whose values then go through memory.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from math import prod

from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import cpu, tile
from tilewright.passes.analysis.edit import used_in
from tilewright.passes.cpu.analysis.classify import CONTROL, group_space, is_virtual

Space = tuple[int, ...]


def gather_spaces(block: Block, acts: Callable[[Operation], bool]) -> None:
    """Move operations of smaller spaces before those of larger ones, as far as no operand forbids it.

    `acts` says which operations do more than make their results: nothing moves across those, or across control flow.
    """
    run: list[Operation] = []
    for op in [*block.ops, None]:
        if op is not None and _moves(op, acts):
            run.append(op)
            continue
        _gather(block, run)
        run = []


def _moves(op: Operation, acts: Callable[[Operation], bool]) -> bool:
    return bool(op.results) and not isinstance(op, (*CONTROL, cpu.DotOp)) and not acts(op)


def _gather(block: Block, ops: list[Operation]) -> None:
    spaces = {op: space for op in ops if (space := _space(op)) is not None}
    runs = [space for space, _ in groupby(spaces.values())]
    if len(runs) == len(set(runs)):
        return
    after = ops[-1].next_op
    ordered: list[Operation] = []
    rest = ops
    while rest:
        ready = _ready(rest, spaces)
        least = min(ready, key=prod) if ready else None
        chosen = _taken(rest, spaces, least)
        ordered += chosen
        taken = set(chosen)
        rest = [op for op in rest if op not in taken]
    for op in ops:
        op.detach()
    if after is None:
        block.add_ops(ordered)
    else:
        block.insert_ops_before(ordered, after)


def _space(op: Operation) -> Space | None:
    if not tile.has_tiles(op) or is_virtual(op):
        return None
    return group_space(op) or ()


def _ready(ops: list[Operation], spaces: dict[Operation, Space]) -> set[Space]:
    """The spaces of operations that need no other operation with a space."""
    waiting: set[SSAValue] = set()
    found = set[Space]()
    for op in ops:
        waits = any(v in waiting for v in used_in(op))
        if op in spaces and not waits:
            found.add(spaces[op])
        if waits or op in spaces:
            waiting.update(op.results)
    return found


def _taken(
    ops: list[Operation], spaces: dict[Operation, Space], space: Space | None
) -> list[Operation]:
    """The operations over `space`, and those without one, that need nothing over another space."""
    waiting: set[SSAValue] = set()
    found = []
    for op in ops:
        if spaces.get(op, space) != space or any(v in waiting for v in used_in(op)):
            waiting.update(op.results)
        else:
            found.append(op)
    return found
