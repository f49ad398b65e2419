"""Left operands of `wgmma` in registers (RS), and layouts of operands that are stored to shared memory.

A tile whose registers already are the instruction's A fragment (PTX ISA, "Register fragments for
wgmma.mma_async", matrix A) needs no shared memory: the probabilities of attention, whose layout is that of a
16-bit dot's accumulator, and operands that are loaded from a stage, converted and multiplied (the terms of a
split dot), which threads load in the fragment's layout.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, scf
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.ir.types import defining_op
from tilewright.ir.walk import closure, innermost_loop
from tilewright.layouts import Layout
from tilewright.layouts.blocked import smem_transpose_layout
from tilewright.layouts.fragments import exchanges_in_quads, parse_wgmma, wgmma_a_layout
from tilewright.passes.analysis.edit import erase, insert_before, with_operands
from tilewright.passes.analysis.effects import is_pure, is_pure_elementwise
from tilewright.passes.analysis.emit import Emitter
from tilewright.passes.gpu.analysis.anchor_layouts import is_cheap
from tilewright.passes.gpu.analysis.buffer_views import buffer_root, buffer_users
from tilewright.passes.gpu.analysis.num_ctas import num_ctas_of, warps_of
from tilewright.passes.gpu.assign_layouts import source_layout
from tilewright.passes.gpu.select_mma import instruction_of, is_wgmma

_MOST_REGISTERS = 192
"""Registers per thread, of 255; the rest is for addresses and prefetched values."""
_FEWEST_CONVERSIONS = 2
_MADE_AGAIN = (
    tile.LoadViewOp, tile.SplatOp, tile.ArangeOp, tile.HintOp, gpu.ConvertLayoutOp,
)  # fmt: skip
_FEW_ELEMENTS = 4
"""Of a thread, of a row that is loaded again in another layout."""
_DEEPEST = 16
"""Operations one after another that make such a row."""
_CASTS = (arith.TruncFOp, arith.ExtFOp)
_MOST_COPIES = 2
"""Elements per thread, over those of a layout without copies, up to which operands are computed where a dot wants them."""


def wanted_layout(op: tile.DotOp) -> Layout | None:
    """The layout in which a dot takes its left operand from registers; None where it cannot."""
    if not is_wgmma(op) or parse_wgmma(instruction_of(op)).through:
        return None
    (m, n), k = tile.shape_of(op.result), tile.shape_of(op.lhs)[1]
    return wgmma_a_layout(parse_wgmma(instruction_of(op)), m, n, k, warps_of(op))


def is_register_operand(op: tile.DotOp) -> bool:
    """Whether the left operand is in the A fragment's layout and is recomputed in every iteration.

    Loop-invariant operands go to shared memory: they would occupy registers in all iterations, and ptxas before
    CUDA 13.4 assigns those to other operands as well.
    """
    made, block = op.lhs.owner, op.parent
    if block is None or isinstance(made, Block) or made.parent is not block:
        return False
    layout, own = wanted_layout(op), gpu.layout_of(op.lhs)
    if layout is None or own is None or not _changes(op.lhs, block):
        return False
    return own == layout or (_is_byte(op.lhs) and exchanges_in_quads(own, layout))


def register_operand(op: tile.DotOp) -> SSAValue:
    """The left operand of such a dot as it takes it; sums of 8-bit dots' operands are exchanged in quads of lanes."""
    layout = wanted_layout(op)
    if layout is None or gpu.layout_of(op.lhs) == layout:
        return op.lhs
    kind = gpu.laid_out(tile.element_of(op.lhs), layout)
    return Emitter(op).make(gpu.ConvertLayoutOp, [op.lhs], kind)


def _is_byte(value: SSAValue) -> bool:
    return tile.element_bytes(value) == 1


def _changes(value: SSAValue, block: Block) -> bool:
    """Whether a tile of a block is loop-variant: it depends on block arguments or on operations with effects."""
    if not isinstance(block.parent_op(), scf.ForOp | scf.WhileOp):
        return True

    def here(value: SSAValue) -> Sequence[SSAValue]:
        made = value.owner
        return made.operands if isinstance(made, Operation) and made.parent is block else ()

    for owner in (current.owner for current in closure([value], here)):
        if owner is block:
            return True
        if isinstance(owner, Block) or owner.parent is not block:
            continue
        if isinstance(owner, gpu.WgmmaOp | gpu.LocalLoadOp) and _reads_written(owner, block):
            return True
        if not is_pure(owner) and not isinstance(owner, gpu.WgmmaWaitOp | gpu.WgmmaOp):
            return True
    return False


def _reads_written(op: Operation, block: Block) -> bool:
    """Whether a buffer that `op` reads is written in a block."""
    written = (gpu.AsyncCopyOp, gpu.LocalStoreOp, gpu.LocalTransposeOp)
    buffers = [buffer_root(v) for v in op.operands if isinstance(v.type, gpu.SharedType)]
    users = [user for buffer in buffers for user in buffer_users(buffer)]
    return any(isinstance(user, written) and user.parent is block for user in users)


def assign_operand_layout(read: gpu.LocalLoadOp) -> None:
    """Read a stage in the layout that suits the dots, if all that is made of it, element-wise, is left
    operands of them (which then stay in registers), or is right operands that have to lie along k, and do
    not (which are written as chunks of 16 bytes)."""
    users = _users(read)
    dots = [op for op in users if isinstance(op, tile.DotOp)]
    made: set[SSAValue] = {read.result}
    for op in users:
        made.update(() if op in dots else op.results)
    layouts = {_suits(op, made, read) for op in dots}
    layout = layouts.pop() if len(layouts) == 1 else None
    if layout is None or not all(op in dots or _may_move(op, made) for op in users):
        return
    _assign_layout(made, [op for op in users if op not in dots], layout)


def read_in_each_layout(read: gpu.LocalLoadOp) -> None:
    """Read a stage again for each conversion of what is read, where several dots take it in layouts of their own: a
    conversion would store the tile to shared memory once more."""
    converts = [use.operation for use in read.result.uses]
    if len(converts) < _FEWEST_CONVERSIONS:
        return
    for convert in converts:
        if isinstance(convert, gpu.ConvertLayoutOp) and convert.parent is read.parent:
            again = Emitter(convert).make(gpu.LocalLoadOp, read.operands, convert.result.type)
            again.name_hint = read.result.name_hint
            convert.result.replace_all_uses_with(again)
            erase(convert)
    if not read.result.uses:
        erase(read)


def read_for_casts(read: gpu.LocalLoadOp) -> None:
    """Read a stage again in the layout to which a cast of what is read is converted: the operand of a dot, beside other
    users of the tile. A conversion would store the tile to shared memory once more."""
    own = gpu.layout_of(read.result)
    for use in list(read.result.uses):
        cast = use.operation
        ends = [end.operation for result in cast.results for end in result.uses]
        converts = [end for end in ends if isinstance(end, gpu.ConvertLayoutOp)]
        layouts = {gpu.layout_of(convert.result) for convert in converts}
        layout = layouts.pop() if len(layouts) == 1 else None
        if not isinstance(cast, _CASTS) or cast.parent is not read.parent or own is None:
            continue
        if len(converts) < len(ends) or layout is None:
            continue
        if layout.registers_per_thread > _MOST_COPIES * own.registers_per_thread:
            continue
        kind = gpu.laid_out(tile.element_of(read.result), layout)
        again = Emitter(read).make(gpu.LocalLoadOp, read.operands, kind)
        again.name_hint = read.result.name_hint
        cast.operands[0] = again
        cast.results[0]._type = gpu.laid_out(tile.element_of(cast.results[0]), layout)
        for convert in converts:
            convert.result.replace_all_uses_with(cast.results[0])
            erase(convert)
    if not read.result.uses:
        erase(read)


def read_converted(read: gpu.LocalLoadOp) -> None:
    """Load a stage in the layout that its elementwise users need: the layout to which their results, or from
    which other operands (accumulators), are converted. Dots accept any layout."""
    users = _users(read)
    ends = [op for op in users if isinstance(op, gpu.ConvertLayoutOp | tile.DotOp)]
    middle = [op for op in users if op not in ends]
    made: set[SSAValue] = {read.result, *(v for op in middle for v in op.results)}
    others = [v for op in middle for v in op.operands if tile.is_tile(v) and v not in made]
    others = [v for v in others if not isinstance(v.owner, tile.SplatOp | tile.BroadcastOp)]
    inputs = [v.owner for v in others]
    converts = [op for op in (*inputs, *ends) if isinstance(op, gpu.ConvertLayoutOp)]
    if not all(isinstance(op, gpu.ConvertLayoutOp) for op in inputs):
        return
    if not all(is_pure_elementwise(op) for op in middle):
        return
    if any(op.acc in made for op in ends if isinstance(op, tile.DotOp)):
        return
    layouts = {gpu.layout_of(op.source if op in inputs else op.result) for op in converts}
    layout = layouts.pop() if len(layouts) == 1 else None
    own = gpu.layout_of(read.result)
    if layout is None or own is None:
        return
    moves = not middle and len(converts) == len(
        ends
    )  # as many elements are read after a conversion
    if not moves and layout.registers_per_thread > _MOST_COPIES * own.registers_per_thread:
        return
    for op in middle:
        for i, value in enumerate(op.operands):
            if value.owner in inputs:
                op.operands[i] = defining_op(value).operands[0]
    _assign_layout(made, middle, layout)
    for op in ends:
        if isinstance(op, gpu.ConvertLayoutOp):
            op.result.replace_all_uses_with(op.source)
            erase(op)


def _assign_layout(made: set[SSAValue], users: list[Operation], layout: Layout) -> None:
    """Give tiles a layout, and the splats, rows and columns that `users` combine them with."""
    for value in made:
        value._type = gpu.laid_out(tile.element_of(value), layout)
    for op in users:
        for i, value in enumerate(op.operands):
            if tile.is_tile(value) and value not in made:
                op.operands[i] = _spread(value, layout, op)


def _spread(value: SSAValue, layout: Layout, user: Operation) -> SSAValue:
    """A splat, or a row or column spread over a tile, in another layout: what it is made of is converted instead."""
    op = value.owner
    if isinstance(op, gpu.ConvertLayoutOp):
        value, op = op.source, op.source.owner
    if gpu.layout_of(value) == layout:
        return value
    kind = gpu.laid_out(tile.element_of(value), layout)
    if not isinstance(op, tile.SplatOp | tile.BroadcastOp | tile.ExpandDimsOp):
        if _can_make_again(value, layout, user):
            return _make_again(value, layout, user)
        return Emitter(user).make(gpu.ConvertLayoutOp, [value], kind)
    new = op.clone()
    new.results[0]._type = kind
    source = source_layout(op, layout)
    if source is not None:
        new.operands[0] = _spread(op.operands[0], source, user)
    insert_before(new, user)
    return new.results[0]


def _can_make_again(value: SSAValue, layout: Layout, user: Operation, depth: int = 0) -> bool:
    """Whether a row is loaded and computed in another layout in few instructions, instead of passing through shared
    memory: caches serve the threads that want the same elements. What does not change in the loop around `user` is
    computed in front of it."""
    op = value.owner
    if gpu.layout_of(value) == layout:
        return True
    if isinstance(op, Block) or layout.rank != 1 or layout.registers_per_thread > _FEW_ELEMENTS:
        return False
    loop = innermost_loop(user)
    before = loop is not None and not loop.is_ancestor(op) and is_pure_elementwise(op)
    if num_ctas_of(op) > 1 or not (isinstance(op, _MADE_AGAIN) or is_cheap(op) or before):
        return False
    tiles = {v for v in op.operands if tile.is_tile(v)}
    return depth < _DEEPEST and all(_can_make_again(v, layout, user, depth + 1) for v in tiles)


def _make_again(value: SSAValue, layout: Layout, user: Operation) -> SSAValue:
    """Such a row, available before `user`; loads are where memory is as it was."""
    if gpu.layout_of(value) == layout:
        return value
    op = defining_op(value)
    if isinstance(op, gpu.ConvertLayoutOp):
        return _make_again(op.source, layout, user)
    if isinstance(op, tile.LoadViewOp):
        user = op.next_op or op
    operands = [_make_again(v, layout, user) if tile.is_tile(v) else v for v in op.operands]
    copy = with_operands(op, operands, [gpu.laid_out(tile.element_of(value), layout)])
    insert_before(copy, user)
    copy.results[0].name_hint = value.name_hint
    return copy.results[0]


def _suits(op: tile.DotOp, made: set[SSAValue], read: gpu.LocalLoadOp) -> Layout | None:
    """The layout in which a dot should get its operand, which is among the tiles `made` of a stage."""
    mine = [value in made for value in (op.lhs, op.rhs, op.acc)]
    if mine == [True, False, False]:
        return wanted_layout(op) if _has_room(op) else None
    if mine != [False, True, False] or not is_wgmma(op):
        return None
    shape, size = tile.shape_of(op.rhs), tile.element_bytes(op.rhs)
    by_k = parse_wgmma(instruction_of(op)).majors[1] == 0
    turns = by_k and size == 4 and gpu.shared_layout_of(read.buffer).major_dim == 1
    return smem_transpose_layout(shape, warps_of(op), 0) if turns and shape[0] % 4 == 0 else None


def _has_room(op: tile.DotOp) -> bool:
    """Whether accumulator and RS operand, both in two parts, fit into a thread's registers."""
    (m, n), k = tile.shape_of(op.result), tile.shape_of(op.lhs)[1]
    return 2 * m * (n + k) <= _MOST_REGISTERS * 32 * warps_of(op)


def _users(read: gpu.LocalLoadOp) -> list[Operation]:
    """All users of a tile, through elementwise operations; unordered."""

    def users(op: Operation) -> list[Operation]:
        return [use.operation for result in op.results for use in result.uses]

    return list(closure(users(read), lambda op: users(op) if is_pure_elementwise(op) else []))


def _may_move(op: Operation, made: set[SSAValue]) -> bool:
    """Whether an operation takes its tiles in another layout: one that is element-wise with nothing but
    those tiles, scalars and splats."""
    others = [v for v in op.operands if tile.is_tile(v) and v not in made]
    return is_pure_elementwise(op) and all(isinstance(v.owner, tile.SplatOp) for v in others)
