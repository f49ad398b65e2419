"""Access scratch tiles with `ldmatrix` and `stmatrix` (PTX ISA).

Layout conversions stage tiles row-major. If the register layout is that of MMA fragments, one instruction moves up to
four 8x8 matrices: 8 rows of 16 bytes each, one 32-bit word per lane. In the transposed form, for 16-bit elements, the
word holds elements of two rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from xdsl.ir import Attribute

from tilewright.backends.llvm.types import I32, Value
from tilewright.backends.nvidia.lower import KernelCodegen
from tilewright.backends.nvidia.lower.vector_access import joined, storage, unpack
from tilewright.layouts import Layout
from tilewright.layouts.layout import Vector
from tilewright.layouts.shared import wavefronts

ROW_BYTES = 16
"""Bytes per matrix row."""


@dataclass(frozen=True)
class Matrices:
    """Decomposition of a row-major tile into 8x8 matrices."""

    transposed: bool
    rows: Layout
    """Layout of the row addresses: each lane addresses the first element of one row."""
    quads: tuple[tuple[Vector, tuple[tuple[int, ...], ...]], ...]
    """Up to four matrices per instruction: the offset of the first, and per matrix the registers that hold the
    lane's word."""

    def addresses(self, pitch: int, size: int) -> list[int]:
        """Return the byte offsets of the rows that the lanes of a warp address. `pitch`: row pitch in elements."""
        offsets = [self.rows.thread_offset(lane, 0) for lane in range(8 * len(self.quads[0][1]))]
        return [(row * pitch + column) * size for row, column in offsets]

    def cost(self, pitch: int, size: int) -> int:
        """Return the number of instructions plus shared-memory wavefronts."""
        return len(self.quads) * (1 + wavefronts(self.addresses(pitch, size), ROW_BYTES))


@lru_cache(maxsize=1024)
def matrices_of(layout: Layout, size: int) -> Matrices | None:
    """Return the decomposition of a tile in `layout` with elements of `size` bytes; None if it does not apply."""
    if layout.rank != 2 or size not in (1, 2, 4):
        return None
    pack = 4 // size
    inside = pack.bit_length() - 1
    for transposed in (False, True)[: 1 + (size == 2)]:
        along, across = ((1, 0), (0, 1)) if transposed else ((0, 1), (1, 0))
        head = tuple(_scaled(along, 1 << bit) for bit in range(inside))
        lanes = (
            _scaled(along, pack),
            _scaled(along, 2 * pack),
            *(_scaled(across, 1 << i) for i in range(3)),
        )
        if layout.registers[:inside] == head and layout.lanes == lanes:
            return _split(layout, transposed, inside)
    return None


def _split(layout: Layout, transposed: bool, inside: int) -> Matrices | None:
    """Return the matrices of a layout whose first `inside` register bits select elements of a word."""
    shifts = [vector for vector in layout.registers[inside:] if any(vector)][:2]
    lanes = ((1, 0), (2, 0), (4, 0), *shifts, *[(0, 0)] * (2 - len(shifts)))
    rows = Layout(
        layout.shape, (), lanes, layout.warps, layout.repeat, layout.groups, layout.group_dim
    )
    own = set(layout.registers[:inside]) | set(shifts)
    offsets = [o for o in layout.register_of if not _has_bit(o, layout, own)]
    others = [v for v in layout.registers if v not in own]
    if _overlap((*lanes, *layout.warps), others):
        return None
    word = [(0, 0)]
    for vector in layout.registers[:inside]:
        word += [_sum(w, vector) for w in word]
    matrices = [(0, 0)]
    for vector in shifts:
        matrices += [_sum(m, vector) for m in matrices]
    quads: list[tuple[Vector, tuple[tuple[int, ...], ...]]] = []
    for start in offsets:
        places = [[_sum(start, _sum(m, w)) for w in word] for m in matrices]
        quads.append((start, tuple(tuple(layout.register_of[p] for p in ps) for ps in places)))
    return Matrices(transposed, rows, tuple(quads))


def _scaled(vector: Vector, factor: int) -> Vector:
    return tuple(factor * c for c in vector)


def _sum(one: Vector, other: Vector) -> Vector:
    return tuple(a + b for a, b in zip(one, other, strict=True))


def _has_bit(offset: Vector, layout: Layout, vectors: set[Vector]) -> bool:
    """Return whether an offset inside a block contains the bits of any of `vectors`."""
    inner = layout.inside(offset)
    return any(all(c & v == v for c, v in zip(inner, vector, strict=True)) for vector in vectors)


def _overlap(ones: Sequence[Vector], others: Sequence[Vector]) -> bool:
    """Return whether vectors of the two lists share a coordinate bit."""
    return any(a & b for one in ones for other in others for a, b in zip(one, other, strict=True))


class MatrixAccess:
    """Reads and writes a thread's registers in a row-major scratch tile, matrix by matrix."""

    def __init__(
        self, gen: KernelCodegen, start: Value, pitch: int, element: Attribute, size: int
    ) -> None:
        """`start`: address (i32) of the first row; `pitch`: row pitch in elements."""
        self.gen, self.start, self.pitch, self.element, self.size = gen, start, pitch, element, size

    def _base(self, form: Matrices) -> Value:
        b, threads = self.gen.builder, self.gen.threads
        row, column = (threads.coordinate(form.rows, d) for d in (0, 1))
        flat = b.add(b.mul(row, self.pitch), column)
        return b.add(self.start, b.mul(flat, self.size))

    def _offset(self, start: Vector) -> int:
        return (start[0] * self.pitch + start[1]) * self.size

    def write(self, form: Matrices, parts: list[Value]) -> None:
        gen, base = self.gen, self._base(form)
        for start, places in form.quads:
            words = [self._word([parts[r] for r in registers]) for registers in places]
            store_matrices(gen, base, words, form.transposed, self._offset(start))

    def read(self, form: Matrices, count: int) -> list[Value]:
        """Load the `count` registers of a thread; replicas are omitted."""
        base = self._base(form)
        parts: list[Value] = [None] * count
        for start, places in form.quads:
            offset = self._offset(start)
            words = load_matrices(self.gen, base, len(places), form.transposed, offset)
            take_apart(self.gen, words, places, self.element, parts)
        return parts

    def _word(self, values: list[Value]) -> Value:
        bits = [storage(self.gen, v, self.element) for v in values]
        return joined(bits, self.gen.builder)


def store_matrices(
    gen: KernelCodegen, base: Value, words: list[Value], transposed: bool, offset: int | None = None
) -> Value:
    """`stmatrix` of 1, 2 or 4 matrices, each lane naming a row, from a lane's word of each."""
    trans = ".trans" if transposed else ""
    listed = ", ".join(f"${i + 1}" for i in range(len(words)))
    text = f"stmatrix.sync.aligned.m8n8.x{len(words)}{trans}.shared.b16 {_address(0, offset)}, {{{listed}}};"
    return gen.emit_convergent_asm(text, [base, *words])


def load_matrices(
    gen: KernelCodegen, base: Value, count: int, transposed: bool, offset: int | None = None
) -> list[Value]:
    """`ldmatrix` of 1, 2 or 4 matrices, each lane naming a row: a lane's word of each."""
    trans = ".trans" if transposed else ""
    listed = ", ".join(f"${i}" for i in range(count))
    text = f"ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{listed}}}, {_address(count, offset)};"
    return gen.emit_convergent_asm(text, [base], [I32] * count)


def _address(operand: int, offset: int | None) -> str:
    return f"[${operand}]" if offset is None else f"[${operand} + {offset}]"


def take_apart(
    gen: KernelCodegen,
    words: list[Value],
    places: Sequence[Sequence[int]],
    element: Attribute,
    parts: list[Value],
) -> None:
    """Put the elements of words into the registers at `places` of a tile."""
    for word, registers in zip(words, places, strict=True):
        values = unpack(gen, [word], len(registers), element)
        for r, value in zip(registers, values, strict=True):
            parts[r] = value
