"""Order TMA accesses and generic accesses of arrays that may alias.

Arrays of different kernel arguments are noalias; arrays whose addresses are loaded from memory may alias. The async
proxy does not observe the program order of generic accesses, and TMA stores in flight are unordered. Encoding a tensor
map on the device orders all prior accesses (`gpu.encode_tensor_map`). Between that and a TMA load, writes that may
alias the loaded array need a proxy fence. If the end of the written array is known, aliasing is checked at run time by
comparing addresses when the maps are encoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import i1, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.layouts.shared import SharedLayout, widest_swizzle
from tilewright.passes.analysis.emit import Emitter
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.analysis.remarks import Missed, Reason
from tilewright.passes.gpu.analysis.accesses import contiguous_dim
from tilewright.passes.gpu.analysis.cluster_loops import cluster_loop
from tilewright.passes.gpu.analysis.num_ctas import num_ctas_of
from tilewright.passes.gpu.analysis.tma_origins import is_available, origins_around
from tilewright.passes.gpu.analysis.tma_tiles import Access, TmaTile, match_tma_tile, scalar_of

_WRITES = (
    tile.Store, tile.Atomic, gpu.TmaStoreOp,
)  # fmt: skip


def match_on_device(
    access: Access,
    known: Facts,
    around: Operation | None,
    function: FuncOp,
    buffer: SharedLayout | None = None,
    any_end: bool = False,
) -> TmaTile | Missed:
    """Return the TMA tile of an access whose map is encoded on the device before `around` or an outer operation."""
    found: TmaTile | Missed = Missed(Reason.NO_ROOT, (access.base,))
    if around is None or num_ctas_of(function) > 1 or cluster_loop(function) is not None:
        return found
    for origin in origins_around(around):
        found = match_tma_tile(access, known, buffer, origin, any_end)
        if isinstance(found, TmaTile):
            break
    return found


def stored_layout(op: tile.StoreViewOp) -> SharedLayout | None:
    """Return the shared layout of a TMA store; None if the tile is not a matrix with contiguous rows."""
    shape, size = tile.shape_of(op.value), tile.element_bytes(op.value)
    dim = contiguous_dim(op)
    if dim is None or len(shape) != 2:
        return None
    return SharedLayout(*shape, size, dim, widest_swizzle(shape[dim], size))


def fence_condition(
    tiles: Sequence[TmaTile], loop: Operation, known: Facts, function: FuncOp
) -> SSAValue:
    """Emit whether writes since the maps of `tiles` were encoded may alias the TMA loads of `loop`. Assumes they do
    for maps that the host encodes."""
    emitter = Emitter(loop)
    condition = emitter.constant(0, i1)
    for one in tiles:
        outer = one.encoded_before
        if outer is None:
            return emitter.constant(1, i1)
        for write in [op for op in outer.walk() if isinstance(op, _WRITES)]:
            other = _written(write, known, function)
            if other is None or not _is_there(other, outer):
                return emitter.constant(1, i1)
            overlap = _overlap(one, other, Emitter(outer))
            condition = emitter.binary(arith.OrIOp, condition, overlap)
    return condition


def _written(op: Operation, known: Facts, function: FuncOp) -> TmaTile | None:
    """Return the array that a store writes, as a TMA tile."""
    shared = stored_layout(op) if isinstance(op, tile.StoreViewOp) else None
    if not isinstance(op, tile.StoreViewOp) or shared is None:
        return None
    found = match_on_device(op, known, op, function, shared, any_end=True)
    bounded = isinstance(found, TmaTile) and all(
        extent.number != gpu.UNBOUNDED for extent in found.extents
    )
    return found if isinstance(found, TmaTile) and bounded else None


def _is_there(one: TmaTile, outer: Operation) -> bool:
    """Return whether the address and shape of an array are defined before `outer`."""
    block = outer.parent
    leaves = [leaf.value for part in (*one.extents, *one.pitches) for leaf in part.leaves()]
    return block is not None and all(is_available(v, block) for v in (one.root, *leaves))


def _overlap(one: TmaTile, other: TmaTile, emitter: Emitter) -> SSAValue:
    """Emit whether the bytes of two arrays overlap."""
    (start, end), (other_start, other_end) = (_bytes(t, emitter) for t in (one, other))
    return emitter.binary(
        arith.AndIOp, _below(start, other_end, emitter), _below(other_start, end, emitter)
    )


def _bytes(one: TmaTile, emitter: Emitter) -> tuple[SSAValue, SSAValue]:
    """Emit the addresses of the first byte of an array and of the byte after its last."""
    start = emitter.make(tile.PtrToIntOp, [one.root], i64)
    width, *extents = (scalar_of(e, emitter.anchor) for e in one.extents)
    count, unit = width, emitter.constant(1)
    for extent, pitch in zip(extents, one.pitches, strict=True):
        last = emitter.binary(arith.SubiOp, extent, unit)
        count = emitter.binary(
            arith.AddiOp,
            count,
            emitter.binary(arith.MuliOp, last, scalar_of(pitch, emitter.anchor)),
        )
    size = emitter.constant(tile.element_bytes(cast(tile.PtrType, one.root.type).pointee))
    return start, emitter.binary(arith.AddiOp, start, emitter.binary(arith.MuliOp, count, size))


def _below(a: SSAValue, b: SSAValue, emitter: Emitter) -> SSAValue:
    return emitter.compare("ult", a, b)
