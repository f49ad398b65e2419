"""From sums of tensor cores to operand A of 8-bit elements: four lanes exchange what they hold of a row.

Of 32 columns lane q of a quad holds 2q and 2q + 1 of each group of eight, as a sum (PTX ISA, fragment D of `wgmma`), and is
to hold 4q ... 4q + 3 of either half (fragment A, k32): bits of a column's number change places, one between registers and
lanes, two between lanes.
"""

from __future__ import annotations

from tilewright.layouts.layout import Layout

_SUM_LANES = ((0, 2), (0, 4), (1, 0), (2, 0), (4, 0))
_OPERAND_LANES = ((0, 4), (0, 8), (1, 0), (2, 0), (4, 0))
HELD = (0, 1, 8, 9, 16, 17, 24, 25)
"""Columns that registers of lane 0 hold before, of 32."""
WANTED = (0, 1, 2, 3, 16, 17, 18, 19)
"""The same after."""


def exchanges_in_quads(source: Layout, target: Layout) -> bool:
    """Whether a conversion is this one."""
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
    """The rows and first columns of the blocks of 32 columns that a thread has a part in."""
    return sorted((row, column) for row, column in target.register_of if column % 32 == 0)
