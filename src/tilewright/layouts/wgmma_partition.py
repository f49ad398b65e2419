"""Partition of a `wgmma` over warpgroups: layouts of accumulator and operands, including RS operands.

`wgmma` reads its right operand from shared memory, and 4-byte elements only if they are K-major. Its left
operand may come from registers (RS), in any major order. So an MN-major operand comes from registers (RS):
A of `A @ B` as the left operand, B as the left operand of the transposed product, `(A @ B)^T = B^T @ A^T`.

A thread reads the operand 8 or 16 bytes at a time, contiguous along a row (of B) or column (of A). Rows of the
result may be permuted as long as accumulator and operand agree: the instruction multiplies rows
independently. `_places` permutes the rows of 64-row blocks such that

- one vector access of a thread covers rows 8 apart of one block (the instruction's registers 0 and 1), and the
  same rows of a second block where a warpgroup has two;
- lanes that access shared memory together (a half or a quarter warp) touch every bank once in 128-byte
  swizzled rows: the lanes of one row of the result hold 4 neighbors in k, whose 16-byte chunks differ in bits 0
  and 1 by the swizzle, so rows must differ in bit 2 (4 elements of 16 at position 16);
- the same holds for accumulators that are stored to such rows: there lanes hold rows 2 and 4 apart, and chunks
  that differ in bits 1 and 2, so rows must differ in bit 0 (position 4). Position 20 satisfies both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from tilewright.layouts.fragments import WarpgroupGrid, WgmmaInstruction, choose_warpgroup_grid
from tilewright.layouts.layout import Layout, Vector

OTHER_REGISTERS = 28
"""Registers per thread besides accumulator and operands: addresses, descriptors, counters."""
_PAIRS = {8: 1, 1: 2, 2: 20, 4: 4, 16: 8, 32: 32}
_QUADS = {8: 1, 1: 20, 2: 4, 4: 8, 16: 32, 32: 64}
"""Row of the instruction → position along the operand; in quads the next block of 64 has position 2."""


@dataclass(frozen=True)
class WgmmaPartition:
    """An m×n dot of warpgroups. `rows` and `columns` are the instruction's: those of the tile, or exchanged
    if it multiplies the transposed operands (swap AB)."""

    instruction: WgmmaInstruction
    m: int
    n: int
    groups: WarpgroupGrid

    @property
    def swap_ab(self) -> bool:
        """Whether the instruction multiplies the transposed operands."""
        return self.instruction.through == "b"

    @property
    def rows(self) -> int:
        return self.n if self.swap_ab else self.m

    @property
    def columns(self) -> int:
        return self.m if self.swap_ab else self.n

    @cached_property
    def plain(self) -> Layout:
        """Layout of the accumulator in the instruction's rows and columns."""
        return self.groups.accumulator(self.rows, self.columns)

    @cached_property
    def accumulator_layout(self) -> Layout:
        """Layout of the accumulator of the m×n tile."""
        return self._moved(self.plain) if self.instruction.through else self.plain

    def place(self, row: int, column: int) -> Vector:
        """Coordinates in the tile of the instruction's element (`row`, `column`)."""
        if not self.instruction.through:
            return row, column
        at = self.row_place(row)
        return (column, at) if self.swap_ab else (at, column)

    def row_place(self, row: int) -> int:
        """Position along the RS operand of the instruction's `row`."""
        inside = row % self.plain.block[0]
        place = row - inside
        for bit, value in self._places.items():
            place ^= value if inside & bit else 0
        return place

    @property
    def blocks(self) -> int:
        """Number of 64-row blocks that a thread holds elements of."""
        return self.plain.registers_per_thread * self.groups.columns // (self.columns // 2)

    def k_steps_per_batch(self, registers: int) -> int:
        """Steps along k per batch of an RS operand that is double-buffered in `registers` registers per thread:
        one batch is multiplied while the next is loaded. Returns 0 if not even one step fits."""
        room = registers - self.plain.registers_per_thread - OTHER_REGISTERS
        return max(0, room) // (2 * 4 * self.blocks)

    @property
    def at_once(self) -> int:
        """Elements per vector access of the RS operand."""
        return 4 if self._doubled else 2

    @property
    def second(self) -> int:
        """Distance in rows to the second 64-row block of the same vector access; 0 if there is none."""
        return self._own if self._doubled else 0

    def operand(self, k: int) -> Layout:
        """Layout of the RS operand, m×k or k×n: rows as in the accumulator, k in lanes and registers (PTX ISA,
        fragment of matrix A of m64k8)."""
        plain, deep = self.plain, k & -k
        along = (1 << b for b in range(3, deep.bit_length() - 1))
        own_rows = tuple((v[0], 0) for v in plain.registers if v[0] >= 64)
        registers = ((8, 0), (0, 4), *((0, step) for step in along), *own_rows)
        lanes = ((0, 1), (0, 2), (1, 0), (2, 0), (4, 0))
        warps = tuple((v[0], 0) for v in plain.warps)
        repeat = (plain.repeats[0], k // deep)
        many = repeat if repeat != (1, 1) else ()
        shared_out = 0 if plain.group_dim == 0 else -1
        whole = Layout((self.rows, k), registers, lanes, warps, many, plain.groups, shared_out)
        return self._moved(whole)

    @property
    def _own(self) -> int:
        """Rows that the warpgroups cover with one 64-row block each."""
        shared_out = self.groups.odd if self.groups.along == 0 else 1
        return 64 * self.groups.rows // shared_out

    @property
    def _doubled(self) -> bool:
        return 2 * self._own <= self.plain.block[0]

    @cached_property
    def _places(self) -> dict[int, int]:
        """Bit of the instruction's row inside a block of the layout -> position."""
        found = dict(_QUADS if self._doubled else _PAIRS)
        bit = 64
        while bit < self.plain.block[0]:
            if self._doubled and bit <= self._own:
                found[bit] = 2 if bit == self._own else 2 * bit
            else:
                found[bit] = bit
            bit *= 2
        return found

    def _moved(self, layout: Layout) -> Layout:
        """A layout of the instruction's rows with rows permuted and dimensions in the tile's order."""

        def moved(vectors: tuple[Vector, ...]) -> tuple[Vector, ...]:
            return tuple((self.row_place(v[0]), v[1]) for v in vectors)

        made = replace(
            layout,
            registers=moved(layout.registers),
            lanes=moved(layout.lanes),
            warps=moved(layout.warps),
        )
        return made.permute((1, 0)) if self.swap_ab else made


def partition_wgmma(
    instruction: WgmmaInstruction, m: int, n: int, warps: int
) -> WgmmaPartition | None:
    """Partition an m×n dot over warpgroups; None if it does not divide evenly."""
    extents = (n, m) if instruction.through == "b" else (m, n)
    groups = choose_warpgroup_grid(*extents, warps)
    if groups is None or groups.width(extents[1]) < 8:
        return None
    return WgmmaPartition(instruction, m, n, groups)
