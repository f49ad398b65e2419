"""Estimate the work of a nest that depends on the chunked dimension alone: masks and indices that all rows share."""

from __future__ import annotations

from tilewright.dialects import cpu, tile
from tilewright.passes.analysis.projection import Projector
from tilewright.passes.cpu.analysis.classify import is_elementwise

_WORTH = 3
"""Operations per chunk that are worth a loop over rows inside the loop over chunks."""


def has_lane_values(group: cpu.FusionGroupOp, dim: int) -> bool:
    """Whether much of what a group computes varies along `dim` only."""
    varies = Projector().varies
    count, rank = 0, len(group.extents)
    for op in group.body.block.ops:
        if isinstance(op, tile.LoadViewOp):
            kinds = tile.view_kinds(op)
            count += _WORTH * (len(kinds) == rank and kinds[dim] == "indexed")
        elif is_elementwise(op) and len(op.results) == 1 and tile.is_tile(op.results[0]):
            result = op.results[0]
            count += len(tile.shape_of(result)) == rank and varies(result) == {dim}
    return count >= _WORTH
