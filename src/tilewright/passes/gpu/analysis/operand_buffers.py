"""Buffers in shared memory for the operands of dots: filled from registers, or by copies."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import IntAttr, StringAttr, TensorType, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.layouts import Layout
from tilewright.layouts.shared import SharedLayout
from tilewright.passes.analysis.edit import insert_before, outermost_in, start_of
from tilewright.passes.analysis.emit import Emitter
from tilewright.passes.gpu.analysis.accesses import INDEX_RUNS
from tilewright.passes.gpu.analysis.buffer_views import transposed_view
from tilewright.passes.gpu.analysis.loop_carried import is_in_loop

Stored = dict[tuple[SSAValue, int, Block | None], tuple[SSAValue, SSAValue]]
"""Tiles that were written to buffers (along a dimension, in a block)."""
_COPIED = (tile.ROW_ALIGNMENT, INDEX_RUNS)
"""Attributes of a load that hold for its copy."""


def stored_operand(
    value: SSAValue, dim: int, op: Operation, function: FuncOp, stored: Stored, span: int
) -> tuple[SSAValue, SSAValue]:
    """A buffer in which a tile is written before the dot, contiguous along `dim`, and its stage.

    Where no loop around the dot computes it, a tile and the transposed one are written once: the bytes are the same.
    """
    turned = False
    while isinstance(value.owner, tile.TransOp) and (
        op.parent is function.body.block or _outside_loops(value.owner.source, op) is not op
    ):
        value, turned = value.owner.source, not turned
    place = _outside_loops(value, op)
    own_dim = 1 - dim if turned else dim
    key = (value, own_dim, place.parent)
    if key not in stored:
        buffer = allocate(value.type, own_dim, span, function)
        stored[key] = buffer, _store(value, buffer, place, function)
    buffer, stage = stored[key]
    return (transposed_view(buffer) if turned else buffer), stage


def first_stage(before: Operation) -> SSAValue:
    return Emitter(before).constant(0, i32)


def _outside_loops(value: SSAValue, op: Operation) -> Operation:
    """Where a tile can be written once for all times that `op` reads it: before the loops around `op`
    that do not change it."""
    owner = value.owner
    block = owner if isinstance(owner, Block) else owner.parent
    return op if block is None or block is op.parent else outermost_in(block, op)


def _store(value: SSAValue, buffer: SSAValue, place: Operation, function: FuncOp) -> SSAValue:
    """Write a tile to the stage of a buffer, which is returned; outside of the loops that read it, barriers
    stand around that."""
    slot = first_stage(place)
    store = gpu.LocalStoreOp.create(operands=[value, buffer, slot], location=place.location)
    outside = bool(place.regions)
    if outside and is_in_loop(place, function):
        insert_before(gpu.BarrierOp.create(), place)
    insert_before(store, place)
    if outside:
        insert_before(gpu.BarrierOp.create(), place)
    return slot


def allocate(held: Any, dim: int, span: int, function: FuncOp) -> SSAValue:
    """A buffer for one tile of the type `held`, contiguous along `dim`, in panels of `span`."""
    (rows, columns), element = held.get_shape(), held.element_type
    layout = SharedLayout(rows, columns, tile.element_bytes(element), dim, span)
    kind = gpu.SharedType(TensorType(element, [rows, columns]), StringAttr(str(layout)), IntAttr(1))
    alloc = gpu.LocalAllocOp.create(result_types=[kind])
    insert_before(alloc, start_of(function.body.block))
    return alloc.result


def copy_of(
    load: tile.LoadViewOp, layout: Layout | None, buffer: SSAValue, slot: SSAValue, active: SSAValue
) -> gpu.AsyncCopyOp:
    """A load's access as a copy, by threads in `layout`."""
    groups = [
        [load.base], load.strides, load.starts, load.sizes, load.indices, load.limits,
        [] if load.mask is None else [load.mask], [buffer], [slot], [active],
    ]  # fmt: skip
    properties = {"kinds": load.kinds, "limited": load.limited, "layout": StringAttr(str(layout))}
    copy = tile.make_view(gpu.AsyncCopyOp, groups, properties)
    copy.attributes.update({k: load.attributes[k] for k in _COPIED if k in load.attributes})
    copy.location = load.location
    return copy
