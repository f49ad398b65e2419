"""Lanes of a masked load that nothing observes.

A kernel that masks a load by the bounds of its data masks its stores likewise. The lanes that the load leaves out then
flow lane by lane to accesses, selections and assertions that leave them out again, and may hold any value.

Code for GPUs leaves the registers of such lanes undefined. With a value the assembler sees an instruction that may or
may not define a register, and issues few such loads ahead: of 16 loads of 2 bytes 6, the others one at a time as their
results are used. Registers that are left undefined are live from the start of the program, since nothing has defined
them before. So they are left undefined only in loads in front of which nothing else needs registers
(`first_operations`): weights loaded after a reduction took 32 registers of a thread throughout it (RMS norm of 16,384
fp32 columns with 512 threads: 86 registers instead of 56, one CTA of an SM instead of two).
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import arith
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.ir.walk import closure
from tilewright.passes.analysis.effects import has_effect, is_pure_elementwise
from tilewright.passes.analysis.emit import constant_int, uniform_constant

_FACTS = (tile.AssumeOp, tile.ClaimOp)


def are_unobserved(value: SSAValue, mask: SSAValue) -> bool:
    """Whether nothing observes the lanes of tile `value` in which `mask`, a tile of the same shape, is false."""
    return _all_uses(value, lambda op, used: _leaves_out(op, used, mask))


def inactive_lanes_unobserved(load: tile.Load) -> bool:
    """Whether only stores that are inactive there as well see the lanes in which `load` is inactive."""
    return tile.is_tile(load.result) and _all_uses(
        load.result, lambda op, used: _stores_inside(op, used, load)
    )


def _all_uses(value: SSAValue, leaves_out: Callable[[Operation, SSAValue], bool]) -> bool:
    """Whether `leaves_out` holds of each use of a tile and of what elementwise operations make of it.

    False for a use that mixes lanes or is unknown.
    """
    results: list[SSAValue] = []
    for current in closure([value], lambda _: results):
        users = [use.operation for use in current.uses]
        users = [op for op in users if not leaves_out(op, current)]
        if not all(is_pure_elementwise(op) or isinstance(op, gpu.ConvertLayoutOp) for op in users):
            return False
        results[:] = [result for op in users for result in op.results]
    return True


def first_operations(function: FuncOp) -> set[Operation]:
    """The operations before which a program has only loaded and computed element by element, in the first iteration of
    the loops around them."""
    found: set[Operation] = set()
    pending = [block for region in function.regions for block in region.blocks]
    while pending:
        for op in pending.pop().ops:
            found.add(op)
            if op.regions:
                pending += [block for region in op.regions for block in region.blocks]
            if op.regions or (has_effect(op) and not isinstance(op, _FACTS)):
                break
    return found


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


def _stores_inside(op: Operation, value: SSAValue, load: tile.Load) -> bool:
    """Whether an operation stores `value`, or under it, in active lanes of `load` only."""
    if not isinstance(op, tile.Store):
        return False
    if isinstance(op, tile.StoreViewOp) and isinstance(load, tile.LoadViewOp):
        limits, wanted = tile.view_limits(op), tile.view_limits(load)
        inside = all(d in limits and _equal(limits[d], n) for d, n in wanted.items())
    else:
        inside = isinstance(op, tile.StoreOp) and isinstance(load, tile.LoadOp)
    return inside and (value is op.value or value is op.mask) and _implies(op.mask, load.mask)


def _equal(one: SSAValue, other: SSAValue) -> bool:
    number = constant_int(one)
    return one is other or (number is not None and number == constant_int(other))


def _implies(condition: SSAValue | None, mask: SSAValue | None) -> bool:
    """Whether `condition` is false in all lanes where `mask` is; None is true everywhere."""
    if mask is None or condition is mask:
        return True
    op = condition.owner if condition is not None else None
    return isinstance(op, arith.AndIOp) and any(_implies(v, mask) for v in op.operands)


def _is_negation(value: SSAValue, mask: SSAValue) -> bool:
    op = value.owner
    if not isinstance(op, arith.XOrIOp):
        return False
    return any(
        given is mask and uniform_constant(other) in (1, -1, True)
        for given, other in (op.operands, reversed(op.operands))
    )
