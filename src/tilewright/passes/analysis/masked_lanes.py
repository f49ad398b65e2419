"""Lanes of a masked load that nothing observes.

A kernel that masks a load by the bounds of its data masks its stores likewise. The lanes that the load leaves out then
flow lane by lane to accesses, selections and assertions that leave them out again, and may hold any value.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import tile
from tilewright.passes.analysis.effects import is_pure_elementwise
from tilewright.passes.analysis.emit import uniform_constant

_MASKED = (tile.LoadOp, tile.StoreOp, tile.AtomicRMWOp)


def are_unobserved(value: SSAValue, mask: SSAValue) -> bool:
    """Whether nothing observes the lanes of tile `value` in which `mask`, a tile of the same shape, is false.

    Follows every use. False for a use that mixes lanes or is unknown.
    """
    seen: set[SSAValue] = set()
    pending = [value]
    while pending:
        current = pending.pop()
        if current in seen:
            continue
        seen.add(current)
        for use in current.uses:
            op = use.operation
            if _leaves_out(op, current, mask):
                continue
            if not is_pure_elementwise(op):
                return False
            pending.extend(op.results)
    return True


def _leaves_out(op: Operation, value: SSAValue, mask: SSAValue) -> bool:
    """Whether an operation has no effect, and results that do not depend on `value`, in lanes where `mask` is false."""
    match op:
        case tile.LoadOp() | tile.StoreOp() | tile.AtomicRMWOp():
            return op.mask is not None and _implies(op.mask, mask)
        case tile.SelectOp():
            condition, kept = op.operands[0], op.operands[1]
            return (
                _implies(condition, mask)
                and value not in (condition, op.operands[2])
                and value is kept
            )
        case arith.OrIOp():
            return any(_is_negation(v, mask) for v in op.operands if v is not value)
        case arith.AndIOp():
            return any(_implies(v, mask) for v in op.operands if v is not value)
    return False


def _implies(condition: SSAValue, mask: SSAValue) -> bool:
    """Whether `condition` is false in all lanes where `mask` is."""
    if condition is mask:
        return True
    op = condition.owner
    return isinstance(op, arith.AndIOp) and any(_implies(v, mask) for v in op.operands)


def _is_negation(value: SSAValue, mask: SSAValue) -> bool:
    op = value.owner
    if not isinstance(op, arith.XOrIOp):
        return False
    return any(
        given is mask and uniform_constant(other) in (1, -1, True)
        for given, other in (op.operands, reversed(op.operands))
    )
