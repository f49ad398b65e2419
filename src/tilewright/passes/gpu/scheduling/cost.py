"""Estimate the cycles per iteration of a scheduled loop by simulating warpgroups as in-order instruction streams.

Each warpgroup issues its steps in order. MMAs queue for the tensor cores; their results are ready a fixed latency
after the last tensor cycle. Element-wise operations queue for the issue slots and the special function units, which
the warpgroups share. The simulation models resource occupancy, latency and the in-order stream of each warpgroup; a
modulo reservation table does not model the stream, which distinguishes the orders. Costs are those of sm_90 (PTX ISA
for shapes; latencies measured on an H200). Nominal cycles are equal for orders that differ on hardware, so the score
is the mean of the nominal machine and one whose element-wise operations and latencies take 1.6 times as long.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import BlockArgument, Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.layouts.fragments import parse_wgmma
from tilewright.passes.analysis.effects import is_pure, is_pure_elementwise
from tilewright.passes.gpu.scheduling.graph import LoopGraph
from tilewright.passes.gpu.scheduling.shifts import Schedule, registers

WARPS_PER_GROUP = 4
_MACS_PER_CYCLE = {2: 4096 // 2, 1: 8192 // 2, 4: 2048 // 2}
"""Multiply-adds per cycle of an SM, by bytes of an operand's element (8-bit, 16-bit, tf32)."""
_MMA_LATENCY, _MMA_ISSUE = 90, 16
_SLOWED = 1.6
_ITERATIONS = 7
_SPECIAL = ("math.exp2", "math.exp", "math.log", "math.log2", "math.rsqrt", "math.sqrt", "math.tanh", "math.sin", "math.cos", "math.erf", "arith.divf", "tile.libm", "tile.mul_sigmoid")  # fmt: skip
_SPECIAL_CYCLES = 8
"""Issue slots of an SM partition per special-function instruction (4 lanes of 32 per cycle)."""
_SHUFFLE_CYCLES = 2
_FREE = (tile.SplatOp, tile.BroadcastOp, tile.ExpandDimsOp)


@dataclass(frozen=True)
class _Cost:
    """Cycles of a step per warpgroup, on the tensor cores or in the issue slots."""

    tensor: float = 0.0
    issue: float = 0.0


def _cost(op: Operation, groups: int) -> _Cost:
    if isinstance(op, gpu.WgmmaOp):
        m, n = tile.shape_of(op.result)
        instruction = parse_wgmma(op.instruction.data)
        k = gpu.shared_layout_of(op.rhs).rows
        size = max(1, 32 // instruction.k)
        rate = _MACS_PER_CYCLE.get(size, _MACS_PER_CYCLE[2])
        return _Cost(m * n * k / groups / rate, _MMA_ISSUE)
    if isinstance(op, _FREE) or not op.results:
        return _Cost(0.0, 4.0 * bool(op.operands))
    per_thread = max(
        (registers(v) for v in (*op.operands, *op.results) if tile.is_tile(v)), default=1
    )
    if isinstance(op, tile.ReduceOp):
        return _Cost(0.0, per_thread + 10 * _SHUFFLE_CYCLES)
    if op.name in _SPECIAL:
        return _Cost(0.0, per_thread * _SPECIAL_CYCLES)
    if isinstance(op, gpu.ConvertLayoutOp | gpu.LocalLoadOp | gpu.LocalStoreOp):
        return _Cost(0.0, 2.0 * per_thread + 30)
    return _Cost(0.0, float(per_thread if is_pure_elementwise(op) else 2 * per_thread))


def cycles(schedule: Schedule, warps: int) -> float:
    """Return the cycles per iteration, the mean of both machines (see the module docstring)."""
    groups = max(1, warps // WARPS_PER_GROUP)
    costs = {op: _cost(op, groups) for op in schedule.graph.steps}
    return sum(_Simulation(schedule, costs, groups, slow).run() for slow in (1.0, _SLOWED)) / 2


class _Simulation:
    def __init__(
        self, schedule: Schedule, costs: dict[Operation, _Cost], groups: int, slow: float
    ) -> None:
        self.schedule, self.costs, self.groups, self.slow = schedule, costs, groups, slow
        graph = schedule.graph
        self.read = {op: dots_read(graph, op) for op in graph.steps}

    def run(self) -> float:
        """Return the steady-state cycles per iteration. The stream with the earliest clock issues next."""
        order, groups = self.schedule.order, self.groups
        clock = [0.0] * groups
        tensor = issue = 0.0
        ready: list[dict[Operation, float]] = [{} for _ in range(groups)]
        position = [0] * groups
        marks: list[float] = []
        while min(position) < _ITERATIONS * len(order):
            g = min(range(groups), key=lambda i: (clock[i], i))
            if position[g] >= _ITERATIONS * len(order):
                clock[g] = float("inf")
                continue
            op, _ = order[position[g] % len(order)]
            cost = self.costs[op]
            start = max([clock[g], *(ready[g].get(dot, 0.0) for dot in self.read[op])])
            if cost.tensor:
                tensor = max(tensor, start) + cost.tensor
                ready[g][op] = tensor + _MMA_LATENCY * self.slow
                clock[g] = start + cost.issue
            else:
                issue = max(issue, start) + cost.issue * self.slow
                clock[g] = issue
            position[g] += 1
            if position[g] % len(order) == 0:
                clock[g] = max(
                    [clock[g], *ready[g].values()]
                )  # no MMA is in flight across iterations
                if g == groups - 1:
                    marks.append(clock[g])
        half = len(marks) // 2
        return (marks[-1] - marks[half]) / max(1, len(marks) - 1 - half)


def dots_read(graph: LoopGraph, op: Operation) -> list[Operation]:
    """Return the dots of the loop whose results a step reads, except as the accumulator of another dot."""
    values = [v for v in graph.operands_of(op) if not (isinstance(op, gpu.WgmmaOp) and v is op.acc)]
    made = [graph.made_by(v) for v in values]
    return [m for m in made if isinstance(m, gpu.WgmmaOp)]


def live_registers(schedule: Schedule) -> int:
    """Estimate the registers per thread of the loop: loop-carried values, values that cross an iteration, and the
    maximum live between two steps."""
    graph = schedule.graph
    carried = sum(registers(a) for a in graph.body.args[1:])
    crossing = sum(registers(v) for v in schedule.crossing)
    position = {op: i for i, (op, _) in enumerate(schedule.order)}
    last: dict[Operation, int] = {}
    for op, _ in schedule.order:
        for value in graph.operands_of(op):
            made = graph.made_by(value)
            if isinstance(made, Operation) and position.get(made, 1 << 30) < position[op]:
                last[made] = max(last.get(made, 0), position[op])
    most = 0
    for index in range(len(schedule.order)):
        live = [
            op
            for op, end in last.items()
            if position[op] <= index < end and not _in_place(graph, op)
        ]
        most = max(most, sum(registers(r) for op in live for r in op.results))
    return carried + crossing + most


def _in_place(graph: LoopGraph, op: Operation) -> bool:
    """Return whether a result needs no registers in addition: it is rematerializable from a smaller value, fused
    into its user, or reuses the registers of a loop-carried accumulator."""
    if isinstance(op, _FREE) or _is_index_arithmetic(op) or _is_fused(op):
        return True
    return (isinstance(op, gpu.WgmmaOp) and _carries(graph, op.acc)) or _only_accumulates(graph, op)


def _is_fused(op: Operation) -> bool:
    """Return whether a result is live for one instruction only: its single user is element-wise, as is `op`."""
    users = [use.operation for result in op.results for use in result.uses]
    return is_pure_elementwise(op) and len(users) == 1 and is_pure_elementwise(users[0])


def _is_index_arithmetic(op: Operation) -> bool:
    """Return whether a result is integer arithmetic on coordinates and scalars, which ptxas rematerializes."""
    whole = [v for v in (*op.results, *op.operands) if tile.is_tile(v)]
    integers = all(isinstance(tile.element_of(v), IntegerType) for v in whole)
    makers = [v.owner for v in op.operands if tile.is_tile(v)]
    return (
        integers
        and is_pure(op)
        and all(
            isinstance(m, Operation) and (isinstance(m, tile.SplatOp) or _is_index_arithmetic(m))
            for m in makers
        )
    )


def _only_accumulates(graph: LoopGraph, op: Operation) -> bool:
    """Return whether a result is used only as the accumulator of dots and derives from a loop-carried value."""
    uses = [use for result in op.results for use in result.uses]
    adds = [
        u for u in uses if isinstance(u.operation, gpu.WgmmaOp) and u.operation.acc is op.results[0]
    ]
    return bool(uses) and len(adds) == len(uses) and _carries(graph, op.results[0])


def _carries(graph: LoopGraph, value: SSAValue) -> bool:
    """Return whether an accumulator is a loop argument, or an element-wise function of one of the same type."""
    made = graph.made_by(value)
    if isinstance(made, BlockArgument):
        return True
    if made is None or not is_pure_elementwise(made):
        return False
    kept = [v for v in made.operands if v.type == value.type]
    return any(isinstance(graph.made_by(v), BlockArgument) for v in kept)
