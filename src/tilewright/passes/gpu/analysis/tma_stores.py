"""Find stores that can be TMA stores, and the shared layouts that their tiles are staged in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from math import prod

from xdsl.dialects import scf
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.errors import PassError
from tilewright.layouts import Layout
from tilewright.layouts.shared import ALIGNMENT, SharedLayout, widest_swizzle
from tilewright.passes.analysis.aliasing import base_argument
from tilewright.passes.analysis.effects import defined_inside
from tilewright.passes.analysis.emit import constant_int
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.analysis.polynomial import Polynomial
from tilewright.passes.analysis.remarks import Missed, Reason, no_contiguous_dim
from tilewright.passes.gpu.analysis.accesses import contiguous_dim
from tilewright.passes.gpu.analysis.buffer_views import outermost_in_program
from tilewright.passes.gpu.analysis.num_ctas import num_ctas_of
from tilewright.passes.gpu.analysis.registers import registers_of
from tilewright.passes.gpu.analysis.tma_order import match_on_device
from tilewright.passes.gpu.analysis.tma_tiles import TmaTile, match_tma_tile
from tilewright.targets import Feature, TargetInfo

RESERVE = 2048
"""Bytes of shared memory reserved for mbarriers and alignment."""
_SIZES = (1, 2, 4)
"""Element sizes in bytes for which TMA stores pay off."""
_FEWEST_BYTES = 2
"""Minimum bytes that a thread writes to shared memory at once."""
_FEWEST_SLOTS = 2
"""Minimum number of subtile slots: one is written while another is stored."""
_PART_BYTES = 16 << 10
"""Bytes of a subtile of whole rows: large enough to amortize the fixed cost of a TMA store."""
_FEWEST_LINES = 8
_PAD = 16
"""Bytes of padding per row that a layout conversion through shared memory is guaranteed; code generation pads more
if that fits."""
_ACCESSES = (
    tile.Load, tile.Store, tile.Atomic,
    gpu.AsyncCopyOp, gpu.TmaLoadOp, gpu.TmaStoreOp,
)  # fmt: skip


@dataclass(frozen=True)
class TmaStorePlan:
    """How a store becomes a TMA store: the tile before its layout conversion, its destination, and the shared layout of the whole tile."""

    convert: gpu.ConvertLayoutOp
    tma_tile: TmaTile
    whole: SharedLayout
    if_rows_end_aligned: bool = False
    """Whether the program must test that the array's rows end at a multiple of 16 bytes."""
    adjacent: tuple[tile.StoreViewOp, ...] = ()
    """Stores of adjacent tiles to the same array in the same block."""

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
        across = 1 - shared.major_dim
        while lines > _FEWEST_LINES and layout.shape[across] % lines:
            lines //= 2  # of 152 columns parts of 8 are equal, of 16 are not
        for dim, extent in ((shared.major_dim, shared.width), (across, lines)):
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
        """Minimum bytes of shared memory for the store."""
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
    shared = _buffer(op)
    if isinstance(shared, Missed):
        return shared
    if base_argument(op.base) is None:
        return _plan_behind_map(op, shared, function, known, ahead)
    others = _other_stores(op, function)
    if others is None:
        return Missed(Reason.STORE_ALIASED)
    tma_tile = match_tma_tile(op, known, shared)
    if isinstance(tma_tile, Missed):
        return tma_tile
    if not all(_is_adjacent(op, tma_tile, shared, other, known) for other in others):
        return Missed(Reason.STORE_ALIASED)
    return TmaStorePlan(_convert(op), tma_tile, shared, adjacent=tuple(others))


def _plan_behind_map(
    op: tile.StoreViewOp, shared: SharedLayout, function: FuncOp, known: Facts, ahead: bool
) -> TmaStorePlan | Missed:
    """Return the plan of a store through a tensor map encoded by the kernel."""
    tma_tile = match_on_device(op, known, op, function, shared)
    checked = isinstance(tma_tile, Missed) and not ahead
    if checked:
        tma_tile = match_on_device(op, known, op, function, shared, any_end=True)
    if isinstance(tma_tile, Missed):
        return tma_tile
    if not _is_ordered_behind_map(op, tma_tile, ahead):
        return Missed(Reason.STORE_ALIASED)
    return TmaStorePlan(_convert(op), tma_tile, shared, checked)


def _convert(op: tile.StoreViewOp) -> gpu.ConvertLayoutOp:
    """The layout conversion of a stored tile. Requires that `_buffer` accepted the store."""
    convert = op.value.owner
    if not isinstance(convert, gpu.ConvertLayoutOp):
        raise PassError(f"{op.name}: a tile that is stored as it is")
    return convert


def _buffer(op: tile.StoreViewOp) -> SharedLayout | Missed:
    """Return the shared layout through which a tile would be stored, or why it would not."""
    convert, dim = op.value.owner, contiguous_dim(op)
    if not isinstance(convert, gpu.ConvertLayoutOp) or not convert.result.has_one_use():
        return Missed(Reason.STORE_LAYOUT)
    shape, size = tile.shape_of(op.value), tile.element_bytes(op.value)
    if op.cache is not None or op.eviction is not None:
        return Missed(Reason.STORE_OPTIONS, ("a cache modifier or eviction policy",))
    if dim is None:
        return no_contiguous_dim(op)
    if len(shape) != 2:
        return Missed(Reason.RANK, (len(shape),))
    layout = gpu.layout_of(convert.source)
    in_a_row = layout.num_consecutive(dim, _FEWEST_BYTES) if layout is not None else 1
    if size not in _SIZES or size * in_a_row < _FEWEST_BYTES:
        return Missed(Reason.STORE_SIZE, (size,))
    return SharedLayout(*shape, size, dim, widest_swizzle(shape[dim], size))


def _is_adjacent(
    op: tile.StoreViewOp,
    tma_tile: TmaTile,
    shared: SharedLayout,
    other: tile.StoreViewOp,
    known: Facts,
) -> bool:
    """Return whether another store can be a TMA store, too, of a disjoint tile displaced along x or y only."""
    layout = _buffer(other)
    if other.parent is not op.parent or layout != shared:
        return False
    found = match_tma_tile(other, known, shared)
    if isinstance(found, Missed) or found.root is not tma_tile.root:
        return False
    if any(each.parts or each.conditions for each in (tma_tile, found)):
        return False
    shapes = [[*map(_terms, (*each.extents, *each.pitches))] for each in (tma_tile, found)]
    if shapes[0] != shapes[1] or len(found.corner) != len(tma_tile.corner):
        return False
    distances = [_distance(*pair) for pair in zip(tma_tile.corner, found.corner, strict=True)]
    moved = [d for d, distance in enumerate(distances) if distance != 0]
    sizes = (shared.contiguous_extent, shared.strided_extent)
    if len(moved) != 1 or moved[0] > 1:
        return False
    distance = distances[moved[0]]
    return distance is not None and abs(distance) >= sizes[moved[0]]


def _terms(polynomial: Polynomial) -> dict[frozenset[tuple[SSAValue, bool | None, bool, int]], int]:
    """A polynomial in a canonical form that is comparable between accesses."""
    found: dict[frozenset[tuple[SSAValue, bool | None, bool, int]], int] = {}
    for monomial, coefficient in polynomial.terms:
        powers = Counter((leaf.value, leaf.signed, leaf.floored) for leaf in monomial)
        found[frozenset((*leaf, power) for leaf, power in powers.items())] = coefficient
    return found


def _distance(first: Polynomial, second: Polynomial) -> int | None:
    """The difference of two coordinates, second minus first; None if it is not a constant."""
    a, b = _terms(first), _terms(second)
    start, end = a.pop(frozenset(), 0), b.pop(frozenset(), 0)
    return end - start if a == b else None


def iterations_are_disjoint(tma_tile: TmaTile, shared: SharedLayout, loop: scf.ForOp) -> bool:
    """Return whether the tiles of any two iterations of `loop` are disjoint.

    TMA stores in flight are unordered, so stores of different iterations that may alias must wait for completion, which
    takes a memory latency. The wait is not needed if exactly one coordinate depends on the loop counter and its step is
    at least the extent of the tile in that dimension.
    """
    step = constant_int(loop.step)
    moved = [
        (d, place)
        for d, place in enumerate(tma_tile.corner)
        if any(defined_inside(leaf.value, loop) for leaf in place.leaves())
    ]
    if tma_tile.parts or step is None or len(moved) != 1:
        return False
    ((d, place),) = moved
    advance = _advance(place, loop)
    if advance is None:
        return False
    distance = abs(advance * step)
    width, height = shared.contiguous_extent, shared.strided_extent
    pitch = tma_tile.pitches[0]
    if d == 0:  # rows do not overlap
        return distance >= width and _is_nonnegative(pitch - tma_tile.extents[0])
    if d == 1:  # nor do rows of one tile, else the order of its own elements would be undefined
        return distance >= height > 1
    apart = Polynomial.constant(distance) * tma_tile.pitches[d - 1]
    covered = Polynomial.constant(height) * pitch
    return _is_nonnegative(apart - covered) and _is_nonnegative(pitch - Polynomial.constant(width))


def _advance(place: Polynomial, loop: scf.ForOp) -> int | None:
    """Return the step of a coordinate per iteration; None if it depends on more than the loop counter itself
    (`max(counter, 0)` and a zero-extended negative counter do not advance by the loop's step)."""
    found = 0
    for monomial, coefficient in place.terms:
        if not any(defined_inside(leaf.value, loop) for leaf in monomial):
            continue
        (leaf, *others) = monomial
        if others or leaf.value is not loop.body.block.args[0]:
            return None
        if leaf.floored or leaf.signed is False:
            return None
        found += coefficient
    return found


def _is_nonnegative(difference: Polynomial) -> bool:
    number = difference.number
    return number is not None and number >= 0


def _other_stores(op: tile.StoreViewOp, function: FuncOp) -> list[tile.StoreViewOp] | None:
    """Return the other stores to the same kernel argument; None if the kernel accesses it in any other way."""
    root, found = base_argument(op.base), list[tile.StoreViewOp]()
    for other in function.walk():
        if not isinstance(other, _ACCESSES) or other is op:
            continue
        own = base_argument(tile.pointer_of(other))
        if own is None or (own is root and not isinstance(other, tile.StoreViewOp)):
            return None
        if own is root and isinstance(other, tile.StoreViewOp):
            found.append(other)
    return found


def _is_ordered_behind_map(op: tile.StoreViewOp, tma_tile: TmaTile, ahead: bool) -> bool:
    """Return whether a store through a kernel-encoded map is ordered with all accesses that may overlap: the other
    accesses after the encoding are TMA loads, which have a fence, or copies that will become TMA loads (`ahead`)."""
    outer = tma_tile.encoded_before
    if outer is None or outer is op:
        return False
    allowed = (gpu.TmaLoadOp, gpu.AsyncCopyOp) if ahead else gpu.TmaLoadOp
    return not any(
        isinstance(other, _ACCESSES) and not isinstance(other, allowed) and other is not op
        for other in outer.walk()
    )


_FEW_WORDS = 64
"""Registers per thread of a tile whose halves are exchanged one by one without spills: all of the old layout are live until
the last half is written, next to those of the new one."""


def exchanged(
    op: Operation, function: FuncOp, but: Collection[Operation] = (), *, in_halves: bool = False
) -> int:
    """Bytes of the largest layout conversion (except those in `but`) in the outermost loop that holds `op`.

    Its scratch memory is needed while the buffers of that loop are live. `in_halves`: if tiles that take few registers
    change their layout one half after the other.
    """
    sizes = [
        _exchange_bytes(change)
        // (2 if in_halves and registers_of(change.result) <= _FEW_WORDS else 1)
        for change in _changes(op, function, but)
    ]
    return max(sizes, default=0)


def exchanged_in_parts(
    op: Operation, function: FuncOp, target: TargetInfo, but: Collection[Operation] = ()
) -> int:
    """As `exchanged`, if tiles stored by TMA pass through shared memory as subtiles."""
    if not target.has(Feature.TMA) or num_ctas_of(function) > 1:
        return exchanged(op, function, but)
    known = Facts()
    stores = [
        plan_tma_store(store, function, known, ahead=True)
        for store in outermost_in_program(function, op).walk()
        if isinstance(store, tile.StoreViewOp)
    ]
    tma_stores = {store.convert: store for store in stores if isinstance(store, TmaStorePlan)}
    changes = _changes(op, function, but)
    staged = sum(tma_stores[change].least_bytes for change in changes if change in tma_stores)
    others = (_exchange_bytes(change) for change in changes if change not in tma_stores)
    return staged + max(others, default=0) + (RESERVE if staged else 0)


def _changes(
    op: Operation, function: FuncOp, but: Collection[Operation]
) -> list[gpu.ConvertLayoutOp]:
    around = outermost_in_program(function, op)
    return [op for op in around.walk() if isinstance(op, gpu.ConvertLayoutOp) and op not in but]


def _exchange_bytes(change: gpu.ConvertLayoutOp) -> int:
    shape, size = tile.shape_of(change.result), tile.element_bytes(change.result)
    return prod(shape[:-1]) * (shape[-1] * size + _PAD)
