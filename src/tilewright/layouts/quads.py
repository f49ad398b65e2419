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
