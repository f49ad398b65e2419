"""Layouts of the operands and the accumulator of `mma.sync` (PTX ISA, "Matrix multiply-accumulate").

An instruction multiplies an m×k by a k×n block in one warp. A tile is covered by warps laid out
`rows × columns` over the result, each repeating the instruction; the operand tiles follow from that:
warps in one row of the arrangement hold the same rows of A.

Recognize the conversion of an accumulator to operand A of 8-bit elements, an exchange within quads of lanes.

Of 32 columns, lane q of a quad holds columns 2q and 2q + 1 of each group of eight in the accumulator (PTX ISA, fragment
D of `wgmma`), and columns 4q ... 4q + 3 of each half in the operand (fragment A, k32). The conversion permutes bits of
the column index: one between registers and lanes, two between lanes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from tilewright.layouts.layout import Layout, Vector
from tilewright.targets.instructions import MMA_SYNC_80, MMA_SYNC_89, MmaInstruction

INSTRUCTIONS = {row.name: row for row in (*MMA_SYNC_80, *MMA_SYNC_89)}
"""`mma.sync` instructions by the name in the IR (`select-mma`)."""
SQUARE, ROWS, COLUMNS = WARP_GRIDS = ("square", "rows", "columns")
"""What a warp has of a dot's result: a slice as square as possible, whole rows or whole columns."""


@dataclass(frozen=True)
class WarpGrid:
    """An instruction and the number of warps along the rows and columns of the result."""

    instruction: MmaInstruction
    rows: int
    columns: int
    groups: int = 1
    """Groups of `rows × columns` warps if the number of warps is not a power of two."""
    along: int = -1
    """Dimension of the result that groups split (-1: all groups are replicas)."""

    def accumulator(self, m: int, n: int) -> Layout:
        """Accumulator layout, m×n: a lane holds two adjacent elements of a row, and two more 8 rows below (m16)."""
        i, shape = self.instruction, (m, n)
        m, n = _block(m, n)
        inside = [(0, 1)] + [(8, 0)] * (i.m == 16)
        registers = (
            *inside,
            *_bits(i.n * self.columns, n, 1),
            *_bits(i.m * self.rows, m, 0),
        )
        lanes = ((0, 2), (0, 4), (1, 0), (2, 0), (4, 0))
        warps = (*_bits(i.m, i.m * self.rows, 0), *_bits(i.n, i.n * self.columns, 1))
        return self._repeated(_clip(Layout((m, n), registers, lanes, warps)), shape)

    def _repeated(self, block: Layout, shape: Vector, along: Vector = (0, 1)) -> Layout:
        """A block as often as `shape` has it; dimension d is `along[d]` of the result (2: neither)."""
        repeat = tuple(s // e for s, e in zip(shape, block.shape, strict=True))
        mine = along.index(self.along) if self.along in along else -1
        many = repeat if any(r > 1 for r in repeat) else ()
        return replace(block, shape=shape, repeat=many, groups=self.groups, group_dim=mine)

    def left(self, m: int, k: int) -> Layout:
        """Layout of operand A, m×k: rows over lanes with stride 4, k over 4 adjacent lanes."""
        i, shape = self.instruction, (m, k)
        p = i.pack * i.adjacent
        m, k = _block(m, k)
        registers = (
            *_bits(1, p, 1),
            *([(8, 0)] if i.m == 16 else []),
            *_bits(4 * p, i.k, 1),
            *_bits(i.k, k, 1),
            *_bits(i.m * self.rows, m, 0),
        )
        lanes = ((0, p), (0, 2 * p), (1, 0), (2, 0), (4, 0))
        warps = (*_bits(i.m, i.m * self.rows, 0), *[(0, 0)] * _log(self.columns))
        return self._repeated(_clip(Layout((m, k), registers, lanes, warps)), shape, (0, 2))

    def right(self, k: int, n: int) -> Layout:
        """Layout of operand B, k×n: k over 4 adjacent lanes, columns over lanes with stride 4."""
        i, shape = self.instruction, (k, n)
        p = i.pack * i.adjacent
        k, n = _block(k, n)
        registers = (
            *_bits(1, p, 0),
            *_bits(4 * p, i.k, 0),
            *_bits(i.k, k, 0),
            *_bits(i.n * self.columns, n, 1),
        )
        lanes = ((p, 0), (2 * p, 0), (0, 1), (0, 2), (0, 4))
        warps = (*[(0, 0)] * _log(self.rows), *_bits(i.n, i.n * self.columns, 1))
        return self._repeated(_clip(Layout((k, n), registers, lanes, warps)), shape, (2, 1))


def ldmatrix_lanes(size: int, rows: bool, along_k: bool, pair: int) -> tuple[Vector, ...]:
    """The row whose address each lane passes to `ldmatrix`: lanes 8i … 8i+7 address matrix i.

    The matrices of A (`rows`) are a block's two halves of 8 rows, for each half of k; those of B the
    halves of k, for columns and for those `pair` further. A matrix has 16 bytes along the dimension
    that is contiguous in memory: k (`along_k`), or the other one.
    """
    chunk = 16 // size
    line, other = ((1, 0), (0, 1)) if rows else ((0, 1), (1, 0))
    inner = line if along_k else other
    lanes = [_scaled(inner, 1 << bit) for bit in range(3)]
    half_of_k = _scaled(other, chunk)
    if rows:
        return (*lanes, _scaled(line, 8), half_of_k)
    return (*lanes, half_of_k, _scaled(line, pair))


def ldmatrix_layout(operand: Layout, lanes: tuple[Vector, ...]) -> Layout:
    """Coordinates in `operand` of the rows that a warp's lanes address, lanes as in `ldmatrix_lanes`."""
    return replace(operand, registers=(), lanes=lanes)


def paired_lines(right: Layout) -> int:
    """Distance between a warp's first two blocks of columns in operand B; 0 if it has one."""
    steps = [v[1] for v in right.registers if v[0] == 0 and v[1]]
    return min(steps, default=0)


def _scaled(vector: Vector, factor: int) -> Vector:
    return tuple(factor * c for c in vector)


def choose_warp_grid(
    instruction: MmaInstruction, m: int, n: int, warps: int, along: str = SQUARE
) -> WarpGrid:
    """Warps along the rows and columns of an m×n result: slices as square as possible, or as many whole rows (`ROWS`)
    or columns (`COLUMNS`) as possible.

    Excess warps are replicas (their bits are zero vectors).
    """
    rows = columns = 1
    even, (m_block, n_block) = warps & -warps, _block(m, n)
    groups = warps // even
    repeats = (m // m_block, n // n_block)
    group_dim = next((d for d in (0, 1) if groups > 1 and repeats[d] % groups == 0), -1)
    while rows * columns < even:
        more_rows = m_block // (instruction.m * rows) > 1
        more_columns = n_block // (instruction.n * columns) > 1
        tall = along == ROWS or (along == SQUARE and m // rows >= n // columns)
        if more_rows and (tall or not more_columns):
            rows *= 2
        elif more_columns:
            columns *= 2
        else:
            rows *= 2
    return WarpGrid(instruction, rows, columns, groups, group_dim)


def mma_layouts(
    name: str, extents: tuple[int, int, int], warps: int, batch: int = 0, along: str = SQUARE
) -> tuple[Layout, Layout, Layout]:
    """Layouts of A, B and the accumulator of a dot of `extents` m, n, k with instruction `name`, and of `batch`
    matrices; `along` as for `choose_warp_grid`.

    Warps split the batch first: warps that share a product hold copies of its operands, or of all of it where it is
    smaller than their instructions cover.
    """
    m, n, k = extents
    split = min(warps & -warps, _block(batch)[0]) if batch else 1
    where = choose_warp_grid(INSTRUCTIONS[name], m, n, warps // split, along)
    a, b, acc = where.left(m, k), where.right(k, n), where.accumulator(m, n)
    if batch:
        return batched(a, batch, split), batched(b, batch, split), batched(acc, batch, split)
    return a, b, acc


@dataclass(frozen=True)
class WgmmaInstruction:
    """A kind of `wgmma`: 64 rows, up to 256 columns, `k` elements (32 bytes) of the inner dimension."""

    k: int
    left: str
    right: str
    through: str = ""
    """The MN-major operand that is read from registers (RS): "a", "b" (with SwapAB) or ""."""

    @property
    def any_major(self) -> bool:
        """Whether operands may be contiguous along rows or columns; all may be along k."""
        return self.k == 16

    @property
    def majors(self) -> tuple[int | None, int | None]:
        """Dimensions along which buffers of A and B have to be contiguous; None: either."""
        if self.any_major:
            return None, None
        return int(self.through != "a"), int(self.through == "b")

    def __str__(self) -> str:
        right = "" if self.left == self.right else f".{self.right}"
        through = {"": "", "a": ".rs", "b": ".rs.swap_ab"}[self.through]
        return f"wgmma.k{self.k}.{self.left}{right}{through}"


_GROUP_TEXT = re.compile(r"wgmma\.k(\d+)\.(\w+?)(?:\.(?!rs\b)(\w+))?(\.rs(?:\.swap_ab)?)?")


_THROUGH = {None: "", ".rs": "a", ".rs.swap_ab": "b"}


def parse_wgmma(text: str) -> WgmmaInstruction:
    """Parse the text of `str`. Raises ValueError for other text."""
    match = _GROUP_TEXT.fullmatch(text)
    if match is None:
        raise ValueError(f"not an instruction of warpgroups: {text!r}")
    k, left, right, through = match.groups()
    return WgmmaInstruction(int(k), left, right or left, _THROUGH[through])


@dataclass(frozen=True)
class WarpgroupGrid:
    """`wgmma` by `rows × columns` warpgroups (4 warps, 64 rows each).

    The odd factor of a number of warpgroups that is not a power of two (3) splits the rows, or the columns if `along`
    is 1: `odd` of them.
    """

    rows: int
    columns: int
    odd: int = 1
    along: int = -1

    def width(self, n: int) -> int:
        """Columns of one instruction."""
        return min(256, n // self.columns)

    def accumulator(self, m: int, n: int) -> Layout:
        """Of the m×n result (PTX ISA, "Register fragments for wgmma.mma_async")."""
        height, length = _block(m, n)
        rows = self.rows // (self.odd if self.along == 0 else 1)
        columns = self.columns // (self.odd if self.along == 1 else 1)
        registers = (
            (0, 1),
            (8, 0),
            *_bits(8, length // columns, 1),
            *_bits(64 * rows, height, 0),
        )
        lanes = ((0, 2), (0, 4), (1, 0), (2, 0), (4, 0))
        warps = (
            (16, 0),
            (32, 0),
            *_bits(64, 64 * rows, 0),
            *_bits(length // columns, length, 1),
        )
        return self._repeated(m, n, registers, lanes, warps)

    def left(self, m: int, k: int, pack: int) -> Layout:
        """Layout of operand A in registers with `pack` elements of k each, if groups split rows only."""
        height, length = _block(m, k)
        rows = self.rows // (self.odd if self.along == 0 else 1)
        registers = (
            *_bits(1, pack, 1),
            (8, 0),
            *_bits(4 * pack, length, 1),
            *_bits(64 * rows, height, 0),
        )
        lanes = ((0, pack), (0, 2 * pack), (1, 0), (2, 0), (4, 0))
        warps = ((16, 0), (32, 0), *_bits(64, 64 * rows, 0))
        return self._repeated(m, k, registers, lanes, warps)

    def _repeated(
        self,
        m: int,
        n: int,
        registers: tuple[Vector, ...],
        lanes: tuple[Vector, ...],
        warps: tuple[Vector, ...],
    ) -> Layout:
        height, length = _block(m, n)
        repeat = (m // height, n // length)
        many = repeat if repeat != (1, 1) else ()
        return Layout((m, n), registers, lanes, warps, many, self.odd, self.along)


def choose_warpgroup_grid(m: int, n: int, warps: int) -> WarpgroupGrid | None:
    """Warpgroups of an m×n result; None if they do not divide it evenly."""
    groups, (height, length) = warps // 4, _block(m, n)
    if groups < 1 or warps % 4 or height < 64 or length < 8:
        return None
    odd = groups // (groups & -groups)
    along = next((d for d in (0, 1) if odd > 1 and (m // height, n // length)[d] % odd == 0), -1)
    if odd > 1 and along < 0:
        return None
    rows = min(groups // odd, height // 64)
    columns = groups // odd // rows
    if length // columns < 8 or (columns > 1 and n != length and along != 1):
        return None  # the columns of a group would be no whole stretch
    if along == 0:
        return WarpgroupGrid(rows * odd, columns, odd, 0)
    return WarpgroupGrid(rows, columns * odd, odd, along)


def wgmma_a_layout(
    instruction: WgmmaInstruction, m: int, n: int, k: int, warps: int
) -> Layout | None:
    """Register layout of operand A for an m×n result of `wgmma` with k elements: every warpgroup holds whole rows
    (PTX ISA, fragments of matrix A). None if groups split the columns."""
    groups = choose_warpgroup_grid(m, n, warps)
    if groups is None or groups.columns > 1 or k % instruction.k:
        return None
    return groups.left(m, k, instruction.k // 8)


def batched(layout: Layout, batch: int, warps: int = 1) -> Layout:
    """The layout with a leading dimension of `batch` matrices: over `warps` times as many warps, and one after another
    in registers."""
    deep = layout.insert(0)
    (block,) = _block(batch)
    extra = tuple((1 << b, 0, 0) for b in range(_log(block)))
    over_warps, extra = extra[: _log(warps)], extra[_log(warps) :]
    repeat = (batch // block, *layout.repeats)
    return replace(
        deep,
        shape=(batch, *layout.shape),
        registers=(*deep.registers, *extra),
        warps=(*over_warps, *deep.warps),
        repeat=repeat if any(r > 1 for r in repeat) else (),
    )


def _block(*extents: int) -> Vector:
    """The largest power of two that divides each extent; the remaining factor is repeats."""
    return tuple(e & -e for e in extents)


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

    return replace(layout, lanes=clip(layout.lanes), warps=clip(layout.warps))


def _log(number: int) -> int:
    return number.bit_length() - 1


_SUM_LANES = ((0, 2), (0, 4), (1, 0), (2, 0), (4, 0))
_OPERAND_LANES = ((0, 4), (0, 8), (1, 0), (2, 0), (4, 0))
HELD = (0, 1, 8, 9, 16, 17, 24, 25)
"""Columns, of 32, that lane 0 holds in the accumulator layout."""
WANTED = (0, 1, 2, 3, 16, 17, 18, 19)
"""Columns, of 32, that lane 0 holds in the operand layout."""


def exchanges_in_quads(source: Layout, target: Layout) -> bool:
    """Return whether a conversion is the one from accumulator to 8-bit operand A."""
    if source.rank != 2 or source.lanes != _SUM_LANES or target.lanes != _OPERAND_LANES:
        return False
    steps = [[x.group_step(d) for d in (0, 1)] for x in (source, target)]
    if source.warps != target.warps or steps[0] != steps[1] or source.shape != target.shape:
        return False
    starts = blocks_of(target)
    have = {(row, column + c) for row, column in starts for c in HELD}
    want = {(row, column + c) for row, column in starts for c in WANTED}
    return have <= set(source.register_of) and want == set(target.register_of)


def blocks_of(target: Layout) -> list[tuple[int, int]]:
    """Return row and first column of each block of 32 columns of which a thread holds elements."""
    return sorted((row, column) for row, column in target.register_of if column % 32 == 0)


def exchanged_words(source: Layout) -> list[list[int]]:
    """Return the registers of an accumulator whose bytes make up the words that a lane provides to its quad, two for
    each block of 32 columns in the order of `blocks_of`: the pairs of columns 0 and 16, and those of columns 8 and
    24. Empty for other layouts."""
    if source.rank != 2 or source.lanes != _SUM_LANES:
        return []
    found = []
    for row, column in blocks_of(source):
        held = [source.register_of.get((row, column + c)) for c in HELD]
        known = [register for register in held if register is not None]
        if len(known) < len(HELD):
            return []
        found += [known[0:2] + known[4:6], known[2:4] + known[6:8]]
    return found


def words_of(layout: Layout, elements: int) -> list[list[int]]:
    """Group the registers of a layout into words of up to `elements` elements: 8-bit elements of an accumulator as
    the conversion to operand A takes them, so that bytes need not be rearranged, others in order."""
    count = layout.registers_per_thread
    words = exchanged_words(layout) if elements == 4 else []
    if 4 * len(words) == count:
        return words
    return [list(range(i, min(i + elements, count))) for i in range(0, count, elements)]
