"""Accesses as boxes of a matrix in memory, which the tensor memory accelerator copies by itself.

A copy from `root + y * pitch + x`, contiguous along x, is a box at (x, y) of a matrix with that pitch.
Where a dimension has a limit, the matrix ends there and the hardware fills with zeros. Where it has
none, what the program reads is there by contract, so the matrix is taken not to end. A dimension that
wraps around (`% M` in the matmul tutorial, only there to keep addresses valid) is read without wrapping
where nothing of the lines beyond the end is ever stored.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.dialects.builtin import i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.layouts.shared import SharedLayout
from tilewright.passes.analysis.addresses import root_of
from tilewright.passes.analysis.divisibility import Divisibility
from tilewright.passes.analysis.effects import is_lane_wise
from tilewright.passes.analysis.emit import Emitter
from tilewright.passes.analysis.polynomial import ZERO, Polynomial
from tilewright.passes.analysis.symbolic import Symbolic, divide
from tilewright.passes.gpu.analysis.accesses import contiguous_dim

UNBOUNDED = 1 << 31
"""The extent of a dimension without an end (the hardware's limit is 2^32)."""
_ALIGNMENT = 16
_START = 128
"""What the address of a box in shared memory is a multiple of (PTX ISA, `cp.async.bulk.tensor`)."""
_LARGEST_BOX = 256


@dataclass(frozen=True)
class Box:
    """A copy as a box: x is the contiguous dimension."""

    root: SSAValue
    pitch: Polynomial
    """Elements from line to line: known to the host, like the extents."""
    extents: tuple[Polynomial, Polynomial]
    corner: tuple[Polynomial, Polynomial]


Access = gpu.CopyOp | tile.StoreViewOp


def box_of(copy: Access, known: Divisibility, buffer: SharedLayout | None = None) -> Box | None:
    """The box of a two-dimensional copy, if it is one, aligned, with extents that the host knows.

    Of a store, the box that is stored from a `buffer`.
    """
    dim = contiguous_dim(copy)
    root = root_of(copy.base)
    shared = gpu.shared_layout_of(copy.buffer) if isinstance(copy, gpu.CopyOp) else buffer
    if shared is None:
        return None
    if dim is None or root is None or dim != shared.dim or not _fits_box(shared, buffer is None):
        return None
    pitch = copy.strides[1 - dim]
    size = shared.size
    aligned = known.of(root) % _ALIGNMENT == 0 and known.of(pitch) * size % _ALIGNMENT == 0
    if not aligned or shared.lines > _LARGEST_BOX:
        return None
    symbols = Symbolic()
    offset = _offset(copy.base, root, symbols)
    between = symbols.of(pitch)
    if not _known_to_host(between):
        return None
    parts = divide(offset, between) if offset is not None else None
    if parts is None:
        return None
    y, x = parts
    places = {dim: x, 1 - dim: y}
    found: dict[int, tuple[Polynomial, Polynomial]] = {}
    for d in (dim, 1 - dim):
        line = _along(copy, d, places[d], symbols)
        if line is None:
            return None
        found[d] = line
    extents = (found[dim][1], found[1 - dim][1])
    if not all(_known_to_host(e) for e in extents):
        return None
    return Box(root, between, extents, (found[dim][0], found[1 - dim][0]))


def _fits_box(shared: SharedLayout, copied: bool) -> bool:
    """Whether the hardware writes panels as they are in a buffer."""
    if shared.pad or shared.width > _LARGEST_BOX or shared.pitch % _ALIGNMENT:
        return False
    if shared.panel_bytes % _START and (copied or shared.width < shared.length):
        return False  # the next panel or stage could not begin there
    return not shared.swizzled or shared.lines % 8 == 0


def _offset(pointer: SSAValue, root: SSAValue, symbols: Symbolic) -> Polynomial | None:
    """Elements from the kernel argument to a pointer made of it."""
    total, value = ZERO, pointer
    while value is not root:
        op = value.owner
        if not isinstance(op, tile.AddPtrOp):
            return None
        total = total + symbols.of(op.offset)
        value = op.pointer
    return total


def _along(
    copy: Access, dim: int, place: Polynomial, symbols: Symbolic
) -> tuple[Polynomial, Polynomial] | None:
    """(corner, extent) along one dimension."""
    kinds = [k.data for k in copy.kinds]
    limits = tile.view_limits(copy)
    if kinds[dim] == "strided":
        if dim not in limits:
            return place, Polynomial.constant(UNBOUNDED)
        return place, symbols.of(limits[dim]) + place
    if isinstance(copy, tile.StoreViewOp):
        return None
    if kinds[dim] != "wrapped" or place != ZERO or dim in limits:
        return None
    at = [d for d, kind in enumerate(kinds) if kind == "wrapped"].index(dim)
    start, size = symbols.of(copy.starts[at]), symbols.of(copy.sizes[at])
    products = _products_of(copy.buffer)
    if not products or not all(
        dim != k_dim and _dropped_beyond(result, 1 - k_dim, size - start, symbols)
        for result, k_dim in products
    ):
        return None
    return start, size


def _products_of(buffer: SSAValue) -> list[tuple[SSAValue, int]]:
    """The products that read a buffer, as it is, turned or by way of element-wise operations, and which
    dimension of the tile is their k. Empty where anything else reads it."""
    found: list[tuple[SSAValue, int]] = []
    pending, seen = [buffer], set[SSAValue]()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        for use in value.uses:
            op = use.operation
            if isinstance(op, gpu.WgmmaOp | tile.DotOp):
                found.append((op.result, 1 if op.operands[0] is value else 0))
            elif isinstance(op, gpu.TurnOp):
                pending += [op.target] if use.index == 0 else []
            elif isinstance(op, gpu.LocalStoreOp):
                pending += [op.buffer] if use.index == 0 else []
            elif isinstance(op, gpu.LocalLoadOp) or is_lane_wise(op):
                pending += op.results
            elif not isinstance(op, gpu.CopyOp | gpu.TmaCopyOp):
                return []
    return found


def _known_to_host(extent: Polynomial) -> bool:
    """Whether an extent is made of kernel arguments and constants."""
    return all(
        isinstance(leaf.value, BlockArgument) and isinstance(leaf.value.owner.parent_op(), FuncOp)
        for leaf in extent.leaves()
    )


def _dropped_beyond(value: SSAValue, dim: int, limit: Polynomial, symbols: Symbolic) -> bool:
    """Whether lines of `value` from `limit` on along `dim` reach no store, lane-wise all the way."""
    seen: set[SSAValue] = set()
    pending = [value]
    while pending:
        current = pending.pop()
        if current in seen:
            continue
        seen.add(current)
        for use in current.uses:
            following = _follow(use.operation, current, use.index, dim, limit, symbols)
            if following is None:
                return False
            pending.extend(following)
    return True


def _follow(
    op: Operation, value: SSAValue, index: int, dim: int, limit: Polynomial, symbols: Symbolic
) -> list[SSAValue] | None:
    """Values that a use makes of `value`, line by line; None for uses that mix or keep lines."""
    if isinstance(op, tile.StoreViewOp):
        bound = tile.view_limits(op).get(dim)
        return [] if bound is not None and symbols.of(bound) == limit else None
    if isinstance(op, scf.YieldOp):
        parent = op.parent_op()
        if not isinstance(parent, scf.ForOp):
            return None
        return [parent.results[index], parent.body.block.args[index + 1]]
    if isinstance(op, scf.ForOp):
        return [op.results[index - 3], op.body.block.args[index - 2]]
    if isinstance(op, gpu.WgmmaOp | gpu.WgmmaWaitOp | gpu.ConvertOp):
        return list(op.results)
    if isinstance(op, tile.DotOp) and op.acc is value and index == 2:
        return list(op.results)
    if is_lane_wise(op) and all(tile.shape_of(r) == tile.shape_of(value) for r in op.results):
        return list(op.results)
    return None


def scalar_of(polynomial: Polynomial, before: Operation) -> SSAValue:
    """Emit a polynomial as an i64 scalar."""
    return polynomial.emit(
        Emitter(before), lambda leaf, writer: writer.resize(leaf.value, i64, True)
    )
