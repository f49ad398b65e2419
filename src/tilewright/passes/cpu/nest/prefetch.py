"""Compute the addresses of a dot's operands in the next iteration, so that the micro-kernel can prefetch them.

A dot in a loop reads tiles that were just packed, or prepacked operands in memory. While it computes, the rows of the
next iteration's tiles can be prefetched. Their addresses are those of this iteration, with the loop counter advanced
by one step and loop-carried scalars replaced by the values that the body yields for them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import cpu, tile
from tilewright.dialects.tile import element_bytes
from tilewright.ir.types import position_of
from tilewright.passes.analysis.edit import end_of
from tilewright.passes.analysis.emit import constant_int
from tilewright.passes.cpu.analysis.buffers import layout_bytes, layout_of, tile_of
from tilewright.passes.cpu.analysis.classify import WRITES
from tilewright.passes.cpu.dot_plan import DotPlan
from tilewright.passes.cpu.nest.emit import Emitter

Ahead = tuple[SSAValue, SSAValue]
"""Pointer to the first row, and row pitch in bytes."""


def next_operands(op: cpu.BufferDotOp, emit: Emitter) -> tuple[Ahead, Ahead] | None:
    """Emit the addresses of both operands in the next iteration; None if unknown.

    Also records in the plan the number of rows and bytes per row to prefetch.
    """
    block = op.parent
    loop = block.parent_op() if block is not None else None
    if not isinstance(loop, scf.ForOp) or len(tile.shape_of(tile_of(op.acc))) != 2:
        return None
    shift = _Shift(loop, emit)
    plan = DotPlan.parse(op.plan.data)
    found: list[Ahead] = []
    rows: list[tuple[int, int]] = []
    for buffer in (op.lhs, op.rhs):
        source = buffer.owner
        if isinstance(source, cpu.BufferFromPtrOp):
            place = _in_one_piece(source, shift)
        else:
            load = _load_of(buffer, op)
            place = None if load is None else _place(load, shift)
        if place is None:
            return None
        ahead, extent = place
        found.append(ahead)
        rows.append(extent)
    op.properties["plan"] = StringAttr(str(replace(plan, fetch_a=rows[0], fetch_b=rows[1])))
    return found[0], found[1]


def _load_of(buffer: SSAValue, dot: Operation) -> tile.LoadViewOp | None:
    """Return the single structured load of the group that fills `buffer` in the dot's block, or None."""
    for use in buffer.uses:
        write = use.operation
        group = write.parent_op()
        if isinstance(write, cpu.WriteOp) and group is not None and group.parent is dot.parent:
            loads = [o for o in group.walk() if isinstance(o, tile.Load)]
            if len(loads) == 1 and isinstance(loads[0], tile.LoadViewOp):
                return loads[0]
    return None


def _place(load: tile.LoadViewOp, shift: _Shift) -> tuple[Ahead, tuple[int, int]] | None:
    """Return (first row and row pitch, (rows, bytes per row)) of a load in the next iteration."""
    shape = tile.shape_of(load.result)
    if len(shape) != 2:  # a vector that the group broadcasts to the operand's rows
        return None
    kinds = tile.view_kinds(load)
    contiguous = next((d for d in (1, 0) if constant_int(load.strides[d]) == 1), None)
    if contiguous is None or "indexed" in kinds:
        return None
    size = element_bytes(load.result)
    emit = shift.emit
    pointer = shift.value(load.base)
    stride = shift.value(load.strides[1 - contiguous])
    if pointer is None or stride is None:
        return None
    wrapped = [d for d, k in enumerate(kinds) if k == "wrapped"]
    for d, start, extent in zip(wrapped, load.starts, load.sizes, strict=True):
        first, modulus, step = (shift.value(v) for v in (start, extent, load.strides[d]))
        if first is None or modulus is None or step is None:
            return None
        row = emit.binary(arith.RemUIOp, first, modulus)
        pointer = emit.address(pointer, emit.times(row, step))
    ahead = pointer, emit.value(emit.times(stride, size))
    return ahead, (shape[1 - contiguous], shape[contiguous] * size)


def _in_one_piece(
    buffer: cpu.BufferFromPtrOp, shift: _Shift
) -> tuple[Ahead, tuple[int, int]] | None:
    """Like `_place`, for a prepacked operand: one row of all its bytes."""
    pointer = shift.value(buffer.pointer)
    if pointer is None:
        return None
    kind = buffer.result.type
    size = layout_bytes(kind.tile, layout_of(kind))
    return (pointer, shift.emit.value(0)), (1, size)


class _Shift:
    """Computes the values of scalars in the next iteration of the loop."""

    def __init__(self, loop: scf.ForOp, emit: Emitter) -> None:
        self.loop = loop
        self.emit = emit
        self.body = loop.body.block
        self.known: dict[SSAValue, SSAValue | None] = {}

    def value(self, value: SSAValue) -> SSAValue | None:
        """Return `value` in the next iteration, or None if it depends on memory."""
        if value not in self.known:
            self.known[value] = self._shifted(value)
        return self.known[value]

    def _shifted(self, value: SSAValue) -> SSAValue | None:
        owner = value.owner
        if isinstance(owner, Block):
            if owner is not self.body:
                return value
            position = position_of(value)
            if position == 0:
                one = self.emit.constant(1, value.type)
                return self.emit.binary(arith.AddiOp, value, one)
            return self._current(end_of(owner).operands[position - 1])
        if not self._varies(owner):
            return value
        return self._copied(owner, self.value)

    def _current(self, value: SSAValue) -> SSAValue | None:
        """Return a value of this iteration; rematerialize it if its definition is below the insertion point."""
        owner = value.owner
        if isinstance(owner, Block) or owner.parent is not self.body:
            return value
        return self._copied(owner, self._current)

    def _varies(self, op: Operation) -> bool:
        return op.parent is self.body

    def _copied(
        self, op: Operation, operand_of: Callable[[SSAValue], SSAValue | None]
    ) -> SSAValue | None:
        if op.regions or len(op.results) != 1 or isinstance(op, (tile.Load, *WRITES)):
            return None
        if not op.name.startswith(("arith.", "tile.addptr", "tile.cmpi", "tile.select")):
            return None
        operands = [v for v in map(operand_of, op.operands) if v is not None]
        if len(operands) < len(op.operands):
            return None
        copy = type(op).create(
            operands=operands, result_types=[op.results[0].type], properties=op.properties
        )
        return self.emit.add(copy)
