"""Assign tiles to shared scratch buffers (slots) and choose the layout of each buffer."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import IntegerAttr, StringAttr, i64
from xdsl.ir import Attribute, Block, SSAValue

from tilewright.dialects import cpu, tile
from tilewright.dialects.tile import element_bytes
from tilewright.passes.analysis.edit import Mapping, insert_before, start_of
from tilewright.passes.cpu.dot_plan import BufferLayout, DotPlan

_LINE = 64
"""Bytes of a cache line."""


@dataclass(eq=False)
class Slot:
    """A planned scratch buffer: tile type, layout and, once created, its `cpu.scratch` value."""

    tile: Attribute
    layout: BufferLayout
    buffer: SSAValue | None = None
    fixed: bool = False
    """Whether a dot requires this layout."""


def row_layout(kind: Attribute) -> BufferLayout:
    """Row-major over the last dimension, outer dimensions flattened."""
    shape = tile.shape_of(kind)
    return BufferLayout.row(prod(shape[:-1]), shape[-1] if shape else 1)


class SlotTable:
    """Union-find over tile values: values in one class share a slot."""

    def __init__(self) -> None:
        self._parent: Mapping = {}
        self._slots: dict[SSAValue, Slot] = {}

    def _root(self, value: SSAValue) -> SSAValue:
        while value in self._parent:
            value = self._parent[value]
        return value

    def join(self, a: SSAValue, b: SSAValue) -> None:
        """Let two values share a slot. Requires: neither has a slot yet."""
        x, y = self._root(a), self._root(b)
        if x is not y:
            self._parent[x] = y

    def bind(self, value: SSAValue, slot: Slot) -> None:
        self._slots[self._root(value)] = slot

    def request(self, value: SSAValue, layout: BufferLayout) -> None:
        """Request a layout; the first request wins."""
        slot = self.slot(value)
        if not slot.fixed:
            slot.layout, slot.fixed = layout, True

    def slot(self, value: SSAValue) -> Slot:
        root = self._root(value)
        if root not in self._slots:
            self._slots[root] = Slot(root.type, row_layout(root.type))
        return self._slots[root]


def layout_of(kind: Attribute) -> BufferLayout:
    if not isinstance(kind, cpu.BufferType):
        raise TypeError(f"no buffer: {kind}")
    return BufferLayout.parse(kind.layout.data)


def tile_of(buffer: SSAValue) -> Attribute:
    """The tile type that a scratch buffer holds."""
    kind = buffer.type
    if not isinstance(kind, cpu.BufferType):
        raise TypeError(f"no buffer: {kind}")
    return kind.tile


def batch_of(kind: Attribute, layout: BufferLayout) -> int:
    """Return the batch size: the number of matrices of `layout` in a tile (leading dimensions)."""
    return max(1, prod(tile.shape_of(kind)) // max(1, layout.rows * layout.columns))


def layout_bytes(kind: Attribute, layout: BufferLayout) -> int:
    return layout.size * batch_of(kind, layout) * element_bytes(kind)


def new_scratch(
    entry: Block, kind: Attribute, layout: BufferLayout, offset: int
) -> tuple[cpu.ScratchOp, int]:
    """A buffer at `offset` of the scratch memory, made at the function's entry, and the offset of the next one.

    An odd number of cache lines between buffers keeps equal rows out of equal cache sets.
    """
    op = cpu.ScratchOp.create(
        result_types=[cpu.BufferType(kind, StringAttr(str(layout)))],
        properties={"offset": IntegerAttr(offset, i64)},
    )
    insert_before(op, start_of(entry))
    return op, offset + -(-layout_bytes(kind, layout) // _LINE) * _LINE + _LINE


def dot_layouts(
    op: cpu.DotOp | cpu.BufferDotOp,
) -> tuple[BufferLayout, BufferLayout, BufferLayout]:
    plan = DotPlan.parse(op.plan.data)
    return plan.a_layout, plan.b_layout, plan.acc_layout
