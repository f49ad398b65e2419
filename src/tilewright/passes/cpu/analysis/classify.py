"""What a tile operation means for grouping: virtual, element-wise, memory, reduction, barrier.

A *virtual* tile costs nothing to recompute at any index (aranges, splats, shape changes, integer
arithmetic on those), so every group that needs one gets its own copy. An *element-wise* operation
maps lane to lane and can share a loop nest with others over the same space.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from math import prod

from xdsl.dialects import arith, scf
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import cpu, tile
from tilewright.ir.walk import closure, sources
from tilewright.passes.analysis.effects import is_pure_elementwise as is_elementwise
from tilewright.passes.analysis.emit import uniform_constant

REMAPS = (tile.BroadcastOp, tile.ExpandDimsOp, tile.TransOp, tile.ReshapeOp, tile.SplitOp)
"""Operations that only change which index an element has."""

_VIRTUAL_SOURCES = (tile.ArangeOp, tile.SplatOp)
_EXPENSIVE_INTEGER = {"arith.divsi", "arith.divui", "arith.remsi", "arith.remui"}
_CHEAP_TILE = (tile.CmpIOp, tile.CmpFOp, tile.SelectOp, tile.BitcastOp, tile.AddPtrOp, tile.HintOp)
WRITES = (tile.Store, tile.Atomic)
AXIS_OPS = (tile.ReduceOp, tile.ScanOp)
CONTROL = (scf.ForOp, scf.IfOp, scf.WhileOp)


def is_virtual(op: Operation) -> bool:
    """Whether the tile that `op` makes is recomputed wherever it is needed."""
    if isinstance(op, _VIRTUAL_SOURCES + REMAPS):
        return True
    return _is_cheap(op) and _all_virtual(list(op.operands))


def is_virtual_value(value: SSAValue) -> bool:
    """Whether a tile value is virtual; remaps are only as virtual as their source."""
    return _all_virtual([value])


def _all_virtual(pending: list[SSAValue]) -> bool:
    """Whether tiles are virtual. Each is looked at once: `x ^ (x << 13)` needs x twice, and so on."""

    def needed(value: SSAValue) -> Iterable[SSAValue]:
        remaps = isinstance(value.owner, REMAPS)
        operands = sources(value)[:1] if remaps else sources(value)
        return () if isinstance(value.owner, _VIRTUAL_SOURCES) else filter(tile.is_tile, operands)

    return all(
        isinstance(op, _VIRTUAL_SOURCES + REMAPS) or (isinstance(op, Operation) and _is_cheap(op))
        for op in (v.owner for v in closure(filter(tile.is_tile, pending), needed))
    )


def is_expensive(op: Operation) -> bool:
    """Whether `op` is a division or a function that takes many cycles per element."""
    return _is_expensive_kind(op.name)


def _is_expensive_kind(name: str) -> bool:
    if name in ("math.absf", "math.absi"):  # one instruction
        return False
    return name.startswith("math.") or name == "arith.divf" or name in _EXPENSIVE_INTEGER


@functools.cache
def _is_cheap_kind(kind: type[Operation]) -> bool:
    name = kind.name
    if _is_expensive_kind(name):
        return False
    trait = tile.elementwise_trait(kind)
    return name.startswith(("arith.", "math.")) or (trait is not None and trait.cheap)


def _is_cheap(op: Operation) -> bool:
    """Whether `op` is element-wise and may be done again."""
    return _is_cheap_kind(type(op))


def recompute_cost(op: Operation) -> int:
    """Rough cost of doing a non-virtual operation again in another group."""
    if isinstance(op, tile.LoadViewOp):
        plain = all(k.data == "strided" for k in op.kinds) and op.mask is None
        return 2 if plain else 100
    if is_expensive(op):
        return 100
    if op.name.startswith("arith.") or isinstance(op, _CHEAP_TILE):
        return 1
    return 100


def group_space(op: Operation) -> tuple[int, ...] | None:
    """The iteration space of a tile operation that can be a member of a group, else None."""
    if isinstance(op, tile.Store):
        return tile.shape_of(op.value) or None
    if isinstance(op, AXIS_OPS):
        return tile.shape_of(op.inputs[0])
    if isinstance(op, tile.PrintOp):
        shapes = {tile.shape_of(v) for v in op.arguments if tile.is_tile(v)}
        return shapes.pop() if len(shapes) == 1 else None
    if isinstance(op, scf.ForOp | scf.IfOp):
        return lanewise_space(op)
    if len(op.results) == 1 and tile.is_tile(op.results[0]):
        if is_elementwise(op) or isinstance(op, (tile.Load, *WRITES)):
            return tile.shape_of(op.results[0])
        if isinstance(op, tile.JoinOp) or tile.moves_lanes(op):
            return tile.shape_of(op.results[0])
    return None


def butterfly_mask(op: Operation) -> int | None:
    """`m` if `op` gathers element `i ^ m` along its axis for each `i`, as networks of exchanges do, else None."""
    if not isinstance(op, tile.GatherOp):
        return None
    axis, value, mask = op.axis.value.data, op.index, 0
    extent = tile.shape_of(op.source)[axis]
    while not isinstance(value.owner, tile.ArangeOp):
        shape = tile.shape_of(value)
        match value.owner:
            case tile.BroadcastOp() | tile.ExpandDimsOp() as spread:
                value = spread.source
            case arith.XOrIOp() as exclusive:
                constants = [uniform_constant(v) for v in exclusive.operands]
                if (at := next((i for i in (0, 1) if isinstance(constants[i], int)), None)) is None:
                    return None
                mask ^= int(constants[at] or 0)
                value = exclusive.operands[1 - at]
            case _:
                return None
        if tile.is_tile(value) and prod(tile.shape_of(value)) != prod(shape):
            along = [1] * len(shape)
            along[axis] = extent
            if tile.shape_of(value) != tuple(along):
                return None
    starts_at_0 = value.owner.start.value.data == 0
    whole = tile.shape_of(op.result)[axis] == extent == prod(tile.shape_of(value))
    power_of_2 = extent & (extent - 1) == 0
    return mask if starts_at_0 and whole and power_of_2 and 0 < mask < extent else None


def lanewise_space(op: Operation) -> tuple[int, ...] | None:
    """The space of a loop or branch all of whose tile work is element-wise, else None.

    Such a region may run inside a chunk loop: for each chunk the whole region, instead of for each
    step of the region all chunks.
    """
    tiles = [v for v in op.results if tile.is_tile(v)]
    scalars_used = any(v.uses for v in op.results if not tile.is_tile(v))
    if not tiles or scalars_used or isinstance(op, scf.WhileOp):
        return None
    spaces = {tile.shape_of(v) for v in tiles}
    if len(spaces) != 1:
        return None
    space = spaces.pop()
    return space if all(_region_is_lanewise(r.block, space) for r in op.regions) else None


def _region_is_lanewise(block: Block, space: tuple[int, ...]) -> bool:
    return all(_op_is_lanewise(op, space) for op in block.ops)


def _op_is_lanewise(op: Operation, space: tuple[int, ...]) -> bool:
    if isinstance(op, scf.YieldOp):
        return all(not tile.is_tile(v) or tile.shape_of(v) == space for v in op.operands)
    if isinstance(op, CONTROL):
        if any(tile.is_tile(v) for v in op.results):
            return lanewise_space(op) == space
        return not isinstance(op, scf.WhileOp) and all(
            _region_is_lanewise(r.block, space) for r in op.regions
        )
    if not tile.has_tiles(op):
        return (
            not op.regions
            and op.name.startswith(("arith.", "math.", "tile."))
            and not (
                isinstance(op, (tile.Load, *WRITES, tile.PrintOp, tile.AssertOp, tile.BarrierOp))
            )
        )
    if isinstance(op, REMAPS):
        source = op.operands[0]
        return is_virtual_value(source) or _defined_outside(source, op)
    if is_virtual(op):
        return True
    if isinstance(op, tile.LoadViewOp):
        return tile.shape_of(op.result) == space and all(k.data == "strided" for k in op.kinds)
    if isinstance(op, tile.LoadOp):
        return tile.shape_of(op.result) == space and op.volatile is None
    return is_elementwise(op) and tile.shape_of(op.results[0]) == space


def _defined_outside(value: SSAValue, op: Operation) -> bool:
    """Whether `value` is defined above the outermost loop or branch that `op` sits in."""
    top = op
    while (parent := top.parent_op()) is not None and isinstance(parent, CONTROL):
        top = parent
    home = value.owner if isinstance(value.owner, Block) else value.owner.parent
    return home is top.parent and isinstance(value.owner, Operation)


__all__ = [
    "AXIS_OPS", "CONTROL", "REMAPS", "WRITES", "cpu", "group_space",
    "is_elementwise", "is_expensive", "is_virtual", "is_virtual_value", "lanewise_space", "recompute_cost",
]  # fmt: skip
