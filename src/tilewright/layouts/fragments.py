"""Layouts of the operands and the accumulator of `mma.sync` (PTX ISA, "Matrix multiply-accumulate").

An instruction multiplies an m×k by a k×n block in one warp. A tile is covered by warps laid out
`rows × columns` over the result, each repeating the instruction; the operand tiles follow from that:
warps in one row of the arrangement hold the same rows of A.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tilewright.layouts.layout import Layout, Vector


@dataclass(frozen=True)
class Instruction:
    """One `mma.sync`: extents, and how many elements of k a lane's register group holds."""

    name: str
    m: int
    n: int
    k: int
    pack: int
    """Consecutive elements of k that share a 32-bit register (or 1)."""


#: by the name that `select-mma` writes
INSTRUCTIONS = {
    i.name: i
    for i in (
        Instruction("m16n8k16.f16", 16, 8, 16, 2),
        Instruction("m16n8k16.bf16", 16, 8, 16, 2),
        Instruction("m16n8k8.tf32", 16, 8, 8, 1),
        Instruction("m16n8k32.s8", 16, 8, 32, 4),
        Instruction("m16n8k32.u8", 16, 8, 32, 4),
        Instruction("m16n8k32.e4m3", 16, 8, 32, 4),
        Instruction("m16n8k32.e5m2", 16, 8, 32, 4),
        Instruction("m16n8k32.e4m3.e5m2", 16, 8, 32, 4),
        Instruction("m16n8k32.e5m2.e4m3", 16, 8, 32, 4),
        Instruction("m8n8k4.f64", 8, 8, 4, 1),
    )
}


@dataclass(frozen=True)
class Arrangement:
    """An instruction and how many warps stand along the rows and columns of the result."""

    instruction: Instruction
    rows: int
    columns: int

    def accumulator(self, m: int, n: int) -> Layout:
        """Of the m×n result: a lane holds two neighbours of a row, again 8 rows below (m16)."""
        i = self.instruction
        inside = [(0, 1)] + [(8, 0)] * (i.m == 16)
        registers = (
            *inside,
            *_bits(i.n * self.columns, n, 1),
            *_bits(i.m * self.rows, m, 0),
        )
        lanes = ((0, 2), (0, 4), (1, 0), (2, 0), (4, 0))
        warps = (*_bits(i.m, i.m * self.rows, 0), *_bits(i.n, i.n * self.columns, 1))
        return _clip(Layout((m, n), registers, lanes, warps))

    def left(self, m: int, k: int) -> Layout:
        """Of the m×k operand A: rows over lanes 4 apart, k over 4 neighbouring lanes."""
        i, p = self.instruction, self.instruction.pack
        registers = (
            *_bits(1, p, 1),
            *([(8, 0)] if i.m == 16 else []),
            *_bits(4 * p, i.k, 1),
            *_bits(i.k, k, 1),
            *_bits(i.m * self.rows, m, 0),
        )
        lanes = ((0, p), (0, 2 * p), (1, 0), (2, 0), (4, 0))
        warps = (*_bits(i.m, i.m * self.rows, 0), *[(0, 0)] * _log(self.columns))
        return _clip(Layout((m, k), registers, lanes, warps))

    def right(self, k: int, n: int) -> Layout:
        """Of the k×n operand B: k over 4 neighbouring lanes, columns over lanes 4 apart."""
        i, p = self.instruction, self.instruction.pack
        registers = (
            *_bits(1, p, 0),
            *_bits(4 * p, i.k, 0),
            *_bits(i.k, k, 0),
            *_bits(i.n * self.columns, n, 1),
        )
        lanes = ((p, 0), (2 * p, 0), (0, 1), (0, 2), (0, 4))
        warps = (*[(0, 0)] * _log(self.rows), *_bits(i.n, i.n * self.columns, 1))
        return _clip(Layout((k, n), registers, lanes, warps))


def arrange(instruction: Instruction, m: int, n: int, warps: int) -> Arrangement:
    """Warps along the rows and columns of an m×n result, so that each has a squarish part.

    Warps that find no part of their own repeat the work of others (their bits are zero vectors).
    """
    rows = columns = 1
    while rows * columns < warps:
        more_rows = m // (instruction.m * rows) > 1
        more_columns = n // (instruction.n * columns) > 1
        tall = m // rows >= n // columns
        if more_rows and (tall or not more_columns):
            rows *= 2
        elif more_columns:
            columns *= 2
        else:
            rows *= 2
    return Arrangement(instruction, rows, columns)


@dataclass(frozen=True)
class GroupInstruction:
    """A kind of `wgmma`: 64 rows, up to 256 columns, `k` elements (32 bytes) of the inner dimension."""

    k: int
    left: str
    right: str

    @property
    def any_major(self) -> bool:
        """Whether operands may be contiguous along rows or columns; all may be along k."""
        return self.k == 16

    def __str__(self) -> str:
        right = "" if self.left == self.right else f".{self.right}"
        return f"wgmma.k{self.k}.{self.left}{right}"


_GROUP_TEXT = re.compile(r"wgmma\.k(\d+)\.(\w+)(?:\.(\w+))?")


def parse_group(text: str) -> GroupInstruction:
    """The instruction that `str` wrote. Raises ValueError for other text."""
    match = _GROUP_TEXT.fullmatch(text)
    if match is None:
        raise ValueError(f"not an instruction of warp groups: {text!r}")
    k, left, right = match.groups()
    return GroupInstruction(int(k), left, right or left)


@dataclass(frozen=True)
class GroupArrangement:
    """`wgmma` by warp groups (4 warps, 64 rows): groups stand `rows × columns` over the result."""

    rows: int
    columns: int

    def width(self, n: int) -> int:
        """Columns of one instruction."""
        return min(256, n // self.columns)

    def accumulator(self, m: int, n: int) -> Layout:
        """Of the m×n result (PTX ISA, "Register fragments for wgmma.mma_async")."""
        registers = (
            (0, 1),
            (8, 0),
            *_bits(8, n // self.columns, 1),
            *_bits(64 * self.rows, m, 0),
        )
        lanes = ((0, 2), (0, 4), (1, 0), (2, 0), (4, 0))
        warps = (
            (16, 0),
            (32, 0),
            *_bits(64, 64 * self.rows, 0),
            *_bits(n // self.columns, n, 1),
        )
        return Layout((m, n), registers, lanes, warps)


def arrange_groups(m: int, n: int, warps: int) -> GroupArrangement | None:
    """Warp groups over an m×n result; None when they do not share it out evenly."""
    groups = warps // 4
    rows = min(groups, m // 64)
    if groups < 1 or rows < 1:
        return None
    columns = groups // rows
    return (
        GroupArrangement(rows, columns) if n // columns >= 8 and rows * columns == groups else None
    )


def batched(layout: Layout, batch: int) -> Layout:
    """The layout with a leading dimension of `batch` matrices, one after another in registers."""
    deep = layout.insert(0)
    extra = tuple((1 << b, 0, 0) for b in range(_log(batch)))
    return Layout((batch, *layout.shape), (*deep.registers, *extra), deep.lanes, deep.warps)


def _bits(start: int, end: int, dim: int) -> list[Vector]:
    result: list[Vector] = []
    while start < end:
        result.append((start, 0) if dim == 0 else (0, start))
        start *= 2
    return result


def _clip(layout: Layout) -> Layout:
    """Zero the vectors that point beyond the tile (a tile smaller than the warps cover)."""

    def inside(vector: Vector) -> bool:
        return all(v < s for v, s in zip(vector, layout.shape, strict=True))

    def clip(vectors: tuple[Vector, ...]) -> tuple[Vector, ...]:
        return tuple(v if inside(v) else (0,) * len(v) for v in vectors)

    return Layout(
        layout.shape, layout.registers, clip(layout.lanes), clip(layout.warps), layout.repeat
    )


def _log(number: int) -> int:
    return number.bit_length() - 1
