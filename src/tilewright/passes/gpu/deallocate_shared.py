"""`deallocate-shared`: end the lifetimes of shared-memory buffers inside loops and branches.

Buffers are allocated for the whole program. A buffer that each iteration of a loop writes before it reads is live for a
part of the iteration only, and so are the stages of an inner loop's pipeline. This pass puts a `gpu.local_dealloc` in
front of the barrier after the last use (after a loop it may insert one); buffers with disjoint lifetimes then have the same place
(`analysis/shared_allocation.py`), and more CTAs are resident on an SM.

    Change:
          func.func @k(%x: tensor<128x256xf32>) {
            %n = arith.constant 2 : i32
            %s = arith.constant 0 : i32
            %t = arith.constant 1 : i32
            %a = gpu.local_alloc : !gpu.shared<tensor<128x256xf32>, "128x256x4 dim1 swizzle0", 1>
            %b = gpu.local_alloc : !gpu.shared<tensor<128x256xf32>, "128x256x4 dim1 swizzle0", 1>
            scf.for %i = %s to %n step %t : i32 {
              gpu.local_store %x, %a[%s] : tensor<128x256xf32>, !gpu.shared<tensor<128x256xf32>, "128x256x4 dim1 swizzle0", 1>
              gpu.barrier
              %y = gpu.local_load %a[%s] : !gpu.shared<tensor<128x256xf32>, "128x256x4 dim1 swizzle0", 1> to tensor<128x256xf32>
        +     gpu.local_dealloc %a : !gpu.shared<tensor<128x256xf32>, "128x256x4 dim1 swizzle0", 1>
              gpu.barrier
              gpu.local_store %y, %b[%s] : tensor<128x256xf32>, !gpu.shared<tensor<128x256xf32>, "128x256x4 dim1 swizzle0", 1>
              gpu.barrier
              %z = gpu.local_load %b[%s] : !gpu.shared<tensor<128x256xf32>, "128x256x4 dim1 swizzle0", 1> to tensor<128x256xf32>
        +     gpu.local_dealloc %b : !gpu.shared<tensor<128x256xf32>, "128x256x4 dim1 swizzle0", 1>
              gpu.barrier
            }
            func.return
          }

An MMA uses its operands until its `gpu.wgmma_wait`, a copy is complete where it is read. Buffers whose contents or asynchronous
uses outlive an iteration keep their places, and so do those of producer warps, which take no part in barriers, and all
in clusters, whose CTAs write to each other's buffers. If no further CTA becomes resident, nothing is changed. Requires: all passes that allocate
buffers, and those that remove barriers, have run. Ensures: a barrier of the same block follows each
`gpu.local_dealloc`, and the contents of a buffer are not read between its deallocation and the next write.
"""

from __future__ import annotations

from itertools import takewhile
from typing import Any

from xdsl.dialects import scf
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import gpu
from tilewright.ir.walk import ancestors, following, operations_between
from tilewright.passes.analysis.edit import erase, insert_before, outermost_in
from tilewright.passes.analysis.effects import is_pure
from tilewright.passes.base import FunctionPass
from tilewright.passes.gpu.analysis.buffer_views import buffer_root, buffer_users
from tilewright.passes.gpu.analysis.cluster_loops import cluster_size_of
from tilewright.passes.gpu.analysis.num_ctas import num_ctas_of, warps_of
from tilewright.passes.gpu.analysis.shared_allocation import (
    SharedAllocation,
    end_of_use,
    max_scratch_bytes,
)
from tilewright.targets import TargetInfo

_LANES = 32


class DeallocateShared(FunctionPass):
    relevant_ops = ("gpu.local_alloc",)
    requires = ("assign-layouts",)

    def run(self, function: FuncOp, target: TargetInfo) -> None:
        if num_ctas_of(function) == 1 and cluster_size_of(function) == 1:
            _deallocate(function, target)


def _deallocate(function: FuncOp, target: TargetInfo) -> None:
    """Deallocate in nested blocks if that lets more CTAs be resident: at the barriers that are there, or if that lets
    even more, also at new ones after loops."""
    block = function.body.block
    buffers: list[SSAValue] = [
        op.result for op in function.walk() if isinstance(op, gpu.LocalAllocOp)
    ]
    last_uses = {b: last for b in buffers if (last := _last_use(b, block)) is not None}
    if not last_uses:
        return
    best: dict[SSAValue, Operation] = {}
    scratch = max_scratch_bytes(function)
    most = _resident_ctas(SharedAllocation(function).end + scratch, function, target)
    for behind_loops in (False, True):
        ends = {b: _end_of_lifetime(last, behind_loops) for b, last in last_uses.items()}
        found = {b: end for b, end in ends.items() if end is not None}
        count = _resident_ctas(SharedAllocation(function, found).end + scratch, function, target)
        if count > most:
            best, most = found, count
    if best:
        _insert_deallocs(function, best)


def _end_of_lifetime(last: Operation, behind_loops: bool) -> Operation | None:
    """The first barrier after the last use of a buffer; the loop itself where that is in one, and threads may write
    shared memory before the barrier (`behind_loops`: a barrier can be inserted). None if there is none."""
    barrier = next((op for op in following(last) if isinstance(op, gpu.BarrierOp)), None)
    soon = barrier is not None and all(map(is_pure, operations_between(last, barrier)))
    return last if behind_loops and last.regions and not soon else barrier


def _insert_deallocs(function: FuncOp, ends: dict[SSAValue, Operation]) -> None:
    """Deallocate buffers at barriers or after loops, instead of in the function's block."""
    for op in list(function.walk()):
        if isinstance(op, gpu.LocalDeallocOp) and not ends.keys().isdisjoint(op.buffers):
            rest = [buffer for buffer in op.buffers if buffer not in ends]
            if rest:
                insert_before(gpu.LocalDeallocOp.create(operands=rest), op)
            erase(op)
    for end in dict.fromkeys(ends.values()):
        place = end
        if not isinstance(end, gpu.BarrierOp) and end.next_op is not None:
            place = gpu.BarrierOp.create(location=end.location)
            insert_before(place, end.next_op)
        buffers = [buffer for buffer, other in ends.items() if other is end]
        insert_before(gpu.LocalDeallocOp.create(operands=buffers), place)


def _resident_ctas(shared_bytes: int, function: FuncOp, target: TargetInfo) -> int:
    """CTAs per SM that shared memory and the number of threads allow."""
    sm = target.sm
    by_threads = min(sm.max_ctas, sm.max_threads // (_LANES * warps_of(function)))
    return min(by_threads, sm.shared_bytes // (shared_bytes + sm.reserved_shared_bytes))


def _last_use(buffer: SSAValue, outermost: Block) -> Operation | None:
    """Return the operation after which the last use of a buffer is over, in the innermost block with all its uses.

    None if that is the function's block, or if the contents may outlive an iteration.
    """
    users = [op for op in buffer_users(buffer) if not isinstance(op, gpu.LocalDeallocOp)]
    block = _innermost_block(users)
    if block is None or block is outermost or any(map(_in_producer_warp, users)):
        return None
    places = {op: i for i, op in enumerate(block.ops)}
    first = min((outermost_in(block, op) for op in users), key=places.__getitem__)
    ends = [end for op in users if (end := end_of_use(op, block)) is not None]
    if len(ends) < len(users) or not _writes_first(first, buffer):
        return None
    if not _has_stages_of_inner_loop(buffer, users, block):
        return None
    return max(ends, key=places.__getitem__)


def _innermost_block(users: list[Operation]) -> Block | None:
    """The innermost block that all operations are in."""
    blocks = [op.parent for user in users[:1] for op in (user, *ancestors(user))]
    around = (block for block in blocks if block is not None)
    return next((b for b in around if all(map(b.find_ancestor_op_in_block, users))), None)


def _in_producer_warp(op: Operation) -> bool:
    return any(isinstance(above, gpu.ProducerWarpOp) for above in ancestors(op))


def _writes_first(op: Operation, buffer: SSAValue) -> bool:
    """Return whether `op`, the first in a block that uses a buffer, replaces its contents."""
    if isinstance(op, scf.IfOp):  # one thread issues TMA loads
        users = [user for user in op.walk() if user in buffer_users(buffer)]
        return isinstance(users[0], gpu.TmaLoadOp)
    match op:
        case gpu.LocalStoreOp() | gpu.AsyncCopyOp() | gpu.TmaLoadOp():
            return buffer_root(op.buffer) is buffer
        case gpu.LocalTransposeOp():
            return buffer_root(op.target) is buffer and buffer_root(op.source) is not buffer
        case _:
            return False


def _has_stages_of_inner_loop(buffer: SSAValue, users: list[Operation], block: Block) -> bool:
    """Return whether a buffer has one stage, or several that a loop inside `block` goes through.

    Stages that `block` itself goes through hold what an earlier iteration wrote.
    """
    buffer_type: Any = buffer.type
    writers = (gpu.LocalStoreOp, gpu.AsyncCopyOp, gpu.TmaLoadOp)
    return buffer_type.stages.data == 1 or all(
        isinstance(op, writers) or _is_in_loop_inside(block, op) for op in users
    )


def _is_in_loop_inside(block: Block, op: Operation) -> bool:
    inside = takewhile(lambda above: above is not block.parent_op(), ancestors(op))
    return any(isinstance(above, scf.ForOp) for above in inside)
