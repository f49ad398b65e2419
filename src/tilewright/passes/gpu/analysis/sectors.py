"""Sectors of the caches, in which memory is read whatever part of them a thread wants."""

from __future__ import annotations

from xdsl.ir import Operation

from tilewright.dialects import tile
from tilewright.passes.analysis.facts import Facts

SECTOR_BYTES = 32


def has_sector_per_element(op: Operation, known: Facts) -> bool:
    """Whether each element of an access lies in a different sector: a strided vector."""
    if not isinstance(op, tile.View) or tile.view_kinds(op) != ("strided",):
        return False
    return known.divisor(op.strides[0]) * tile.element_bytes(tile.accessed(op)) >= SECTOR_BYTES
