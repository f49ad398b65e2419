"""How many neighbors a thread takes of each tile that elementwise operations combine: as many of all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import tile
from tilewright.ir.walk import closure, innermost_loop
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.gpu.analysis.accesses import WIDEST, contiguous_dim, run_length
from tilewright.passes.gpu.analysis.elementwise_values import operands_of, results_of

_NARROWEST_LOAD = 4
"""Bytes that a thread loads at least where it loads fewer because of a store."""


def common_run(op: Operation, known: Facts, is_free: Callable[[SSAValue], bool]) -> int | None:
    """The run of a load that is combined with loads or stores of other types; None: as many elements as it can take.

    Of loads, that of the one with the smallest elements, as long as a thread has no more than 32 bytes of any (two
    accesses, but no conversion). A store takes 16 bytes: two stores that each write half of every sector take as long
    as stores of twice the data.
    """
    if not isinstance(op, tile.LoadViewOp) or contiguous_dim(op) is None:
        return None

    def following(value: SSAValue) -> list[SSAValue]:
        return [v for v in operands_of(value) + results_of(value) if not is_free(v)]

    found = list(closure([op.result], following))
    if any(isinstance(use.operation, tile.DotOp) for value in found for use in value.uses):
        return None
    loads = [v.owner for v in found if isinstance(v.owner, tile.LoadViewOp)]
    matching = [o for o in loads if contiguous_dim(o) == contiguous_dim(op)]
    runs = {run_length(o, known) for o in matching}
    size = max(tile.element_bytes(tile.element_of(o.result)) for o in matching)
    longest = max(min(runs), min(max(runs), 2 * WIDEST // size)) if len(runs) > 1 else max(runs)
    shortest = min([longest, *(run for o in matching for run in _stored_runs(o, known))])
    return shortest if len(runs) > 1 or shortest < longest else None


def _stored_runs(load: tile.LoadViewOp, known: Facts) -> Iterator[int]:
    """The runs of stores that take 16 bytes, as often as a load that their elements are computed from."""
    loop, size = innermost_loop(load), tile.element_bytes(tile.element_of(load.result))
    for store in _stores_of(load.result):
        often = loop is None or loop.is_ancestor(store)
        if often and contiguous_dim(store) == contiguous_dim(load):
            run = WIDEST // tile.element_bytes(tile.element_of(store.value))
            if run_length(store, known) == run:
                yield max(run, _NARROWEST_LOAD // size)


def _stores_of(value: SSAValue) -> Iterator[tile.StoreViewOp]:
    """Stores of what elementwise operations make of a tile, also through loops and branches."""

    def following(value: SSAValue) -> list[SSAValue]:
        found = results_of(value)
        for use in value.uses:
            user, above = use.operation, use.operation.parent_op()
            if isinstance(user, scf.ForOp):
                found.append(user.body.block.args[use.index - 2])
            elif isinstance(user, scf.YieldOp) and isinstance(above, scf.ForOp | scf.IfOp):
                found.append(above.results[use.index])
        return found

    for made in closure([value], following):
        for use in made.uses:
            if isinstance(use.operation, tile.StoreViewOp) and use.operation.value is made:
                yield use.operation
