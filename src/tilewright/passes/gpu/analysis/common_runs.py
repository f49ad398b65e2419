"""Choose one vector width for all loads whose tiles element-wise operations combine, so that none changes its layout."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import tile
from tilewright.ir.types import position_of
from tilewright.ir.walk import closure, innermost_loop
from tilewright.passes.analysis.edit import end_of
from tilewright.passes.analysis.effects import is_pure_elementwise
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.gpu.analysis.accesses import (
    WIDEST,
    View,
    contiguous_dim,
    narrow_run,
    run_length,
    tile_of,
)

_NARROWEST_LOAD = 4
"""Bytes that a thread loads at least where it loads fewer because of a store."""


class CommonRuns:
    """The runs of loads that are combined with loads or stores of other types.

    Of loads, that of the one with the smallest elements, as long as a thread has no more than 32 bytes of any (two
    accesses, but no conversion). A store takes 16 bytes: two stores that each write half of every sector take as long
    as stores of twice the data. An access that is not known to be aligned has the run that it may take at once: with a longer one it
    touches as many times the sectors, while an aligned access with a shorter one only takes more instructions.
    """

    def __init__(self, known: Facts, is_free: Callable[[SSAValue], bool]) -> None:
        self.known, self.is_free = known, is_free
        self._found: dict[Operation, dict[int, int]] = {}
        """Of each load, the runs of all that it is combined with, by their contiguous dimension."""

    def of(self, op: Operation) -> int | None:
        """The run of a load; None: as many elements as it can take."""
        dim = _contiguous(op) if isinstance(op, tile.LoadViewOp) else None
        if dim is None:
            return None
        if op not in self._found:
            loads = self._combined(op.results[0])
            dims = {d for load in loads if (d := _contiguous(load)) is not None}
            runs = {d: run for d in dims if (run := self._run(loads, d)) is not None}
            self._found[op] = {}  # multiplied ones are combined with none
            self._found.update(dict.fromkeys(loads, runs))
        return self._found[op].get(dim)

    def _combined(self, value: SSAValue) -> list[tile.LoadViewOp]:
        """The loads that elementwise operations combine with one, itself included; none if any is multiplied. To be
        combined is symmetric and transitive. What loops carry and axes of extent 1 lie between as well, unless a dot's
        operands or accumulators are reached so, which have layouts of their own."""

        def following(value: SSAValue) -> list[SSAValue]:
            return [v for v in operands_of(value) + results_of(value) if not self.is_free(v)]

        def beyond(value: SSAValue) -> list[SSAValue]:
            more = (v for v in _carried(value) + _with_unit_axis(value) if not self.is_free(v))
            return [*following(value), *more]

        found = list(closure([value], following))
        if any(map(_is_multiplied, found)):
            return []
        further = list(closure([value], beyond))
        if not any(_is_multiplied(v) or isinstance(v.owner, tile.DotOp) for v in further):
            found = further
        return [v.owner for v in found if isinstance(v.owner, tile.LoadViewOp)]

    def _run(self, loads: list[tile.LoadViewOp], dim: int) -> int | None:
        """The common run of those of `loads` that are contiguous along `dim`."""
        matching = [load for load in loads if _contiguous(load) == dim]
        runs = {run_length(load, self.known) for load in matching}
        size = max(tile.element_bytes(o.result) for o in matching)
        longest = max(min(runs), min(max(runs), 2 * WIDEST // size)) if len(runs) > 1 else max(runs)
        longest = min(
            [longest, *(run for load in matching if (run := narrow_run(load, self.known)))]
        )
        alike: dict[tuple[object, ...], list[tile.LoadViewOp]] = {}
        for load in matching:
            kind = innermost_loop(load), tile.element_bytes(load.result), _are_rows(load)
            alike.setdefault(kind, []).append(load)
        stored = (run for group in alike.values() for run in _stored_runs(group, self.known))
        shortest = min([longest, *stored])
        return shortest if len(runs) > 1 or shortest < longest else None


def _stored_runs(loads: list[tile.LoadViewOp], known: Facts) -> Iterator[int]:
    """The runs of which stores take 16 bytes, as often as a load that their elements are computed from. The loads are of
    one loop, type and kind."""
    load = loads[0]
    loop, size = innermost_loop(load), tile.element_bytes(load.result)
    for store, copies in _stores_of([load.result for load in loads]):
        often = loop is None or loop.is_ancestor(store)
        alike = _contiguous(store) == _contiguous(load)
        if often and (alike if copies == 1 else _are_rows(load) and _are_rows(store)):
            run = WIDEST // tile.element_bytes(store.value)
            if run_length(store, known) == run and copies <= run:
                yield max(run // copies, _NARROWEST_LOAD // size)
            elif copies == 1 and (narrow := narrow_run(store, known)):
                yield narrow


def _are_rows(op: View) -> bool:
    return contiguous_dim(op) == len(tile.shape_of(tile_of(op))) - 1


def _stores_of(values: list[SSAValue]) -> Iterator[tuple[tile.StoreViewOp, int]]:
    """Stores of what elementwise operations make of tiles, also through loops and branches, and how many neighbors there are
    made of each element: joins and broadcasts along a new last dimension lead to more."""

    def following(item: tuple[SSAValue, int]) -> list[tuple[SSAValue, int]]:
        value, copies = item
        found = [(v, copies) for v in results_of(value) + _results_with_unit_axis(value)]
        for use in value.uses:
            user, above = use.operation, use.operation.parent_op()
            if isinstance(user, scf.ForOp):
                found.append((user.body.block.args[use.index - 2], copies))
            elif isinstance(user, scf.YieldOp) and isinstance(above, scf.ForOp | scf.IfOp):
                found.append((above.results[use.index], copies))
            elif isinstance(user, tile.JoinOp):
                found.append((user.result, 2 * copies))
            elif isinstance(user, tile.ReshapeOp) and copies > 1:
                found.append((user.result, copies))
            elif isinstance(user, tile.BroadcastOp) and _extends_rows(user):
                found.append((user.result, copies * tile.shape_of(user.result)[-1]))
        return [each for each in found if each[1] <= WIDEST]

    for made, copies in closure([(value, 1) for value in values], following):
        for use in made.uses:
            if isinstance(use.operation, tile.StoreViewOp) and use.operation.value is made:
                yield use.operation, copies


def _extends_rows(op: tile.BroadcastOp) -> bool:
    """Whether only the last dimension, of extent 1, is broadcast."""
    source, result = tile.shape_of(op.source), tile.shape_of(op.result)
    return len(source) > 1 and source[:-1] == result[:-1] and source[-1] == 1


def _contiguous(op: View) -> int | None:
    """The contiguous dimension of an access, of those that have more than one element."""
    dim = contiguous_dim(op)
    if dim is None:
        return None
    return sum(extent > 1 for extent in tile.shape_of(tile_of(op))[:dim])


def _is_multiplied(value: SSAValue) -> bool:
    return any(isinstance(use.operation, tile.DotOp) for use in value.uses)


def _carried(value: SSAValue) -> list[SSAValue]:
    """The other values of what a loop carries: before it, in it, yielded and behind it."""
    places: list[tuple[scf.ForOp, int]] = []
    owner = value.owner
    if isinstance(owner, scf.ForOp):
        places.append((owner, position_of(value)))
    elif isinstance(owner, Block) and isinstance(loop := owner.parent_op(), scf.ForOp):
        places.append((loop, position_of(value) - 1))
    for use in value.uses:
        user, above = use.operation, use.operation.parent_op()
        if isinstance(user, scf.ForOp):
            places.append((user, use.index - 3))
        elif isinstance(user, scf.YieldOp) and isinstance(above, scf.ForOp):
            places.append((above, use.index))
    found: list[SSAValue] = []
    for loop, i in places:
        if tile.is_tile(value) and i >= 0:
            body = loop.body.block
            found += [
                loop.iter_args[i],
                body.args[i + 1],
                end_of(body).operands[i],
                loop.results[i],
            ]
    return found


def _with_unit_axis(value: SSAValue) -> list[SSAValue]:
    """Tiles of the same elements, with axes of extent 1 more or less, that `value` is made of or makes."""
    owner, found = value.owner, _results_with_unit_axis(value)
    if isinstance(owner, Operation) and _changes_unit_axes(owner):
        found.append(owner.operands[0])
    return found


def _results_with_unit_axis(value: SSAValue) -> list[SSAValue]:
    users = [use.operation for use in value.uses]
    return [op.results[0] for op in users if _changes_unit_axes(op)]


def _changes_unit_axes(op: Operation) -> bool:
    """Whether an operation only adds axes of extent 1, or takes such away."""
    if not isinstance(op, tile.ExpandDimsOp | tile.ReshapeOp):
        return False
    source, result = tile.shape_of(op.source), tile.shape_of(op.result)
    return [e for e in source if e > 1] == [e for e in result if e > 1]


def _is_elementwise(op: Operation) -> bool:
    return is_pure_elementwise(op) or isinstance(op, tile.InlineAsmOp)


def operands_of(value: SSAValue) -> list[SSAValue]:
    """The operands of the shape of `value` that an elementwise operation makes it of."""
    owner = value.owner
    found = owner.operands if isinstance(owner, Operation) and _is_elementwise(owner) else ()
    return [v for v in found if tile.shape_of(v) == tile.shape_of(value)]


def results_of(value: SSAValue) -> list[SSAValue]:
    """The results of the shape of `value` that elementwise operations make of it."""
    users = [use.operation for use in value.uses if _is_elementwise(use.operation)]
    made = [result for user in users for result in user.results]
    return [v for v in made if tile.shape_of(v) == tile.shape_of(value)]


def users_of(value: SSAValue) -> Iterator[tuple[Operation, SSAValue]]:
    """The operations that use `value`, what elementwise operations make of it, or what branches and loops yield of
    that; and which of these values they use."""
    for made in closure([value], _results_and_yields):
        for use in made.uses:
            yield use.operation, made


def _results_and_yields(value: SSAValue) -> list[SSAValue]:
    yields = [use for use in value.uses if isinstance(use.operation, scf.YieldOp)]
    around = [(use.operation.parent_op(), use.index) for use in yields]
    ends = [op.results[i] for op, i in around if isinstance(op, scf.ForOp | scf.IfOp)]
    return results_of(value) + ends
