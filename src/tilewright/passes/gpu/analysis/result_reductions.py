"""Reductions of a dot's result: whether they stay within warps."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from tilewright.dialects import tile
from tilewright.layouts import Layout
from tilewright.passes.analysis.effects import is_pure_elementwise


def reduces_across_warps(value: SSAValue, layout: Layout) -> bool:
    """Whether a tile in a layout is reduced, in another shape perhaps, along an axis that warps share."""
    pending, seen = [(value, layout)], {value}
    while pending:
        current, its = pending.pop()
        for use in current.uses:
            op = use.operation
            if isinstance(op, tile.ReduceOp) and any(v[op.axis.value.data] for v in its.warps):
                return True
            found = _result_layout(op, current, its)
            if found is not None and op.results[0] not in seen:
                seen.add(op.results[0])
                pending.append((op.results[0], found))
    return False


def _result_layout(op: Operation, source: SSAValue, layout: Layout) -> Layout | None:
    """The layout of an operation's result, where it has the elements of `source` one by one."""
    match op:
        case tile.TransOp():
            return layout.permute(tuple(op.permutation))
        case tile.ReshapeOp():
            return layout.reshape(tile.shape_of(op.result))
        case tile.ExpandDimsOp():
            return layout.insert(op.axis.value.data)
        case _ if is_pure_elementwise(op) and len(op.results) == 1:
            return layout if tile.shape_of(op.results[0]) == tile.shape_of(source) else None
        case _:
            return None
