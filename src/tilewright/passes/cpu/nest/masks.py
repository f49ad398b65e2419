"""Which lanes of a chunk of a structured access are live, and where the loops of a group may end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects import arith
from xdsl.dialects.builtin import i1
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import cpu, tile
from tilewright.passes.analysis.effects import is_volatile
from tilewright.passes.analysis.emit import constant_int
from tilewright.passes.cpu.analysis.classify import AXIS_OPS, WRITES
from tilewright.passes.cpu.nest.coordinates import Coordinates, lanes_at
from tilewright.passes.cpu.nest.emit import Emitter, Index

if TYPE_CHECKING:
    from tilewright.passes.cpu.nest.loops import Shape
    from tilewright.passes.cpu.nest.values import Body


class Mask:
    """Which lanes of a chunk are live: all, by a count, or by a vector (or scalar) of bits."""

    def __init__(self, count: SSAValue | None, bits: SSAValue | None, lanes: int) -> None:
        self.count = count
        self.bits = bits
        self.lanes = lanes

    def value(self, emit: Emitter) -> SSAValue | None:
        """The mask operand for a memory operation, None for all lanes."""
        bits = None if self.bits is None else emit.splat(self.bits, self.lanes)
        if self.count is None:
            return bits
        counted = emit.make(cpu.LaneMaskOp, [self.count], cpu.vector_of(i1, self.lanes))
        return counted if bits is None else emit.binary(arith.AndIOp, counted, bits)


def view_mask(body: Body, op: tile.View, at: Coordinates) -> Mask:
    """The live lanes of a structured access at `at`, less what the nest's version has proven."""
    emit = body.emit
    lanes = lanes_at(at)
    scalar: bool | SSAValue = True
    count: Index | None = None
    for d, limit in tile.view_limits(op).items():
        if body.facts.masks_nothing(limit, d, at[d]):
            continue
        bound = body.scalar(limit)
        known = constant_int(bound)
        bound_index: Index = bound if known is None else known
        c = at[d]
        if c.lanes > 1:
            count = emit.minus(bound_index, c.base)
        else:
            scalar = emit.both(scalar, emit.less(c.base, bound_index))
    bits = None if op.mask is None else body.at(op.mask, at)
    if count is not None:
        if isinstance(count, int) and count >= lanes:
            count = None
        elif scalar is not True:
            count, scalar = emit.select(scalar, count, 0), True
    if scalar is not True:
        row = emit.condition(scalar)
        if bits is None:
            bits = row
        else:
            n = max(cpu.lanes_of(bits), 1)
            bits = emit.binary(arith.AndIOp, emit.splat(row, n), bits)
    return Mask(None if count is None else emit.value(count), bits, lanes)


@dataclass(frozen=True)
class End:
    """Where a loop along a dimension ends."""

    index: Index
    limits: frozenset[SSAValue] = frozenset()
    """Limits that `index` is not above."""


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
