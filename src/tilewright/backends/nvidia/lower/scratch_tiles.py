"""Lower concatenation, gathers and histograms through tiles in shared-memory scratch.

A scratch tile is row-major. Rows are padded so that accesses down a column use different banks: by 16 bytes, or for
a layout conversion by the padding with the fewest bank conflicts. Every exchange is: barrier (in `scratch`), write,
barrier, read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

from llvmlite import ir
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, Operation, SSAValue

from tilewright.backends.llvm.blocks import both
from tilewright.backends.llvm.types import I8, I32, Value, as_vector, llvm_type, load_elements
from tilewright.backends.nvidia.lower import KernelCodegen
from tilewright.backends.nvidia.lower.memory import runs
from tilewright.backends.nvidia.lower.vector_access import register, storage, unpack, with_copies
from tilewright.dialects import gpu, tile
from tilewright.layouts import Layout
from tilewright.layouts.layout import Vector
from tilewright.passes.analysis.effects import is_pure_elementwise
from tilewright.passes.gpu.analysis.accesses import vector_of

_PAD_BYTES = 16
_WIDEST = 16
_WORD_BYTES = 4
"""Smaller elements are read by words where they lie side by side: operations on pairs take the words as they are."""


@dataclass(frozen=True)
class SharedTile:
    """A tile in shared memory: element type, extents, byte offset, and padding in bytes per row (None: 16 for
    rows of at least 32 bytes)."""

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
        """Row pitch (of the last dimension) in elements."""
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


def aligned_run(where: SharedTile, most: int) -> int:
    """Return the largest number of elements, up to `most`, whose vectors are aligned in every row."""
    while most > 1 and (where.pitch % most or where.start % (most * where.size)):
        most //= 2
    return most


def runs_of(where: SharedTile, layout: Layout, most: int) -> list[list[int]]:
    """Group registers that hold up to `most` adjacent elements of a row, for vector accesses; replicas are omitted."""
    return [list(run.registers) for run in runs(layout, layout.rank - 1, aligned_run(where, most))]


class SharedAccess:
    """Reads and writes the registers of one thread in a tile in shared memory."""

    def __init__(self, gen: KernelCodegen, where: SharedTile, layout: Layout) -> None:
        self.gen, self.where, self.layout = gen, where, layout
        self._base: Value | None = None

    def _address(self, offset: Vector) -> Value:
        """Pointer to the element of the register at a register offset."""
        b, where, layout = self.gen.builder, self.where, self.layout
        if layout.has_disjoint_bits:
            if self._base is None:
                coordinates = [self.gen.threads.coordinate(layout, d) for d in range(layout.rank)]
                self._base = self._pointer(coordinates)
            constant = where.flat(offset) * where.size
            return b.gep(self._base, [constant], source_etype=I8)
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
            b.store(as_vector(b, values), pointer, align=self.where.size * len(run))

    def read(self) -> list[Value]:
        layout, size = self.layout, self.where.size
        parts: list[Value] = [None] * layout.registers_per_thread
        for run in self._runs():
            pointer = self._address(layout.register_offsets[run[0]])
            per_word = max(1, _WORD_BYTES // size)
            if len(run) % per_word:
                per_word = 1
            kind, align = ir.IntType(8 * size * per_word), size * len(run)
            count = len(run) // per_word
            words = [*load_elements(self.gen.builder, pointer, kind, count, align)]
            values = unpack(self.gen, words, len(run), self.where.element)
            for r, value in zip(run, values, strict=True):
                parts[r] = value
        return with_copies(layout, parts)


def element_pointer(gen: KernelCodegen, where: SharedTile, coordinates: Sequence[Value]) -> Value:
    """Pointer to one element of a tile in shared memory, at i32 coordinates."""
    b = gen.builder
    row: Value = ir.Constant(I32, 0)
    for value, extent in zip(coordinates[:-1], where.shape[:-1], strict=True):
        row = b.add(b.mul(row, extent), value)
    flat = b.add(b.mul(row, where.pitch), coordinates[-1])
    byte = b.mul(flat, where.size)
    if where.start:
        byte = b.add(byte, where.start)
    return b.gep(where.pointer, [byte], source_etype=I8)


def peek(gen: KernelCodegen, where: SharedTile, *coordinates: Value) -> Value:
    """Load one element of a tile in shared memory."""
    pointer, kind = element_pointer(gen, where, coordinates), ir.IntType(8 * where.size)
    bits = gen.builder.load(pointer, typ=kind, align=where.size)
    return register(gen, bits, where.element)


def poke(gen: KernelCodegen, where: SharedTile, row: Value, column: Value, value: Value) -> None:
    """Store one element of a matrix in shared memory."""
    bits = storage(gen, value, where.element)
    gen.builder.store(bits, element_pointer(gen, where, [row, column]), align=where.size)


def allocate_scratch(
    gen: KernelCodegen, kinds: Sequence[tuple[Attribute, Vector]], each_cta: bool = False
) -> list[SharedTile]:
    """Tiles of these elements and extents, one after another in one scratch."""
    tiles, end = [], 0
    for element, shape in kinds:
        tiles.append(SharedTile(None, element, shape, end))
        end += -(-tiles[-1].bytes // _WIDEST) * _WIDEST
    pointer = gen.scratch(end, each_cta)
    return [replace(where, pointer=pointer) for where in tiles]


def store_to_shared(gen: KernelCodegen, *values: SSAValue) -> list[SharedTile]:
    """Write tiles to scratch in shared memory; callers insert the barrier."""
    tiles = allocate_scratch(gen, [(tile.element_of(v), tile.shape_of(v)) for v in values])
    for value, where in zip(values, tiles, strict=True):
        SharedAccess(gen, where, gen.layout(value)).write(gen.parts(value))
    return tiles


_IN_REGISTERS = (
    arith.ConstantOp, tile.SplatOp, tile.BroadcastOp, tile.ExpandDimsOp, tile.LoadOp, tile.LoadViewOp,
)  # fmt: skip


def follows_barrier(op: Operation) -> bool:
    """Return whether a CTA barrier precedes `op` with no shared-memory access in between."""
    return isinstance(_last_exchange(op), gpu.BarrierOp)


def _last_exchange(op: Operation) -> Operation | None:
    """The last operation of the block in front of `op` that is not done in registers."""
    before = op.prev_op
    while before is not None and (is_pure_elementwise(before) or isinstance(before, _IN_REGISTERS)):
        before = before.prev_op
    return before


# ---- elements of other threads ----------------------------------------------------------------------------


def _coordinates(gen: KernelCodegen, layout: Layout, register_: int) -> list[Value]:
    return [gen.threads.element(gen.builder, layout, register_, d) for d in range(layout.rank)]


def lower_cat(gen: KernelCodegen, op: tile.CatOp) -> None:
    b, axis = gen.builder, op.axis.value.data
    layout = gen.layout(op.result)
    first, second = store_to_shared(gen, op.lhs, op.rhs)
    gen.barrier()
    border = first.shape[axis]
    parts = []
    for r in range(layout.registers_per_thread):
        at = _coordinates(gen, layout, r)
        early = b.icmp_unsigned("<", at[axis], border)
        low, high = list(at), list(at)
        low[axis] = b.select(early, at[axis], 0)
        high[axis] = b.select(early, 0, b.sub(at[axis], border))
        parts.append(b.select(early, peek(gen, first, *low), peek(gen, second, *high)))
    gen.bind(op.result, parts)


def lower_gather(gen: KernelCodegen, op: tile.GatherOp) -> None:
    """Gather from a tile in scratch: of several gathers in a row of one tile the first stores it, for all of them."""
    layout, axis = gen.layout(op.result), op.axis.value.data
    before = _last_exchange(op)
    if isinstance(before, tile.GatherOp) and before.source is op.source:
        where = gen.gathered[before]
    else:
        (where,) = store_to_shared(gen, op.source)
        gen.barrier()
    gen.gathered[op] = where
    parts = []
    for r, index in enumerate(gen.parts(op.index)):
        at = _coordinates(gen, layout, r)
        at[axis] = _index(gen, index, where.shape[axis])
        parts.append(peek(gen, where, *at))
    gen.bind(op.result, parts)


def _index(gen: KernelCodegen, value: Value, extent: int) -> Value:
    """Convert an index to i32 and clamp it to the tile (elements at out-of-range indices are unspecified)."""
    b, value = gen.builder, _as_i32(gen, value)
    return b.select(b.icmp_unsigned("<", value, extent - 1), value, extent - 1)


def _as_i32(gen: KernelCodegen, value: Value) -> Value:
    if value.type.width == 32:
        return value
    return (gen.builder.trunc if value.type.width > 32 else gen.builder.zext)(value, I32)


def lower_histogram(gen: KernelCodegen, op: tile.HistogramOp) -> None:
    """Count in shared memory with one atomic add per element."""
    b, layout = gen.builder, gen.layout(op.result)
    bins = layout.shape[0]
    count_type: Any = llvm_type(tile.element_of(op.result))
    pointer = gen.scratch(4 * bins)
    where = SharedTile(pointer, IntegerType(32), (bins,))
    zero = ir.Constant(I32, 0)
    SharedAccess(gen, where, layout).write([zero] * layout.registers_per_thread)
    gen.barrier()
    source = gen.layout(op.source)
    mine = gen.first_holder(op.source)
    masks = gen.parts(op.mask) if op.mask is not None else None
    for r in sorted(set(source.register_of.values())):
        wide = _as_i32(gen, gen.parts(op.source)[r])
        live = b.icmp_unsigned("<", wide, bins)
        live = both(b, both(b, live, mine), masks[r] if masks is not None else None)
        amount = b.select(live, 1, zero)
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
