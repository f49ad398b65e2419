"""Walks over the IR: from an operation to those around it, and from values to what they are computed from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from xdsl.ir import Operation, SSAValue

T = TypeVar("T")


def ancestors(op: Operation) -> Iterator[Operation]:
    """The operations that an operation is in, the innermost first."""
    above = op.parent_op()
    while above is not None:
        yield above
        above = above.parent_op()


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


def results_of_users(value: SSAValue) -> list[SSAValue]:
    """The results of the operations that use a value."""
    return [result for use in value.uses for result in use.operation.results]
