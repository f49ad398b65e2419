"""Masked loads whose inactive lanes nobody observes: each use ends in stores that are inactive there as well.

An elementwise kernel loads, computes and stores under one mask. What a lane beyond it computes never reaches memory,
so that such a load needs no value there, and may leave its registers undefined. With a value the assembler sees an
instruction that may or may not define a register, and issues few such loads ahead: of 16 loads of 2 bytes 6, the
others one at a time as their results are used.

To the assembler, registers that such a load leaves undefined are live from the start of the program, since nothing has
defined them before. So they are left undefined only in loads in front of which nothing else needs registers: weights
loaded after a reduction took 32 registers of a thread throughout it (RMS norm of 16,384 fp32 columns with 512 threads:
86 registers instead of 56, one CTA of an SM instead of two).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.ir.walk import closure
from tilewright.passes.analysis.effects import has_effect, is_pure_elementwise
from tilewright.passes.analysis.emit import constant_int

_FACTS = (tile.AssumeOp, tile.ClaimOp)


def inactive_lanes_unobserved(load: tile.LoadOp | tile.LoadViewOp) -> bool:
    """Whether no lane in which `load` is inactive has an effect through its result."""
    if not tile.is_tile(load.result):
        return False
    observed = False

    def results(value: SSAValue) -> Sequence[SSAValue]:
        nonlocal observed
        found: list[SSAValue] = []
        for use in value.uses:
            user = use.operation
            if isinstance(user, gpu.ConvertLayoutOp) or is_pure_elementwise(user):
                found += user.results
            elif not _stores_inside(user, value, load):
                observed = True
        return [] if observed else found

    deque(closure([load.result], results), maxlen=0)
    return not observed


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


def _stores_inside(user: object, value: SSAValue, load: tile.LoadOp | tile.LoadViewOp) -> bool:
    """Whether `user` stores `value`, or under it, in active lanes of `load` only."""
    if isinstance(user, tile.StoreViewOp) and isinstance(load, tile.LoadViewOp):
        if value is not user.value and value is not user.mask:
            return False
        limits = tile.view_limits(user)
        inside = all(
            d in limits and _equal(limits[d], n) for d, n in tile.view_limits(load).items()
        )
        return inside and _implies(user.mask, load.mask)
    if isinstance(user, tile.StoreOp) and isinstance(load, tile.LoadOp):
        if value is not user.value and value is not user.mask:
            return False
        return _implies(user.mask, load.mask)
    return False


def _equal(one: SSAValue, other: SSAValue) -> bool:
    number = constant_int(one)
    return one is other or (number is not None and number == constant_int(other))


def _implies(condition: SSAValue | None, wanted: SSAValue | None) -> bool:
    """Whether lanes in which `condition` is true (None: all) are lanes in which `wanted` is."""
    if wanted is None or condition is wanted:
        return True
    if condition is None:
        return False
    owner = condition.owner
    return isinstance(owner, arith.AndIOp) and any(_implies(o, wanted) for o in owner.operands)
