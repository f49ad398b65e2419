"""Layouts of scans, of reductions of accumulators, and of tiles that loops carry and reduce."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from xdsl.ir import Operation, SSAValue

from tilewright.dialects import tile
from tilewright.ir.walk import closure
from tilewright.layouts import Layout
from tilewright.layouts.blocked import blocked, scan_of_columns_layout
from tilewright.passes.analysis.effects import is_pure_elementwise
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.gpu.analysis.accesses import contiguous_dim, run_length
from tilewright.passes.gpu.analysis.common_runs import operands_of

LONGEST_RUN = 16
"""Elements along a reduced axis that a thread holds side by side: as many as it loads of a row in up to 4 loads."""
MAX_SEGMENTS = 16
"""Runs per thread in a scan; the shuffles are repeated for each."""
STRIDED_SEGMENTS = 4
"""As `MAX_SEGMENTS`, of elements that are no neighbors in memory."""
_LARGE = 64
"""Registers per thread of a carried tile from which on lanes divide it, if they hold copies."""


def scan_layout(op: tile.ScanOp, known: Facts, warps: int) -> Layout:
    """A layout in which a scan finds its elements in order: each thread a run, then lanes, then warps, and those again.

    Along the dimension in which its tile comes from memory: the runs of the load, single elements where these are
    not neighbors in memory, so that lanes share as many sectors as they can. Columns of a matrix that comes
    from memory by rows: threads hold neighbors along the rows as well, and lanes follow there first. So the scan needs
    no other layout than the load and the store. Otherwise each thread has one run.
    """
    shape, axis = tile.shape_of(op.inputs[0]), op.axis.value.data
    loads = [v.owner for i in op.inputs for v in closure([i], operands_of)]
    along = [o for o in loads if isinstance(o, tile.LoadViewOp) and contiguous_dim(o) == axis]
    size = tile.element_bytes(op.inputs[0])
    powers = all(e & (e - 1) == 0 for e in (*shape, warps))
    if len(shape) == 2 and axis == 0 and powers and not along:
        return scan_of_columns_layout(shape, warps, max(1, 16 // size))
    order = (axis, *(d for d in reversed(range(len(shape))) if d != axis))
    threads = 32 * (warps & -warps)  # groups of those all scan the same
    run = max(1, shape[axis] // threads)
    strided = len(shape) == 1 and any(isinstance(o, tile.Load) for o in loads)
    if (along or strided) and powers:
        share = max(1, prod(shape) // threads)
        least = run // (MAX_SEGMENTS if along else STRIDED_SEGMENTS)
        run = min(share, max(run_length(along[0], known) if along else 1, least))
    return blocked(shape, warps, run, order)


def reduced_beside(op: tile.ReduceOp, partner: Layout | None) -> Layout | None:
    """The layout of a reduction's inputs in which each thread holds the whole axis, and results are in that of `partner`, a
    tile that they are combined with; None where the axis is long or threads of that layout hold copies."""
    axis = op.axis.value.data
    extent = tile.shape_of(op.inputs[0])[axis]
    if partner is None or extent & (extent - 1) or extent > LONGEST_RUN:
        return None
    if partner.replicated("lanes") or partner.replicated("warps"):
        return None
    return partner.insert(axis).with_registers(axis, extent)


def reduces_across_warps(value: SSAValue, layout: Layout) -> bool:
    """Whether a tile in a layout is reduced, in another shape perhaps, along an axis that warps share."""

    def following(tile_: tuple[SSAValue, Layout]) -> Iterator[tuple[SSAValue, Layout]]:
        for op in (use.operation for use in tile_[0].uses):
            if (found := _result_layout(op, *tile_)) is not None:
                yield op.results[0], found

    return any(
        isinstance(use.operation, tile.ReduceOp)
        and any(v[use.operation.axis.value.data] for v in its.warps)
        for current, its in closure([(value, layout)], following)
        for use in current.uses
    )


def _result_layout(op: Operation, source: SSAValue, layout: Layout) -> Layout | None:
    """The layout of an operation's result, where it has the elements of `source` one by one."""
    if not is_pure_elementwise(op):
        return moved_layout(op, layout)
    alike = len(op.results) == 1 and tile.shape_of(op.results[0]) == tile.shape_of(source)
    return layout if alike else None


def moved_layout(op: Operation, layout: Layout) -> Layout | None:
    """The layout of the result of a change of shape whose source is in `layout`; None for other operations."""
    match op:
        case tile.HintOp():
            return layout
        case tile.ExpandDimsOp():
            return layout.insert(op.axis.value.data)
        case tile.TransOp():
            return layout.permute(op.permutation)
        case tile.ReshapeOp():
            return layout.reshape(tile.shape_of(op.result))
        case _:
            return None


def divided_over_lanes(layout: Layout) -> Layout | None:
    """The layout of a large tile that a loop carries, divided along its last dimension among lanes that all hold copies
    (results of reductions across them); None for other tiles.

    Fewer registers stay live, and a lane selects its part of what it has reduced with others. Runs of two stay.
    """
    alike = [bit for bit, vector in enumerate(layout.lanes) if not any(vector)]
    last = [v for v in layout.registers if v[-1] > 1 and sum(v) == v[-1]]
    moved = dict(zip(reversed(alike), reversed(last), strict=False))
    if layout.registers_per_thread < _LARGE or len(moved) < 2:
        return None
    return replace(
        layout,
        registers=tuple(v for v in layout.registers if v not in moved.values()),
        lanes=tuple(moved.get(bit, v) for bit, v in enumerate(layout.lanes)),
    )
