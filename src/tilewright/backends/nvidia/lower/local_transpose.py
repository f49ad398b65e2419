"""Transpose a tile in shared memory (`gpu.local_transpose`): from rows along one dimension to rows along the other.

Words: a lane reads one of each of 4 lines, 32 lanes side by side, and writes them as a 16-byte chunk of a
transposed row. Bytes: a warp takes blocks of 32 lines (k) by 16 bytes; `ldmatrix.trans` hands out pairs of bytes,
two lines of each to a register, byte permutations make words of 4 consecutive k, and `stmatrix` writes those as
16-byte chunks of the transposed rows. Which line is which row of a matrix, and which of two bytes goes into which
matrix, is chosen so that the 8 rows of every matrix meet different banks on either side.
"""

from __future__ import annotations

from llvmlite import ir

from tilewright.backends.llvm.types import I32, Value, as_vector, call
from tilewright.backends.nvidia.lower import KernelCodegen
from tilewright.backends.nvidia.lower.asynchronous import proxy_fence, stage_address
from tilewright.backends.nvidia.lower.matrix_access import load_matrices, store_matrices
from tilewright.dialects import gpu
from tilewright.errors import PassError
from tilewright.ir.location import location_of
from tilewright.layouts.shared import (
    SWIZZLE_ATOM_BYTES,
    TRANSPOSE_BLOCKS,
    SharedLayout,
    is_transposable,
)


def lower_turn(gen: KernelCodegen, op: gpu.LocalTransposeOp) -> None:
    """All blocks of the tile, shared out among the warps."""
    source, target = gpu.shared_layout_of(op.source), gpu.shared_layout_of(op.target)
    if not is_transposable(source.strided_extent, source.contiguous_extent, source.size):
        raise PassError(
            f"gpu.local_transpose of {source} to {target}",
            help="let promote-shared decide what is turned",
            location=location_of(op),
        )
    lines, bytes_ = TRANSPOSE_BLOCKS[source.size]
    turner = (_ByteTranspose if source.size == 1 else _WordTranspose)(gen, op, source, target)
    b, across = gen.builder, source.contiguous_extent * source.size // bytes_
    blocks = source.strided_extent // lines * across
    warp = gen.threads.uniform_warp()
    for first in range(0, blocks, gen.warps):
        block = b.add(warp, first)
        down = b.udiv(block, across)
        column = b.urem(block, across)
        if first + gen.warps <= blocks:
            turner.turn(down, column)
        else:
            with b.if_then(b.icmp_unsigned("<", block, blocks)):
                turner.turn(down, column)
    proxy_fence(gen)


def _exchanged(gen: KernelCodegen, layout: SharedLayout, line: Value) -> Value:
    """Bits that the chunks of a line are exchanged by."""
    b = gen.builder
    if not layout.swizzle_bytes:
        return ir.Constant(I32, 0)
    shift = (128 // layout.swizzle_bytes).bit_length() - 1
    return b.and_(b.lshr(line, shift), layout.swizzle_bytes // SWIZZLE_ATOM_BYTES - 1)


class _Transpose:
    """Blocks of a tile; where they begin."""

    def __init__(
        self,
        gen: KernelCodegen,
        op: gpu.LocalTransposeOp,
        source: SharedLayout,
        target: SharedLayout,
    ) -> None:
        self.gen, self.source, self.target = gen, source, target
        self._read = stage_address(gen, op.source, op.source_stage)
        self._write = stage_address(gen, op.target, op.stage)

    def _address(
        self, row: Value, layout: SharedLayout, lines: Value, chunk: Value, key: Value | None = None
    ) -> Value:
        """Of 16-byte chunk `chunk`, `lines` lines after a row, whose chunks `key` exchanges (None: the first line)."""
        b, width = self.gen.builder, max(SWIZZLE_ATOM_BYTES, layout.swizzle_bytes)
        each = width // SWIZZLE_ATOM_BYTES
        panel, inside = b.udiv(chunk, each), b.urem(chunk, each)
        address = b.add(row, b.mul(lines, width))
        address = b.add(address, b.mul(panel, layout.panel_bytes))
        key = _exchanged(self.gen, layout, lines) if key is None else key
        return b.add(address, b.shl(b.xor(inside, key), 4))


class _WordTranspose(_Transpose):
    """Blocks of 4 lines by 32 words: a lane reads one word of each, and writes them as one chunk."""

    def turn(self, down: Value, column: Value) -> None:
        """The block of lines 4 `down` … by words 32 `column` …."""
        gen, b = self.gen, self.gen.builder
        place = b.add(b.mul(column, 32), gen.threads.lane)
        words = []
        for i in range(4):
            line = b.or_(b.mul(down, 4), i)
            chunk = b.lshr(place, 2)
            address = self._address(self._read, self.source, line, chunk)
            inside = b.shl(b.and_(place, 3), 2)
            pointer = b.inttoptr(b.add(address, inside), gen.shared_pointer)
            words.append(b.load(pointer, typ=I32, align=4))
        address = self._address(self._write, self.target, place, down)
        b.store(
            as_vector(b, words), b.inttoptr(address, gen.shared_pointer), align=SWIZZLE_ATOM_BYTES
        )


class _ByteTranspose(_Transpose):
    """Blocks of 32 lines by 16 bytes: addresses of the rows that this lane names, and the permutations of its bytes."""

    def __init__(
        self,
        gen: KernelCodegen,
        op: gpu.LocalTransposeOp,
        source: SharedLayout,
        target: SharedLayout,
    ) -> None:
        super().__init__(gen, op, source, target)
        b = gen.builder
        # Bit i of the lane: 0-2 the row of a matrix, 3 which of two matrices, 4 which 16 lines of 32.
        bit = [self._bit(i) for i in range(5)]
        line = self._sum((bit[0], 0), (b.xor(bit[2], bit[3]), 1), (bit[1], 2), (bit[2], 3), (bit[4], 4))  # fmt: skip
        place = self._sum((b.xor(bit[3], bit[2]), 0), (bit[0], 1), (bit[1], 2), (bit[2], 3))
        self._half = bit[4]
        self._read = self._row(self._read, source, line)
        self._write = self._row(self._write, target, place)
        self._keys = _exchanged(gen, source, line), _exchanged(gen, target, place)
        # Of the words that this lane has: bit 1 says which matrix has the lower k, bit 4 which byte first.
        lower, odd = ir.Constant(I32, 0x6420), 0x1111
        swapped = b.icmp_unsigned("!=", bit[1], 0)
        order = b.select(swapped, 0x2064, lower)
        self._first = b.add(order, b.mul(bit[4], odd))
        self._second = b.xor(self._first, odd)

    def _bit(self, number: int) -> Value:
        b = self.gen.builder
        return b.and_(b.lshr(self.gen.threads.lane, number), 1)

    def _sum(self, *bits: tuple[Value, int]) -> Value:
        b = self.gen.builder
        total: Value = ir.Constant(I32, 0)
        for value, position in bits:
            total = b.or_(total, b.shl(value, position))
        return total

    def _row(self, start: Value, layout: SharedLayout, line: Value) -> Value:
        b = self.gen.builder
        return b.add(start, b.mul(line, max(SWIZZLE_ATOM_BYTES, layout.swizzle_bytes)))

    def turn(self, down: Value, column: Value) -> None:
        """The block of lines 32 `down` … by bytes 16 `column` …."""
        gen, b = self.gen, self.gen.builder
        lines = b.mul(down, 32)
        address = self._address(self._read, self.source, lines, column, self._keys[0])
        words = load_matrices(gen, address, 4, transposed=True)
        turned = [
            self._permuted(words[i], words[i + 1], order)
            for i in (0, 2)
            for order in (self._first, self._second)
        ]
        chunk = b.or_(b.mul(down, 32 // SWIZZLE_ATOM_BYTES), self._half)
        lines = b.mul(column, 16)
        address = self._address(self._write, self.target, lines, chunk, self._keys[1])
        store_matrices(gen, address, turned, transposed=False)

    def _permuted(self, low: Value, high: Value, order: Value) -> Value:
        return call(self.gen.builder, "llvm.nvvm.prmt", I32, low, high, order)
