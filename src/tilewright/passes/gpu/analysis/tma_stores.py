"""Find stores that can be TMA stores, and the shared memory that their tiles pass through."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from tilewright.dialects import gpu, tile
from tilewright.layouts import Layout
from tilewright.layouts.shared import ALIGNMENT, SharedLayout, widest_swizzle
from tilewright.passes.analysis.aliasing import base_argument
from tilewright.passes.analysis.edit import outermost_in
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.analysis.remarks import Missed, Reason, no_contiguous_dim
from tilewright.passes.gpu.analysis.accesses import contiguous_dim
from tilewright.passes.gpu.analysis.num_ctas import num_ctas_of
from tilewright.passes.gpu.analysis.tma_order import match_on_device
from tilewright.passes.gpu.analysis.tma_tiles import TmaTile, match_tma_tile
from tilewright.targets import Feature, TargetInfo

RESERVE = 2048
"""Bytes of shared memory left to memory barriers and alignment."""
_SIZES = (2, 4)
"""Bytes of elements that are stored as boxes: narrower ones do not gain."""
_FEWEST_SLOTS = 2
"""Places for parts with which one is written while another is stored."""
_PART_BYTES = 16 << 10
"""Of a part that is cut across lines: a box large enough for what a store costs whatever its size."""
_FEWEST_LINES = 8
_PAD = 16
"""Bytes between lines of a tile that changes its layout in shared memory, for which there is room at
least; code generation takes as many more as it likes if they fit."""
_ACCESSES = (
    tile.LoadOp, tile.LoadViewOp, tile.StoreOp, tile.StoreViewOp, tile.AtomicRMWOp, tile.AtomicCASOp,
    gpu.AsyncCopyOp, gpu.TmaLoadOp, gpu.TmaStoreOp,
)  # fmt: skip


@dataclass(frozen=True)
class TmaStorePlan:
    """How a store becomes a TMA store: the tile before its layout conversion, its destination, and the shared layout of the whole tile."""

    convert: gpu.ConvertLayoutOp
    box: TmaTile
    whole: SharedLayout
    if_rows_end_aligned: bool = False
    """Whether it is one only where the array's rows end at a multiple of 16 bytes, which the program has to test."""

    @property
    def layout(self) -> Layout | None:
        return gpu.layout_of(self.convert.source)

    @property
    def cut(self) -> tuple[int, int] | None:
        """Dimension and number of subtiles of a tile; None if threads would hold unequal shares.

        A subtile is a swizzle panel, or a set of whole rows if threads share a row.
        """
        layout, shared = self.layout, self.whole
        if layout is None:
            return None
        line = shared.contiguous_extent * shared.size
        lines = max(_FEWEST_LINES, 1 << (_PART_BYTES // line).bit_length() - 1)
        for dim, extent in ((shared.major_dim, shared.width), (1 - shared.major_dim, lines)):
            count = layout.shape[dim] // extent
            if count > 1 and layout.subtile(dim, extent) is not None:
                return dim, count
        return None

    @property
    def part_bytes(self) -> int:
        """Bytes of a subtile."""
        return self.whole.bytes // (self.cut[1] if self.cut is not None else 1)

    @property
    def least_bytes(self) -> int:
        """The least memory that suffices."""
        return min(_FEWEST_SLOTS * self.part_bytes, self.whole_bytes)

    @property
    def whole_bytes(self) -> int:
        return -(-self.whole.bytes // ALIGNMENT) * ALIGNMENT


def plan_tma_store(
    op: tile.StoreViewOp, function: FuncOp, known: Facts, ahead: bool = False
) -> TmaStorePlan | Missed:
    """Return the plan of a TMA store, or why there is none.

    `ahead`: before copies have become TMA loads; a store that must be tested for counts as another one.
    """
    convert, dim = op.value.owner, contiguous_dim(op)
    if not isinstance(convert, gpu.ConvertLayoutOp) or len(list(convert.result.uses)) != 1:
        return Missed(Reason.STORE_LAYOUT)
    shape, size = tile.shape_of(op.value), tile.element_bytes(tile.element_of(op.value))
    if op.cache is not None or op.eviction is not None:
        return Missed(Reason.STORE_OPTIONS, ("a cache modifier or eviction policy",))
    if dim is None:
        return no_contiguous_dim(op)
    if len(shape) != 2:
        return Missed(Reason.NOT_A_MATRIX, (len(shape),))
    if size not in _SIZES:
        return Missed(Reason.STORE_SIZE, (size,))
    shared = SharedLayout(*shape, size, dim, widest_swizzle(shape[dim], size))
    if base_argument(op.base) is None:
        box = match_on_device(op, known, op, function, shared)
        checked = isinstance(box, Missed) and not ahead
        if checked:
            box = match_on_device(op, known, op, function, shared, any_end=True)
        if isinstance(box, Missed):
            return box
        if not _alone_behind_map(op, box, ahead):
            return Missed(Reason.STORE_ALIASED)
        return TmaStorePlan(convert, box, shared, checked)
    if not _alone(op, function):
        return Missed(Reason.STORE_ALIASED)
    box = match_tma_tile(op, known, shared)
    return box if isinstance(box, Missed) else TmaStorePlan(convert, box, shared)


def _alone(op: tile.StoreViewOp, function: FuncOp) -> bool:
    """Return whether the store is the only access of the kernel to its argument."""
    root = base_argument(op.base)
    if root is None:
        return False
    for other in function.walk():
        if isinstance(other, _ACCESSES) and other is not op:
            pointer = other.base if hasattr(other, "base") else other.pointer  # type: ignore[union-attr]
            if base_argument(pointer) in (None, root):
                return False
    return True


def _alone_behind_map(op: tile.StoreViewOp, box: TmaTile, ahead: bool) -> bool:
    """Return whether a store through a map that the program makes is ordered with all accesses that may overlap: those
    behind the map are TMA loads, which have a fence, or copies that become some (`ahead`)."""
    outer = box.encoded_before
    if outer is None or outer is op:
        return False
    allowed = (gpu.TmaLoadOp, gpu.AsyncCopyOp) if ahead else gpu.TmaLoadOp
    return not any(
        isinstance(other, _ACCESSES) and not isinstance(other, allowed) and other is not op
        for other in outer.walk()
    )


def exchanged(op: Operation, function: FuncOp, but: Operation | None = None) -> int:
    """Bytes of the largest layout conversion (except of `but`) in the outermost loop that holds `op`.

    Its scratch memory is needed while the buffers of that loop are live.
    """
    return max(map(_exchange_bytes, _changes(op, function, but)), default=0)


def exchanged_in_parts(
    op: Operation, function: FuncOp, target: TargetInfo, but: Operation | None = None
) -> int:
    """The same if tiles stored by TMA pass through shared memory as subtiles."""
    if not target.has(Feature.TMA) or num_ctas_of(function) > 1:
        return exchanged(op, function, but)
    known = Facts()
    stores = [
        plan_tma_store(store, function, known, ahead=True)
        for store in outermost_in(function.body.block, op).walk()
        if isinstance(store, tile.StoreViewOp)
    ]
    boxes = {store.convert: store for store in stores if isinstance(store, TmaStorePlan)}
    beside = 0
    others = list[gpu.ConvertLayoutOp]()
    for change in _changes(op, function, but):
        if change in boxes:
            beside += boxes[change].least_bytes
        else:
            others.append(change)
    return beside + max(map(_exchange_bytes, others), default=0) + (RESERVE if beside else 0)


def _changes(op: Operation, function: FuncOp, but: Operation | None) -> list[gpu.ConvertLayoutOp]:
    around = outermost_in(function.body.block, op)
    return [op for op in around.walk() if isinstance(op, gpu.ConvertLayoutOp) and op is not but]


def _exchange_bytes(change: gpu.ConvertLayoutOp) -> int:
    value = change.result
    shape, size = tile.shape_of(value), tile.element_bytes(tile.element_of(value))
    return prod(shape[:-1]) * (shape[-1] * size + _PAD)
