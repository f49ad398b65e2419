"""Match structured accesses with TMA tiles.

A copy from `root + z * plane + y * pitch + x`, contiguous along x, is the tile at (x, y, z) of a stack of matrices with that
pitch. A dimension with a limit ends there, and the hardware fills with zeros. Without a limit what the program reads is
in bounds by contract, and the dimension is unbounded. Wrapped dimensions have become strided ones with a limit where
no store observes the rows beyond (`analysis/demanded.py`).

Coordinates have 32 bits. A dimension of its own is made of

- offset terms that do not belong to the coordinate of a limited dimension (`batch * stride`): with them the matrix would not
  end where the host can compute it (`tma_coordinates` decomposes an offset);
- the high bits of x, where x has no limit and may exceed the range of coordinates: blocks of 2^30 elements (`x >> 30`).

Along x the hardware works in 16-byte units, which the PTX ISA does not document: a tile that begins inside one is an illegal
instruction, and a store writes its last unit whole, including what lies next to the array.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.dialects.address_arithmetic import access_arithmetic
from tilewright.layouts.shared import SharedLayout
from tilewright.passes.analysis.disjoint_accesses import offset_of, root_of
from tilewright.passes.analysis.edit import insert_before, start_of
from tilewright.passes.analysis.emit import Emitter, constant_int
from tilewright.passes.analysis.facts import CUDA_GRID, Facts
from tilewright.passes.analysis.polynomial import ONE, Leaf, Polynomial
from tilewright.passes.analysis.remarks import Missed, Reason, no_contiguous_dim
from tilewright.passes.analysis.symbolic import Inequalities, Symbolic, floored_value
from tilewright.passes.gpu.analysis.accesses import contiguous_dim, misaligned_base
from tilewright.passes.gpu.analysis.tma_coordinates import (
    Axis,
    Plane,
    Rules,
    Window,
    divide_offset,
    windows_of,
)
from tilewright.passes.gpu.analysis.tma_origins import HOST, Origin

_PART = 30
"""Bits of the coordinates along x within a part of a line."""
_MOST_DIMS = 5
_ALIGNMENT = 16
"""What pitches, the address of an array and the place of a box along x are multiples of, in bytes."""
_START = 128
"""What the address of a box in shared memory is a multiple of (PTX ISA, `cp.async.bulk.tensor`)."""
_LARGEST_BOX = 256


@dataclass(frozen=True)
class TmaTile:
    """A TMA tile: the first dimension, x, is contiguous."""

    root: SSAValue
    extents: tuple[Polynomial, ...]
    """One a dimension: known to the host, like the pitches."""
    pitches: tuple[Polynomial, ...]
    """Elements from one to the next along each dimension but the first."""
    corner: tuple[Polynomial, ...]
    guards: tuple[int, ...]
    """Dimensions along which the program may reach further than coordinates (`gpu.tma_load`)."""
    parts: bool = False
    """Whether x is to be divided into parts, which are one more dimension."""
    conditions: tuple[tuple[int, SSAValue], ...] = ()
    """Dimensions, and scalars without which the box is beyond their ends."""
    encoded_before: Operation | None = None
    """Where the program makes the tensor map; None: the host makes it."""

    def tensor_map(self, function: FuncOp) -> TensorMapOperands:
        """Emit what loads and stores of the tile have in common: address, extents and strides; and the tensor map, if
        the host does not make it."""
        before = self.encoded_before or start_of(function.body.block)
        shape = self.shape(before)
        if self.encoded_before is None:
            return self.root, *shape
        encode = gpu.EncodeTensorMapOp.build(
            operands=[self.root, *shape], result_types=[self.root.type]
        )
        encode.location = before.location
        insert_before(encode, before)
        return encode.result, *shape

    def shape(self, before: Operation) -> tuple[list[SSAValue], list[SSAValue]]:
        """Emit extents and strides."""
        extents = [scalar_of(e, before) for e in self.extents]
        pitches = [scalar_of(p, before) for p in self.pitches]
        if self.parts:
            extents.append(scalar_of(_UNBOUNDED, before))
            pitches.append(scalar_of(Polynomial.constant(1 << _PART), before))
        return extents, pitches

    def place(self, before: Operation) -> list[SSAValue]:
        """Emit the coordinates."""
        emitter = Emitter(before)
        corner = [scalar_of(p, before) for p in self.corner]
        for d, condition in self.conditions:
            beyond = self.extents[d] if d else _UNBOUNDED  # along x a multiple of 16 bytes
            corner[d] = emitter.select(condition, corner[d], scalar_of(beyond, before))
        if self.parts:
            x = corner[0]
            inside = emitter.constant((1 << _PART) - 1, i64)
            corner[0] = emitter.binary(arith.AndIOp, x, inside)
            corner.append(emitter.binary(arith.ShRSIOp, x, emitter.constant(_PART, i64)))
        return corner

    @property
    def range_checked(self) -> DenseArrayBase:
        """The property `range_checked` of the load or store."""
        last = (len(self.extents),) if self.parts else ()
        return DenseArrayBase.from_list(i64, [*self.guards, *last])


TensorMapOperands = tuple[SSAValue, list[SSAValue], list[SSAValue]]
Access = gpu.AsyncCopyOp | tile.StoreViewOp
_UNBOUNDED = Polynomial.constant(gpu.UNBOUNDED)


def match_tma_tile(
    copy: Access,
    known: Facts,
    buffer: SharedLayout | None = None,
    origin: Origin = HOST,
    any_end: bool = False,
) -> TmaTile | Missed:
    """Return the TMA tile of a two-dimensional copy, or why there is none.

    For a store, the tile that is stored from `buffer`. `origin`: who makes the tensor map. `any_end`: also where rows end
    within 16 bytes, which rules out a TMA store.
    """
    dim = contiguous_dim(copy)
    root = origin.root(copy.base)
    shared = gpu.shared_layout_of(copy.buffer) if isinstance(copy, gpu.AsyncCopyOp) else buffer
    if dim is None or shared is None:
        return no_contiguous_dim(copy)
    if root is None:
        return Missed(Reason.NO_ROOT, (copy.base,))
    pitch = copy.strides[1 - dim]
    size = shared.size
    if dim != shared.major_dim:
        return Missed(Reason.MAJOR_DIM)
    if (missed := _buffer_obstacle(root, pitch, shared, known, buffer is None)) is not None:
        return missed
    symbols = Symbolic(Facts(access_arithmetic(copy), CUDA_GRID))
    windows = windows_of(copy.mask, known, symbols) if copy.mask is not None else {}
    if windows is None:
        return Missed(Reason.RESIDUAL_MASK)
    offset = offset_of(copy.base, symbols) if root_of(copy.base) is root else None
    between = symbols.of(pitch)
    if offset is None:
        return Missed(Reason.NO_ROOT, (copy.base,))
    if not origin.knows_all(between) or len(between.terms) != 1 or _goes_down(between):
        return Missed(Reason.ROW_PITCH, (pitch,))
    seen = [windows.get(d) for d in (dim, 1 - dim)]
    ends = [_end_of(copy, d, symbols, w) for d, w in zip((dim, 1 - dim), seen, strict=True)]
    if None in ends:
        kind = tile.view_kinds(copy)[(dim, 1 - dim)[ends.index(None)]]
        return Missed(Reason.LIMIT_FORM, (f"its offset along a dimension is {kind}",))
    inequalities = Inequalities(symbols, copy)
    lines, planes = _placed(offset, between, ends, seen, _rules(known, size, inequalities, origin))
    lines = [_for_host(line, symbols) for line in lines]
    stored = buffer is not None and not any_end
    if not all(line.extent is None or origin.knows_all(line.extent) for line in lines):
        return Missed(Reason.SHAPE_ON_HOST)
    if any(_goes_down(plane.stride) for plane in planes):
        return Missed(Reason.COORDINATES, (copy.base,))
    if (missed := _lines_obstacle(copy, lines, known, shared, stored)) is not None:
        return missed
    divided = lines[0].extent is None and not _reached(
        lines[0].place, shared.contiguous_extent, inequalities
    )
    endless = lines[0].extent is None and seen[0] is None
    if endless and not inequalities.nonnegative(lines[0].place, assumed=True):
        # rows without an end go on in front of x = 0, where the tile of an earlier row ends
        return Missed(Reason.COORDINATES, (copy.base,))
    if 2 + len(planes) + divided > _MOST_DIMS:
        return Missed(Reason.TMA_RANK)
    return _tile(copy, root, between, lines, planes, divided, seen, shared, inequalities, origin)


def _tile(
    copy: Access,
    root: SSAValue,
    pitch: Polynomial,
    lines: Sequence[_Line],
    planes: Sequence[Plane],
    divided: bool,
    windows: Sequence[Window | None],
    shared: SharedLayout,
    inequalities: Inequalities,
    origin: Origin,
) -> TmaTile:
    """The tile with these lines, and planes around them; `divided`: x is split in blocks."""
    dims = [*lines, *(_Line(plane.place, None) for plane in planes)]
    sizes = [shared.contiguous_extent, shared.strided_extent, *(1 for _ in planes)]
    unchecked = {d for d, window in enumerate(windows) if window or (divided and d == 0)}
    inside = [line.within(length, inequalities) for line, length in zip(dims, sizes, strict=True)]
    conditions = [(d, line.condition) for d, line in enumerate(lines) if line.condition is not None]
    return TmaTile(
        root,
        tuple(_UNBOUNDED if line.extent is None else line.extent for line in dims),
        (pitch, *(plane.stride for plane in planes)),
        tuple(line.place for line in dims),
        tuple(d for d in range(len(dims)) if d not in unchecked and not inside[d]),
        divided,
        tuple(conditions),
        origin.before(copy),
    )


def _buffer_obstacle(
    root: SSAValue, pitch: SSAValue, shared: SharedLayout, known: Facts, copied: bool
) -> Missed | None:
    """Return why a TMA load from `root` with this row pitch cannot fill a buffer; None if it can."""
    if not _fits_box(shared, copied) or shared.strided_extent > _LARGEST_BOX:
        return Missed(Reason.BOX_SHAPE, (str(shared),))
    if known.divisor(root) % _ALIGNMENT:
        return Missed(Reason.ADDRESS_ALIGNMENT, (root, _ALIGNMENT))
    if known.divisor(pitch) * shared.size % _ALIGNMENT:
        return Missed(Reason.ALIGNMENT, (pitch, _ALIGNMENT))
    return None


def _lines_obstacle(
    copy: Access, lines: list[_Line], known: Facts, shared: SharedLayout, stored: bool
) -> Missed | None:
    """Return why a tensor map cannot have these dimensions; None if it can."""
    if not lines:
        return Missed(Reason.COORDINATES, (copy.base,))
    if not _in_chunks(lines[0], known, shared, stored=False):
        return misaligned_base(copy.base, shared.size, known)
    if not _in_chunks(lines[0], known, shared, stored=stored):
        ends = lines[0].extent.leaves() if lines[0].extent is not None else ()
        odd = [e.value for e in ends if known.divisor(e.value) * shared.size % _ALIGNMENT]
        return Missed(Reason.ALIGNMENT, (odd[0] if odd else copy.base, _ALIGNMENT))
    return None


def _goes_down(stride: Polynomial) -> bool:
    """Whether a stride is negative where its scalars are sizes. Those of tensor maps are unsigned, and launches with
    negative arguments do not know these as multiples of 16 (`runtime/specialize.py`)."""
    return all(coefficient < 0 for _, coefficient in stride.terms)


def _rules(known: Facts, size: int, inequalities: Inequalities, origin: Origin) -> Rules:
    """Facts about the scalars in an offset, in elements of `size` bytes."""

    return Rules(
        on_host=lambda leaf: origin.knows(leaf.value),
        stands_for_end=lambda monomial: _positive(monomial) is not None,
        plausible=lambda place: inequalities.nonnegative(place, assumed=True),
        highest=inequalities.highest,
        aligned=lambda elements: _is_aligned(elements, size, known),
    )


def _divided(
    offset: Polynomial, strides: tuple[Polynomial, ...], ends: list[_End | None], rules: Rules
) -> tuple[list[_Line], tuple[Plane, ...]]:
    """Coordinates and ends along both dimensions of a tile, and planes; none if no decomposition fits."""
    if None in ends:
        return [], ()
    given = [end for end in ends if end is not None]
    axes = [Axis(stride, end.limit) for stride, end in zip(strides, given, strict=True)]
    coordinates = divide_offset(offset, axes, rules)
    if coordinates is None:
        return [], ()
    lines = [
        _Line(place, end.limit and end.limit + place, condition=end.condition)
        for place, end in zip(coordinates.places, given, strict=True)
    ]
    return lines, coordinates.planes


def _placed(
    offset: Polynomial,
    pitch: Polynomial,
    ends: list[_End | None],
    windows: Sequence[Window | None],
    rules: Rules,
) -> tuple[list[_Line], tuple[Plane, ...]]:
    """Place and end along both dimensions, where masks have the place that they say, and planes; no lines if there
    are none that fit."""
    lines, planes = _divided(offset, (ONE, pitch), ends, rules)
    if not all(w is None or line.place == w.start for line, w in zip(lines, windows, strict=False)):
        lines = []
    if lines or not any(windows):
        return lines, planes
    return _as_seen(offset, pitch, windows, ends), ()


def _as_seen(
    offset: Polynomial, pitch: Polynomial, windows: Sequence[Window | None], ends: list[_End | None]
) -> list[_Line]:
    """Place and end along both dimensions where a mask has the place along the second one, or along both; none where
    the address is another."""
    x, y = windows
    if y is None or ends[0] is None:
        return []
    column = offset - y.start * pitch
    if x is not None:
        return [_Line(w.start, w.extent) for w in (x, y)] if column == x.start else []
    end = ends[0].limit
    row = _Line(y.start, y.extent)
    return [_Line(column, end and end + column, condition=ends[0].condition), row]


def _in_chunks(line: _Line, known: Facts, shared: SharedLayout, stored: bool) -> bool:
    """Return whether a tile is known to begin at a multiple of 16 bytes along x, and to end at one if it is stored.

    Also whether its row continues after a tile that does not fill its last panel (the rest of the panel is read too).
    """
    if not shared.whole and line.extent is None:
        return False
    ends = [line.place] if line.extent is None or not stored else [line.place, line.extent]
    return all(_is_aligned(end, shared.size, known) for end in ends)


def _is_aligned(elements: Polynomial, size: int, known: Facts) -> bool:
    """Return whether a number of elements of `size` bytes is a multiple of 16 bytes."""
    factors = (c * prod(known.divisor(leaf.value) for leaf in m) for m, c in elements.terms)
    return all(factor * size % _ALIGNMENT == 0 for factor in factors)


def _reached(place: Polynomial, size: int, inequalities: Inequalities) -> bool:
    """Return whether 32-bit coordinates reach every element of the tile in every program."""
    return inequalities.nonnegative(place) and inequalities.highest(place) + size <= gpu.UNBOUNDED


def _fits_box(shared: SharedLayout, copied: bool) -> bool:
    """Return whether a box has the panels of the buffer's layout."""
    if shared.pad or shared.width > _LARGEST_BOX or shared.row_stride_bytes % _ALIGNMENT:
        return False
    if shared.panel_bytes % _START and (copied or shared.width < shared.contiguous_extent):
        return False  # the next panel or stage could not begin there
    return not shared.swizzled or shared.strided_extent % 8 == 0


@dataclass(frozen=True)
class _Line:
    """Coordinate of a tile along x or y, and the dimension's end (None: unbounded)."""

    place: Polynomial
    extent: Polynomial | None
    condition: SSAValue | None = None
    """Without it the box is beyond the end."""

    def within(self, size: int, inequalities: Inequalities) -> bool:
        """Return whether 32-bit coordinates reach all of a tile of this size, or its end."""
        if self.extent is None:
            return _reached(self.place, size, inequalities)
        return inequalities.nonnegative(self.place)


@dataclass(frozen=True)
class _End:
    """End of a tile along a dimension: a limit in elements from its start, or none."""

    limit: Polynomial | None = None
    condition: SSAValue | None = None


def _for_host(line: _Line, symbols: Symbolic) -> _Line:
    """The dimension with an end of `max(n, 0)` as n: no element has a negative coordinate."""
    if line.extent is None or len(line.extent.terms) != 1:
        return line
    ((monomial, coefficient),) = line.extent.terms
    inner = _positive(monomial) if coefficient == 1 else None
    return line if inner is None else replace(line, extent=symbols.of(inner))


def _positive(monomial: tuple[Leaf, ...]) -> SSAValue | None:
    """n for a term `max(n, 0)`."""
    return floored_value(monomial[0].value) if len(monomial) == 1 else None


def _end_of(copy: Access, dim: int, symbols: Symbolic, window: Window | None) -> _End | None:
    """The end along one dimension; None if a tensor map cannot express it."""
    kinds = tile.view_kinds(copy)
    limits = tile.view_limits(copy)
    if window is not None:
        separate = dim in limits or kinds[dim] != "strided"
        return None if separate else _End(window.extent - window.start)
    if kinds[dim] == "strided":
        if dim not in limits:
            return _End()
        limit, condition = limits[dim], None
        if isinstance(limit.owner, tile.SelectOp) and constant_int(limit.owner.rhs) == 0:
            limit, condition = limit.owner.lhs, limit.owner.condition
        return _End(symbols.of(limit), condition)
    return None


def scalar_of(polynomial: Polynomial, before: Operation) -> SSAValue:
    """Emit a polynomial as an i64 scalar."""
    return polynomial.emit(
        Emitter(before), lambda leaf, writer: writer.resize(leaf.value, i64, True)
    )
