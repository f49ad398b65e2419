"""Buffers in shared memory and their views as transposed tiles (`gpu.memdesc_trans`)."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import gpu
from tilewright.passes.analysis.edit import insert_before


def transposed_type(kind: gpu.SharedType) -> gpu.SharedType:
    """The type of a buffer as the transposed tiles."""
    held: Any = kind.tile
    rows, columns = held.get_shape()
    layout = StringAttr(str(gpu.parse_shared(kind.layout.data).transposed))
    return gpu.SharedType(TensorType(held.element_type, [columns, rows]), layout, kind.stages)


def buffer_root(value: SSAValue) -> SSAValue:
    """The buffer of which `value` is a view, or itself."""
    while isinstance(value.owner, gpu.MemdescTransOp):
        value = value.owner.source
    return value


def buffer_users(buffer: SSAValue) -> list[Operation]:
    """The operations that use a buffer, itself or transposed."""
    found: list[Operation] = []
    for use in buffer.uses:
        op = use.operation
        found += buffer_users(op.result) if isinstance(op, gpu.MemdescTransOp) else [op]
    return found


def transposed_view(buffer: SSAValue) -> SSAValue:
    """The view of a buffer as the transposed tiles, made after it where there is none yet."""
    for use in buffer.uses:
        if isinstance(use.operation, gpu.MemdescTransOp):
            return use.operation.result
    kind: Any = buffer.type
    view = gpu.MemdescTransOp.create(operands=[buffer], result_types=[transposed_type(kind)])
    alloc: Any = buffer.owner
    insert_before(view, alloc.next_op)
    return view.result


def retype_views(buffer: SSAValue) -> None:
    """Give the views of a buffer its layout."""
    for use in buffer.uses:
        if isinstance(view := use.operation, gpu.MemdescTransOp):
            kind: Any = view.source.type
            view.result._type = transposed_type(kind)
            retype_views(view.result)
