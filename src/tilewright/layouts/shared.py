"""Tiles in shared memory, as threads, tensor cores and bulk copies read them.

A tile lies in lines along its contiguous dimension. Three kinds:

- panels: the lines are cut into panels of `swizzle_bytes` bytes (128, 64 or 32), of which the last may be wider than
  what is left of them; a panel holds one span a line, line after line, and in each line the 16-byte chunks are exchanged by the exclusive or with bits of
  the address (PTX ISA, "Asynchronous warpgroup level matrix shared memory layout"), so that both a
  line and a column of chunks touch every bank once;
- `swizzle_bytes` 0: panels of 16 bytes and no exchange: 8 lines are a core matrix of `wgmma`;
- `swizzle_bytes` `LINEAR`: whole lines, with `pad` elements of nothing after each (arXiv 2108.13191 makes lines
  of 136 out of 128 elements and 8 of padding).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tilewright.layouts.layout import Layout

SWIZZLE_ATOM_BYTES = 16
LINEAR = -1
"""The `swizzle_bytes` of lines that are not cut into panels."""
ALIGNMENT = 1024
"""Where a swizzled tile may start: the pattern repeats every 8 lines of 128 bytes."""


@dataclass(frozen=True)
class SharedLayout:
    """A matrix of `rows` × `columns` elements of `size` bytes, contiguous along `dim` (0 or 1)."""

    rows: int
    columns: int
    size: int
    major_dim: int
    swizzle_bytes: int
    pad: int = 0
    """Elements of nothing after each whole line."""

    @property
    def strided_extent(self) -> int:
        """Extent of the other dimension."""
        return self.columns if self.major_dim == 0 else self.rows

    @property
    def contiguous_extent(self) -> int:
        """Extent of the contiguous dimension."""
        return self.rows if self.major_dim == 0 else self.columns

    @property
    def width(self) -> int:
        """Elements of one line of a panel."""
        return (
            self.contiguous_extent
            if self.swizzle_bytes == LINEAR
            else max(SWIZZLE_ATOM_BYTES, self.swizzle_bytes) // self.size
        )

    @property
    def row_stride_bytes(self) -> int:
        """Bytes from a line of a panel to the next."""
        return (self.width + self.pad) * self.size

    @property
    def transposed(self) -> SharedLayout:
        """The same bytes as the transposed matrix."""
        return replace(self, rows=self.columns, columns=self.rows, major_dim=1 - self.major_dim)

    @property
    def swizzled(self) -> bool:
        return self.swizzle_bytes > 0

    @property
    def panel_bytes(self) -> int:
        return self.strided_extent * self.row_stride_bytes

    @property
    def panels(self) -> int:
        """How many there are; the last may reach beyond the tile."""
        return -(-self.contiguous_extent // self.width)

    @property
    def whole(self) -> bool:
        """Whether panels end where the tile does."""
        return self.contiguous_extent % self.width == 0

    @property
    def bytes(self) -> int:
        return self.panels * self.panel_bytes

    def offset(self, row: int, column: int) -> int:
        """Byte offset of an element from the start of the tile."""
        along, line = (row, column) if self.major_dim == 0 else (column, row)
        panel, inside = divmod(along, self.width)
        flat = line * self.row_stride_bytes + inside * self.size
        return panel * self.panel_bytes + swizzle(flat, self.swizzle_bytes)

    def __str__(self) -> str:
        kind = f"swizzle{self.swizzle_bytes}" if self.swizzle_bytes != LINEAR else f"pad{self.pad}"
        return f"{self.rows}x{self.columns}x{self.size} dim{self.major_dim} {kind}"


_TEXT = re.compile(r"(\d+)x(\d+)x(\d+) dim(\d) (?:swizzle(\d+)|pad(\d+))")


def parse_shared(text: str) -> SharedLayout:
    """The layout that `str` wrote. Raises ValueError for other text."""
    match = _TEXT.fullmatch(text)
    if match is None:
        raise ValueError(f"not a layout of shared memory: {text!r}")
    *extents, span, pad = match.groups()
    rows, columns, size, dim = map(int, extents)
    if span is None:
        return SharedLayout(rows, columns, size, dim, LINEAR, int(pad))
    return SharedLayout(rows, columns, size, dim, int(span))


def swizzle(offset: int, span: int) -> int:
    """The byte that takes the place of `offset`: chunk bits exchanged with line bits."""
    if span <= 0:
        return offset
    mask = span // SWIZZLE_ATOM_BYTES - 1
    return offset ^ ((offset >> 7 & mask) << 4)


def widest_swizzle(length: int, size: int) -> int:
    """The widest swizzle whose panels tile a contiguous extent; 0 when none does."""
    for span in (128, 64, 32):
        if length * size % span == 0:
            return span
    return 0


def padded_swizzle(length: int, size: int) -> int:
    """The swizzle of a tile that boxes bring whose last panel may reach beyond it.

    `wgmma` reads operands that lie across k fastest in panels of 128 bytes: with tiles of 128 × 256, × 224, × 208,
    × 192 and × 160 an H200 reached 785, 755, 736, 767 and 746 TFLOP/s, but 617, 619, 526, 539 and 577 with panels of
    64 bytes, 341 to 299 with 32. So no more than a quarter is brought in vain.
    """
    wanted = length * size
    for span in (128, 64):
        if 4 * (-wanted % span) <= wanted:
            return span
    return widest_swizzle(length, size)


def line_padding(length: int, size: int) -> int:
    """Elements after each line of `length`, so that 8 lines' chunks of 16 bytes meet every bank once:
    lines then start an odd number of chunks apart."""
    count = -(-length * size // SWIZZLE_ATOM_BYTES)
    padded = (count | 1) * SWIZZLE_ATOM_BYTES
    return (padded - length * size) // size


def k_offset(layout: SharedLayout, k_dim: int, k: int) -> int:
    """Byte offset of the operand at k (a multiple of what one instruction takes)."""
    if layout.major_dim == k_dim:
        panel, inside = divmod(k, layout.width)
        return panel * layout.panel_bytes + inside * layout.size
    return k // 8 * 8 * layout.row_stride_bytes


def mn_offset(layout: SharedLayout, k_dim: int, mn: int) -> int:
    """Byte offset of the operand at row (of A) or column (of B) `mn`, a multiple of 8 or a panel."""
    if layout.major_dim == k_dim:
        return mn * layout.row_stride_bytes
    return mn // layout.width * layout.panel_bytes


def descriptor_bits(layout: SharedLayout, k_dim: int) -> int:
    """The descriptor of `wgmma` without its address.

    Panels with no swizzle are rows of core matrices (8 lines of 16 bytes): the two strides are those
    from core to core along k ("leading") and along the other dimension.
    """
    code = {128: 1, 64: 2, 32: 3, 0: 0}[layout.swizzle_bytes]
    group = 8 * layout.row_stride_bytes
    leading = 16 if layout.major_dim == k_dim else layout.panel_bytes
    if not layout.swizzled:
        along_k = layout.major_dim == k_dim
        leading, group = (layout.panel_bytes, group) if along_k else (group, layout.panel_bytes)
    return code << 62 | (group >> 4) << 32 | (leading >> 4) << 16


#: bytes of an element -> the blocks that a warp turns at a time: lines, and bytes of each
TRANSPOSE_BLOCKS = {1: (32, 16), 4: (4, 128)}


def is_transposable(lines: int, length: int, size: int) -> bool:
    """Whether a tile of `lines` lines of `length` elements of `size` bytes can be turned in blocks."""
    if size not in TRANSPOSE_BLOCKS:
        return False
    block_lines, block_bytes = TRANSPOSE_BLOCKS[size]
    return lines % block_lines == 0 and length * size % block_bytes == 0


BANKS = 32
BANK_BYTES = 4


def wavefronts(addresses: Sequence[int], size: int) -> int:
    """Times that shared memory is asked for one access of `size` bytes (1 … 16) at each lane's address."""
    lanes = BANKS * BANK_BYTES // max(BANK_BYTES, size)
    total = 0
    for start in range(0, len(addresses), lanes):
        words: dict[int, set[int]] = {}
        for address in addresses[start : start + lanes]:
            for word in range(address // BANK_BYTES, -(-(address + size) // BANK_BYTES)):
                words.setdefault(word % BANKS, set()).add(word)
        total += max(map(len, words.values()))
    return total


def min_wavefronts(size: int, lanes: int = 32) -> int:
    """Times that an access of `size` bytes by `lanes` lanes takes without any conflict."""
    return max(1, lanes * size // (BANKS * BANK_BYTES))


def bank_conflicts(
    layout: Layout, address: Callable[..., int], size: int, run: Sequence[Sequence[int]] = ()
) -> int:
    """Passes beyond the fewest possible, over all accesses of all warps to a tile in `layout`.

    `address(*coordinates)` is the byte of an element, `size` its bytes; `run` lists the registers that
    one access takes, neighbours in memory (default: each on its own).
    """
    groups = run or [[register] for register in range(layout.registers_per_thread)]
    total = 0
    for warp in range(layout.warp_count):
        for registers in groups:
            places = [
                address(*layout.coordinates(registers[0], lane, warp))
                for lane in range(1 << len(layout.lanes))
            ]
            width = size * len(registers)
            total += wavefronts(places, width) - min_wavefronts(width)
    return total
