"""Shared-memory layouts of tiles, as threads, tensor cores and TMA access them, and bank conflicts.

A tile consists of rows along its contiguous dimension. There are three kinds of layout:

- swizzle panels: rows are split into panels of `swizzle_bytes` bytes (128, 64 or 32), the last of which may exceed the
  tile. In each row of a panel the 16-byte swizzle atoms are permuted by exclusive or with address bits (PTX ISA,
  "Asynchronous warpgroup level matrix shared memory layout"), so that a row and a column of atoms both touch every bank
  once;
- `swizzle_bytes` 0: panels of 16 bytes without a permutation: 8 rows are a core matrix of `wgmma`;
- `swizzle_bytes` `LINEAR`: whole rows, with `pad` elements of padding after each (arXiv 2108.13191 pads rows of 128
  elements with 8).

Orders of a tile's index bits in shared memory in which neither the writes nor the reads of a conversion conflict.

A row-major tile suits layouts that agree with its dimensions. A conversion between layouts of index bits may store the
bits in any order. With the lanes that read in the lowest bits, of which those that do not write come first, and the
lanes that only write in the lowest bits of the row, a row padded by one word puts the 32 lanes of either side into 32
banks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from tilewright.layouts.layout import Layout

SWIZZLE_ATOM_BYTES = 16
LINEAR = -1
"""The `swizzle_bytes` of rows that are not split into panels."""
ALIGNMENT = 1024
"""Alignment of a swizzled tile in bytes: the pattern repeats every 8 rows of 128 bytes."""


@dataclass(frozen=True)
class SharedLayout:
    """A matrix of `rows` × `columns` elements of `size` bytes, contiguous along `dim` (0 or 1)."""

    rows: int
    columns: int
    size: int
    major_dim: int
    swizzle_bytes: int
    pad: int = 0
    """Elements of padding after each row."""

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
        """Elements per row of a panel."""
        return (
            self.contiguous_extent
            if self.swizzle_bytes == LINEAR
            else max(SWIZZLE_ATOM_BYTES, self.swizzle_bytes) // self.size
        )

    @property
    def row_stride_bytes(self) -> int:
        """Bytes between rows of a panel."""
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
        """Number of panels; the last may exceed the tile."""
        return -(-self.contiguous_extent // self.width)

    @property
    def whole(self) -> bool:
        """Whether the panels divide the tile evenly."""
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
    """Parse the text of `str`. Raises ValueError for other text."""
    match = _TEXT.fullmatch(text)
    if match is None:
        raise ValueError(f"not a layout of shared memory: {text!r}")
    *extents, span, pad = match.groups()
    rows, columns, size, dim = map(int, extents)
    if span is None:
        return SharedLayout(rows, columns, size, dim, LINEAR, int(pad))
    return SharedLayout(rows, columns, size, dim, int(span))


def swizzle(offset: int, span: int) -> int:
    """The swizzled byte offset: atom bits xor row bits."""
    if span <= 0:
        return offset
    mask = span // SWIZZLE_ATOM_BYTES - 1
    return offset ^ ((offset >> 7 & mask) << 4)


def widest_swizzle(length: int, size: int) -> int:
    """The widest swizzle whose panels divide a contiguous extent; 0 if none does."""
    for span in (128, 64, 32):
        if length * size % span == 0:
            return span
    return 0


def padded_swizzle(length: int, size: int) -> int:
    """The swizzle of a tile loaded by TMA whose last panel may exceed the tile.

    `wgmma` reads MN-major operands fastest in panels of 128 bytes: with tiles of 128 × 256, × 224, × 208, × 192 and
    × 160 an H200 reached 785, 755, 736, 767 and 746 TFLOP/s, but 617, 619, 526, 539 and 577 with panels of 64 bytes,
    341 to 299 with 32. At most a quarter of the loaded bytes is unused.
    """
    wanted = length * size
    for span in (128, 64):
        if 4 * (-wanted % span) <= wanted:
            return span
    return widest_swizzle(length, size)


def line_padding(length: int, size: int) -> int:
    """Elements of padding after each row of `length`, so that the 16-byte atoms of 8 rows touch every bank once: the
    row stride is an odd number of atoms."""
    count = -(-length * size // SWIZZLE_ATOM_BYTES)
    padded = (count | 1) * SWIZZLE_ATOM_BYTES
    return (padded - length * size) // size


def k_offset(layout: SharedLayout, k_dim: int, k: int) -> int:
    """Byte offset of the operand at k, a multiple of one instruction's k."""
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

    Panels without a swizzle are rows of core matrices (8 rows of 16 bytes): the two strides are those between core
    matrices along k ("leading") and along the other dimension.
    """
    code = {128: 1, 64: 2, 32: 3, 0: 0}[layout.swizzle_bytes]
    group = 8 * layout.row_stride_bytes
    leading = 16 if layout.major_dim == k_dim else layout.panel_bytes
    if not layout.swizzled:
        along_k = layout.major_dim == k_dim
        leading, group = (layout.panel_bytes, group) if along_k else (group, layout.panel_bytes)
    return code << 62 | (group >> 4) << 32 | (leading >> 4) << 16


#: bytes per element → block that a warp transposes at a time: rows, and bytes per row
TRANSPOSE_BLOCKS = {1: (32, 16), 4: (4, 128)}


def is_transposable(lines: int, length: int, size: int) -> bool:
    """Whether a tile of `lines` rows of `length` elements of `size` bytes can be transposed in blocks."""
    if size not in TRANSPOSE_BLOCKS:
        return False
    block_lines, block_bytes = TRANSPOSE_BLOCKS[size]
    return lines % block_lines == 0 and length * size % block_bytes == 0


BANKS = 32
BANK_BYTES = 4


def wavefronts(addresses: Sequence[int], size: int) -> int:
    """Shared-memory wavefronts of an access of `size` bytes (1 … 16) at each lane's address."""
    lanes = BANKS * BANK_BYTES // max(BANK_BYTES, size)
    total = 0
    for start in range(0, len(addresses), lanes):
        words = {
            word
            for address in addresses[start : start + lanes]
            for word in range(address // BANK_BYTES, -(-(address + size) // BANK_BYTES))
        }
        of_banks = [0] * BANKS
        for word in words:
            of_banks[word % BANKS] += 1
        total += max(of_banks)
    return total


def conflict_free_orders(source: Layout, target: Layout, most: int) -> list[tuple[Layout, Layout]]:
    """Both layouts of tiles of two dimensions, for each number of elements per access, up to `most`, that threads
    hold side by side on both sides; none where a layout is not made of index bits."""
    read, written = _index_bits(target), _index_bits(source)
    if read is None or written is None:
        return []
    count = prod(source.shape).bit_length() - 1
    both = [bit for bit in written[0] if bit in read[0]]
    only_read = [bit for bit in read[1] if bit not in written[1]]
    shared = [bit for bit in read[1] if bit in written[1]]
    only_written = [bit for bit in written[1] if bit not in read[1]]
    found: list[tuple[Layout, Layout]] = []
    for wide in range(len(both) + 1):
        columns = [*both[:wide], *only_read, *shared]
        if 1 << wide > most or not columns:
            break
        rest = [bit for bit in range(count) if bit not in (*columns, *only_written)]
        order = [*columns, *only_written, *rest]
        first, second = (_ordered(layout, order, len(columns)) for layout in (source, target))
        if first is not None and second is not None:
            found.append((first, second))
    return found


def _index_bits(layout: Layout) -> tuple[list[int], list[int]] | None:
    """The index bits (of the row-major tile) that registers and lanes hold; None where the tile is no power of two or
    a vector is a sum of bits."""
    if layout.repeat or layout.groups > 1 or any(e & (e - 1) for e in layout.shape):
        return None
    flat = layout.reshape((prod(layout.shape),))
    if flat is None:
        return None
    vectors = [v[0] for v in (*flat.registers, *flat.lanes, *flat.warps)]
    if any(v & (v - 1) for v in vectors):
        return None
    registers, lanes = (
        [v[0].bit_length() - 1 for v in part if v[0]] for part in (flat.registers, flat.lanes)
    )
    return registers, lanes


def _ordered(layout: Layout, order: list[int], columns: int) -> Layout | None:
    """The layout of the tile whose index bits are `order`, lowest first, with rows of `columns` bits."""
    count = len(order)
    bits = layout.reshape((2,) * count)  # dimension d is index bit count - 1 - d
    if bits is None:
        return None
    moved = bits.permute(tuple(count - 1 - bit for bit in reversed(order)))
    return moved.reshape((1 << count - columns, 1 << columns))
