"""A rough estimate of how long one program runs, for the serial cut-off of small grids."""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import tile
from tilewright.passes.analysis.emit import constant_int
from tilewright.passes.cpu.analysis.classify import is_virtual

#: per lane; memory as if in the second-level cache, which small grids are about
_ACCESS_NS, _STEP_NS, _MATH_NS, _FLOP_NS = 0.03, 0.01, 0.15, 0.005
_UNKNOWN_TRIPS = 8
#: a loop that may wait for another thread: too long to keep the GIL, which that thread may need
_WAIT_NS = 2500.0
_ACCESSES = (tile.LoadOp, tile.StoreOp, tile.AtomicRMWOp, tile.AtomicCASOp)


def program_cost(module: ModuleOp) -> float:
    """Nanoseconds that one program of a tile IR module takes, within a factor of a few."""
    return sum(_block(r.block) for op in module.body.block.ops for r in op.regions if r.blocks)


def _block(block: Block) -> float:
    return sum(_op(op) for op in block.ops)


def _op(op: Operation) -> float:
    if isinstance(op, scf.ForOp):
        first, end, step = (constant_int(v) for v in (op.lb, op.ub, op.step))
        if first is None or end is None or not step:
            trips = _UNKNOWN_TRIPS
        else:
            trips = max(0, -((first - end) // step))
        return trips * _block(op.body.block)
    if isinstance(op, scf.WhileOp):
        return _WAIT_NS + _UNKNOWN_TRIPS * sum(_block(r.block) for r in op.regions)
    if op.regions and not isinstance(op, tile.ReduceOp | tile.ScanOp):
        return max((_block(r.block) for r in op.regions if r.blocks), default=0.0)
    if isinstance(op, tile.DotOp):
        m, k = tile.shape_of(op.lhs)[-2:]
        return m * k * tile.shape_of(op.rhs)[-1] * _FLOP_NS
    values = [*op.operands, *op.results]
    lanes = max((_elements(v) for v in values), default=1)
    if lanes == 1 or is_virtual(op):
        return 1.0
    if op.name.startswith(("math.", "arith.div", "arith.rem")):
        return lanes * _MATH_NS
    return lanes * (_ACCESS_NS if isinstance(op, _ACCESSES) else _STEP_NS)


def _elements(value: SSAValue) -> int:
    total = 1
    for extent in tile.shape_of(value):
        total *= extent
    return total
