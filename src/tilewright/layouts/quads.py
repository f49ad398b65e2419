"""Recognize the conversion of an accumulator to operand A of 8-bit elements, an exchange within quads of lanes.

Of 32 columns, lane q of a quad holds columns 2q and 2q + 1 of each group of eight in the accumulator (PTX ISA, fragment
D of `wgmma`), and columns 4q ... 4q + 3 of each half in the operand (fragment A, k32). The conversion permutes bits of
the column index: one between registers and lanes, two between lanes.
"""

from __future__ import annotations

from tilewright.layouts.layout import Layout

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
