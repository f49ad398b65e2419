"""Through shared memory: other layouts, concatenation, gathers, histograms.

A tile in shared memory is row-major, with rows padded so that threads that walk down a column meet
different banks: by 16 bytes, or for a conversion by what makes writing and reading it cheapest. Every
exchange is: barrier (in `scratch`), write, barrier, read. A conversion of a tile too large for the target
does that several times, with as many of its rows as there is room for.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, reduce
from math import prod
from operator import or_
from typing import TYPE_CHECKING, Any

from llvmlite import ir
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, Operation, SSAValue

from tilewright.backends.llvm.types import Value, llvm_type
from tilewright.backends.nvidia.lower.vector_access import register, storage
from tilewright.dialects import gpu, tile
from tilewright.layouts import Layout
from tilewright.layouts.banks import wavefronts
from tilewright.layouts.layout import Vector
from tilewright.passes.analysis.effects import is_pure_elementwise
from tilewright.passes.gpu.analysis.accesses import vector_of

if TYPE_CHECKING:
    from tilewright.backends.nvidia.codegen import KernelCodegen

I8, I32, I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_PAD_BYTES = 16
_PADS = (0, 4, 8, 16, 32, 64)
"""Bytes that rows of a conversion may be padded by."""
_WIDEST = 16
_MOST_PANELS = 16


@dataclass(frozen=True)
class SharedTile:
    """A tile in shared memory: element type, extents, first byte, and bytes after each row (None: 16
    for rows of at least 32)."""

    pointer: Value
    element: Attribute
    shape: Vector
    start: int = 0
    pad: int | None = None

    @cached_property
    def size(self) -> int:
        return tile.element_bytes(self.element)

    @cached_property
    def pitch(self) -> int:
        """Elements from one row (last dimension) to the next."""
        columns = self.shape[-1]
        if self.pad is not None:
            return columns + self.pad // self.size
        padded = len(self.shape) > 1 and columns * self.size >= 32
        return columns + (max(1, _PAD_BYTES // self.size) if padded else 0)

    @property
    def bytes(self) -> int:
        return prod(self.shape[:-1]) * self.pitch * self.size

    def flat(self, coordinates: Vector) -> int:
        """Element offset of constant coordinates."""
        row = 0
        for c, extent in zip(coordinates[:-1], self.shape[:-1], strict=True):
            row = row * extent + c
        return row * self.pitch + coordinates[-1]


def bytes_for(element: Attribute, shape: Vector) -> int:
    """Bytes that a tile takes in shared memory."""
    return SharedTile(None, element, shape).bytes


def runs_of(where: SharedTile, layout: Layout, most: int) -> list[list[int]]:
    """Registers that hold up to `most` neighbours of a row, for wide accesses; copies are left out."""

    def aligned(length: int) -> bool:
        return where.pitch % length == 0 and where.start % (length * where.size) == 0

    last = layout.rank - 1
    while most > 1 and not aligned(most):
        most //= 2
    length = layout.num_consecutive(last, most)
    runs: list[list[int]] = []
    seen: set[Vector] = set()
    for r, offset in enumerate(layout.register_offsets):
        if offset in seen or offset[last] % length:
            continue
        members = [(*offset[:last], offset[last] + i) for i in range(length)]
        seen.update(members)
        runs.append([layout.register_of[m] for m in members] if length > 1 else [r])
    return runs


class SharedAccess:
    """Reads and writes of one thread's registers of a tile in shared memory."""

    def __init__(self, gen: KernelCodegen, where: SharedTile, layout: Layout) -> None:
        self.gen, self.where, self.layout = gen, where, layout
        self._base: Value | None = None

    def _address(self, offset: Vector) -> Value:
        """Pointer to the element of a register, at a register's offset."""
        b, where, layout = self.gen.builder, self.where, self.layout
        if layout.has_disjoint_bits:
            if self._base is None:
                coordinates = [self.gen.threads.coordinate(layout, d) for d in range(layout.rank)]
                self._base = self._pointer(coordinates)
            constant = where.flat(offset) * where.size
            return b.gep(self._base, [ir.Constant(I32, constant)], source_etype=I8)
        coordinates = [
            self.gen.threads.with_offset(
                b, layout, self.gen.threads.coordinate(layout, d), offset, d
            )
            for d in range(layout.rank)
        ]
        return self._pointer(coordinates)

    def _pointer(self, coordinates: list[Value]) -> Value:
        return element_pointer(self.gen, self.where, coordinates)

    def _runs(self) -> list[list[int]]:
        return runs_of(self.where, self.layout, vector_of(self.gen.current))

    def write(self, parts: list[Value]) -> None:
        b = self.gen.builder
        for run in self._runs():
            values = [storage(self.gen, parts[r], self.where.element) for r in run]
            pointer = self._address(self.layout.register_offsets[run[0]])
            b.store(_vector(self.gen, values), pointer, align=self.where.size * len(run))

    def read(self) -> list[Value]:
        b, where, layout = self.gen.builder, self.where, self.layout
        kind = ir.IntType(8 * where.size)
        parts: list[Value] = [None] * layout.registers_per_thread
        for run in self._runs():
            wide = ir.VectorType(kind, len(run)) if len(run) > 1 else kind
            pointer = self._address(layout.register_offsets[run[0]])
            loaded = b.load(pointer, typ=wide, align=where.size * len(run))
            for i, r in enumerate(run):
                bits = b.extract_element(loaded, ir.Constant(I32, i)) if len(run) > 1 else loaded
                parts[r] = register(self.gen, bits, where.element)
        return self._copies(parts)

    def _copies(self, parts: list[Value]) -> list[Value]:
        """Registers that hold what another one does."""
        for r, offset in enumerate(self.layout.register_offsets):
            if parts[r] is None:
                parts[r] = parts[self.layout.register_of[offset]]
        return parts


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
        number = b.udiv(row, ir.Constant(I32, self.panel.rows))
        return b.icmp_unsigned("==", number, ir.Constant(I32, part))

    def _runs(self) -> list[list[int]]:
        offsets = self.layout.register_offsets
        return [run for run in super()._runs() if self.panel.holds(offsets[run[0]])]

    def _address(self, offset: Vector) -> Value:
        b, layout = self.gen.builder, self.layout
        if self._base is None:
            coordinates = [self.gen.threads.coordinate(layout, d) for d in range(layout.rank)]
            coordinates[0] = b.urem(coordinates[0], ir.Constant(I32, self.panel.rows))
            self._base = self._pointer(coordinates)
        constant = self.where.flat(self.panel.inside(offset)) * self.where.size
        return b.gep(self._base, [ir.Constant(I32, constant)], source_etype=I8)


def _vector(gen: KernelCodegen, values: list[Value]) -> Value:
    if len(values) == 1:
        return values[0]
    vector: Value = ir.Constant(ir.VectorType(values[0].type, len(values)), ir.Undefined)
    for i, value in enumerate(values):
        vector = gen.builder.insert_element(vector, value, ir.Constant(I32, i))
    return vector


def element_pointer(gen: KernelCodegen, where: SharedTile, coordinates: list[Value]) -> Value:
    """Pointer to one element of a tile in shared memory, at i32 coordinates."""
    b = gen.builder
    row: Value = ir.Constant(I32, 0)
    for value, extent in zip(coordinates[:-1], where.shape[:-1], strict=True):
        row = b.add(b.mul(row, ir.Constant(I32, extent)), value)
    flat = b.add(b.mul(row, ir.Constant(I32, where.pitch)), coordinates[-1])
    byte = b.mul(flat, ir.Constant(I32, where.size))
    if where.start:
        byte = b.add(byte, ir.Constant(I32, where.start))
    return b.gep(where.pointer, [byte], source_etype=I8)


def store_to_shared(
    gen: KernelCodegen,
    value: SSAValue,
    start: int = 0,
    pointer: Value | None = None,
    pad: int | None = None,
) -> SharedTile:
    """Write a tile to shared memory at byte `start` of the scratch; callers place the barriers."""
    element, shape = tile.element_of(value), tile.shape_of(value)
    if pointer is None:
        pointer = gen.scratch(start + SharedTile(None, element, shape, 0, pad).bytes)
    where = SharedTile(pointer, element, shape, start, pad)
    SharedAccess(gen, where, gen.layout(value)).write(gen.parts(value))
    return where


_IN_REGISTERS = (
    arith.ConstantOp, tile.SplatOp, tile.BroadcastOp, tile.ExpandDimsOp, tile.LoadOp, tile.LoadViewOp,
)  # fmt: skip


def follows_barrier(op: Operation) -> bool:
    """Whether threads meet before `op`, with nothing in between in which they might use shared memory."""
    before = op.prev_op
    while before is not None and (is_pure_elementwise(before) or isinstance(before, _IN_REGISTERS)):
        before = before.prev_op
    return isinstance(before, gpu.BarrierOp)


# ---- conversions -------------------------------------------------------------------------------------


def same_threads(source: Layout, target: Layout) -> bool:
    """Whether each thread already has, in some register, every element it needs."""
    if source.lanes != target.lanes or source.warps != target.warps:
        return False
    if any(source.group_step(d) != target.group_step(d) for d in range(source.rank)):
        return False
    return all(o in source.register_of for o in target.register_offsets)


@lru_cache(maxsize=1024)
def padding(source: Layout, target: Layout, element: Attribute, room: int = 1 << 30) -> int:
    """Bytes after each row with which a conversion asks shared memory least often, and the fewest of
    those; the tile takes at most `room` bytes if it can.

    Lanes of one access differ by what their own bits contribute, whatever the warp and the register,
    so that one access stands for all.
    """

    lanes = [(at, [at.thread_offset(lane, 0) for lane in range(32)]) for at in (source, target)]

    def cost(pad: int) -> int:
        where = SharedTile(None, element, source.shape, 0, pad)
        total = 0
        for layout, offsets in lanes:
            runs = runs_of(where, layout, _WIDEST // where.size)
            places = [where.flat(offset) * where.size for offset in offsets]
            total += len(runs) * wavefronts(places, where.size * len(runs[0]))
        return total

    size = tile.element_bytes(element)
    lines = prod(source.shape[:-1])
    most = room // lines - source.shape[-1] * size
    pads = [p for p in _PADS if p % size == 0 and p <= most] if source.rank > 1 else []
    return min(pads or [0], key=lambda pad: (cost(pad), pad))


def lower_convert(gen: KernelCodegen, op: gpu.ConvertLayoutOp) -> None:
    source, target = gen.layout(op.source), gen.layout(op.result)
    if same_threads(source, target):
        parts = gen.parts(op.source)
        gen.bind(op.result, [parts[source.register_of[o]] for o in target.register_offsets])
        return
    element = tile.element_of(op.source)
    room = gen.scratch_room()
    pad = padding(source, target, element, room)
    count = _panels(gen, source, target, SharedTile(None, element, source.shape, 0, pad).bytes)
    if count > 1:
        _convert_in_panels(gen, op, pad, count)
        return
    where = store_to_shared(gen, op.source, pad=pad)
    gen.barrier()
    gen.bind(op.result, SharedAccess(gen, where, target).read())


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
        with b.if_then(condition) if condition is not None else nullcontext():
            writes.write(gen.parts(op.source))
        gen.barrier()
        reads = PanelAccess(gen, where, Panel(target, rows, number))
        condition = reads.active()
        if condition is None:
            found = reads.read()
            parts = [new if new is not None else old for old, new in zip(parts, found, strict=True)]
            continue
        before = b.block
        with b.if_then(condition):
            found, inside = reads.read(), b.block
        parts = [
            _joined(gen, old, before, new, inside) for old, new in zip(parts, found, strict=True)
        ]
    gen.bind(op.result, parts)


def _joined(gen: KernelCodegen, old: Any, before: Any, new: Any, inside: Any) -> Value:
    """A register behind a branch in which it may have been read."""
    if new is None:
        return old
    phi = gen.builder.phi(new.type)
    phi.add_incoming(old if old is not None else ir.Constant(new.type, ir.Undefined), before)
    phi.add_incoming(new, inside)
    return phi


# ---- elements from elsewhere ----------------------------------------------------------------------------


def _coordinates(gen: KernelCodegen, layout: Layout, register_: int) -> list[Value]:
    return [gen.threads.element(gen.builder, layout, register_, d) for d in range(layout.rank)]


def _read_at(gen: KernelCodegen, where: SharedTile, coordinates: list[Value]) -> Value:
    bits = gen.builder.load(
        element_pointer(gen, where, coordinates), typ=ir.IntType(8 * where.size), align=where.size
    )
    return register(gen, bits, where.element)


def lower_cat(gen: KernelCodegen, op: tile.CatOp) -> None:
    b, axis = gen.builder, op.axis.value.data
    layout, element = gen.layout(op.result), tile.element_of(op.result)
    half = -(-bytes_for(element, tile.shape_of(op.lhs)) // _WIDEST) * _WIDEST
    pointer = gen.scratch(half + bytes_for(element, tile.shape_of(op.rhs)))
    first, second = (
        store_to_shared(gen, op.lhs, 0, pointer),
        store_to_shared(gen, op.rhs, half, pointer),
    )
    gen.barrier()
    border = ir.Constant(I32, first.shape[axis])
    parts = []
    for r in range(layout.registers_per_thread):
        at = _coordinates(gen, layout, r)
        early = b.icmp_unsigned("<", at[axis], border)
        low, high = list(at), list(at)
        low[axis] = b.select(early, at[axis], ir.Constant(I32, 0))
        high[axis] = b.select(early, ir.Constant(I32, 0), b.sub(at[axis], border))
        parts.append(b.select(early, _read_at(gen, first, low), _read_at(gen, second, high)))
    gen.bind(op.result, parts)


def lower_gather(gen: KernelCodegen, op: tile.GatherOp) -> None:
    layout, axis = gen.layout(op.result), op.axis.value.data
    where = store_to_shared(gen, op.source)
    gen.barrier()
    parts = []
    for r, index in enumerate(gen.parts(op.index)):
        at = _coordinates(gen, layout, r)
        at[axis] = _index(gen, index, where.shape[axis])
        parts.append(_read_at(gen, where, at))
    gen.bind(op.result, parts)


def _index(gen: KernelCodegen, value: Value, extent: int) -> Value:
    """An index as i32, kept inside the tile (beyond it the element is unspecified)."""
    b = gen.builder
    if value.type.width > 32:
        value = b.trunc(value, I32)
    elif value.type.width < 32:
        value = b.zext(value, I32)
    last = ir.Constant(I32, extent - 1)
    return b.select(b.icmp_unsigned("<", value, last), value, last)


def lower_histogram(gen: KernelCodegen, op: tile.HistogramOp) -> None:
    """Counts in shared memory, one atomic addition an element."""
    b, layout = gen.builder, gen.layout(op.result)
    bins = layout.shape[0]
    count_type: Any = llvm_type(tile.element_of(op.result))
    pointer = gen.scratch(4 * bins)
    where = SharedTile(pointer, IntegerType(32), (bins,))
    zero = ir.Constant(I32, 0)
    SharedAccess(gen, where, layout).write([zero] * layout.registers_per_thread)
    gen.barrier()
    source = gen.layout(op.source)
    mine = gen.threads.first_holder(source)
    masks = gen.parts(op.mask) if op.mask is not None else None
    for r in sorted(set(source.register_of.values())):
        value = gen.parts(op.source)[r]
        wide = value if value.type.width == 32 else (
            b.zext(value, I32) if value.type.width < 32 else b.trunc(value, I32)
        )  # fmt: skip
        live = b.icmp_unsigned("<", wide, ir.Constant(I32, bins))
        for condition in (mine, masks[r] if masks is not None else None):
            live = live if condition is None else b.and_(live, condition)
        amount = b.select(live, ir.Constant(I32, 1), zero)
        slot = element_pointer(gen, where, [b.select(live, wide, zero)])
        b.atomic_rmw("add", slot, amount, "monotonic")
    gen.barrier()
    parts = SharedAccess(gen, where, layout).read()
    if count_type.width != 32:
        parts = [
            b.sext(p, count_type) if count_type.width > 32 else b.trunc(p, count_type)
            for p in parts
        ]
    gen.bind(op.result, parts)
