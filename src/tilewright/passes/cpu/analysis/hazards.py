"""May two accesses of one group overlap when chunks of one run between chunks of the other?

Aliasing rules (docs/gpu.md): a load may move across a store only if their structured
accesses are provably disjoint, or lane-wise the same address, or a run-time guard has compared
their byte ranges. `relation` answers what is known before the program runs.

Does a lane of a tile matter to other lanes of the group that uses it?

A group runs chunk by chunk, and what is stored or written to a buffer in one chunk is seen by the
chunks after it. A value that is read and replaced in one group is therefore safe only where each lane
is read at itself; `trans(x + 1)` reads `x` elsewhere although `x` has no shape change directly.
"""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import cpu, tile
from tilewright.ir.walk import closure
from tilewright.passes.analysis.aliasing import no_alias, same_addresses
from tilewright.passes.cpu.analysis.classify import CONTROL, REMAPS, WRITES

SAME, DISJOINT, GUARD, UNKNOWN = "same", "disjoint", "guard", "unknown"


def accesses_within(op: Operation) -> list[Operation]:
    """The memory operations in `op`, itself included, those in nested regions too."""
    return [o for o in op.walk() if isinstance(o, (tile.Load, *WRITES))]


def writes_memory(op: Operation) -> bool:
    return any(isinstance(o, WRITES) for o in op.walk())


def is_bounded(op: Operation) -> bool:
    """Whether the byte range of an access can be computed from scalars alone."""
    return isinstance(op, tile.View) and all(k.data == "strided" for k in op.kinds)


def relation(first: Operation, second: Operation, nested: bool) -> str:
    """`SAME` lanes touch the same addresses, `DISJOINT` none ever, `GUARD` compare ranges at run time, or
    `UNKNOWN`.

    `nested`: one of the two sits in a loop of its own, so that its range is not known outside.
    """
    if no_alias(_pointer(first), _pointer(second)):
        return DISJOINT
    if nested or not (is_bounded(first) and is_bounded(second)):
        return UNKNOWN
    return SAME if same_addresses(first, second) else GUARD


def _pointer(access: Operation) -> SSAValue:
    """The pointer, or the tile of pointers, of a load, a store or an atomic operation."""
    if isinstance(access, tile.View):
        return access.base
    return access.operands[0]


__all__ = [
    "DISJOINT", "GUARD", "SAME", "UNKNOWN", "accesses_within", "is_bounded", "relation", "writes_memory",
]  # fmt: skip


_MOVES = (*REMAPS, tile.JoinOp)


def crosses_lanes(value: SSAValue, group: cpu.FusionGroupOp) -> bool:
    """Whether `group` needs some lane of `value` (or of what it computes from it) at another lane.

    Reductions end the search: who needs their result waits for all lanes.
    """

    def users(current: SSAValue) -> list[Operation]:
        return [use.operation for use in current.uses if group.is_ancestor(use.operation)]

    return any(
        (isinstance(op, _MOVES) or tile.moves_lanes(op))
        and not (isinstance(op, tile.GatherOp) and op.index is current and op.source is not current)
        for current in closure([value], lambda v: [r for op in users(v) for r in _reached(op)])
        for op in users(current)
    )


def moved_loads(group: cpu.FusionGroupOp) -> set[Operation]:
    """The loads of a group that some lane does for the sake of another."""
    return {
        op
        for op in group.body.block.walk()
        if isinstance(op, tile.Load) and tile.is_tile(op.results[0])
        if crosses_lanes(op.results[0], group)
    }


def _reached(op: Operation) -> list[SSAValue]:
    """Values whose lanes are made from the same lanes of the operands of `op`."""
    if isinstance(op, tile.ReduceOp):
        return []
    if isinstance(op, CONTROL):
        return [*op.results, *(a for r in op.regions for b in r.blocks for a in b.args)]
    if isinstance(op, scf.YieldOp):
        above = op.parent_op()
        return [] if above is None else _reached(above)
    return list(op.results)
