"""Overlap the MMAs of one iteration of a pipelined loop with each other and with its element-wise operations.

`promote-shared` waits for every MMA where it issues it. If an iteration waits for all its copies at its start and
threads write no buffer in it, MMAs only depend on each other through registers. MMAs that need no result of the
iteration are then issued together, and each result is waited for at its first use:

    s = q k; wait s                      s = q k; dp = do v
    p = exp s                            wait s (one MMA in flight); p = exp s
    dv = p do + dv; wait dv        ->    dv = p do + dv
    dp = do v; wait dp                   wait dp (one in flight); ds = p dp
    dk = ds q + dk; wait dk              dk = ds q + dk; wait dv, dk

Ensures: every MMA of an iteration has completed at its end, as before.
"""

from __future__ import annotations

import math
from itertools import pairwise, takewhile

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.passes.analysis.edit import (
    backward_slice,
    block_of,
    insert_before,
    outermost_in,
    position_of,
)
from tilewright.passes.analysis.effects import is_pure
from tilewright.passes.gpu.analysis.registers import max_registers_per_thread
from tilewright.passes.gpu.scheduling.cost import cycles, dots_read, live_registers
from tilewright.passes.gpu.scheduling.graph import loop_graph
from tilewright.passes.gpu.scheduling.shifts import Schedule, registers, schedules

_OTHER_REGISTERS = 40
"""Registers per thread for addresses, counters, temporaries and operands of MMAs in flight, in addition to the schedule's
estimate. The backward pass of attention with heads of 64 elements leaves 44 beside independent dots: it spills as much
as in the order of the source, outside of its loops, and is 4 % faster on an H200."""
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
    if any(isinstance(op, gpu.BarrierOp) and op is not kept for op in body.ops):
        return
    if any(wait.acc.owner not in order for wait in waits):
        return
    for first, dot in pairwise(order):
        if not _is_before(first, dot):
            continue
        needed = _between(first, dot)
        if needed is not None:
            anchor = first.next_op
            for op in [*needed, dot]:
                op.detach()
                if anchor is not None:
                    insert_before(op, anchor)
    _wait_late(body, waits)


def _is_before(first: Operation, second: Operation) -> bool:
    """Return whether `first` precedes `second` in their block, not directly."""
    current = first.next_op
    while current is not None and current is not second:
        current = current.next_op
    return current is second


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
        wait.detach()
        insert_before(wait, current)
    issued: list[SSAValue] = []
    for op in body.ops:
        if isinstance(op, gpu.WgmmaOp):
            issued.append(op.result)
        elif isinstance(op, gpu.WgmmaWaitOp):
            pending = len(issued) - 1 - position_of(op.acc, issued)
            op.properties["pending"] = IntegerAttr(pending, i32)
