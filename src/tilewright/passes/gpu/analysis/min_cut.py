"""Minimum vertex cuts of small graphs: the cheapest set of values to keep from which others can be recomputed."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

from tilewright.ir.walk import closure

Node = TypeVar("Node", bound=Hashable)
_UNBOUNDED = 1 << 60


def min_vertex_cut(
    weights: Mapping[Node, int],
    operands: Mapping[Node, Iterable[Node]],
    sources: Iterable[Node],
    sinks: Iterable[Node],
) -> set[Node]:
    """Return a minimum-weight vertex cut between `sources` and `sinks`; among several, the one nearest to the sinks.

    `operands`: edges, from each node's operands to the node. Nodes of weight 0 are free to cut.
    """
    graph = _Network()
    for node, weight in weights.items():
        graph.connect((node, 0), (node, 1), weight)
        for operand in operands.get(node, ()):
            graph.connect((operand, 1), (node, 0), _UNBOUNDED)
    for node in sources:
        graph.connect(None, (node, 0), _UNBOUNDED)
    for node in sinks:
        graph.connect((node, 1), True, _UNBOUNDED)
    graph.saturate(None, True)
    reaching = graph.reaching(True)
    return {n for n in weights if (n, 1) in reaching and (n, 0) not in reaching}


class _Network:
    """Residual capacities of a network whose flow is augmented along shortest paths (Edmonds-Karp)."""

    def __init__(self) -> None:
        self.left: dict[object, dict[object, int]] = {}

    def connect(self, start: object, end: object, capacity: int) -> None:
        out = self.left.setdefault(start, {})
        out[end] = out.get(end, 0) + capacity
        self.left.setdefault(end, {}).setdefault(start, 0)

    def saturate(self, start: object, end: object) -> None:
        """Find a maximum flow."""
        while path := self._path(start, end):
            amount = min(self.left[a][b] for a, b in path)
            for a, b in path:
                self.left[a][b] -= amount
                self.left[b][a] += amount

    def _path(self, start: object, end: object) -> list[tuple[object, object]]:
        before: dict[object, object] = {start: start}
        pending = deque([start])
        while pending and end not in before:
            node = pending.popleft()
            for following, capacity in self.left.get(node, {}).items():
                if capacity and following not in before:
                    before[following] = node
                    pending.append(following)
        if end not in before:
            return []
        path: list[tuple[object, object]] = []
        while end != start:
            path.append((before[end], end))
            end = before[end]
        return path

    def reaching(self, end: object) -> set[object]:
        """Return the nodes with residual capacity to `end`."""
        left = self.left
        return set(
            closure([end], lambda node: (n for n in left.get(node, ()) if left[n].get(node)))
        )
