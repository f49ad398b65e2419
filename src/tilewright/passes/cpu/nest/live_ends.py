"""Upper bounds of a fusion group's loops: beyond a limit that all its stores share, no element is live."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import Operation, SSAValue

from tilewright.dialects import cpu, tile
from tilewright.passes.analysis.effects import is_volatile
from tilewright.passes.cpu.analysis.classify import AXIS_OPS, WRITES

if TYPE_CHECKING:
    from tilewright.passes.cpu.nest.loops import Shape


def live_ends(group: cpu.FusionGroupOp, shape: Shape) -> dict[int, SSAValue]:
    """The limit that all stores have along a dimension, by dimension, of a group that loads, computes and stores.

    Loads and arithmetic beyond have no effect, so that loops end there instead of masking accesses.
    """
    if shape.turned or any(map(_has_other_effect, group.body.block.ops)):
        return {}
    stores = [op for op in group.body.block.ops if isinstance(op, tile.StoreViewOp)]
    if not stores or any(tile.shape_of(op.value) != shape.extents for op in stores):
        return {}
    first, *others = (tile.view_limits(op) for op in stores)
    return {d: limit for d, limit in first.items() if all(o.get(d) is limit for o in others)}


def _has_other_effect(op: Operation) -> bool:
    """Whether an operation does more than store a tile, or be computed for what is stored."""
    if isinstance(op, tile.StoreViewOp):
        return False
    effects = (*WRITES, *AXIS_OPS, tile.PrintOp, cpu.WriteOp)
    return any(
        isinstance(o, effects) or (isinstance(o, tile.LoadOp) and is_volatile(o)) for o in op.walk()
    )
