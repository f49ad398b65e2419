"""Overlap the MMAs of one iteration of a pipelined loop with each other and with its element-wise operations.

`promote-shared` waits for every MMA where it issues it. If an iteration waits for all its copies at its start and
threads write no buffer in it, MMAs only depend on each other through registers. MMAs that need no result of the
iteration are then issued together, and each result is waited for at its first use:

    s = q k; wait s                      s = q k; dp = do v
    p = exp s                            wait s (one MMA in flight); p = exp s
    dv = p do + dv; wait dv        ->    dv = p do + dv
    dp = do v; wait dp                   wait dp (one in flight); ds = p dp
    dk = ds q + dk; wait dk              dk = ds q + dk; wait dv, dk

The last MMA may stay in flight at the end of an iteration if its result is only added to in the next one, whose first
MMA is then issued before it is waited for. Ensures: all other MMAs have completed at the end of their iteration.
"""

from __future__ import annotations

import math
from itertools import pairwise, takewhile

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.ir.walk import following, preceding
from tilewright.passes.analysis.edit import (
    backward_slice,
    block_of,
    end_of,
    erase,
    insert_before,
    outermost_in,
)
from tilewright.passes.analysis.effects import is_pure
from tilewright.passes.gpu.analysis.registers import max_registers_per_thread
from tilewright.passes.gpu.scheduling.cost import cycles, dots_read, live_registers
from tilewright.passes.gpu.scheduling.graph import loop_graph
from tilewright.passes.gpu.scheduling.ring import issues_copies
from tilewright.passes.gpu.scheduling.shifts import Schedule, registers, schedules

_OTHER_REGISTERS = 40
"""Registers per thread for addresses, counters, temporaries and operands of MMAs in flight, in addition to the schedule's
estimate. The backward pass of attention with heads of 64 elements leaves 44 beside independent dots: it spills as much
as in the order of the source, outside of its loops, and is 4 % faster on an H200."""
_FEWEST_DOTS = 2
_MOST_CTAS = 16
"""CTAs per SM beyond which latency is hidden anyway."""


def plan_overlap(loop: scf.ForOp, warps: int, most_ctas: int) -> list[Operation] | None:
    """Return the MMAs of a loop in the order in which they are best issued: that of the source or independent ones
    first. None if they must stay as they are.

    Requires: the loop is as `promote-shared` leaves it. A better order may take more registers: the CTAs that share an
    SM, at most `most_ctas` as far as other resources go, fill the time of each other. Where no order has registers to
    spare, that of the source costs the fewest: those of operands in flight.
    """
    graph = loop_graph(loop)
    if graph is None or graph.writes_shared:
        return None

    def cycles_of_sm(schedule: Schedule) -> float:
        needed = live_registers(schedule) + _operands_held_together(schedule) + _OTHER_REGISTERS
        if needed > max_registers_per_thread(warps):
            return math.inf
        return cycles(schedule, warps) / min(most_ctas, _ctas(needed, warps))

    chosen = min(schedules(graph)[:2], key=cycles_of_sm)  # the first of equals: that of the source
    return [op for op, _ in chosen.order if isinstance(op, gpu.WgmmaOp)]


def _operands_held_together(schedule: Schedule) -> int:
    """Return the most registers per thread that operands of several MMAs in flight take, none of which has been read."""
    most = held = dots = 0
    for op, _ in schedule.order:
        if isinstance(op, gpu.WgmmaOp):
            held, dots = held + (registers(op.lhs) if tile.is_tile(op.lhs) else 0), dots + 1
            most = max(most, held if dots > 1 else 0)
        elif dots_read(schedule.graph, op):
            held = dots = 0
    return most


def ctas_with_registers(loop: scf.ForOp, warps: int) -> int:
    """The most CTAs per SM that have registers for the tiles that a loop carries, and for the largest that its MMAs add to none
    of them."""
    carried = loop.body.block.args
    dots = [op for op in loop.body.walk() if isinstance(op, gpu.WgmmaOp)]
    others = [registers(op.result) for op in dots if op.acc not in carried]
    tiles = sum(registers(value) for value in carried if tile.is_tile(value))
    return _ctas(tiles + max(others, default=0) + _OTHER_REGISTERS, warps)


def _ctas(needed: int, warps: int) -> int:
    """Return the CTAs per SM that threads with so many registers allow."""
    count = 1
    while needed <= max_registers_per_thread((count + 1) * warps) and count < _MOST_CTAS:
        count += 1
    return count


def overlap_dots(body: Block, order: list[Operation], kept: Operation) -> None:
    """Issue the MMAs of a pipelined body in this order, and wait for each at the first use of its result. Does nothing
    if there are other barriers than `kept`, after which the next copies are issued."""
    waits = [op for op in body.ops if isinstance(op, gpu.WgmmaWaitOp)]
    if not _barriers_are(body, kept) or any(wait.acc.owner not in order for wait in waits):
        return
    for first, dot in pairwise(order):
        if dot not in following(first):
            continue
        needed = _between(first, dot)
        if needed is not None:
            anchor = first.next_op
            for op in [*needed, dot]:
                if anchor is not None:
                    insert_before(op, anchor)
    _wait_late(body, waits)


def leave_last_in_flight(body: Block, kept: Operation) -> int | None:
    """Let the last MMA of an iteration run while the next one issues its first, if only the next one adds to its result.
    Returns the position of that result among those of the loop; None where every MMA stays complete at the end.

    The next copies, after the barrier `kept`, overwrite what it reads: it is waited for before that, with the first MMA
    in flight. The other MMAs follow the copies, so that their accumulators may have the registers of its operand.
    """
    dots = [op for op in body.ops if isinstance(op, gpu.WgmmaOp)]
    copies = next((op for op in following(kept) if issues_copies(op)), None)
    first, last = dots[0], dots[-1]
    begun, done = _only_wait(first), _only_wait(last)
    if copies is None or begun is None or done is None or len(dots) < _FEWEST_DOTS:
        return None
    if (
        first not in preceding(kept)
        or begun not in following(kept)
        or not _barriers_are(body, kept)
    ):
        return None
    position = _carried_position(last, done)
    moved = [dot for dot in dots[1:] if dot in preceding(kept)]
    users = [use.operation for dot in moved for use in dot.result.uses]
    if position is None or any(user not in following(copies) for user in users):
        return None
    done.result.replace_all_uses_with(last.result)
    erase(done)
    held = gpu.WgmmaWaitOp.create(
        operands=[first.result],
        properties={"pending": IntegerAttr(1, i32)},
        result_types=[first.result.type],
        location=first.location,
    )
    begun.operands[0] = held.result
    for dot in reversed(moved):
        dot.detach()
        body.insert_op_after(dot, copies)
    body.insert_op_after(held, first)
    return position


def _only_wait(dot: gpu.WgmmaOp) -> gpu.WgmmaWaitOp | None:
    """Return the wait for an MMA if nothing else uses its result."""
    wait = dot.result.get_user_of_unique_use()
    return wait if isinstance(wait, gpu.WgmmaWaitOp) else None


def _carried_position(dot: gpu.WgmmaOp, wait: gpu.WgmmaWaitOp) -> int | None:
    """Return the position of a result that the loop carries to the same MMA of the next iteration, and nowhere else."""
    block, use = block_of(dot), wait.result.get_unique_use()
    if use is None or use.operation is not end_of(block):
        return None
    carried = block.args[use.index + 1]
    return use.index if dot.acc is carried and carried.has_one_use() else None


def _barriers_are(body: Block, kept: Operation) -> bool:
    """Return whether `kept` is the only barrier of a body."""
    return not any(isinstance(op, gpu.BarrierOp) and op is not kept for op in body.ops)


def _between(first: Operation, dot: Operation) -> list[Operation] | None:
    """Return the operations after `first` that compute operands of `dot`, in order. None unless all are pure."""
    earlier = set(takewhile(lambda op: op is not first, block_of(dot).ops)) | {first}
    found = backward_slice(
        block_of(dot),
        dot.operands,
        lambda op: is_pure(op) and not op.regions,
        stop=earlier.__contains__,
    )
    return None if found is None else found[0]


def _wait_late(body: Block, waits: list[gpu.WgmmaWaitOp]) -> None:
    """Wait for each MMA before the first use of its result or at the end, with as many in flight as were issued since."""
    for wait in waits:
        users = {outermost_in(body, use.operation) for use in wait.result.uses}
        current: Operation = wait
        while current.next_op is not None and (current is wait or current not in users):
            current = current.next_op
        insert_before(wait, current)
    issued: list[SSAValue] = []
    for op in body.ops:
        if isinstance(op, gpu.WgmmaOp):
            issued.append(op.result)
        elif isinstance(op, gpu.WgmmaWaitOp):
            pending = len(issued) - 1 - issued.index(op.acc)
            op.properties["pending"] = IntegerAttr(pending, i32)
