"""Layouts of operations that change the shape of tiles or scan along them: scans, splits, and reductions of what a dot gives."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from xdsl.ir import Operation, SSAValue

from tilewright.dialects import tile
from tilewright.ir.walk import closure
from tilewright.layouts import Layout
from tilewright.layouts.blocked import blocked, scan_of_columns_layout
from tilewright.layouts.layout import Vector
from tilewright.passes.analysis.effects import is_pure_elementwise
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.gpu.analysis.accesses import contiguous_dim, default_layout, run_length
from tilewright.passes.gpu.analysis.common_runs import operands_of

MAX_SEGMENTS = 16
"""Runs per thread in a scan; the shuffles are repeated for each."""
STRIDED_SEGMENTS = 4
"""As `MAX_SEGMENTS`, of elements that are no neighbors in memory."""


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
    size = tile.element_bytes(tile.element_of(op.inputs[0]))
    powers = all(e & (e - 1) == 0 for e in (*shape, warps))
    if len(shape) == 2 and axis == 0 and powers and not along:
        return scan_of_columns_layout(shape, warps, max(1, 16 // size))
    order = (axis, *(d for d in reversed(range(len(shape))) if d != axis))
    threads = 32 * (warps & -warps)  # groups of those all scan the same
    run = max(1, shape[axis] // threads)
    strided = len(shape) == 1 and any(isinstance(o, tile.LoadOp | tile.LoadViewOp) for o in loads)
    if (along or strided) and powers:
        share = max(1, prod(shape) // threads)
        least = run // (MAX_SEGMENTS if along else STRIDED_SEGMENTS)
        run = min(share, max(run_length(along[0], known) if along else 1, least))
    return blocked(shape, warps, run, order)


_LONGEST_NETWORK = 1000
"""Operations that are followed to the next split."""


def joined(source: Layout) -> Layout:
    """Two tiles of `source` side by side along a new last dimension, both in one thread."""
    wide = source.insert(source.rank)
    return replace(wide, shape=(*source.shape, 2), registers=(_last(wide.rank), *wide.registers))


def split_source(op: tile.SplitOp, source: Layout, warps: int) -> Layout:
    """A layout in which a thread has both elements along the last dimension (of extent 2): `source`, if it is one, or
    `source` with index bits of lanes and warps exchanged for registers."""
    if _last(source.rank) in source.registers:
        return source
    exchanged = _exchanged(op, source)
    return exchanged or joined(default_layout(source.shape[:-1], warps))


def _exchanged(op: tile.SplitOp, source: Layout) -> Layout | None:
    """`source` with the index bits of the next splits in registers; None where the pairs are not bits of an index."""
    count, lanes = len(source.registers), len(source.lanes)
    vectors = [*source.registers, *source.lanes, *source.warps]
    if source.repeat or _last(source.rank) not in vectors or not count:
        return None
    wanted = _bits_of_splits(op, replace(source, registers=(), lanes=tuple(vectors), warps=()))
    kept = list(dict.fromkeys(wanted))[:count]
    leaving = [bit for bit in range(count) if bit not in kept]
    for bit in kept:
        if bit >= count:
            other = leaving.pop()
            vectors[bit], vectors[other] = vectors[other], vectors[bit]
    return replace(
        source,
        registers=tuple(vectors[:count]),
        lanes=tuple(vectors[count : count + lanes]),
        warps=tuple(vectors[count + lanes :]),
    )


def _bits_of_splits(op: tile.SplitOp, probe: Layout) -> list[int]:
    """Index bits, as positions among the lanes of `probe`, that `op` and the splits that follow it pair elements by."""
    bits: list[int] = []
    split: tile.SplitOp | None = op
    while split is not None and _last(probe.rank) in probe.lanes and len(bits) < len(probe.lanes):
        bit = probe.lanes.index(_last(probe.rank))
        bits.append(bit)
        split, probe = _next_split(split.results[0], probe.drop(probe.rank - 1), bit)
    return bits


def _next_split(value: SSAValue, probe: Layout, bit: int) -> tuple[tile.SplitOp | None, Layout]:
    """The first split that changes of shape, element-wise operations and joins lead to, and the layout of its source,
    in which joins put their operands side by side in `bit`."""
    pending, seen = [(value, probe)], {value}
    while pending and len(seen) < _LONGEST_NETWORK:
        current, layout = pending.pop(0)
        for use in current.uses:
            if isinstance(use.operation, tile.SplitOp):
                return use.operation, layout
            found = _through(use.operation, layout, bit)
            result = use.operation.results[0] if found is not None else None
            if found is not None and result is not None and result not in seen:
                seen.add(result)
                pending.append((result, found))
    return None, probe


def _through(op: Operation, layout: Layout, bit: int) -> Layout | None:
    """The layout of the result of an operation whose operand is in `layout`; None where it has another one."""
    match op:
        case tile.HintOp():
            return layout
        case tile.TransOp():
            return layout.permute(op.permutation)
        case tile.ReshapeOp():
            return layout.reshape(tile.shape_of(op.result))
        case tile.JoinOp():
            wide = layout.insert(layout.rank)
            lanes = [_last(wide.rank) if i == bit else v for i, v in enumerate(wide.lanes)]
            return replace(wide, shape=(*layout.shape, 2), lanes=tuple(lanes))
        case _ if is_pure_elementwise(op) and tile.shape_of(op.results[0]) == layout.shape:
            return layout
        case _:
            return None


def _last(rank: int) -> Vector:
    """The vector of neighbours along the last dimension."""
    return (*(0 for _ in range(rank - 1)), 1)


def reduces_across_warps(value: SSAValue, layout: Layout) -> bool:
    """Whether a tile in a layout is reduced, in another shape perhaps, along an axis that warps share."""
    pending, seen = [(value, layout)], {value}
    while pending:
        current, its = pending.pop()
        for use in current.uses:
            op = use.operation
            if isinstance(op, tile.ReduceOp) and any(v[op.axis.value.data] for v in its.warps):
                return True
            found = _result_layout(op, current, its)
            if found is not None and op.results[0] not in seen:
                seen.add(op.results[0])
                pending.append((op.results[0], found))
    return False


def _result_layout(op: Operation, source: SSAValue, layout: Layout) -> Layout | None:
    """The layout of an operation's result, where it has the elements of `source` one by one."""
    match op:
        case tile.TransOp():
            return layout.permute(tuple(op.permutation))
        case tile.ReshapeOp():
            return layout.reshape(tile.shape_of(op.result))
        case tile.ExpandDimsOp():
            return layout.insert(op.axis.value.data)
        case _ if is_pure_elementwise(op) and len(op.results) == 1:
            return layout if tile.shape_of(op.results[0]) == tile.shape_of(source) else None
        case _:
            return None
