"""Remove waits and barriers between consecutive MMAs of a block.

`promote-shared` completes every MMA: operands are written, a barrier, the MMA, a wait, a barrier. Where an MMA
accumulates onto the one before (the parts of an emulated dot), all operands may be written first, and the second MMA
need not wait for the first. Where nothing is written between two MMAs, no barrier is needed there.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.ir import Block, Operation

from tilewright.dialects import gpu
from tilewright.ir.walk import operations_between
from tilewright.passes.analysis.edit import erase, insert_before
from tilewright.passes.analysis.effects import is_pure
from tilewright.passes.gpu.analysis.buffer_views import buffer_root


def chain_dots(block: Block) -> None:
    """Join the MMAs of a block where that changes nothing."""
    for op in [op for op in block.ops if isinstance(op, gpu.WgmmaOp)]:
        _join(op)
    for op in [op for op in block.ops if isinstance(op, gpu.WgmmaOp)]:
        _drop_barriers(op)


def _join(second: gpu.WgmmaOp) -> None:
    """Let `second` add on to sums in flight, its operands written before those of the first."""
    wait = second.acc.owner
    if not isinstance(wait, gpu.WgmmaWaitOp) or not wait.result.has_one_use():
        return
    first = wait.acc.owner
    if not isinstance(first, gpu.WgmmaOp) or first.parent is not second.parent:
        return
    between = list(operations_between(first, second))
    movable = gpu.LocalStoreOp | arith.ConstantOp
    if not all(op is wait or isinstance(op, gpu.BarrierOp | movable) for op in between):
        return
    readers = [first]
    while isinstance(readers[-1].prev_op, gpu.WgmmaOp):
        readers.append(readers[-1].prev_op)
    barrier = readers[-1].prev_op
    moved = [op for op in between if isinstance(op, movable)]
    if not isinstance(barrier, gpu.BarrierOp) or not _may_stand_before(moved, barrier, readers):
        return
    for op in moved:
        insert_before(op, barrier)
    second.operands[4] = first.result
    for op in between:
        if op not in moved:
            erase(op)


def _may_stand_before(
    moved: list[Operation], barrier: Operation, readers: list[gpu.WgmmaOp]
) -> bool:
    """Whether stores (and their constants) may go before a barrier: what they take is made by then, and
    none of the MMAs after it reads where they write."""
    block = barrier.parent
    if block is None:
        return False
    order = {op: i for i, op in enumerate(block.ops)}
    read = {buffer_root(b) for mma in readers for b in (mma.lhs, mma.rhs)}
    for op in moved:
        if isinstance(op, gpu.LocalStoreOp) and op.buffer in read:
            return False
        for value in op.operands:
            maker = value.owner
            late = isinstance(maker, Operation) and order.get(maker, -1) > order[barrier]
            if late and maker not in moved:
                return False
    return True


def _drop_barriers(op: gpu.WgmmaOp) -> None:
    """Take away the barriers between an MMA and the wait for the one before, if all else there is
    computed in registers."""
    barriers: list[Operation] = []
    current = op.prev_op
    while current is not None and not isinstance(current, gpu.WgmmaWaitOp):
        if isinstance(current, gpu.BarrierOp):
            barriers.append(current)
        elif not is_pure(current) or current.regions:
            return
        current = current.prev_op
    if current is None:
        return
    for barrier in barriers:
        erase(barrier)
