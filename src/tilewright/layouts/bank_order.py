"""Orders of a tile's index bits in shared memory in which neither the writes nor the reads of a conversion conflict.

A row-major tile suits layouts that agree with its dimensions. A conversion between layouts of index bits may store the
bits in any order. With the lanes that read in the lowest bits, of which those that do not write come first, and the
lanes that only write in the lowest bits of the row, a row padded by one word puts the 32 lanes of either side into 32
banks.
"""

from __future__ import annotations

from math import prod

from tilewright.layouts.layout import Layout, Vector


def conflict_free_orders(source: Layout, target: Layout, most: int) -> list[tuple[Layout, Layout]]:
    """Both layouts of tiles of two dimensions, for each number of elements per access, up to `most`, that threads
    hold side by side on both sides; none where a layout is not made of index bits."""
    read, written = _index_bits(target), _index_bits(source)
    if read is None or written is None:
        return []
    count = len(_index_bits_of(source.shape))
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


def _index_bits_of(shape: Vector) -> range:
    return range(prod(shape).bit_length() - 1)


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
