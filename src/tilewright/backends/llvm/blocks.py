"""Emit branches and loops with an LLVM builder: their blocks, phis and back edges.

Structured control flow of the IR is `control`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from llvmlite import ir

from tilewright.backends.llvm.types import I64, Builder, Value


def conditional(
    b: Builder,
    condition: Value | None,
    act: Callable[[], Sequence[Value | None]],
    otherwise: Sequence[Value | None],
) -> list[Value]:
    """The values of `act` if `condition` is true (None: always), else those of `otherwise`.

    None among the values of `act` leaves the other value, None among `otherwise` is undefined.
    """
    if condition is None:
        return [other if v is None else v for v, other in zip(act(), otherwise, strict=True)]
    before = b.block
    with b.if_then(condition):
        values, inside = act(), b.block
    merged: list[Value] = []
    for value, other in zip(values, otherwise, strict=True):
        if value is None:
            merged.append(other)
            continue
        phi = b.phi(value.type)
        phi.add_incoming(ir.Constant(value.type, ir.Undefined) if other is None else other, before)
        phi.add_incoming(value, inside)
        merged.append(phi)
    return merged


def both(b: Builder, first: Value | None, second: Value | None) -> Value | None:
    """Whether two conditions hold (None: always)."""
    if first is None or second is None:
        return first if second is None else second
    return b.and_(first, second)


def where(b: Builder, condition: Value | None) -> AbstractContextManager[Any]:
    """Emit what follows in a branch that is taken if `condition` holds (None: always)."""
    return nullcontext() if condition is None else b.if_then(condition)


def counted_loop(
    b: Builder,
    stop: Value | int,
    step: int,
    body: Callable[[Value, list[Value]], Sequence[Value] | None],
    carried: Sequence[Value] = (),
    index: ir.IntType = I64,
) -> list[Value]:
    """`for i in range(0, stop, step)`, run at least once; `body(i, values)` returns the carried values of the
    next iteration. Returns those of the last; the builder is after the loop."""
    last = ir.Constant(index, stop) if isinstance(stop, int) else stop
    before = b.block
    head = b.append_basic_block("loop")
    b.branch(head)
    b.position_at_end(head)
    counter = b.phi(index)
    counter.add_incoming(ir.Constant(index, 0), before)
    phis = phis_of(b, carried, before)
    results = list(body(counter, list(phis)) or ())
    following = b.add(counter, ir.Constant(index, step), flags=("nuw", "nsw"))
    after = b.append_basic_block("done")
    again = b.cbranch(b.icmp_unsigned("<", following, last), head, after)
    again.set_metadata("llvm.loop", keep_rolled(b.module))
    counter.add_incoming(following, b.block)
    for phi, value in zip(phis, results, strict=True):
        phi.add_incoming(value, b.block)
    b.position_at_end(after)
    return results


def phis_of(b: Builder, values: Iterable[Value], before: Value) -> list[Value]:
    """A phi for each value, which it has when coming from the block `before`."""
    phis = []
    for value in values:
        phi = b.phi(value.type)
        phi.add_incoming(value, before)
        phis.append(phi)
    return phis


def keep_rolled(module: ir.Module) -> ir.values.MDValue:
    """Loop metadata that disables LLVM's unroller: unrolling a register tile spills it."""
    disable = module.add_metadata(["llvm.loop.unroll.disable"])
    node = module.add_metadata([disable, disable])
    node.operands = (node, disable)  # a loop id names itself first
    return node


def retry(b: Builder, first: Value, attempt: Callable[[Value], tuple[Value, Value]]) -> Value:
    """Repeat `attempt(seen)`, which returns (value to try next, whether it succeeded), until it succeeds.

    Begins with `first`; returns the value of the last attempt (compare-and-swap loops).
    """
    before = b.block
    loop, done = (b.append_basic_block(name) for name in ("retry", "retry_done"))
    b.branch(loop)
    b.position_at_end(loop)
    seen = b.phi(first.type)
    seen.add_incoming(first, before)
    found, succeeded = attempt(seen)
    seen.add_incoming(found, b.block)
    b.cbranch(succeeded, done, loop)
    b.position_at_end(done)
    return found
