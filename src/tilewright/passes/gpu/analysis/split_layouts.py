"""Layouts for `tile.split`: both elements of a pair in one thread, for as many later splits of the same values as possible.

A network of splits and joins (Hadamard transform, sorting) pairs the elements that differ in one bit of their index,
another one in each stage. Each stage wants its bit in the registers of a thread. Where one has to move there, the bits
of the next stages move along, so that a tile of 2^r registers per thread is exchanged once every r stages: for 4096
elements in 4 warps twice instead of 9 times.
"""

from __future__ import annotations

from dataclasses import replace

from xdsl.ir import Operation, SSAValue

from tilewright.dialects import tile
from tilewright.layouts import Layout
from tilewright.layouts.layout import Vector
from tilewright.passes.analysis.effects import is_pure_elementwise
from tilewright.passes.gpu.analysis.accesses import default_layout

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
