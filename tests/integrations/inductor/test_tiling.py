"""When a kernel for a CPU gets a dimension for its innermost loop."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from tilewright.integrations.inductor import tiling


class Symbol:
    """An extent that is known when the kernel runs, and what it was when it was traced."""

    def __init__(self, hint):
        self.hint = hint


@pytest.mark.parametrize(
    ("merged", "tiled", "better"),
    [
        ({"x": 200704, "r0_": 1}, {"y": 256, "x": 784, "r0_": 1}, True),
        ({"x": 32, "r0_": 6272}, {"x": 32, "r0_": 8, "r1_": 784}, True),
        ({"x": 200704, "r0_": 1}, {"x": 200704, "r0_": 1}, False),
        ({"x": 4096, "r0_": 1}, {"y": 32, "x": 128, "r0_": 1}, False),
        ({"x": 300, "r0_": 1}, {"y": 100, "x": 3, "r0_": 1}, False),
        ({"x": 3, "r0_": 1}, {"y": 100, "x": Symbol(28), "r0_": 1}, True),
        ({"x": 3, "r0_": 1}, {"y": 100, "x": Symbol(64), "r0_": 1}, True),
        ({"x": 3, "r0_": 1}, {"y": 100, "x": Symbol(5), "r0_": 1}, False),
        ({"y": 256, "x": 784, "r0_": 1}, {"y": 256, "x": 784, "r0_": 1}, False),
        ({"y": 4800, "x": 100, "r0_": 1}, {"z": 16, "y": 300, "x": 100, "r0_": 1}, True),
        ({"y": 256, "x": 100, "r0_": 1}, {"z": 8, "y": 32, "x": 100, "r0_": 1}, False),
        ({"y": 300, "x": 1600, "r0_": 1}, {"z": 300, "y": 16, "x": 100, "r0_": 1}, False),
    ],
    ids=[
        "pointwise", "reduction", "same", "multiple of 64", "short", "symbol", "symbol, hinted multiple of 64",
        "short symbol", "tiled before", "transposed rows of several matrices", "those of 32 rows", "another inner dimension",
    ],
)  # fmt: skip
def test_a_second_dimension(merged, tiled, better, monkeypatch):
    sizevars = SimpleNamespace(optimization_hint=lambda extent, fallback: extent.hint)
    monkeypatch.setattr(tiling, "graph", lambda: SimpleNamespace(sizevars=sizevars))
    assert tiling.is_better(merged, tiled) is better


def test_a_multiple_of_64_beside_symbols():
    merged, tiled = {"x": 46080, "r0_": 1}, {"y": 720, "x": 64, "r0_": 1}
    assert not tiling.is_better(merged, tiled)
    assert tiling.is_better(merged, tiled, symbols=True)


def test_extents_that_tilings_are_made_of():
    """Inductor is asked for tilings only where one of these is worth a loop."""
    sympy = pytest.importorskip("sympy")

    class Node(SimpleNamespace):
        def get_ranges(self):
            return self.ranges

    class Access(SimpleNamespace):
        pass

    division, remainder = sympy.Function("FloorDiv"), sympy.Function("ModularIndexing")
    simd = SimpleNamespace(
        scheduler=SimpleNamespace(SchedulerNode=Node),
        MemoryDep=Access, FloorDiv=division, ModularIndexing=remainder,
    )  # fmt: skip
    x = sympy.Symbol("x")
    merged = Access(ranges={x: 200704}, index=3 * division(x, 784) + remainder(x, 28, 56))
    node = Node(
        ranges=([256, 784], [5]),
        read_writes=SimpleNamespace(reads_and_writes=lambda: [merged, object()]),
    )
    assert tiling.parts(simd, [node, object()]) == {256, 784, 5, 200704, 28, 56}


def test_an_index_is_matched_once_per_graph(monkeypatch):
    class Matcher:
        @classmethod
        def match(cls, *given):
            calls.append(given)
            return given

    calls, virtualized = [], ModuleType("virtualized")
    monkeypatch.setitem(sys.modules, "torch._inductor.virtualized", virtualized)
    Matcher.match = tiling._matched_once(None, vars(Matcher)["match"])
    for _ in range(2):
        virtualized.V = SimpleNamespace(graph=SimpleNamespace(sizevars=SimpleNamespace()))
        assert [Matcher.match("x", 2), Matcher.match("x", 2), Matcher.match("y", 2)][-1] == ("y", 2)
    assert calls == [("x", 2), ("y", 2)] * 2
