"""Conversions of layouts: in registers, by shuffles, or through shared memory.

A tile goes through scratch space as in `scratch_tiles`, as it is or with its dimensions exchanged, and where threads
hold it as fragments of tensor cores by 8x8 matrices (`matrix_access`). A conversion of a tile too large for the target
does that several times, with as many of its rows as fit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from math import prod
from operator import or_, xor

from xdsl.ir import Attribute

from tilewright.backends.llvm import blocks
from tilewright.backends.llvm.blocks import conditional
from tilewright.backends.llvm.types import I8, I32, Value
from tilewright.backends.nvidia.lower import KernelCodegen
from tilewright.backends.nvidia.lower.matrix_access import (
    ROW_BYTES,
    Matrices,
    MatrixAccess,
    matrices_of,
)
from tilewright.backends.nvidia.lower.scratch_tiles import (
    SharedAccess,
    SharedTile,
    aligned_run,
    runs_of,
)
from tilewright.backends.nvidia.lower.vector_access import with_copies
from tilewright.backends.nvidia.lower.warp_shuffles import (
    convert_by_selects,
    convert_by_shuffles,
    convert_in_quads,
    plan_selects,
    plan_shuffles,
)
from tilewright.dialects import gpu, tile
from tilewright.layouts import Layout
from tilewright.layouts.fragments import exchanges_in_quads
from tilewright.layouts.layout import Vector
from tilewright.layouts.shared import conflict_free_orders, wavefronts
from tilewright.targets import Feature

_PADS = (0, 4, 8, 16, 32, 64)
"""Bytes that rows of a conversion may be padded by."""
_WIDEST = 16
_MOST_PANELS = 16
_ADDRESSES = 16
"""Instructions that the addresses of a tile with another order of its index bits take."""


@dataclass(frozen=True)
class Panel:
    """Panel `number` of the rows of a tile that goes through shared memory in several: `rows` of them, a
    power of two, as of a tile in a layout in which threads and registers have no bit of a row in common."""

    layout: Layout
    rows: int
    number: int

    @property
    def _bits_of_registers(self) -> int:
        """Bits of a panel's number that registers decide on."""
        return reduce(or_, (o[0] // self.rows for o in self.layout.register_offsets))

    def holds(self, offset: Vector) -> bool:
        """Whether a register at `offset` is in the panel, of the threads that have a part in it."""
        return offset[0] // self.rows == self.number & self._bits_of_registers

    @property
    def part_of_threads(self) -> int | None:
        """The panel's number as threads decide on it; None where all have a part in it."""
        mine = ~self._bits_of_registers
        vectors = (*self.layout.lanes, *self.layout.warps)
        return self.number & mine if any(v[0] // self.rows for v in vectors) else None

    def inside(self, offset: Vector) -> Vector:
        """An offset from the panel's first row."""
        return (offset[0] % self.rows, *offset[1:])


class PanelAccess(SharedAccess):
    """Reads and writes of a panel, by the threads that have a part in it."""

    def __init__(self, gen: KernelCodegen, where: SharedTile, panel: Panel) -> None:
        super().__init__(gen, where, panel.layout)
        self.panel = panel

    def active(self) -> Value | None:
        """Whether this thread has a part in the panel; None where all have."""
        b, part = self.gen.builder, self.panel.part_of_threads
        if part is None:
            return None
        row = self.gen.threads.coordinate(self.layout, 0)
        number = b.udiv(row, self.panel.rows)
        return b.icmp_unsigned("==", number, part)

    def _runs(self) -> list[list[int]]:
        offsets = self.layout.register_offsets
        return [run for run in super()._runs() if self.panel.holds(offsets[run[0]])]

    def _address(self, offset: Vector) -> Value:
        b, layout = self.gen.builder, self.layout
        if self._base is None:
            coordinates = [self.gen.threads.coordinate(layout, d) for d in range(layout.rank)]
            coordinates[0] = b.urem(coordinates[0], self.panel.rows)
            self._base = self._pointer(coordinates)
        constant = self.where.flat(self.panel.inside(offset)) * self.where.size
        return b.gep(self._base, [constant], source_etype=I8)


# ---- conversions -------------------------------------------------------------------------------------


def same_threads(source: Layout, target: Layout) -> bool:
    """Whether each thread already has, in some register, every element it needs."""
    if source.lanes != target.lanes or source.warps != target.warps:
        return False
    if any(source.group_step(d) != target.group_step(d) for d in range(source.rank)):
        return False
    return all(o in source.register_of for o in target.register_offsets)


def padding(source: Layout, target: Layout, element: Attribute, room: int = 1 << 30) -> int:
    """Bytes after each row of a tile that plain stores and loads exchange."""
    return _cheapest(source, target, element, room, (False, False)).pad


@dataclass(frozen=True)
class Exchange:
    """How a conversion goes through shared memory: a row-major tile, its last dimensions exchanged, or its index bits
    in another order."""

    source: Layout
    target: Layout
    """Both with the tile's dimensions as they lie."""
    pad: int
    """Bytes after each row."""
    cost: int
    writes: Matrices | None
    """How the tile is written by matrices; None: by plain stores."""
    reads: Matrices | None


@lru_cache(maxsize=1024)
def plan_exchange(
    source: Layout, target: Layout, element: Attribute, room: int, matrices: tuple[bool, bool]
) -> Exchange:
    """The exchange that takes the fewest instructions and asks shared memory least often, and of those the one with
    the fewest bytes; the tile takes at most `room` bytes if it can. `matrices`: whether there are instructions that
    write, and that read, 8x8 matrices."""
    *batch, last = range(source.rank)
    orders = [(*batch, last)]
    if batch:
        orders.append((*batch[:-1], last, batch[-1]))
    plans = [
        _cheapest(*_as_matrix(source, target, order), element, room, matrices) for order in orders
    ]
    found = min(plans, key=lambda plan: plan.cost)
    most = _WIDEST // tile.element_bytes(element)
    for first, second in conflict_free_orders(source, target, most):
        other = _cheapest(first, second, element, room, (False, False))
        if other.cost + _ADDRESSES < found.cost:
            found = other
    return found


def _as_matrix(source: Layout, target: Layout, order: Vector) -> tuple[Layout, Layout]:
    """Both layouts with dimensions permuted, and all but the last made one: the rows of a batch of matrices lie one
    after another, and 8x8 matrices move parts of each."""
    source, target = source.permute(order), target.permute(order)
    shape = prod(source.shape[:-1]), source.shape[-1]
    one, other = source.reshape(shape), target.reshape(shape)
    return (source, target) if one is None or other is None else (one, other)


def _cheapest(
    source: Layout, target: Layout, element: Attribute, room: int, matrices: tuple[bool, bool]
) -> Exchange:
    size = tile.element_bytes(element)
    most = room // prod(source.shape[:-1]) - source.shape[-1] * size
    pads = [p for p in _PADS if p % size == 0 and p <= most] if source.rank > 1 else []
    forms = [
        matrices_of(layout, size) if allowed else None
        for layout, allowed in zip((source, target), matrices, strict=True)
    ]
    accesses = [_PlainAccess(layout) for layout in (source, target)]
    found: Exchange | None = None
    for pad in pads or [0]:
        where = SharedTile(None, element, source.shape, 0, pad)
        whole_rows = where.pitch * size % ROW_BYTES == 0
        total, chosen = 0, list[Matrices | None]()
        for access, form in zip(accesses, forms, strict=True):
            plain = access.cost(where)
            by_matrix = form.cost(where.pitch, size) if form is not None and whole_rows else plain
            chosen.append(form if by_matrix < plain else None)
            total += min(plain, by_matrix)
        if found is None or total < found.cost:
            found = Exchange(source, target, pad, total, *chosen)
    return found or Exchange(source, target, 0, 0, None, None)


class _PlainAccess:
    """Plain stores, or loads, of a tile in a layout; what does not depend on the padding of rows is computed once."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        lanes = [(0,) * layout.rank]
        for vector in layout.lanes:
            lanes += [tuple(map(xor, lane, vector)) for lane in lanes]
        self._places = [_row_and_column(lane, layout.shape) for lane in lanes]
        self._runs: dict[int, tuple[int, int]] = {}

    def cost(self, where: SharedTile) -> int:
        """Instructions that move a tile, and the times that they ask shared memory.

        Lanes of one access differ by what their own bits contribute, whatever the warp and the register,
        so that one access stands for all.
        """
        most = aligned_run(where, _WIDEST // where.size)
        if most not in self._runs:
            runs = runs_of(where, self.layout, most)
            self._runs[most] = len(runs), len(runs[0])
        count, length = self._runs[most]
        pitch, size = where.pitch, where.size
        places = [(row * pitch + column) * size for row, column in self._places]
        return count * (1 + wavefronts(places, size * length))


def _row_and_column(coordinates: Vector, shape: Vector) -> tuple[int, int]:
    """Coordinates in a tile as those in a matrix of its rows."""
    row = 0
    for c, extent in zip(coordinates[:-1], shape[:-1], strict=True):
        row = row * extent + c
    return row, coordinates[-1]


def lower_convert(gen: KernelCodegen, op: gpu.ConvertLayoutOp) -> None:
    source, target = gen.layout(op.source), gen.layout(op.result)
    if same_threads(source, target):
        parts = gen.parts(op.source)
        gen.bind(op.result, [parts[source.register_of[o]] for o in target.register_offsets])
        return
    element = tile.element_of(op.source)
    if tile.element_bytes(element) == 1 and exchanges_in_quads(source, target):
        gen.bind(op.result, convert_in_quads(gen, source, target, gen.parts(op.source)))
        return
    if gen.warp_exchanges.convert(op):
        return
    selects = plan_selects(source, target)
    if selects is not None:
        gen.bind(op.result, convert_by_selects(gen, selects, gen.parts(op.source)))
        return
    shuffles = plan_shuffles(source, target)
    if shuffles is not None:
        gen.bind(op.result, convert_by_shuffles(gen, shuffles, gen.parts(op.source), element))
        return
    room = gen.scratch_room()
    alone = gen.blocks == 1
    matrices = (alone and gen.target.has(Feature.STMATRIX), alone)
    plan = plan_exchange(source, target, element, room, matrices)
    size = SharedTile(None, element, plan.source.shape, 0, plan.pad).bytes
    count = _panels(gen, source, target, size)
    if count > 1:
        _convert_in_panels(gen, op, padding(source, target, element, room * count), count)
        return
    _exchange(gen, op, plan, element)


def _exchange(
    gen: KernelCodegen, op: gpu.ConvertLayoutOp, plan: Exchange, element: Attribute
) -> None:
    where = SharedTile(None, element, plan.source.shape, 0, plan.pad)
    where = replace(where, pointer=gen.scratch(where.bytes))
    by_matrix = None
    if plan.writes is not None or plan.reads is not None:
        start = gen.builder.ptrtoint(where.pointer, I32)
        by_matrix = MatrixAccess(gen, start, where.pitch, element, where.size)
    parts = gen.parts(op.source)
    if by_matrix is not None and plan.writes is not None:
        by_matrix.write(plan.writes, parts)
    else:
        SharedAccess(gen, where, plan.source).write(parts)
    gen.barrier()
    if by_matrix is not None and plan.reads is not None:
        read = by_matrix.read(plan.reads, plan.target.registers_per_thread)
        gen.bind(op.result, with_copies(plan.target, read))
    else:
        gen.bind(op.result, SharedAccess(gen, where, plan.target).read())


def lower_part(gen: KernelCodegen, op: gpu.ExtractSliceOp) -> None:
    """Some registers of each thread."""
    source, target, start = gen.layout(op.source), gen.layout(op.result), tile.ints(op.start)
    parts = gen.parts(op.source)
    places = [
        tuple(s + o for s, o in zip(start, offset, strict=True))
        for offset in target.register_offsets
    ]
    gen.bind(op.result, [parts[source.register_of[place]] for place in places])


def _panels(gen: KernelCodegen, source: Layout, target: Layout, size: int) -> int:
    """In how many parts a tile of `size` bytes changes its layout: in one where that fits, which needs
    the fewest registers and barriers, else in as many as let it; in one where it cannot be divided."""
    room = gen.scratch_room()
    rows, count = source.shape[0], 1
    while size > room * count and count < _MOST_PANELS:
        count *= 2
    if not all(x.has_disjoint_bits and x.groups == 1 and not x.repeat for x in (source, target)):
        return 1
    return count if rows % count == 0 and size <= room * count else 1


def _convert_in_panels(gen: KernelCodegen, op: gpu.ConvertLayoutOp, pad: int, count: int) -> None:
    """Rows go through shared memory a panel at a time."""
    b, source, target = gen.builder, gen.layout(op.source), gen.layout(op.result)
    element, shape, rows = tile.element_of(op.source), source.shape, source.shape[0] // count
    where = SharedTile(None, element, (rows, *shape[1:]), 0, pad)
    where = replace(where, pointer=gen.scratch(where.bytes))
    parts: list[Value] = [None] * target.registers_per_thread
    for number in range(count):
        if number:
            gen.barrier()
        writes = PanelAccess(gen, where, Panel(source, rows, number))
        condition = writes.active()
        with blocks.where(b, condition):
            writes.write(gen.parts(op.source))
        gen.barrier()
        reads = PanelAccess(gen, where, Panel(target, rows, number))
        parts = conditional(b, reads.active(), reads.read, parts)
    gen.bind(op.result, parts)
