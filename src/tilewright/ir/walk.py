"""Walks over the IR: from an operation to those around it, and from values to what they are computed from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile
from typing import TypeVar

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue

from tilewright.ir.types import position_of

T = TypeVar("T")


def ancestors(op: Operation) -> Iterator[Operation]:
    """The operations that an operation is in, the innermost first."""
    above = op.parent_op()
    while above is not None:
        yield above
        above = above.parent_op()


def following(op: Operation) -> Iterator[Operation]:
    """The operations after `op` in its block, in order."""
    after = op.next_op
    while after is not None:
        yield after
        after = after.next_op


def preceding(op: Operation) -> Iterator[Operation]:
    """The operations before `op` in its block, the nearest first."""
    before = op.prev_op
    while before is not None:
        yield before
        before = before.prev_op


def operations_between(first: Operation, last: Operation) -> Iterator[Operation]:
    """The operations of a block after `first` and before `last`, or to its end."""
    return takewhile(lambda op: op is not last, following(first))


def innermost_loop(op: Operation) -> scf.ForOp | scf.WhileOp | None:
    """The innermost loop that an operation is in."""
    return next((a for a in ancestors(op) if isinstance(a, scf.ForOp | scf.WhileOp)), None)


def has_loops(loop: scf.ForOp) -> bool:
    """Whether a loop has others in it."""
    return any(isinstance(op, scf.ForOp | scf.WhileOp) for op in loop.body.walk())


def closure(start: Iterable[T], following: Callable[[T], Iterable[T]]) -> Iterator[T]:
    """`start` and what follows from it transitively, each once, depth first from the last.

    `following` is called when the caller asks for the next element: a caller that stops early, or that notes what it
    has seen, decides how far the walk goes.
    """
    pending, seen = list(start), set[T]()
    while pending:
        current = pending.pop()
        if current not in seen:
            seen.add(current)
            yield current
            pending += following(current)


def sources(value: SSAValue) -> Sequence[SSAValue]:
    """The operands of the operation that defines a value; none for block arguments."""
    return value.owner.operands if isinstance(value.owner, Operation) else ()


def incoming(value: SSAValue) -> list[SSAValue] | None:
    """The values that control flow gives a result or block argument of `scf.for`, `scf.while` or `scf.if`, in any
    iteration; None: another operation defines it, or it is a loop's counter."""
    owner = value.owner
    op = owner if isinstance(owner, Operation) else owner.parent_op()
    at = position_of(value)
    ends = [r.block.last_op for r in op.regions if r.blocks] if op is not None else []
    yielded = [list(end.operands) for end in ends if end is not None]
    if isinstance(op, scf.ForOp):
        at -= isinstance(owner, Block)
        return [op.iter_args[at], yielded[0][at]] if at >= 0 else None
    if isinstance(op, scf.WhileOp):
        if owner is op.before_region.block:
            return [op.arguments[at], yielded[1][at]]
        return [yielded[0][at + 1]]
    if isinstance(op, scf.IfOp) and op is owner:
        return [values[at] for values in yielded]
    return None


def outgoing(user: Operation, index: int) -> list[SSAValue] | None:
    """The results and block arguments that `scf.for` and `scf.if` give the operand `index` of `user` to; None: `user` is none
    of these, nor the end of one."""
    if isinstance(user, scf.ForOp):
        return [user.results[index - 3], user.body.block.args[index - 2]]
    above = user.parent_op() if isinstance(user, scf.YieldOp) else None
    if isinstance(above, scf.ForOp):
        return [above.results[index], above.body.block.args[index + 1]]
    return [above.results[index]] if isinstance(above, scf.IfOp) else None


def results_of_users(value: SSAValue) -> list[SSAValue]:
    """The results of the operations that use a value."""
    return [result for use in value.uses for result in use.operation.results]
