"""How many neighbouring elements a mask takes or leaves together.

`start + lane < extent` has the same value in each aligned run of r lanes if r divides `start` and `extent`: an
asynchronous copy of r elements is done or left out as a whole.
"""

from __future__ import annotations

from math import gcd

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from tilewright.dialects import gpu, tile
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.analysis.projection import Projector

_ALL = 1 << 30
"""Of values that do not differ along the dimension at all."""
_BELOW = ("slt", "ult", "sge", "uge")
"""`lane` on the left side: they change between extent - 1 and extent."""
_ABOVE = ("sgt", "ugt", "sle", "ule")
"""The same with `lane` on the right side."""


def mask_run(mask: SSAValue | None, dim: int, known: Facts) -> int:
    """Return a power of two: aligned runs of so many elements along `dim` have one value in `mask`."""
    found = _ALL if mask is None else _same(mask, dim, known, Projector())
    return found & -found


def _same(value: SSAValue, dim: int, known: Facts, lanes: Projector) -> int:
    """The length of the runs in which a tile of i1 does not change."""
    if dim not in lanes.varies(value):
        return _ALL
    op = value.owner
    match op:
        case arith.AndIOp() | arith.OrIOp() | arith.XOrIOp():
            return gcd(*(_same(v, dim, known, lanes) for v in op.operands))
        case tile.BroadcastOp() | tile.HintOp() | gpu.ConvertLayoutOp():
            return _same(op.operands[0], dim, known, lanes)
        case tile.ExpandDimsOp():
            return _same(op.source, dim - (dim > op.axis.value.data), known, lanes)
        case tile.TransOp():
            return _same(op.source, tuple(op.permutation)[dim], known, lanes)
        case tile.CmpIOp():
            sides = {**dict.fromkeys(_BELOW, (op.lhs, op.rhs)), **dict.fromkeys(_ABOVE, (op.rhs, op.lhs))}  # fmt: skip
            if op.predicate.data not in sides:
                return 1
            counted, bound = sides[op.predicate.data]
            if dim in lanes.varies(bound):
                return 1
            return gcd(_counted(counted, dim, known, lanes), known.divisor(bound))
    return 1


def _counted(value: SSAValue, dim: int, known: Facts, lanes: Projector) -> int:
    """What divides the first of consecutive numbers along `dim`; 1 for other values, and where it is unknown."""
    op = value.owner
    match op:
        case tile.ArangeOp():
            return op.start.value.data or _ALL
        case arith.AddiOp():
            for base, other in (op.operands, tuple(reversed(op.operands))):
                if dim not in lanes.varies(other):
                    return gcd(_counted(base, dim, known, lanes), known.divisor(other))
        case arith.ExtSIOp() | arith.ExtUIOp() | tile.BroadcastOp() | tile.HintOp():
            return _counted(op.operands[0], dim, known, lanes)
        case gpu.ConvertLayoutOp():
            return _counted(op.source, dim, known, lanes)
        case tile.ExpandDimsOp() if dim != op.axis.value.data:
            return _counted(op.source, dim - (dim > op.axis.value.data), known, lanes)
        case tile.TransOp():
            return _counted(op.source, tuple(op.permutation)[dim], known, lanes)
        case _:
            pass
    return 1
