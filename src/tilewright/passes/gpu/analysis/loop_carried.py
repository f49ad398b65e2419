"""Scalars that the loops around an operation carry from one time it runs to the next."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import scf
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from tilewright.passes.analysis.edit import end_of, erase, insert_before


def enclosing_loops(op: Operation, function: FuncOp) -> list[scf.ForOp] | None:
    """The loops that `op` is in, outermost first; None when something but counted loops is between it
    and the outermost of them."""
    found: list[scf.ForOp] = []
    other = False
    above = op.parent_op()
    while above is not None and above is not function:
        if isinstance(above, scf.ForOp):
            if other:
                return None
            found.insert(0, above)
        elif isinstance(above, scf.WhileOp):
            return None
        else:
            other = True
        above = above.parent_op()
    return found


def is_in_loop(op: Operation, function: FuncOp) -> bool:
    """Whether an operation may run more than once in a program."""
    above = op.parent_op()
    while above is not None and above is not function:
        if isinstance(above, scf.ForOp | scf.WhileOp):
            return True
        above = above.parent_op()
    return False


def innermost_loop(op: Operation) -> scf.ForOp | scf.WhileOp | None:
    """The loop around an operation that is nearest to it."""
    above = op.parent_op()
    while above is not None and not isinstance(above, scf.ForOp | scf.WhileOp):
        above = above.parent_op()
    return above


class LoopCarriedScalars:
    """Further scalars that loops carry: `values` inside the innermost, until `finish` says the next."""

    def __init__(self, loops: Sequence[scf.ForOp], inits: Sequence[SSAValue]) -> None:
        self.values: list[SSAValue] = list(inits)
        self._loops: list[scf.ForOp] = []
        for loop in loops:
            new = with_more_carried(loop, self.values)
            self._loops.append(new)
            self.values = list(new.body.block.args[-len(self.values) :])

    def finish(self, values: Sequence[SSAValue]) -> None:
        """`values`: the scalars after the operation has run."""
        count = len(values)
        for loop in reversed(self._loops):
            end = end_of(loop.body.block)
            for i, value in enumerate(values):
                end.operands[len(end.operands) - count + i] = value
            values = loop.results[-count:]


def with_more_carried(loop: scf.ForOp, inits: Sequence[SSAValue]) -> scf.ForOp:
    """The loop with further carried values, which it passes on as they are."""
    body = loop.body.block
    added = [body.insert_arg(value.type, len(body.args)) for value in inits]
    end = end_of(body)
    body.insert_op_before(scf.YieldOp.create(operands=[*end.operands, *added]), end)
    erase(end)
    region = loop.detach_region(loop.body)
    new = scf.ForOp.create(
        operands=[*loop.operands, *inits],
        result_types=[*(r.type for r in loop.results), *(v.type for v in inits)],
        regions=[region],
        attributes=loop.attributes,
        location=loop.location,
    )
    insert_before(new, loop)
    for old, result in zip(loop.results, new.results, strict=False):
        result.name_hint = old.name_hint
        old.replace_all_uses_with(result)
    erase(loop)
    return new
