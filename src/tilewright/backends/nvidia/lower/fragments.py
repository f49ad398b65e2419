"""Operand fragments of `mma.sync`: packed from a thread's registers, or loaded from a buffer when they are needed.

From a buffer, `ldmatrix` gives four 8 × 16-byte matrices to a warp at once, each lane naming one line;
that is what an operand of 8, 16 or 32 bits that is contiguous along k looks like, and transposed what
one of 16 bits does that is contiguous along the other dimension (PTX ISA, "ldmatrix"). Other operands
are read element by element.
"""

from __future__ import annotations

from typing import Protocol

from llvmlite import ir
from xdsl.dialects import arith
from xdsl.ir import Attribute, Operation, SSAValue

from tilewright.backends.llvm.types import I32, Value, load_elements
from tilewright.backends.nvidia.lower import KernelCodegen
from tilewright.backends.nvidia.lower.asynchronous import Place, stage_address
from tilewright.backends.nvidia.lower.matrix_access import (
    ROW_BYTES,
    Matrices,
    load_matrices,
    matrices_of,
    take_apart,
)
from tilewright.backends.nvidia.lower.memory import runs
from tilewright.backends.nvidia.lower.vector_access import joined, register, storage, with_copies
from tilewright.dialects import gpu, tile
from tilewright.layouts.fragments import INSTRUCTIONS, ldmatrix_lanes, ldmatrix_layout, paired_lines
from tilewright.layouts.layout import Layout, Vector
from tilewright.layouts.shared import SharedLayout
from tilewright.passes.analysis.effects import is_pure
from tilewright.passes.analysis.emit import uniform_constant
from tilewright.passes.gpu.analysis.accesses import vector_of
from tilewright.passes.gpu.select_mma import instruction_of
from tilewright.targets import MmaInstruction

_BITS_BEYOND_TF32 = 13
"""Of the fraction of single precision."""


class Fragments(Protocol):
    """One operand of a dot, block by block."""

    in_memory: bool
    """Whether `at` reads memory: worth doing before the registers are needed."""

    def at(self, batch: list[int], line: int, k: int) -> list[Value]:
        """Registers of one instruction's block at row (of A) or column (of B) `line`."""
        ...


def fragments_of(
    gen: KernelCodegen, value: SSAValue, instruction: MmaInstruction, rows: bool
) -> Fragments:
    """Operand A (`rows`) or B of a dot."""
    op = value.owner
    if not (isinstance(op, gpu.LocalLoadOp) and read_when_needed(op)):
        return RegisterFragments(gen, value, instruction, rows)
    shared = gpu.shared_layout_of(op.buffer)
    along_k = shared.major_dim == (1 if rows else 0)
    if instruction.m == 16 and instruction.adjacent == 1 and (along_k or shared.size == 2):
        return MatrixFragments(gen, op, instruction, rows)
    return SharedFragments(gen, op, instruction, rows)


def read_when_needed(op: gpu.LocalLoadOp) -> bool:
    """Whether the MMA that uses a stage reads it itself: nothing happens in between."""
    uses = list(op.result.uses)
    user = uses[0].operation if len(uses) == 1 else None
    if not isinstance(user, tile.DotOp) or user.parent is not op.parent:
        return False
    if instruction_of(user) not in INSTRUCTIONS:
        return False
    current: Operation | None = op.next_op
    while current is not None and current is not user:
        if not (isinstance(current, gpu.LocalLoadOp) or is_pure(current)):
            return False
        current = current.next_op
    return current is user


def lower_local_load(gen: KernelCodegen, op: gpu.LocalLoadOp) -> None:
    """A stage to registers, in pieces of up to 16 bytes."""
    if read_when_needed(op):
        return
    layout, shared = gen.layout(op.result), gpu.shared_layout_of(op.buffer)
    place = Place(gen, stage_address(gen, op.buffer, op.stage), layout, shared)
    b, kind = gen.builder, ir.IntType(8 * shared.size)
    element = tile.element_of(op.result)
    parts: list[Value] = [None] * layout.registers_per_thread
    pieces = runs(layout, shared.major_dim, vector_of(op))
    form = _matrices_in(layout, shared)
    if form is not None and len(form.quads) < len(pieces):
        _load_matrices(place, form, element, parts)
        pieces = []
    for run in pieces:
        count = len(run.registers)
        pointer = b.inttoptr(place.address(run.offset), gen.shared_pointer)
        loaded = load_elements(b, pointer, kind, count, shared.size * count)
        for r, bits in zip(run.registers, loaded, strict=True):
            parts[r] = register(gen, bits, element)
    gen.bind(op.result, with_copies(layout, parts))


def _matrices_in(layout: Layout, shared: SharedLayout) -> Matrices | None:
    """The 8x8 matrices of which a tile consists, with lines of 16 bytes as they lie in a buffer; None if it does not."""
    if layout.rank != 2 or shared.row_stride_bytes % ROW_BYTES or layout.repeat:
        return None
    return matrices_of(layout if shared.major_dim == 1 else layout.permute((1, 0)), shared.size)


def _load_matrices(place: Place, form: Matrices, element: Attribute, parts: list[Value]) -> None:
    """Fill the registers of a tile by `ldmatrix`."""
    gen, shared = place.gen, place.shared
    turn = (0, 1) if shared.major_dim == 1 else (1, 0)
    rows = Place(gen, place.start, form.rows.permute(turn), shared)
    for start, places in form.quads:
        base, offset = rows.split(tuple(start[d] for d in turn))
        words = load_matrices(gen, base, len(places), form.transposed, offset)
        take_apart(gen, words, places, element, parts)


class _Blocks:
    """Places of an instruction's registers in an operand."""

    def __init__(self, instruction: MmaInstruction, rows: bool) -> None:
        self.instruction, self.rows = instruction, rows

    def groups(self, batch: list[int], line: int, k: int) -> list[list[Vector]]:
        """The elements of each register of the block at `line` and `k`."""
        i = self.instruction
        steps = (
            range(0, i.k, 4 * i.pack) if i.adjacent == 1 else range(0, i.adjacent * i.pack, i.pack)
        )
        if self.rows:
            starts = [(line + r, k + s) for s in steps for r in ((0, 8) if i.m == 16 else (0,))]
            return [[(*batch, m, c + j) for j in range(i.pack)] for m, c in starts]
        return [[(*batch, k + s + j, line) for j in range(i.pack)] for s in steps]


class RegisterFragments(_Blocks):
    """From the registers of a tile."""

    in_memory = False

    def __init__(
        self, gen: KernelCodegen, value: SSAValue, instruction: MmaInstruction, rows: bool
    ) -> None:
        super().__init__(instruction, rows)
        self.gen, self.layout, self.parts = gen, gen.layout(value), gen.parts(value)
        self.element, self.exact = tile.element_of(value), _is_tf32(value)
        self._packed: dict[tuple[Vector, ...], Value] = {}

    def at(self, batch: list[int], line: int, k: int) -> list[Value]:
        return [self._pack(tuple(group)) for group in self.groups(batch, line, k)]

    def _pack(self, places: tuple[Vector, ...]) -> Value:
        if places not in self._packed:
            values = [self.parts[self.layout.register_of[p]] for p in places]
            self._packed[places] = self._join(values)
        return self._packed[places]

    def _join(self, values: list[Value]) -> Value:
        gen = self.gen
        if str(self.element) == "f64":
            return values[0]
        if str(self.element) == "f32":
            exact = self.exact
            return gen.builder.bitcast(values[0], I32) if exact else _rounded(gen, values[0])
        return joined([storage(gen, v, self.element) for v in values], gen.builder)


class SharedFragments(_Blocks):
    """From a stage of a buffer, by plain loads."""

    in_memory = True

    def __init__(
        self, gen: KernelCodegen, op: gpu.LocalLoadOp, instruction: MmaInstruction, rows: bool
    ) -> None:
        super().__init__(instruction, rows)
        self.gen, self.layout = gen, gen.layout(op.result)
        self.shared = gpu.shared_layout_of(op.buffer)
        self.start = stage_address(gen, op.buffer, op.stage)
        self.element = tile.element_of(op.result)
        self.place = Place(gen, self.start, self.layout, self.shared)
        self.dense = self.shared.major_dim == (1 if rows else 0)
        """Whether the elements of a register are neighbours in memory."""
        self._read: dict[tuple[int, int], list[Value]] = {}

    def at(self, batch: list[int], line: int, k: int) -> list[Value]:
        if (line, k) not in self._read:
            self._read[line, k] = [self._register(g) for g in self.groups(batch, line, k)]
        return self._read[line, k]

    def _register(self, places: list[Vector]) -> Value:
        gen, size = self.gen, self.shared.size
        if size * len(places) == 4 and self.dense:
            return self._finished(self._load(places[0], I32))
        kind = ir.IntType(8 * size)
        bits = [self._load(p, kind) for p in places]
        if size == 8:
            return register(gen, bits[0], self.element)
        return self._finished(joined(bits, gen.builder))

    def _load(self, place: Vector, kind: ir.IntType) -> Value:
        b = self.gen.builder
        pointer = b.inttoptr(self.place.address(place), self.gen.shared_pointer)
        return b.load(pointer, typ=kind, align=kind.width // 8)

    def _finished(self, word: Value) -> Value:
        """The register that the instruction takes of 32 bits from memory."""
        if str(self.element) != "f32":
            return word
        return _rounded(self.gen, self.gen.builder.bitcast(word, ir.FloatType()))


class MatrixFragments(SharedFragments):
    """From a stage of a buffer, by `ldmatrix`."""

    def __init__(
        self, gen: KernelCodegen, op: gpu.LocalLoadOp, instruction: MmaInstruction, rows: bool
    ) -> None:
        super().__init__(gen, op, instruction, rows)
        self.pair = 0 if rows else paired_lines(self.layout)
        lanes = ldmatrix_lanes(self.shared.size, rows, self.dense, self.pair)
        layout = ldmatrix_layout(self.layout, lanes)
        self.place = Place(gen, self.start, layout, self.shared)

    def at(self, batch: list[int], line: int, k: int) -> list[Value]:
        if (line, k) not in self._read:
            first = line & ~self.pair
            words = self._matrices(first, k, 4 if self.rows or self.pair else 2)
            self._read[first, k] = words if self.rows else words[:2]
            if self.pair:
                self._read[first + self.pair, k] = words[2:]
        return self._read[line, k]

    def _matrices(self, line: int, k: int, count: int) -> list[Value]:
        gen = self.gen
        base, offset = self.place.split((line, k) if self.rows else (k, line))
        words = load_matrices(gen, base, count, not self.dense, offset)
        return [self._finished(word) for word in words]


def _is_tf32(value: SSAValue) -> bool:
    """Whether tf32 holds the elements: those of a narrower float, and those whose other bits are masked away."""
    op = value.owner
    if isinstance(op, gpu.ConvertLayoutOp):
        return _is_tf32(op.source)
    if isinstance(op, tile.BitcastOp) and isinstance(op.source.owner, arith.AndIOp):
        masks = map(uniform_constant, op.source.owner.operands)
        return any(isinstance(mask, int) and mask % (1 << _BITS_BEYOND_TF32) == 0 for mask in masks)
    return isinstance(op, arith.ExtFOp)


def _rounded(gen: KernelCodegen, value: Value) -> Value:
    """Single precision to the nearest tf32; once in a basic block."""
    key = value, gen.builder.block
    if key not in gen.rounded:
        gen.rounded[key] = gen.emit_asm("cvt.rna.tf32.f32 $0, $1;", [value], I32, memory=False)
    return gen.rounded[key]
