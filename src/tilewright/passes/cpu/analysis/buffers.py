"""Assign tiles to shared scratch buffers (slots) and choose the layout of each buffer."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Attribute, SSAValue

from tilewright.dialects import cpu, tile
from tilewright.dialects.tile import element_bytes
from tilewright.passes.analysis.edit import Mapping
from tilewright.passes.cpu.dot_plan import BufferLayout, DotPlan


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
    columns = shape[-1] if shape else 1
    rows = 1
    for extent in shape[:-1]:
        rows *= extent
    return BufferLayout.row(rows, columns)


class SlotTable:
    """Union-find over tile values: values in one class share a slot."""

    def __init__(self) -> None:
        self._parent: Mapping = {}
        self._slots: dict[SSAValue, Slot] = {}

    def _root(self, value: SSAValue) -> SSAValue:
        root = value
        while (parent := self._parent.get(root, root)) is not root:
            root = parent
        while (parent := self._parent.get(value, value)) is not root:
            self._parent[value] = root
            value = parent
        return root

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
    total = 1
    for extent in tile.shape_of(kind):
        total *= extent
    return max(1, total // max(1, layout.rows * layout.columns))


def layout_bytes(kind: Attribute, layout: BufferLayout) -> int:
    return layout.size * batch_of(kind, layout) * element_bytes(kind)


def dot_layouts(
    op: cpu.DotOp | cpu.BufferDotOp,
) -> tuple[BufferLayout, BufferLayout, BufferLayout]:
    plan = DotPlan.parse(op.plan.data)
    return plan.a_layout, plan.b_layout, plan.acc_layout
