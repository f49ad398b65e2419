"""How warpgroups share out a product: sums and operands of `wgmma`, also of those turned in registers.

`wgmma` reads its right operand from shared memory, and of 4-byte elements only lines along k. Its left
operand may come from registers, where it has no direction. So an operand that lies across k passes through
registers: A of `A @ B` as the left operand, B as that of the transposed product, `(A @ B)^T = B^T @ A^T`.

A thread reads it 8 or 16 bytes at a time, neighbours along a row (of B) or column (of A). Which rows of the
product those are is free, as long as sums and operand agree: the instruction multiplies each row on its own.
`_places` gives the rows of 64-row blocks to places such that

- what a thread reads at once are rows 8 apart of one block (the instruction's registers 0 and 1), and the same
  of a second block where a warpgroup has two;
- lanes that access shared memory together (a half or a quarter warp) meet every bank once in panels of 128
  bytes: those of one row of the product have 4 neighbours in k, whose chunks differ in bits 0 and 1 by the
  swizzle, so rows must differ in bit 2 (4 elements of 16 in place 16);
- the same holds for sums that are written to such panels: there lanes have lines 2 and 4 apart, and chunks
  that differ in bits 1 and 2, so rows must differ in bit 0 (place 4). Place 20 is both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from tilewright.layouts.fragments import WarpgroupGrid, WgmmaInstruction, choose_warpgroup_grid
from tilewright.layouts.layout import Layout, Vector

OTHER_REGISTERS = 28
"""Registers of a thread beside sums and operands: addresses, descriptors, counters."""
_PAIRS = {8: 1, 1: 2, 2: 20, 4: 4, 16: 8, 32: 32}
_QUADS = {8: 1, 1: 20, 2: 4, 4: 8, 16: 32, 32: 64}
"""Rows of the instruction -> places along the operand; in quads the next block of 64 has place 2."""


@dataclass(frozen=True)
class WgmmaPartition:
    """An m×n product of warpgroups. `rows` and `columns` are the instruction's, which are those of the
    tile, or the other way round where it multiplies the transposed operands."""

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
        """The sums as the instruction counts rows and columns."""
        return self.groups.accumulator(self.rows, self.columns)

    @cached_property
    def sums(self) -> Layout:
        """The sums of the m×n tile."""
        return self._moved(self.plain) if self.instruction.through else self.plain

    def place(self, row: int, column: int) -> Vector:
        """Coordinates in the tile of an element that the instruction has at `row` and `column`."""
        if not self.instruction.through:
            return row, column
        at = self.row_place(row)
        return (column, at) if self.swap_ab else (at, column)

    def row_place(self, row: int) -> int:
        """Where along the operand in registers the instruction's `row` is."""
        inside = row % self.plain.block[0]
        place = row - inside
        for bit, value in self._places.items():
            place ^= value if inside & bit else 0
        return place

    @property
    def blocks(self) -> int:
        """Blocks of 64 rows that a thread has a part of."""
        return self.plain.registers_per_thread * self.groups.columns // (self.columns // 2)

    def k_steps_per_batch(self, registers: int) -> int:
        """Steps of k whose words of an operand that passes through registers find room twice (those of one
        portion are multiplied while the next is read) in a thread with so many registers; 0: for none."""
        room = registers - self.plain.registers_per_thread - OTHER_REGISTERS
        return max(0, room) // (2 * 4 * self.blocks)

    @property
    def at_once(self) -> int:
        """Neighbours that a thread reads at once of the operand that passes through registers."""
        return 4 if self._doubled else 2

    @property
    def second(self) -> int:
        """Rows from a block of 64 to the one whose elements are read with its own; 0: there is none."""
        return self._own if self._doubled else 0

    def operand(self, k: int) -> Layout:
        """Of the operand that passes through registers, m×k or k×n: rows as sums have them, k in lanes and
        registers (PTX ISA, fragment of matrix A of m64k8)."""
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
        """Rows that the warpgroups have with one block of 64 each."""
        shared_out = self.groups.odd if self.groups.along == 0 else 1
        return 64 * self.groups.rows // shared_out

    @property
    def _doubled(self) -> bool:
        return 2 * self._own <= self.plain.block[0]

    @cached_property
    def _places(self) -> dict[int, int]:
        """Bits of the instruction's rows, inside a block of the layout -> places."""
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
        """A layout by the instruction's rows as one by places, the dimensions as the tile has them."""

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
    """How warps share out an m×n product; None where they do not evenly."""
    extents = (n, m) if instruction.through == "b" else (m, n)
    groups = choose_warpgroup_grid(*extents, warps)
    if groups is None or groups.width(extents[1]) < 8:
        return None
    return WgmmaPartition(instruction, m, n, groups)
