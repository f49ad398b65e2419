"""Recognize recurrences: loops whose iterations store values of a carried state, and so cannot overlap.

Linear attention's and state-space models' recurrences, forward substitution, scans written as loops: an iteration
cannot start before the previous one has ended, so that neither more warps per SM nor instructions of other iterations
cover the latency of its loads. A loop that only sums up is none: its iterations overlap.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects import scf
from xdsl.ir import SSAValue

from tilewright.dialects import tile
from tilewright.ir.walk import closure, results_of_users
from tilewright.passes.analysis.edit import yielded


def is_recurrence(loop: scf.ForOp) -> bool:
    """Whether an iteration stores, or reduces for the next one, tiles that it computes from a carried tile that depends
    on itself."""
    body = loop.body.block
    for arg in filter(tile.is_tile, body.args[1:]):
        state = tiles_from([arg])
        if yielded(arg) in state and any(
            isinstance(use.operation, tile.Store) for value in state for use in value.uses
        ):
            return True
    for op in body.ops:
        if isinstance(op, tile.ReduceOp):
            made = tiles_from(op.results)
            carried = [a for a in body.args[1:] if yielded(a) in made]
            if not tiles_from(carried).keys().isdisjoint(op.inputs):
                return True
    return False


def is_search(loop: scf.ForOp) -> bool:
    """Whether an iteration loads, tile by tile, from where what the previous one loaded says (a binary search)."""
    body = loop.body.block
    loads = [op for op in body.ops if isinstance(op, tile.Load)]
    for arg in filter(tile.is_tile, body.args[1:]):
        state = tiles_from([arg])
        dependent = [op for op in loads if not state.keys().isdisjoint(_places(op))]
        if yielded(arg) in tiles_from(op.results[0] for op in dependent):
            return True
    return False


def _places(load: tile.Load) -> list[SSAValue]:
    """What says where a load reads."""
    return [load.pointer] if isinstance(load, tile.LoadOp) else [load.base, *load.indices]


def tiles_from(values: Iterable[SSAValue]) -> dict[SSAValue, None]:
    """Tiles that operations of a block compute from `values`, and those."""

    def following(value: SSAValue) -> list[SSAValue]:
        return [r for r in results_of_users(value) if tile.is_tile(r)]

    return dict.fromkeys(closure(filter(tile.is_tile, values), following))
