"""Scalars that loops carry: those that continue from one run of an operation to the next, and counters that need not be carried."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import TypeVar

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from tilewright.errors import PassError
from tilewright.ir.walk import ancestors
from tilewright.passes.analysis.edit import (
    block_of,
    end_of,
    rebuild,
    remove_carried,
    replace_op,
    start_of,
)
from tilewright.passes.analysis.effects import defined_inside
from tilewright.passes.analysis.emit import Emitter, constant_int, is_normalized
from tilewright.passes.analysis.facts.operations import advanced_by

Around = scf.ForOp | scf.WhileOp | scf.IfOp
_Op = TypeVar("_Op", bound=Operation)


def enclosing_regions(op: Operation, function: FuncOp) -> list[Around] | None:
    """The loops that `op` is in and the branches between them, outermost first; None where it is in the condition of
    a `while`. Branches around the outermost loop do not count: they run once."""
    found: list[Around] = []
    inner, above = op, op.parent_op()
    while above is not None and above is not function:
        if isinstance(above, scf.WhileOp) and inner.parent is above.before_region.block:
            return None
        if not isinstance(above, scf.ForOp | scf.WhileOp | scf.IfOp):
            return None
        found.insert(0, above)
        inner, above = above, above.parent_op()
    while found and isinstance(found[0], scf.IfOp):
        found.pop(0)
    return found


def is_in_loop(op: Operation, function: FuncOp) -> bool:
    """Whether an operation may run more than once in a program."""
    inside = takewhile(lambda above: above is not function, ancestors(op))
    return any(isinstance(above, scf.ForOp | scf.WhileOp) for above in inside)


class LoopCarriedScalars:
    """Further scalars that loops carry: `values` inside the innermost, until `finish` says the next."""

    def __init__(
        self, around: Sequence[Around], inits: Sequence[SSAValue], op: Operation | None = None
    ) -> None:
        """`around`: loops and branches, each in the one before it; `op`: what is in the last of them (needed where
        that is a branch)."""
        self.values: list[SSAValue] = list(inits)
        self._ends: list[tuple[Operation, Operation]] = []
        """Of each: the operation, and the terminator that passes on what is inside."""
        for outer, inner in zip(around, [*around, op][1:], strict=True):
            self._ends.append(self._enter(outer, inner))

    def _enter(self, op: Around, inner: Operation | None) -> tuple[Operation, Operation]:
        """Add the scalars to one operation, which holds `inner`."""
        if isinstance(op, scf.IfOp):
            if inner is None:
                raise PassError("it is not known in which branch the operation is")
            return _branch_with_more(op, self.values), end_of(block_of(inner))
        if isinstance(op, scf.WhileOp):
            repeated = _while_with_more(op, self.values)
            new, block = repeated, repeated.after_region.block
        else:
            counted = with_more_carried(op, self.values)
            new, block = counted, counted.body.block
        self.values = list(block.args[-len(self.values) :])
        return new, end_of(block)

    def finish(self, values: Sequence[SSAValue]) -> None:
        """`values`: the scalars after the operation has run."""
        count = len(values)
        for op, end in reversed(self._ends):
            for i, value in enumerate(values):
                end.operands[len(end.operands) - count + i] = value
            values = op.results[-count:]


def with_more_carried(loop: scf.ForOp, inits: Sequence[SSAValue]) -> scf.ForOp:
    """The loop with further carried values, which it passes on as they are."""
    _pass_on(loop.body.block, inits)
    return _with_more_results(loop, [*loop.operands, *inits], inits)


def _while_with_more(loop: scf.WhileOp, inits: Sequence[SSAValue]) -> scf.WhileOp:
    """The same of a `while`, whose condition passes them on to the body."""
    for block in (loop.before_region.block, loop.after_region.block):
        _pass_on(block, inits)
    return _with_more_results(loop, [*loop.operands, *inits], inits)


def _branch_with_more(branch: scf.IfOp, values: Sequence[SSAValue]) -> scf.IfOp:
    """The branch with further results, which are `values` at the end of both sides."""
    for region in branch.regions:
        if not region.blocks:
            region.add_block(Block([scf.YieldOp.create()]))
        end = end_of(region.block)
        end.operands = [*end.operands, *values]
    return _with_more_results(branch, branch.operands, values)


def _pass_on(block: Block, values: Sequence[SSAValue]) -> None:
    """Add block arguments of the types of `values`, which the terminator passes on."""
    added = [block.insert_arg(value.type, len(block.args)) for value in values]
    end = end_of(block)
    end.operands = [*end.operands, *added]


def _with_more_results(op: _Op, operands: Sequence[SSAValue], values: Sequence[SSAValue]) -> _Op:
    """Rebuild `op` with `operands` and further results, of the types of `values`."""
    new = rebuild(op, operands, [*(r.type for r in op.results), *(v.type for v in values)])
    replace_op(op, new.results[: len(op.results)])
    return new


def most_iterations(loop: scf.ForOp) -> int:
    """Iterations of a loop between constants; further stages would stay empty."""
    first, end, step = (constant_int(v) for v in (loop.lb, loop.ub, loop.step))
    if first is None or end is None or not step:
        return 1 << 30
    return -(-(end - first) // step)


def derive_carried_counters(loop: scf.ForOp) -> scf.ForOp:
    """Return the loop without carried integers that advance by the same amount in each iteration: they are computed
    from its counter.

    Persistent kernels carry a second tile index for their epilogue (`tile_c += programs`), so that a compiler can
    overlap the epilogue with the loads of the next tile. Computed from the counter, it is not a loop-carried
    dependence. Applies to loops that count 0, 1, 2 …, and to integers whose final value has no users.
    """
    if not is_normalized(loop):
        return loop
    body, derived = loop.body.block, dict[int, SSAValue]()
    for position, init in enumerate(loop.iter_args):
        carried = body.args[position + 1]
        kind, amount = carried.type, _amount(carried, end_of(body).operands[position], loop)
        if (
            amount is None
            or not isinstance(kind, IntegerType)
            or loop.results[position].first_use is not None
        ):
            continue
        emitter = Emitter(start_of(body))
        counter = emitter.resize(body.args[0], kind, True)
        advanced = emitter.binary(arith.MuliOp, counter, amount)
        value = emitter.binary(arith.AddiOp, init, advanced)
        carried.replace_all_uses_with(value)
        derived[position] = init
    return remove_carried(loop, derived) if derived else loop


def _amount(carried: SSAValue, following: SSAValue, loop: scf.ForOp) -> SSAValue | None:
    """Return the step per iteration of a loop-carried integer, or None."""
    amount, sign = advanced_by(carried, following.owner) or (carried, 0)
    return amount if sign > 0 and not defined_inside(amount, loop) else None
