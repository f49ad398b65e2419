"""Layouts of networks of splits and joins (butterflies), whose stages pair elements by one index bit after another.

A split needs both elements of a pair in one thread. Index bits of the next splits are therefore exchanged for bits of registers,
as many at a time as there are, through shared memory. Three choices save exchanges:

- a load for splits holds their bits from the start, next to words of 4 bytes, and lanes read rows side by side as before;
- the last exchange leads to the layout of the store, which then writes whole sectors: without, threads would hold runs of 32 bytes
  and more, of which each store of 16 bytes writes half a sector;
- of 16-bit elements one more bit stays in registers, if the store allows: shared memory is accessed by words then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from xdsl.ir import Operation, SSAValue

from tilewright.dialects import tile
from tilewright.layouts import Layout
from tilewright.layouts.layout import Vector
from tilewright.passes.analysis.effects import is_pure_elementwise
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.gpu.analysis.accesses import (
    WIDEST,
    access_layout,
    contiguous_dim,
    default_layout,
)
from tilewright.passes.gpu.analysis.shape_layouts import moved_layout

_LONGEST_NETWORK = 1000
"""Operations that are followed to the next split."""
_WORD_BYTES = 4
_ROW_BYTES = 128
"""Bytes that lanes access side by side: a cache line."""

AccessLayout = Callable[[Operation], Layout]
"""The layout in which an access takes the fewest transactions."""


@dataclass(frozen=True)
class _Network:
    """The splits that follow a tile, and the store at their end."""

    bits: tuple[int, ...]
    """Index bits, as positions among the lanes of a probe, that the splits pair elements by, in order."""
    store: tile.StoreViewOp | None = None
    stored: tuple[Vector, ...] = ()
    """Vectors of those positions in the tile that is stored."""


def joined(source: Layout) -> Layout:
    """Two tiles of `source` side by side along a new last dimension, both in one thread."""
    wide = source.insert(source.rank)
    return replace(wide, shape=(*source.shape, 2), registers=(_last(wide.rank), *wide.registers))


def split_source(op: tile.SplitOp, source: Layout, warps: int, access: AccessLayout) -> Layout:
    """A layout in which a thread has both elements along the last dimension (of extent 2): `source`, if it is one, or
    `source` with index bits of lanes and warps exchanged for registers."""
    if _last(source.rank) in source.registers:
        return source
    exchanged = _exchanged(op, source, access)
    return exchanged or joined(default_layout(source.shape[:-1], warps))


def loaded_for_splits(load: tile.LoadViewOp, known: Facts, warps: int) -> Layout | None:
    """A layout of a load with index bits of the splits that follow in registers, of those with most of them the one with the widest
    accesses; None where that of the widest accesses has as many, or lanes would not read rows side by side."""
    dim, size = contiguous_dim(load), tile.element_bytes(load.result)
    if dim is None:
        return None
    best, chosen = access_layout(load, known, warps), None
    network = _network(load.result, _probe(best, _vectors(best)), ())
    bits = [_vectors(best)[bit] for bit in dict.fromkeys(network.bits)]
    near = [i for i, v in enumerate(bits) if 0 < v[dim] * size < _ROW_BYTES]
    bits = bits[: min(near, default=len(bits))]
    most = _leading(bits, best)
    run = best.num_consecutive(dim, WIDEST)
    while run * size >= _WORD_BYTES:
        words = access_layout(load, known, warps, run)
        inside, places = run.bit_length() - 1, _vectors(words)
        held = bits[: len(words.registers) - inside]
        if len(held) > most and len(words.registers) == len(best.registers):
            most = len(held)
            chosen = _with_registers(words, [*range(inside), *map(places.index, held)])
        run //= 2
    return chosen


def _leading(vectors: list[Vector], layout: Layout) -> int:
    """How many of the first `vectors` are in registers of a layout."""
    return next((i for i, v in enumerate(vectors) if v not in layout.registers), len(vectors))


def _exchanged(op: tile.SplitOp, source: Layout, access: AccessLayout) -> Layout | None:
    """`source` with the index bits of the next splits in registers; None where the pairs are not bits of an index."""
    count, vectors = len(source.registers), _vectors(source)
    if source.repeat or _last(source.rank) not in vectors or not count:
        return None
    network = _network_of(op, _probe(source, vectors))
    wanted = list(dict.fromkeys(network.bits))
    if len(wanted) <= count and network.store is not None:
        words = tile.element_bytes(op.source) < _WORD_BYTES
        found = _as_stored(source, network, access(network.store), words)
        if found is not None and {vectors[bit] for bit in wanted} <= {*found.registers}:
            return found
    return _with_registers(source, wanted[:count])


def _with_registers(layout: Layout, kept: list[int]) -> Layout:
    """A layout with the vectors at positions `kept` in registers, exchanged for others."""
    count, vectors = len(layout.registers), _vectors(layout)
    leaving = [bit for bit in range(count) if bit not in kept]
    for bit in kept:
        if bit >= count:
            other = leaving.pop()
            vectors[bit], vectors[other] = vectors[other], vectors[bit]
    return _with_vectors(layout, vectors)


def _as_stored(source: Layout, network: _Network, best: Layout, words: bool) -> Layout | None:
    """`source` with its vectors in the order of what is stored in layout `best`; None where that is no order of them.
    With `words` a register that `source` has, too, takes the place of one outside of the runs that lanes store."""
    place = {vector: i for i, vector in enumerate(network.stored)}
    order = [place.get(vector) for vector in _vectors(best)]
    count, vectors = len(source.registers), _vectors(source)
    if None in order or len({*order}) != len(order) or len(order) != len(vectors):
        return None
    bits = [bit for bit in order if bit is not None]
    if len(best.registers) != count or best.repeat:
        return None
    if words and all(bit >= count for bit in bits[:count]):
        spare = [i for i in range(count) if bits[i] not in network.bits]
        lanes = len(best.registers) + len(best.lanes)
        far = [i for i in range(lanes - 2, len(bits)) if bits[i] < count]
        if spare and far:
            bits[spare[-1]], bits[far[0]] = bits[far[0]], bits[spare[-1]]
    return _with_vectors(source, [vectors[bit] for bit in bits])


def _vectors(layout: Layout) -> list[Vector]:
    return [*layout.registers, *layout.lanes, *layout.warps]


def _with_vectors(layout: Layout, vectors: list[Vector]) -> Layout:
    """A layout with other vectors of registers, lanes and warps, as many of each."""
    count, lanes = len(layout.registers), len(layout.lanes)
    return replace(
        layout,
        registers=tuple(vectors[:count]),
        lanes=tuple(vectors[count : count + lanes]),
        warps=tuple(vectors[count + lanes :]),
    )


def _probe(layout: Layout, vectors: list[Vector]) -> Layout:
    """A layout that changes of shape are followed with: all index bits are lanes."""
    return replace(layout, registers=(), lanes=tuple(vectors), warps=())


def _network_of(op: tile.SplitOp, probe: Layout) -> _Network:
    """The network that begins with a split, whose source is in the layout `probe`."""
    if _last(probe.rank) not in probe.lanes:
        return _Network(())
    bit = probe.lanes.index(_last(probe.rank))
    return _network(op.results[0], probe.drop(probe.rank - 1), (bit,))


def _network(value: SSAValue, probe: Layout, bits: tuple[int, ...]) -> _Network:
    """The network that follows a tile in the layout `probe`, after splits by `bits`."""
    while True:
        user, probe = _next_user(value, probe, bits[-1] if bits else None)
        if isinstance(user, tile.StoreViewOp):
            return _Network(bits, user, probe.lanes)
        if not isinstance(user, tile.SplitOp) or len(bits) >= len(probe.lanes):
            return _Network(bits)
        if _last(probe.rank) not in probe.lanes:
            return _Network(bits)
        bits = (*bits, probe.lanes.index(_last(probe.rank)))
        value, probe = user.results[0], probe.drop(probe.rank - 1)


def _next_user(value: SSAValue, probe: Layout, bit: int | None) -> tuple[Operation | None, Layout]:
    """The first split, or else store, that changes of shape, element-wise operations and joins lead to, and the layout of
    its tile, in which joins put their operands side by side in `bit`."""
    pending, seen = [(value, probe)], {value}
    store: tuple[Operation | None, Layout] = None, probe
    while pending and len(seen) < _LONGEST_NETWORK:
        current, layout = pending.pop(0)
        for use in current.uses:
            if isinstance(use.operation, tile.SplitOp):
                return use.operation, layout
            if isinstance(use.operation, tile.StoreViewOp) and use.operation.value is current:
                store = use.operation, layout
            found = _through(use.operation, layout, bit)
            result = use.operation.results[0] if found is not None else None
            if found is not None and result is not None and result not in seen:
                seen.add(result)
                pending.append((result, found))
    return store


def _through(op: Operation, layout: Layout, bit: int | None) -> Layout | None:
    """The layout of the result of an operation whose operand is in `layout`; None where it has another one."""
    match op:
        case tile.HintOp() | tile.TransOp() | tile.ReshapeOp():
            return moved_layout(op, layout)
        case tile.JoinOp() if bit is not None:
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


__all__ = ["joined", "loaded_for_splits", "split_source"]
