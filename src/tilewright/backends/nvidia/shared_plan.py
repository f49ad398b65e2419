"""Where the buffers of a program lie in shared memory, and from when on their place is free again."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import gpu
from tilewright.layouts.shared import ALIGNMENT

BARRIER = 8
"""Bytes of one memory barrier."""


class SharedPlan:
    """Buffers one after another; scratch space begins after those still in use."""

    def __init__(self, function: FuncOp) -> None:
        self._block = function.body.block
        self._order = {op: i for i, op in enumerate(self._block.ops)}
        self._places: dict[SSAValue, tuple[int, int]] = {}
        self._last: dict[SSAValue, int] = {}
        end = 0
        for op in function.walk():
            if isinstance(op, gpu.AllocOp):
                kind: Any = op.result.type
                size = gpu.shared_layout_of(op.result).bytes * kind.stages.data
                end = self._put(op.result, -(-end // ALIGNMENT) * ALIGNMENT, size)
        for op in function.walk():
            if isinstance(op, gpu.BarriersOp):
                kind = op.result.type
                end = self._put(op.result, -(-end // BARRIER) * BARRIER, BARRIER * kind.stages.data)

    def _put(self, value: SSAValue, start: int, size: int) -> int:
        self._places[value] = (start, start + size)
        uses = [self._top(use.operation) for use in value.uses]
        self._last[value] = max(uses, default=-1)
        return start + size

    @property
    def used(self) -> bool:
        """Whether there is any buffer."""
        return bool(self._places)

    def _top(self, op: Operation) -> int:
        """Position of the operation of the function's block that `op` is in."""
        current = op
        while current.parent is not self._block:
            above = current.parent_op()
            if above is None:
                return 0
            current = above
        return self._order[current]

    def place(self, buffer: SSAValue) -> tuple[int, int]:
        """First byte of a buffer, and the byte after its last stage."""
        return self._places[buffer]

    def free_from(self, op: Operation) -> int:
        """The byte after the last buffer that `op` or something after it uses."""
        now = self._top(op)
        ends = [end for b, (_, end) in self._places.items() if self._last[b] >= now]
        return -(-max(ends, default=0) // 128) * 128
