"""Iteration shifts: the steps of a loop that run for the previous iteration (software pipelining by rotation).

Step t of the rotated loop runs a step of shift s for iteration t - s. Shifts are 0 or 1. Ensures: users, in the
same iteration, of a shift-1 step have shift 1 (Rau, "Iterative modulo scheduling", 1994, for shifts of any size; a
chain of two dependent MMAs needs one). A shift-0 value with shift-1 users crosses an iteration in registers,
so cheap values used only there are sunk to their users.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from xdsl.ir import BlockArgument, Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.ir.walk import closure
from tilewright.passes.analysis.edit import yielded
from tilewright.passes.analysis.effects import is_pure
from tilewright.passes.gpu.analysis.registers import registers_of
from tilewright.passes.gpu.scheduling.graph import LoopGraph

_MAX_DOTS = 6
"""Dots of a loop up to which all shifts are tried."""


@dataclass(eq=False)
class Schedule:
    """An order of the steps of one iteration of the new loop, each with its shift."""

    graph: LoopGraph
    order: list[tuple[Operation, int]]
    late: set[Operation]
    """Steps of shift 1."""

    @property
    def is_rotated(self) -> bool:
        return bool(self.late)

    def shift(self, value: SSAValue) -> int:
        """The shift at which a value of the body is made."""
        return _shift_of(self.graph, self.late, value)

    @property
    def crossing(self) -> list[SSAValue]:
        """Values of shift 0 that steps of shift 1 take."""
        found: list[SSAValue] = []
        for op in (op for op in self.graph.steps if op in self.late):
            for value in self.graph.operands_of(op):
                made = self.graph.made_by(value)
                root = self.graph.through_waits(value)
                if made is not None and self.shift(value) == 0 and root not in found:
                    found.append(root)
        return found


def schedules(graph: LoopGraph) -> list[Schedule]:
    """All schedules worth a look: in order, with independent dots first, and every legal rotation."""
    found = [Schedule(graph, [(op, 0) for op in graph.steps], set())]
    if graph.writes_shared:  # no step moves across a barrier
        return found
    found.append(Schedule(graph, [(op, 0) for op in _dots_first(graph, graph.steps)], set()))
    dots = graph.dots
    if len(dots) < 2 or len(dots) > _MAX_DOTS:
        return found
    seen: list[set[Operation]] = []
    for count in range(1, len(dots)):
        for seeds in combinations(dots, count):
            late = _closed(graph, set(seeds))
            if late is None or late in seen or all(dot in late for dot in dots):
                continue
            seen.append(late)
            found += _orders(graph, _sunk(graph, late))
    return found


def _shift_of(graph: LoopGraph, late: set[Operation], value: SSAValue) -> int:
    """An argument has the shift of the value that the previous iteration yields for it."""
    seen: set[SSAValue] = set()
    made = graph.made_by(value)
    while isinstance(made, BlockArgument):
        if made.index == 0 or made in seen:
            return 0
        seen.add(made)
        made = graph.made_by(yielded(made))
    return int(made in late)


def _closed(graph: LoopGraph, late: set[Operation]) -> set[Operation] | None:
    """With everything that must run as late; None where that is all."""
    ordered = {op for op in graph.steps if graph.is_ordered(op)}
    while True:
        more = {op for op in graph.steps if op not in late and _takes(graph, op, late)}
        if ordered & (late | more):
            more |= ordered
        more -= late
        if not more:
            return late if len(late) < len(graph.steps) else None
        late = late | more


def _takes(graph: LoopGraph, op: Operation, late: set[Operation]) -> bool:
    """Whether a step uses a result of a late one in the same iteration."""
    return any(graph.made_by(v) in late for v in graph.operands_of(op))


def registers(value: SSAValue) -> int:
    """Registers per thread that a value occupies; a broadcast element counts once."""
    owner = value.owner
    if isinstance(owner, tile.SplatOp):
        return 1
    if isinstance(owner, tile.BroadcastOp | tile.ExpandDimsOp):
        return registers(owner.operands[0])
    return registers_of(value) if tile.is_tile(value) else 1


def _sunk(graph: LoopGraph, late: set[Operation]) -> set[Operation]:
    """With pure steps that only late ones use, where fewer or as many registers cross an iteration then."""
    late, end = set(late), graph.body.last_op
    users: dict[Operation, set[Operation]] = {}
    for op in [*graph.steps, *([end] if end is not None else [])]:
        for value in graph.operands_of(op):
            made = graph.made_by(value)
            if isinstance(made, Operation):
                users.setdefault(made, set()).add(op)
    changed = True
    while changed:
        changed = False
        for op in reversed(graph.steps):
            if op in late or not is_pure(op) or op not in users or not users[op] <= late:
                continue
            taken = {graph.through_waits(v) for v in graph.operands_of(op)}
            inside = [v for v in taken if graph.made_by(v) is not None]
            crossing = Schedule(graph, [], late).crossing
            more = sum(
                registers(v) for v in inside if _shift_of(graph, late, v) == 0 and v not in crossing
            )
            if more <= sum(registers(v) for v in op.results):
                late.add(op)
                changed = True
    return late


def _orders(graph: LoopGraph, late: set[Operation]) -> list[Schedule]:
    """Issue the late steps after each early dot, as far as dependences of early on late steps allow."""
    early = _dots_first(graph, [op for op in graph.steps if op not in late])
    second = [(op, 1) for op in _dots_first(graph, [op for op in graph.steps if op in late])]
    cuts = [i + 1 for i, op in enumerate(early) if isinstance(op, gpu.WgmmaOp)]
    found = []
    for cut in cuts:
        if not any(_takes_previous(graph, op, late) for op in early[:cut]):
            order = [*((op, 0) for op in early[:cut]), *second, *((op, 0) for op in early[cut:])]
            found.append(Schedule(graph, order, late))
    return found


def _takes_previous(graph: LoopGraph, op: Operation, late: set[Operation]) -> bool:
    """Whether an early step uses a late step's value of the previous iteration."""
    for value in graph.operands_of(op):
        made = graph.made_by(value)
        if isinstance(made, BlockArgument) and _shift_of(graph, late, value):
            return True
    return False


def _dots_first(graph: LoopGraph, steps: list[Operation]) -> list[Operation]:
    """Issue dots without dependences on other dots of the iteration as early as their operands allow."""
    inside = set(steps)
    order: list[Operation] = []
    placed: set[Operation] = set()

    def place(op: Operation) -> None:
        if op in placed:
            return
        placed.add(op)
        for value in graph.operands_of(op):
            made = graph.made_by(value)
            if isinstance(made, Operation) and made in inside:
                place(made)
        order.append(op)

    if not any(graph.is_ordered(op) for op in steps):
        for op in steps:
            if isinstance(op, gpu.WgmmaOp) and not _needs_dot(graph, op, inside):
                place(op)
    for op in steps:
        place(op)
    return order


def _needs_dot(graph: LoopGraph, dot: Operation, inside: set[Operation]) -> bool:

    def makers(op: Operation) -> list[Operation]:
        made = map(graph.made_by, graph.operands_of(op))
        return [m for m in made if isinstance(m, Operation) and m in inside]

    needed = [op for op in closure(makers(dot), makers) if op is not dot]
    others = [op for op in needed if not isinstance(op, gpu.LocalLoadOp)]
    return any(isinstance(op, gpu.WgmmaOp) or not is_pure(op) for op in others)
