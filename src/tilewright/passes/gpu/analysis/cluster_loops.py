"""Find programs that are a loop of independent iterations, which the CTAs of a cluster may execute concurrently."""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.ir.walk import closure, incoming
from tilewright.passes.analysis.edit import used_in
from tilewright.passes.analysis.effects import is_pure
from tilewright.passes.analysis.emit import constant_int
from tilewright.passes.gpu.analysis.num_ctas import number_around

BLOCKS = 2
"""CTAs of a cluster."""
SPREAD = "tile.parallel_iterations"
"""On a loop: its iterations are independent of each other, as programs are (`tl.range(…, parallel_iterations=True)`)."""
CLUSTER = "gpu.cluster_size"
"""On a function: number of CTAs that execute one iteration of its outermost loop each."""
SHARED = "gpu.multicast"
"""On a TMA load: the tile is the same in all these CTAs, which load it by multicast."""


def cluster_loop(function: FuncOp) -> scf.ForOp | None:
    """The outermost loop, if its iterations are as many as a cluster has CTAs, and independent of each other."""
    for op in function.body.block.ops:
        if isinstance(op, scf.ForOp):
            bounds = [constant_int(v) for v in (op.lb, op.ub, op.step)]
            return op if SPREAD in op.attributes and bounds == [0, BLOCKS, 1] else None
        if not is_pure(op) and not isinstance(
            op, gpu.LocalAllocOp | gpu.MbarrierInitOp | tile.AssumeOp
        ):
            return None
    return None


def cluster_size_of(function: FuncOp) -> int:
    """CTAs that execute one iteration of the outermost loop each; 1: the loop is a loop."""
    return number_around(function, CLUSTER, 1)


def uses_multicast(function: FuncOp) -> bool:
    """Whether the CTAs of a cluster load TMA tiles together (multicast)."""
    return any(type(op) is gpu.TmaLoadOp and SHARED in op.attributes for op in function.walk())


class Dependence:
    """Which values depend on one of them, through operations and what loops carry."""

    def __init__(self, root: SSAValue) -> None:
        self._root = root
        self._free: set[SSAValue] = set()
        """Values that are known not to depend on it."""

    def of(self, value: SSAValue) -> bool:
        """Whether `value` may be another where the root is another."""
        reached = set[SSAValue]()
        for current in closure([value], lambda v: [s for s in _made_of(v) if s not in self._free]):
            if current is self._root:
                return True
            reached.add(current)
        self._free |= reached
        return False


def _made_of(value: SSAValue) -> list[SSAValue]:
    op = value.owner if isinstance(value.owner, Operation) else value.owner.parent_op()
    if op is None or isinstance(op, FuncOp):
        return []
    if isinstance(op, scf.ForOp):
        return [op.lb, op.ub, op.step, *(incoming(value) or ())]
    return used_in(op)
