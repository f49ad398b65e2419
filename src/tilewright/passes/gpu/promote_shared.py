"""`promote-shared`: stage operands of tensor-core dots in shared memory.

A `tile.dot` for which `select-mma` chose `wgmma` or `fma.f32` reads both operands from shared memory. An operand
whose load has no other user becomes a `gpu.async_copy` into its buffer if vectors of at least 4 bytes are possible;
any other operand is stored there from registers. 16-bit operands keep their major order. Others must be K-major: a
`gpu.local_transpose` into a second buffer transposes them, or, for small tiles, the copying threads do. Loads from
which a loop computes operands elementwise are copied to separate buffers and read from there (`gpu.local_load`),
so that `pipeline-loads` can issue them ahead. Dots that accumulate onto each other share waits and barriers.

A left operand that is computed from a 16-bit accumulator (the probabilities of attention) or from elements loaded
in the fragment's layout (the terms of a split dot) stays in registers (`analysis/register_operands.py`); a
loop-invariant operand is stored to its buffer before the loop. Buffers used in one loop only are deallocated
after it.

`mma.sync` takes its operands from registers. An operand whose load has no other user becomes a copy to a buffer and
a `gpu.local_load` in the instruction's layout, instead of a layout conversion through shared memory; operands
computed elementwise from loads are copied and read as above. With `loop-operands`, for kernels that spill otherwise, an
operand that no iteration changes and whose fragment takes half of the registers is stored in front of the loop and read
in it. Other operands are unchanged, and so are those that exceed the target's shared memory.

    Change:
          func.func @k(%a: tensor<64x16xf16, "64x16 r[0,1 8,0 0,8] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0]">, %b: tensor<16x16xf16, "16x16 r[0,1] l[0,2 0,4 0,8 1,0 2,0] w[4,0 8,0]">, %c: tensor<64x16xf32, "64x16 r[0,1 8,0 0,8] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0]">) {
        -   %d = tile.dot %a, %b, %c, "ieee" {gpu.mma = "wgmma.k16.f16"} : tensor<64x16xf16, "64x16 r[0,1 8,0 0,8] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0]">, tensor<16x16xf16, "16x16 r[0,1] l[0,2 0,4 0,8 1,0 2,0] w[4,0 8,0]">, tensor<64x16xf32, "64x16 r[0,1 8,0 0,8] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0]"> to tensor<64x16xf32, "64x16 r[0,1 8,0 0,8] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0]">
        +   %0 = gpu.local_alloc : !gpu.shared<tensor<16x16xf16>, "16x16x2 dim1 swizzle0", 1>
        +   %1 = gpu.local_alloc : !gpu.shared<tensor<64x16xf16>, "64x16x2 dim1 swizzle0", 1>
        +   %2 = arith.constant 0 : i32
        +   gpu.local_store %a, %1[%2] : tensor<64x16xf16, "64x16 r[0,1 8,0 0,8] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0]">, !gpu.shared<tensor<64x16xf16>, "64x16x2 dim1 swizzle0", 1>
        +   %3 = arith.constant 0 : i32
        +   gpu.local_store %b, %0[%3] : tensor<16x16xf16, "16x16 r[0,1] l[0,2 0,4 0,8 1,0 2,0] w[4,0 8,0]">, !gpu.shared<tensor<16x16xf16>, "16x16x2 dim1 swizzle0", 1>
        +   gpu.barrier
        +   %4 = gpu.wgmma "wgmma.k16.f16" %1[%2], %0[%3], %c : !gpu.shared<tensor<64x16xf16>, "64x16x2 dim1 swizzle0", 1>, !gpu.shared<tensor<16x16xf16>, "16x16x2 dim1 swizzle0", 1>, tensor<64x16xf32, "64x16 r[0,1 8,0 0,8] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0]"> to tensor<64x16xf32, "64x16 r[0,1 8,0 0,8] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0]">
        +   %d = gpu.wgmma_wait %4, 0 : i32 : tensor<64x16xf32, "64x16 r[0,1 8,0 0,8] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0]"> to tensor<64x16xf32, "64x16 r[0,1 8,0 0,8] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0]">
        +   gpu.barrier
            func.return
          }

Requires `assign-layouts`. Ensures: no `wgmma` dot remains a `tile.dot`; buffers are read only between barriers.
`swizzle-shared` then chooses their layouts, and `pipeline-loads` issues copies ahead.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, StringAttr, i1, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.ir.walk import innermost_loop
from tilewright.layouts import Layout
from tilewright.layouts.blocked import transposed_copy_layout
from tilewright.layouts.fragments import INSTRUCTIONS, parse_wgmma
from tilewright.layouts.shared import LINEAR, is_transposable
from tilewright.passes.analysis.edit import (
    block_of,
    erase,
    insert_before,
    replace_op,
    with_operands,
)
from tilewright.passes.analysis.effects import erase_dead
from tilewright.passes.analysis.emit import Emitter
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.analysis.remarks import Missed, Reason, report_missed
from tilewright.passes.base import FunctionPass
from tilewright.passes.gpu.analysis.accesses import contiguous_dim
from tilewright.passes.gpu.analysis.buffer_views import transposed_view
from tilewright.passes.gpu.analysis.dot_chains import chain_dots
from tilewright.passes.gpu.analysis.num_ctas import num_ctas_of
from tilewright.passes.gpu.analysis.operand_buffers import (
    Stored,
    allocate,
    copy_of,
    first_stage,
    stored_operand,
)
from tilewright.passes.gpu.analysis.register_operands import (
    assign_operand_layout,
    is_register_operand,
    read_converted,
    read_for_casts,
    read_in_each_layout,
    register_operand,
)
from tilewright.passes.gpu.analysis.shared_allocation import (
    allocated,
    release_at_barriers,
    release_between_loops,
)
from tilewright.passes.gpu.analysis.staging import (
    COPY,
    can_copy,
    copied_together,
    is_converted_again,
    is_read_transposed,
    shared_loads,
    staged_loads,
)
from tilewright.passes.gpu.select_mma import (
    instruction_of,
    is_wgmma,
    reads_shared,
)
from tilewright.targets import TargetInfo

_MOST_WORDS = 128
"""Registers of a thread that a fragment may take all through a loop: half of them."""

Copied = dict[SSAValue, tuple[SSAValue, SSAValue]]
"""Loaded tiles that several operations use, and the stages of buffers that they are copied to."""


@dataclass(frozen=True)
class PromoteShared(FunctionPass):
    relevant_ops = ("tile.dot", "gpu.wgmma", "gpu.local_alloc")
    requires = ("assign-layouts",)
    register_operands: bool = True
    """Keep left operands of `wgmma` in registers that already have the fragment's layout, and choose layouts of
    loads from which operands are computed."""
    loop_operands: bool = False
    """Read large operands of `mma.sync` that no iteration changes from shared memory in each iteration."""

    def run(self, function: FuncOp, target: TargetInfo) -> None:
        if num_ctas_of(function) > 1:
            return
        known, stored = Facts(), Stored()
        copied = _copy_shared(function, known)
        dots = [op for op in function.walk() if isinstance(op, tile.DotOp)]
        for op in filter(reads_shared, dots):
            for read in _stage(op, function, known, target.shared_bytes):
                if self.register_operands:
                    assign_operand_layout(read)
        for op in filter(reads_shared, dots):
            _promote(op, function, known, stored, copied, self.register_operands)
        erase_dead(function.body.block)
        mmas = [op for op in function.walk() if isinstance(op, gpu.WgmmaOp)]
        for block in {block_of(op): None for op in mmas}:
            chain_dots(block)
        limit = target.shared_bytes // 2
        for op in dots:
            if op.parent is not None and instruction_of(op) in INSTRUCTIONS:
                _promote_fragments(op, function, known, limit)
                if _stage(op, function, known, limit):
                    _barrier_behind(op)
                if self.loop_operands:
                    _share_loop_operands(op, function, stored, limit)
        release_between_loops(function)
        release_at_barriers(function)


def _copy_shared(function: FuncOp, known: Facts) -> Copied:
    """Stage tiles that several operations of a loop use, dots among them: dots read the buffer, directly or
    transposed, and the other users the result of one `gpu.local_load`."""
    copied: Copied = {}
    for load, first in shared_loads(function, known):
        value = load.result
        buffer, slot = _operand(value, load, contiguous_dim(load), first, function, {})
        turned = [use.operation for use in value.uses if is_read_transposed(use.operation)]
        for op in turned:
            copied[op.results[0]] = transposed_view(buffer), slot
        others = [
            use
            for use in value.uses
            if not isinstance(use.operation, tile.DotOp) and use.operation not in turned
        ]
        _land(first)
        if others:
            read = _read(load, buffer, slot, value.type)
            for new in (gpu.BarrierOp.create(location=load.location), read):
                insert_before(new, first)
            for use in others:
                use.operation.operands[use.index] = read.result
        copied[value] = buffer, slot
    return copied


def _promote(
    op: tile.DotOp, function: FuncOp, known: Facts, stored: Stored, copied: Copied, registers: bool
) -> None:
    required = parse_wgmma(instruction_of(op)).majors if is_wgmma(op) else (None, None)
    operands = tuple(zip((op.lhs, op.rhs), required, strict=True))
    loads = [
        None if value in copied else _copyable(value, op, dim, known) for value, dim in operands
    ]
    in_registers = (
        registers and loads[0] is None and op.lhs not in copied and is_register_operand(op)
    )
    places = [
        (register_operand(op), first_stage(op))
        if in_registers and number == 0  # the other operand may be the same tile
        else copied.get(value) or _operand(value, load, dim, op, function, stored)
        for number, ((value, dim), load) in enumerate(zip(operands, loads, strict=True))
    ]
    if any(load is not None for load in loads):
        _land(op)
    insert_before(gpu.BarrierOp.create(location=op.location), op)
    places = [
        _turned(place, dim, op, function) for place, dim in zip(places, required, strict=True)
    ]
    if isinstance(op.prev_op, gpu.LocalTransposeOp):
        insert_before(gpu.BarrierOp.create(location=op.location), op)
    (a, a_slot), (b, b_slot) = places
    e, kind = Emitter(op), op.result.type
    how: dict[str, Attribute] = {"instruction": StringAttr(instruction_of(op))}
    if op.max_num_imprecise_acc is not None:
        how["max_num_imprecise_acc"] = op.max_num_imprecise_acc
    multiply = e.make(gpu.WgmmaOp, [a, a_slot, b, b_slot, op.acc], kind, **how)
    done = e.make(gpu.WgmmaWaitOp, [multiply], kind, pending=IntegerAttr(0, i32))
    e.insert_op(gpu.BarrierOp.create())
    replace_op(op, [done])
    for load in loads:
        if load is not None:
            erase(load)


def _stage(op: tile.DotOp, function: FuncOp, known: Facts, limit: int) -> list[gpu.LocalLoadOp]:
    """Stage the loads from which the operands of `op` are computed.

    `limit`: bytes of all buffers, including those of the block's operands; twice that where operands are computed
    from more than loads, which pays off if copies can be issued ahead. Loads that several dots take in different layouts
    pass through shared memory anyway.
    """
    found, alone = staged_loads(op)
    groups = [
        ([load for load in loads if can_copy(load, first, known)], first)
        for loads, first in copied_together(found)
    ]
    dots = [dot for dot in op.parent.ops if isinstance(dot, tile.DotOp)] if op.parent else []
    tiles = {value for dot in dots if reads_shared(dot) for value in (dot.lhs, dot.rhs)}
    tiles |= {load.result for loads, _ in groups for load in loads}
    if alone:  # other dots of registers take no shared memory for what is not loaded
        others = [load for dot in dots if not reads_shared(dot) for load in staged_loads(dot)[0]]
        tiles |= {load.result for load in others if len(tile.shape_of(load.result)) == 2}
    stages = 1 if alone else 2
    if allocated(function) + stages * sum(map(tile.bytes_of, tiles)) > limit:
        tiles = {load.result for loads, _ in groups for load in loads if is_converted_again(load)}
        groups = [([load for load in loads if load.result in tiles], at) for loads, at in groups]
        if allocated(function) + sum(map(tile.bytes_of, tiles)) > limit:
            return []
    return [read for loads, first in groups for read in _stage_group(loads, first, op, function)]


def _stage_group(
    loads: list[tile.LoadViewOp], first: Operation, op: tile.DotOp, function: FuncOp
) -> list[gpu.LocalLoadOp]:
    """Insert copies before `first`, and replace the loads by reads of the buffers."""
    reads: list[gpu.LocalLoadOp] = []
    for load in loads:
        buffer, slot = _operand(load.result, load, contiguous_dim(load), first, function, {})
        reads.append(_read(load, buffer, slot, load.result.type))
    if reads:
        _land(first)
        for new in (gpu.BarrierOp.create(location=op.location), *reads):
            insert_before(new, first)
    for load, read in zip(loads, reads, strict=True):
        load.result.replace_all_uses_with(read.result)
        erase(load)
        read_converted(read)
        read_in_each_layout(read)
        if read.parent is not None:
            read_for_casts(read)
    return [read for read in reads if read.parent is not None]


def _read(
    load: tile.LoadViewOp, buffer: SSAValue, slot: SSAValue, kind: Attribute
) -> gpu.LocalLoadOp:
    """Read, in no block yet, from a stage of a buffer what was loaded."""
    read = gpu.LocalLoadOp.create(
        operands=[buffer, slot], result_types=[kind], location=load.location
    )
    read.result.name_hint = load.result.name_hint
    return read


def _land(before: Operation) -> None:
    """Commit the copies issued so far, and wait for them."""
    insert_before(gpu.AsyncCommitGroupOp.create(), before)
    insert_before(gpu.AsyncWaitOp.create(properties={"pending": IntegerAttr(0, i32)}), before)


def _copyable(
    value: SSAValue, op: tile.DotOp, required: int | None, known: Facts
) -> tile.LoadViewOp | None:
    """The load of an operand, when it can be an asynchronous copy next to the dot.

    `required`: the dimension along which the buffer has to be contiguous, where there is no choice.
    """
    load = value.owner
    if not isinstance(load, tile.LoadViewOp):
        return None
    dim = contiguous_dim(load)
    if load.parent is not op.parent or not value.has_one_use():
        near = load.parent is op.parent
        report_missed(load, COPY, Missed(Reason.SEVERAL_USES if near else Reason.NOT_IN_LOOP))
        return None
    straight = dim is None or required in (None, dim) or _turns(value, dim)
    return load if can_copy(load, op, known, straight) else None


def _turns(value: SSAValue, dim: int) -> bool:
    """Whether `gpu.local_transpose` takes a tile that is contiguous along `dim`."""
    shape = tile.shape_of(value)
    return is_transposable(shape[1 - dim], shape[dim], tile.element_bytes(value))


def _turned(
    place: tuple[SSAValue, SSAValue], required: int | None, op: tile.DotOp, function: FuncOp
) -> tuple[SSAValue, SSAValue]:
    """A buffer in the required major order, filled from the one at `place` if they differ."""
    source, slot = place
    if (
        required is None
        or tile.is_tile(source)
        or gpu.shared_layout_of(source).major_dim == required
    ):
        return place
    target = allocate(gpu.buffer_type(source).tile, required, 0, function)
    turn = gpu.LocalTransposeOp.create(operands=[source, slot, target, slot], location=op.location)
    insert_before(turn, op)
    return target, slot


def _operand(
    value: SSAValue,
    load: tile.LoadViewOp | None,
    required: int | None,
    op: Operation,
    function: FuncOp,
    stored: Stored,
    span: int = 0,
) -> tuple[SSAValue, SSAValue]:
    """A buffer that holds `value` before the dot, and its stage."""
    dim = required
    if load is not None:
        along = contiguous_dim(load) or 0
        dim = along if dim is None or _turns(value, along) else dim
    if dim is None:
        dim = _dim_of_neighbors(gpu.layout_of(value))
    if load is None:
        return stored_operand(value, dim, op, function, stored, span)
    buffer = allocate(value.type, dim, span, function)
    slot = first_stage(op)
    active = Emitter(op).constant(1, i1)
    layout = gpu.layout_of(value)
    if contiguous_dim(load) != dim and layout is not None:
        layout = transposed_copy_layout(layout.shape, layout.warp_count, dim)
    insert_before(copy_of(load, layout, buffer, slot, active), op)
    return buffer, slot


def _dim_of_neighbors(layout: Layout | None) -> int:
    """The dimension along which a thread holds neighbors, or else the lanes of a warp do: their stores are wide, or have no
    bank conflicts."""
    if layout is not None:
        for step in (*layout.registers, *layout.lanes):
            if sum(step) == 1:
                return step.index(1)
    return 1


# ---- mma.sync ---------------------------------------------------------------------------------------


def _promote_fragments(op: tile.DotOp, function: FuncOp, known: Facts, limit: int) -> None:
    """Copies and reads of the operands that are loaded for `op` alone; `limit`: bytes of all buffers."""
    if len(tile.shape_of(op.lhs)) != 2:
        return
    room = limit - allocated(function)
    reads: list[Operation] = []
    for index, value in enumerate((op.lhs, op.rhs)):
        behind = _casts(value, op)
        converted = behind[-1].operands[0] if behind else value
        convert = converted.owner
        if not isinstance(convert, gpu.ConvertLayoutOp) or not converted.has_one_use():
            continue
        before = _casts(convert.source, op)
        source = before[-1].operands[0] if before else convert.source
        casts = [*behind, *before]
        load = _copyable(source, op, None, known)
        size = tile.bytes_of(source)
        if load is None or size > room:
            continue
        room -= size
        buffer, slot = _operand(source, load, None, op, function, {}, LINEAR)
        layout = gpu.layout_of(value)
        kind = value.type if layout is None else gpu.laid_out(tile.element_of(source), layout)
        read = _read(load, buffer, slot, kind)
        reads += [read, *_again(casts, read.result, value)]
        op.operands[index] = reads[-1].results[0]
        for old in (*behind, convert, *before, load):
            erase(old)
    if not reads:
        return
    _land(op)
    for new in (gpu.BarrierOp.create(location=op.location), *reads):
        insert_before(new, op)
    _barrier_behind(op)


def _share_loop_operands(op: tile.DotOp, function: FuncOp, stored: Stored, limit: int) -> None:
    """Write operands that are the same in all iterations to shared memory in front of the loop where their fragments
    take many registers, and read them in the loop."""
    for index, value in enumerate((op.lhs, op.rhs)):
        convert, layout = value.owner, gpu.layout_of(value)
        if not isinstance(convert, gpu.ConvertLayoutOp) or layout is None or layout.rank != 2:
            continue
        source, loop = convert.source, innermost_loop(op)
        words = layout.registers_per_thread * tile.element_bytes(value) // 4
        if words < _MOST_WORDS or loop is None or loop.is_ancestor(source.owner):
            continue
        if allocated(function) + tile.bytes_of(source) > limit:
            continue
        dim = _dim_of_neighbors(gpu.layout_of(source))
        buffer, slot = stored_operand(source, dim, op, function, stored, LINEAR)
        read = gpu.LocalLoadOp.create(
            operands=[buffer, slot], result_types=[value.type], location=op.location
        )
        insert_before(read, op)
        op.operands[index] = read.result


def _barrier_behind(op: Operation) -> None:
    """Ensure that reads for a dot have completed when the next copies are issued."""
    following = op.next_op
    if following is not None and not isinstance(following, gpu.BarrierOp):
        insert_before(gpu.BarrierOp.create(location=op.location), following)


def _casts(value: SSAValue, op: tile.DotOp) -> list[Operation]:
    """Conversions to wider elements between a load and an operand, the last first."""
    found: list[Operation] = []
    while isinstance(value.owner, arith.ExtFOp) and value.owner.parent is op.parent:
        if not value.has_one_use():
            break
        found.append(value.owner)
        value = value.owner.operands[0]
    return found


def _again(casts: list[Operation], value: SSAValue, like: SSAValue) -> list[Operation]:
    """The same conversions of `value`, in the layout of `like`."""
    layout = gpu.layout_of(like)
    made: list[Operation] = []
    for cast in reversed(casts):
        element = tile.element_of(cast.results[0])
        kind = like.type if layout is None else gpu.laid_out(element, layout)
        made.append(with_operands(cast, [value], [kind]))
        value = made[-1].results[0]
    return made
