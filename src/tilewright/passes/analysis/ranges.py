"""Structured accesses that provably never touch the same element, in one iteration or in later ones."""

from __future__ import annotations

from math import gcd
from typing import Any

from xdsl.dialects import scf
from xdsl.ir import Operation

from tilewright.dialects import tile
from tilewright.passes.analysis.disjoint_rows import (
    accesses_arithmetic,
    base_of,
    dimensions_of,
    ends_before,
    free_loops,
    is_strided,
    offset_of,
    root_of,
)
from tilewright.passes.analysis.emit import constant_int
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.analysis.polynomial import Polynomial
from tilewright.passes.analysis.symbolic import Symbolic

_MOST_ITERATIONS = 256
"""Iterations whose distances are looked at one by one."""


def are_disjoint(first: Operation, second: Operation, loop: scf.ForOp | None = None) -> bool:
    """Whether two accesses of one array are disjoint.

    Without `loop`: in one execution of the enclosing code. Otherwise both are in `loop` and `second` is in a later
    iteration. Loops around one of them only, or within `loop`, may be in any iteration. Proved for constant strides
    and a constant distance of the bases, and for rows that end at their limits (`disjoint_rows`).
    """
    if not (is_strided(first) and is_strided(second)):
        return False
    if tile.element_of(base_of(first)) != tile.element_of(base_of(second)):
        return False
    return _by_constants(first, second, loop) or (
        loop is not None and ends_before(first, second, loop)
    )


def _by_constants(first: Any, second: Any, loop: scf.ForOp | None) -> bool:
    """The same for constant strides and a constant distance of the bases."""
    reach_a, reach_b = _reach(first), _reach(second)
    if reach_a is None or reach_b is None or root_of(first) is not root_of(second):
        return False
    symbols = Symbolic(Facts(accesses_arithmetic(first, second)))
    start_a, start_b = (offset_of(base_of(op), symbols) for op in (first, second))
    free = free_loops(first, second, loop), free_loops(second, first, loop)
    if loop is None and not any(free) and _lie_between((first, second), start_b - start_a):
        return True
    start_a, (low_a, high_a) = _anywhere(start_a, reach_a, free[0], symbols)
    start_b, (low_b, high_b) = _anywhere(start_b, reach_b, free[1], symbols)
    distance = (start_b - start_a).number
    if distance is None:
        return False
    if loop is None:
        return distance + low_b > high_a or distance + high_b < low_a
    advance, step = symbols.step_per_iteration(start_a, loop), constant_int(loop.step)
    if not advance or not step:
        return False
    stride = advance * step
    if _are_interleaved((first, second), loop, distance, stride, symbols):
        return True
    if stride > 0:
        return distance + stride + low_b > high_a
    return distance + stride + high_b < low_a


def _lie_between(accesses: tuple[Operation, Operation], distance: Polynomial) -> bool:
    """Whether the strides of two accesses have a divisor that their constant distance does not have: fields of records."""
    steps = [constant_int(s) for op in accesses for s, n, _ in dimensions_of(op) if n > 1]
    divisor = gcd(*(step or 1 for step in steps))
    return bool(steps) and distance.number is not None and distance.number % divisor != 0


def _are_interleaved(
    accesses: tuple[Operation, Operation],
    loop: scf.ForOp,
    distance: int,
    stride: int,
    symbols: Symbolic,
) -> bool:
    """Whether accesses in different iterations lie between each other: the strides of both have a divisor that the
    distance of no two iterations has (columns of a matrix, one per iteration).

    `distance`, `stride`: elements between the accesses, and by which an iteration advances both.
    """
    steps = [constant_int(s) for op in accesses for s, n, _ in dimensions_of(op) if n > 1]
    known = [step for step in steps if step is not None]
    low = symbols.facts.bounds(symbols.of(loop.lb))[0]
    trips = symbols.facts.bounds(symbols.of(loop.ub))[1] - low
    divisor = gcd(*known)
    first, second = accesses
    if free_loops(first, second, loop) or free_loops(second, first, loop):
        return False
    if len(known) < len(steps) or not divisor or trips > _MOST_ITERATIONS:
        return False
    return all((distance + n * stride) % divisor for n in range(1, int(trips)))


def _reach(op: Operation) -> tuple[int, int] | None:
    """Lowest and highest element offset from the base, ignoring limits."""
    low = high = 0
    for stride, extent, _ in dimensions_of(op):
        step = constant_int(stride)
        if step is None and extent > 1:
            return None
        far = (step or 0) * (extent - 1)
        low, high = min(low, low + far), max(high, high + far)
    return low, high


def _anywhere(
    start: Polynomial, reach: tuple[int, int], loops: list[scf.ForOp], symbols: Symbolic
) -> tuple[Polynomial, tuple[int, int]]:
    """The loop-invariant part of an offset, and the range of the access relative to it over all iterations of `loops`
    with a constant trip count and step."""
    low, high = reach
    for loop in loops:
        first, trips, step = (constant_int(v) for v in (loop.lb, loop.ub, loop.step))
        counter = symbols.leaf(loop.body.block.args[0]).terms[0][0]
        advance = dict(start.terms).get(counter)
        if advance is None or first != 0 or step != 1 or trips is None:
            continue
        far = advance * max(0, trips - 1)
        low, high = low + min(0, far), high + max(0, far)
        start = Polynomial.of({m: c for m, c in start.terms if m != counter})
    return start, (low, high)
