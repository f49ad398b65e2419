"""How many neighbouring elements a mask takes or leaves together.

`start + lane < extent` has the same value in each aligned run of r lanes if r divides `start` and `extent`: an
asynchronous copy of r elements is done or left out as a whole.
"""

from __future__ import annotations

from math import gcd

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from tilewright.dialects import gpu, tile
from tilewright.passes.analysis.emit import uniform_constant
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.analysis.projection import Projector

_ALL = 1 << 30
"""Of values that do not differ along the dimension at all."""
_CHANGES_BEHIND = {
    "slt": 0, "ult": 0, "sge": 0, "uge": 0, "sle": 1, "ule": 1, "sgt": 1, "ugt": 1,
}  # fmt: skip
"""The lane from which on `lane ? bound` has its other value, less the bound."""
_SWAPPED = {
    "slt": "sgt", "ult": "ugt", "sge": "sle", "uge": "ule",
    "sle": "sge", "ule": "uge", "sgt": "slt", "ugt": "ult",
}  # fmt: skip


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
            return _compared(op, dim, known, lanes)
    return 1


def _compared(op: tile.CmpIOp, dim: int, known: Facts, lanes: Projector) -> int:
    """The length of the runs in which a comparison does not change."""
    counted, bound, predicate = op.lhs, op.rhs, op.predicate.data
    if dim in lanes.varies(bound):
        counted, bound, predicate = op.rhs, op.lhs, _SWAPPED.get(predicate, predicate)
    if dim in lanes.varies(bound) or predicate not in _CHANGES_BEHIND:
        return 1
    behind = _divisor(bound, _CHANGES_BEHIND[predicate], known)
    return gcd(_counted(counted, dim, known, lanes), behind)


def _divisor(value: SSAValue, more: int, known: Facts) -> int:
    """What divides `value + more`."""
    op = value.owner
    number = uniform_constant(value)
    if isinstance(number, int):
        return gcd(number + more, _ALL)
    if more == 0:
        return known.divisor(value)
    if isinstance(op, tile.SplatOp | tile.BroadcastOp | tile.ExpandDimsOp | gpu.ConvertLayoutOp):
        return _divisor(op.operands[0], more, known)
    if isinstance(op, arith.AddiOp | arith.SubiOp):
        added = uniform_constant(op.rhs)
        if isinstance(added, int):
            change = added if isinstance(op, arith.AddiOp) else -added
            return _divisor(op.lhs, more + change, known)
    return gcd(known.divisor(value), more)


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
