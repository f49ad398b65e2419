"""Buffers in shared memory, their views as transposed tiles (`gpu.memdesc_trans`), and where a program uses them."""

from __future__ import annotations

from typing import Any

from xdsl.dialects import scf
from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import gpu
from tilewright.passes.analysis.edit import insert_before, outermost_in


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


def program_block(function: FuncOp) -> Block:
    """The innermost block that runs at most once per program and holds all uses of buffers: the branch that does the work
    of a program where others return early, or the function's block."""
    block = function.body.block
    while True:
        users = [op for op in block.ops if _uses_buffers(op)]
        if len(users) != 1 or not isinstance(users[0], scf.IfOp):
            return block
        inner = [
            r.block for r in users[0].regions if r.blocks and any(map(_uses_buffers, r.block.ops))
        ]
        if len(inner) != 1:
            return block
        block = inner[0]


def outermost_in_program(function: FuncOp, op: Operation) -> Operation:
    """The operation of the program's block (`program_block`) that is `op` or holds it; of the function's, where `op` is
    in another branch."""
    found = program_block(function).find_ancestor_op_in_block(op)
    return found or outermost_in(function.body.block, op)


def _uses_buffers(op: Operation) -> bool:
    return any(
        isinstance(operand.type, gpu.SharedType)
        for each in op.walk()
        if type(each) is not gpu.MemdescTransOp
        for operand in each.operands
    )
