"""Fold branches with known conditions and loops of at most one iteration, and prune loop-carried values."""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.ir import Operation, Region, SSAValue

from tilewright.dialects import tile
from tilewright.passes.analysis.edit import (
    end_of,
    erase,
    insert_before,
    kept_results,
    rebuild,
    remove_carried,
    replace,
    unused_carried,
    without,
)
from tilewright.passes.analysis.emit import constant_int
from tilewright.passes.analysis.facts import Facts


def simplify_control(op: Operation, known: Facts) -> bool:
    """Simplify `op` in place or erase it. Returns whether anything changed."""
    if isinstance(op, scf.IfOp):
        return _known_branch(op, known) or _same_results(op) or _unused_results(op)
    if isinstance(op, scf.ForOp):
        return _short_loop(op) or prune_carried(op) is not op
    if isinstance(op, (tile.AssumeOp, tile.AssertOp)) and constant_int(op.condition) == 1:
        erase(op)
        return True
    return False


def inline(region: Region, op: Operation, arguments: list[SSAValue]) -> list[SSAValue]:
    """Move the operations of a single-block region in front of `op`; what its terminator yields."""
    block = region.block
    for argument, value in zip(block.args, arguments, strict=True):
        argument.replace_all_uses_with(value)
    last = end_of(region.block)
    results = list(last.operands)
    block.erase_op(last)
    for inner in list(block.ops):
        insert_before(inner, op)
    return results


def _finish(op: Operation, values: list[SSAValue]) -> None:
    for result, value in zip(op.results, values, strict=True):
        result.replace_all_uses_with(value)
    erase(op)


def _known_branch(op: scf.IfOp, known: Facts) -> bool:
    condition = known.of(op.cond)
    if condition.umin != condition.umax:
        return False
    region = op.true_region if condition.umax else op.false_region
    _finish(op, inline(region, op, []) if region.blocks else [])
    return True


def _same_results(op: scf.IfOp) -> bool:
    """Results that both branches make equal, or that repeat the condition."""
    if not op.results or not op.false_region.blocks:
        return False
    changed = False
    pairs = zip(
        end_of(op.true_region.block).operands, end_of(op.false_region.block).operands, strict=True
    )
    for result, (lhs, rhs) in zip(op.results, pairs, strict=True):
        if result.first_use is None:
            continue
        if lhs is rhs:
            result.replace_all_uses_with(lhs)
            changed = True
        elif result.type == op.cond.type and (constant_int(lhs), constant_int(rhs)) == (1, 0):
            result.replace_all_uses_with(op.cond)
            changed = True
    return changed


def _unused_results(op: scf.IfOp) -> bool:
    unused = [p for p, result in enumerate(op.results) if result.first_use is None]
    if not unused or not op.false_region.blocks:
        return False
    for region in op.regions:
        last = end_of(region.block)
        last.operands = without(list(last.operands), unused)
    types = [v.type for v in without(list(op.results), unused)]
    new = rebuild(op, [op.cond], types)
    replace(op, new, kept_results(len(op.results), unused, list(new.results)))
    return True


def _short_loop(op: scf.ForOp) -> bool:
    """Loops that run never or once."""
    lower, upper, step = (constant_int(v) for v in (op.lb, op.ub, op.step))
    if lower is None or upper is None or step is None or step == 0:
        return op.lb is op.ub and _never(op)
    trips = max(0, -((lower - upper) // step))
    if trips == 0:
        return _never(op)
    if trips > 1:
        return False
    _finish(op, inline(op.body, op, [op.lb, *op.iter_args]))
    return True


def _never(op: scf.ForOp) -> bool:
    _finish(op, list(op.iter_args))
    return True


def prune_carried(loop: scf.ForOp) -> scf.ForOp:
    """`loop` without carried values that stay what they were, or that only compute themselves."""
    last = end_of(loop.body.block)
    arguments = loop.body.block.args[1:]
    fixed = {
        position: init
        for position, init in enumerate(loop.iter_args)
        if last.operands[position] in (arguments[position], init)
    }
    if fixed:
        loop = remove_carried(loop, fixed)
    unused = unused_carried(loop)
    if unused:
        loop = remove_carried(loop, {p: loop.iter_args[p] for p in unused})
    return loop
