"""Decide where loaded tiles that element-wise operations combine with an accumulator are converted to its layout.

Element-wise operations work in the layout of their operands, so a factor of an accumulator would be computed in the
layout in which it is loaded, and converted where it meets the accumulator: once per such place, in the type of the
computation. If what is loaded has fewer bytes (a gate in bf16 of which a sigmoid and its derivative are computed in
fp32), it is converted at once. Rows and columns of factors, which are broadcast, count for nothing, nor does what dots
multiply as well: it is read from shared memory in any layout.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import arith, scf
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import tile
from tilewright.ir.types import position_of
from tilewright.ir.walk import closure
from tilewright.layouts import Layout
from tilewright.passes.analysis.edit import end_of
from tilewright.passes.analysis.effects import is_pure_elementwise


class AccumulatorFactors:
    """Layouts of element-wise operations that connect loads with accumulators."""

    def __init__(
        self, anchor: Callable[[SSAValue], Layout | None], is_free: Callable[[SSAValue], bool]
    ) -> None:
        self._anchor, self._is_free = anchor, is_free
        self._found: dict[SSAValue, Layout | None] = {}

    def layout(self, value: SSAValue) -> Layout | None:
        """The accumulator's layout, for the result of an element-wise operation that is best computed in it."""
        if value not in self._found:
            component = self._component(value)
            layout = self._of_component(component)
            self._found.update(dict.fromkeys(component, layout))
        return self._found[value]

    def _component(self, value: SSAValue) -> dict[SSAValue, None]:
        """Tiles of one shape that element-wise operations of one block combine."""
        owner, shape = value.owner, tile.shape_of(value)
        block = owner if isinstance(owner, Block) else owner.parent

        def is_combined(value: SSAValue) -> bool:
            if isinstance(value.owner, tile.BroadcastOp):
                return False  # of a row or column, which is converted instead
            alike = tile.is_tile(value) and tile.shape_of(value) == shape
            return alike and not self._is_free(value)

        def following(value: SSAValue) -> list[SSAValue]:
            ops = [*(use.operation for use in value.uses), value.owner]
            ops = [op for op in ops if _is_elementwise(op) and op.parent is block]
            return [v for op in ops for v in (*op.operands, *op.results) if is_combined(v)]

        return dict.fromkeys(closure(filter(is_combined, [value]), following))

    def _of_component(self, component: dict[SSAValue, None]) -> Layout | None:
        ops = {v.owner for v in component if _is_elementwise(v.owner)}
        sources = [v for v in component if v.owner not in ops]
        accumulators = [v for v in sources if is_accumulator(v)]
        loads = [v for v in sources if _loaded(v) is not None]
        layout = self._anchor(accumulators[0]) if accumulators else None
        if layout is None or not loads or len(loads) + len(accumulators) < len(sources):
            return None
        if any(self._anchor(v) != layout for v in accumulators):
            return None
        in_order = [op for op in _block_of(ops) if op in ops]
        moved = _bytes_moved(in_order, set(accumulators), set(component))
        return layout if sum(map(_bytes_converted, loads)) < moved else None


def _loaded(value: SSAValue) -> SSAValue | None:
    """What is loaded as a tile, or as its transpose."""
    if isinstance(value.owner, tile.TransOp):
        value = value.owner.source
    return value if isinstance(value.owner, tile.LoadViewOp) else None


def _bytes_converted(value: SSAValue) -> int:
    """Bytes per element that change their layout if a loaded tile is wanted in another. None if dots multiply it, too,
    in its type or converted: then it is read from shared memory, in any layout."""
    pending = [_loaded(value) or value]
    while pending:
        for use in pending.pop().uses:
            op = use.operation
            if isinstance(op, tile.DotOp):
                return 0
            if isinstance(op, arith.TruncFOp | arith.ExtFOp | tile.TransOp):
                pending += op.results
    return tile.element_bytes(value)


def _bytes_moved(
    ops: list[Operation], accumulators: set[SSAValue], component: set[SSAValue]
) -> int:
    """Bytes per element of what changes its layout if each operation works in that of its first operand, and of loaded
    layouts that stores would do without."""
    of_sums = set(accumulators)
    moved: dict[SSAValue, None] = {}
    for op in ops:
        own = [v for v in op.operands if v in component]
        takes_sums = bool(own) and own[0] in of_sums
        moved |= {v: None for v in own if (v in of_sums) != takes_sums}
        if takes_sums:
            of_sums |= set(op.results)
    stored = [v for v in component - of_sums if any(_stores(use.operation) for use in v.uses)]
    return sum(map(tile.element_bytes, moved)) - sum(map(tile.element_bytes, stored))


def is_accumulator(value: SSAValue, depth: int = 2) -> bool:
    """Whether a tile is the sum of a dot, or a loop's results are such sums."""
    owner = value.owner
    if isinstance(owner, tile.DotOp):
        return True
    if isinstance(owner, scf.ForOp) and depth:
        yielded = end_of(owner.body.block).operands[position_of(value)]
        return is_accumulator(yielded, depth - 1)
    return False


def _is_elementwise(owner: Operation | Block) -> bool:
    return not isinstance(owner, Block) and is_pure_elementwise(owner)


def _block_of(ops: set[Operation | Block]) -> list[Operation]:
    blocks = {op.parent for op in ops if not isinstance(op, Block)}
    return [op for block in blocks if isinstance(block, Block) for op in block.ops]


def _stores(op: Operation) -> bool:
    return isinstance(op, tile.Store)
