"""What a nest computes from the chunked dimension alone: masks and indices that are the same in all rows."""

from __future__ import annotations

from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import cpu, tile
from tilewright.passes.cpu.analysis.classify import REMAPS, is_elementwise

_WORTH = 3
"""Operations per chunk that are worth a loop over rows inside the loop over chunks."""

Dims = frozenset[int]


def has_lane_values(group: cpu.FusionGroupOp, dim: int) -> bool:
    """Whether much of what a group computes varies along `dim` only."""
    known: dict[SSAValue, Dims] = {}
    count, rank = 0, len(group.extents)
    for op in group.body.block.ops:
        if isinstance(op, tile.LoadViewOp):
            kinds = tile.view_kinds(op)
            count += _WORTH * (len(kinds) == rank and kinds[dim] == "indexed")
        elif is_elementwise(op) and len(op.results) == 1 and tile.is_tile(op.results[0]):
            result = op.results[0]
            count += len(tile.shape_of(result)) == rank and _varies(result, known) == {dim}
    return count >= _WORTH


def _varies(value: SSAValue, known: dict[SSAValue, Dims]) -> Dims:
    """The dimensions along which a tile may vary."""
    if not tile.is_tile(value):
        return frozenset()
    if value not in known:
        known[value] = frozenset(d for d, e in enumerate(tile.shape_of(value)) if e > 1)
        if not isinstance(value.owner, Block):
            known[value] = known[value] & _varies_result(value.owner, value, known)
    return known[value]


def _varies_result(op: Operation, value: SSAValue, known: dict[SSAValue, Dims]) -> Dims:
    match op:
        case tile.SplatOp():
            return frozenset()
        case tile.BroadcastOp():
            return _varies(op.source, known)
        case tile.ExpandDimsOp():
            axis = op.axis.value.data
            return frozenset(d + (d >= axis) for d in _varies(op.source, known))
        case tile.TransOp():
            inner = _varies(op.source, known)
            return frozenset(d for d, s in enumerate(op.permutation) if s in inner)
        case _ if is_elementwise(op) and not op.regions and not isinstance(op, REMAPS):
            return frozenset().union(*(_varies(v, known) for v in op.operands))
        case _:
            return known[value]
