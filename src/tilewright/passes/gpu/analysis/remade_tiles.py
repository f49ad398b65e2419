"""Tiles that are computed again in another layout: indices, masks, and what else is made of scalars."""

from __future__ import annotations

from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.layouts import Layout
from tilewright.passes.analysis.edit import insert_before, with_operands
from tilewright.passes.analysis.effects import is_pure_elementwise
from tilewright.passes.gpu.assign_layouts import source_layout

_RESHAPING = (tile.ExpandDimsOp, tile.BroadcastOp, tile.TransOp, tile.HintOp)


def can_remake(value: SSAValue, layout: Layout) -> bool:
    """Return whether a tile can be computed from scalars in a layout."""
    if not tile.is_tile(value) or gpu.layout_of(value) == layout:
        return True
    op = value.owner
    if isinstance(op, Block) or op.regions or len(op.results) != 1:
        return False
    wanted = _operand_layout(op, layout)
    return wanted is not None and all(can_remake(v, wanted) for v in op.operands)


def remake(value: SSAValue, layout: Layout, before: Operation) -> SSAValue:
    """Emit the computation of a tile in a layout. Requires `can_remake`."""
    op = value.owner
    if not tile.is_tile(value) or gpu.layout_of(value) == layout or isinstance(op, Block):
        return value
    wanted = _operand_layout(op, layout) or layout
    operands = [remake(v, wanted, before) for v in op.operands]
    copy = with_operands(op, operands, [gpu.laid_out(tile.element_of(value), layout)])
    insert_before(copy, before)
    return copy.results[0]


def _operand_layout(op: Operation, layout: Layout) -> Layout | None:
    """The layout of the operands of an operation whose result is in `layout`; None where it has no such."""
    if isinstance(op, _RESHAPING):
        return source_layout(op, layout)
    if isinstance(op, tile.ArangeOp | tile.SplatOp) or is_pure_elementwise(op):
        return layout
    return None
