"""Stage loads in shared memory whose values reach a dot through element-wise operations.

Operands that are converted on the way (8-bit weights to fp16, the parts of an emulated dot) cannot be copied to where
the dot reads them. Their loads can still be asynchronous copies, which later passes issue iterations ahead: to a
buffer, from which the element-wise operations load their registers.
"""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.ir.walk import operations_between
from tilewright.layouts.fragments import parse_wgmma
from tilewright.passes.analysis.effects import is_pure_elementwise
from tilewright.passes.analysis.emit import uniform_constant
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.analysis.lane_groups import LaneGroups
from tilewright.passes.analysis.remarks import Missed, Reason, no_contiguous_dim, report_missed
from tilewright.passes.gpu.analysis.accesses import (
    SMALLEST_COPY,
    contiguous_dim,
    may_clobber,
    run_length,
    vector_width,
)
from tilewright.passes.gpu.analysis.anchor_layouts import REMAPS
from tilewright.passes.gpu.select_mma import instruction_of, is_wgmma

COPY = "asynchronous copy"
"""The form of a load that is copied to shared memory, in remarks."""


def staged_loads(op: tile.DotOp) -> tuple[list[tile.LoadViewOp], bool]:
    """The loads, in a loop's body, of which element-wise operations and changes of shape or layout make the operands
    of `op`; in order, but for those that are operands of dots as they are. Whether such operations on loads, scalars and
    constants alone make the operands."""
    block = op.parent
    if block is None or not isinstance(op.parent_op(), scf.ForOp):
        return [], False
    found: dict[tile.LoadViewOp, None] = {}
    pending, seen, alone = [op.lhs, op.rhs], set[SSAValue](), True
    while pending:
        value = pending.pop()
        if value in seen or not tile.is_tile(value):
            continue
        seen.add(value)
        made = value.owner
        if isinstance(made, gpu.LocalLoadOp):
            continue  # which is copied already
        if isinstance(made, tile.LoadViewOp) and made.parent is block:
            if not any(isinstance(use.operation, tile.DotOp) for use in value.uses):
                found[made] = None
        elif isinstance(made, Block) or not (_computes(made) or isinstance(made, tile.SplatOp)):
            alone = False
        else:
            pending.extend(made.operands)
    order = {o: i for i, o in enumerate(block.ops)}
    return sorted(found, key=lambda load: order[load]), alone


def _computes(op: Operation) -> bool:
    """Whether an operation makes tiles of others element by element, or has them in another shape or layout, joined or
    split, or looks them up."""
    moves = tile.JoinOp | tile.SplitOp | tile.GatherOp | gpu.ConvertLayoutOp
    return is_pure_elementwise(op) or type(op) in REMAPS or isinstance(op, moves)


Group = tuple[list[tile.LoadViewOp], Operation]
"""Loads that are copied together, and the first of their users."""


def copied_together(loads: list[tile.LoadViewOp]) -> list[Group]:
    """Loads of a block as groups of copies that stand before their first users: all at once where that one comes
    after all of them, else each for itself. Without those that are used outside of the block."""
    block = loads[0].parent if loads else None
    if block is None:
        return []
    order = {o: i for i, o in enumerate(block.ops)}
    firsts: dict[tile.LoadViewOp, Operation] = {}
    for load in loads:
        users = [block.find_ancestor_op_in_block(use.operation) for use in load.result.uses]
        inside = [user for user in users if user is not None]
        if inside and len(inside) == len(users):
            firsts[load] = min(inside, key=lambda user: order[user])
    if not firsts:
        return []
    first = min(firsts.values(), key=lambda user: order[user])
    if order[first] > max(order[load] for load in firsts):
        return [(list(firsts), first)]
    return [([load], user) for load, user in firsts.items()]


def can_copy(load: tile.LoadViewOp, op: Operation, known: Facts, wide: bool = True) -> bool:
    """Whether there is no `copy_obstacle`. Reports one."""
    obstacle = copy_obstacle(load, op, known, wide)
    report_missed(load, COPY, obstacle)
    return obstacle is None


def copy_obstacle(
    load: tile.LoadViewOp, op: Operation, known: Facts, wide: bool = True
) -> Missed | None:
    """Why a load cannot be a copy that stands before `op`, of more than an element at a time (`wide`) or, by threads that
    hold other elements than those of the load, of one; None if it can."""
    dim = contiguous_dim(load)
    if load.other is not None and uniform_constant(load.other) != 0:
        return Missed(Reason.OTHER)
    if dim is None:
        return no_contiguous_dim(load)
    if not wide and (load.mask is not None or load.indices):
        return Missed(Reason.RESIDUAL_MASK if load.mask is not None else Reason.INDEXED)
    if _writes_between(load, op):
        return Missed(Reason.WRITES_BETWEEN)
    if len(tile.shape_of(load.result)) != 2:
        return Missed(Reason.RANK, (len(tile.shape_of(load.result)),))
    size = tile.element_bytes(load.result)
    layout = gpu.layout_of(load.result)
    run = LaneGroups(known).equal_run(load.mask, dim, run_length(load, known)) if wide else 1
    run = layout.num_consecutive(dim, run) if layout is not None else run
    if run * size >= SMALLEST_COPY:
        return None
    return vector_width(load, known).missed or Missed(Reason.SMALL_COPY, (run * size,))


def _writes_between(first: tile.LoadViewOp, last: Operation) -> bool:
    """Whether an operation between two of a block may write what the first reads."""
    return any(may_clobber(op, [first.base]) for op in operations_between(first, last))


def shared_loads(function: FuncOp, known: Facts) -> list[tuple[tile.LoadViewOp, Operation]]:
    """Loads in the bodies of loops that several operations use, dots among them, each with the first of
    those; all are in the load's block, and the dots read the tile as it is in memory or transposed."""
    found = list[tuple[tile.LoadViewOp, Operation]]()
    for load in function.walk():
        if not isinstance(load, tile.LoadViewOp) or not isinstance(load.parent_op(), scf.ForOp):
            continue
        users = {use.operation for use in load.result.uses}
        turned = [op for op in users if is_read_transposed(op)]
        readers = [use.operation for op in turned for use in op.results[0].uses]
        dots = [op for op in (*users, *readers) if isinstance(op, tile.DotOp)]
        block = load.parent
        if len(list(load.result.uses)) < 2 or not dots or block is None:
            continue
        if any(op.parent is not block for op in (*users, *readers)) or not all(
            _reads_buffer(dot, load) for dot in dots
        ):
            continue
        order = {op: i for i, op in enumerate(block.ops)}
        first = min((*(users - {*turned}), *readers), key=lambda op: order[op])
        if copy_obstacle(load, first, known) is None:
            found.append((load, first))
    return found


def is_converted_again(load: tile.LoadViewOp) -> bool:
    """Whether a loaded tile is converted to several layouts, each of which takes a buffer in shared memory."""
    users = [use.operation for use in load.result.uses]
    return len(users) > 1 and all(isinstance(user, gpu.ConvertLayoutOp) for user in users)


def is_read_transposed(op: Operation) -> bool:
    """Whether an operation transposes a tile for dots alone that read shared memory contiguous along either dimension:
    the bytes are the same."""
    if not isinstance(op, tile.TransOp) or not op.result.uses:
        return False
    users = [use.operation for use in op.result.uses]
    return all(
        isinstance(user, tile.DotOp) and is_wgmma(user) and user.acc is not op.result
        for user in users
    )


def _reads_buffer(dot: tile.DotOp, load: tile.LoadViewOp) -> bool:
    """Whether a dot reads a loaded operand from shared memory, contiguous along either dimension."""
    majors = parse_wgmma(instruction_of(dot)).majors if is_wgmma(dot) else None
    return majors == (None, None) and dot.acc is not load.result
