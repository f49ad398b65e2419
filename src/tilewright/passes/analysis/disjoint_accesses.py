"""Structured accesses that provably never touch the same element, in one iteration or in later ones.

Two proofs. Constant strides and a constant distance of the bases. And rows of `n` elements, each masked at `n`: an iteration's
access ends at `base + limit`, and a later iteration starts beyond it. Both are polynomials in scalars. Some scalars are known
to be nonnegative; limits are positive, because an access with a limit below 1 touches nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from itertools import takewhile
from math import gcd
from typing import Any

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import tile
from tilewright.dialects.address_arithmetic import Promise, access_arithmetic
from tilewright.ir.walk import ancestors
from tilewright.passes.analysis.effects import defined_inside
from tilewright.passes.analysis.emit import constant_int, is_normalized
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.analysis.polynomial import ONE, ZERO, Polynomial
from tilewright.passes.analysis.symbolic import Symbolic


def dimensions_of(op: Any) -> list[tuple[SSAValue, int, SSAValue | None]]:
    """Stride, extent and limit per dimension; empty for a scalar access."""
    if not isinstance(op, tile.View):
        return []
    limits = tile.view_limits(op)
    extents = enumerate(tile.shape_of(tile.accessed(op)))
    return [(s, n, limits.get(d)) for s, (d, n) in zip(op.strides, extents, strict=True)]


def is_strided(op: Operation) -> bool:
    """Whether an access is scalar, or a tile access with strided dimensions only."""
    if isinstance(op, tile.View):
        return all(kind == "strided" for kind in tile.view_kinds(op))
    return isinstance(op, tile.LoadOp | tile.StoreOp) and not tile.is_tile(op.pointer)


def root_of(pointer: SSAValue) -> SSAValue:
    """The root of a pointer's chain of pointer additions."""
    while isinstance(pointer.owner, tile.AddPtrOp):
        pointer = pointer.owner.pointer
    return pointer


def _have_one_root(first: Operation, second: Operation, loop: scf.ForOp | None) -> bool:
    """Whether both addresses are offsets from one pointer, which is the same in all iterations of `loop`."""
    root, other = (root_of(tile.pointer_of(op)) for op in (first, second))
    return root is other and (loop is None or not defined_inside(root, loop))


def offset_of(pointer: SSAValue, symbols: Symbolic) -> Polynomial:
    """The element offset of a pointer from the root of its chain of pointer additions."""
    total, value = ZERO, pointer
    while isinstance(value.owner, tile.AddPtrOp):
        total = total + symbols.of(value.owner.offset)
        value = value.owner.pointer
    return total


def accesses_arithmetic(first: Operation, second: Operation) -> Promise:
    """The arithmetic that forms the addresses of two accesses."""
    a, b = access_arithmetic(first), access_arithmetic(second)
    return Promise(a.no_wrap | b.no_wrap, a.divisions | b.divisions)


def free_loops(op: Operation, other: Operation, loop: scf.ForOp | None) -> list[scf.ForOp]:
    """Loops around `op` whose iteration is independent of that of `other`."""
    return [
        parent
        for parent in takewhile(lambda above: above is not loop, ancestors(op))
        if isinstance(parent, scf.ForOp) and not (loop is None and parent.is_ancestor(other))
    ]


def ends_before(first: Any, second: Any, loop: scf.ForOp) -> bool:
    """Whether the structured access `first` ends before the start of `second` in every later iteration of `loop`."""
    if not is_normalized(loop) or not _have_one_root(first, second, loop):
        return False
    symbols = Symbolic(Facts(accesses_arithmetic(first, second)))
    start_a, start_b = (offset_of(tile.pointer_of(op), symbols) for op in (first, second))
    facts = _Facts(first, second, loop, symbols)
    strides = [stride for op in (first, second) for stride, _, _ in dimensions_of(op)]
    if not all(facts.is_nonnegative(symbols.of(stride)) for stride in strides):
        return False
    advance = start_b.factor(symbols.unknown(loop.body.block.args[0]))
    begin = facts.anywhere(start_b, second, least=True)
    if advance is None or begin is None or not facts.is_nonnegative(advance):
        return False
    for end in _ends(first, start_a, symbols):
        bounded = facts.anywhere(end, first, least=False)
        if bounded is not None and facts.is_nonnegative(begin + advance - bounded):
            return True
    return False


def _ends(view: Any, start: Polynomial, symbols: Symbolic) -> Iterator[Polynomial]:
    """The exclusive end of an access, by the extent or the limit of each dimension."""
    choices: list[list[Polynomial]] = []
    for stride, extent, limit in dimensions_of(view):
        counts = [Polynomial.constant(extent)]
        if limit is not None:
            counts.append(symbols.of(limit))
        choices.append([(count - ONE) * symbols.of(stride) for count in counts])
    for chosen in itertools.product(*choices):
        yield sum(chosen, start) + ONE


class _Facts:
    """Facts about the scalars of two accesses that each touch at least one element."""

    def __init__(self, first: Any, second: Any, loop: scf.ForOp, symbols: Symbolic) -> None:
        self.loop, self.symbols = loop, symbols
        self.counter = loop.body.block.args[0]
        self.free = {op: free_loops(op, op, loop) for op in (first, second)}
        self.positive: set[SSAValue] = set()
        """Scalars that are 1 or more."""
        for op in (first, second):
            for _, _, limit in dimensions_of(op):
                if limit is not None:
                    self._at_least_one(symbols.of(limit))

    def _at_least_one(self, limit: Polynomial) -> None:
        """Derive that a scalar is at least 1 from a limit of at least 1 that is the scalar minus a nonnegative value."""
        alone = [m[0] for m, c in limit.terms if c == 1 and len(m) == 1]
        for leaf in alone:
            rest = Polynomial.leaf(leaf) - limit
            if not defined_inside(leaf.value, self.loop) and self.is_nonnegative(rest):
                self.positive.add(leaf.value)

    def is_nonnegative(self, polynomial: Polynomial) -> bool:
        """Whether every term of a polynomial is nonnegative."""
        total = ZERO
        for monomial, coefficient in polynomial.terms:
            term = Polynomial.constant(coefficient)
            for leaf in monomial:  # one that is at least 1 stands for what it is more than that
                more = ONE if self._is_one_or_more(leaf.value) else ZERO
                term = term * (Polynomial.leaf(leaf) + more)
            total = total + term
        number = dict(total.terms).get((), 0)
        return number >= 0 and all(
            c > 0 and all(self._is_one_or_more(x.value) or self._is_nonnegative(x.value) for x in m)
            for m, c in total.terms
            if m
        )

    def _is_one_or_more(self, value: SSAValue) -> bool:
        return value in self.positive or self.symbols.facts.of(value).smin >= 1

    def _is_nonnegative(self, value: SSAValue) -> bool:
        return self.symbols.facts.is_nonnegative(value)

    def anywhere(self, polynomial: Polynomial, op: Any, *, least: bool) -> Polynomial | None:
        """A lower (`least`) or upper bound over all iterations of inner loops; None if something else varies in the
        loop."""
        for inner in self.free[op]:
            counter = self.symbols.unknown(inner.body.block.args[0])
            trips = constant_int(inner.ub)
            if counter not in polynomial.leaves():
                continue
            factor = polynomial.factor(counter)
            if factor is None or not is_normalized(inner):
                return None
            polynomial = polynomial - factor * Polynomial.leaf(counter)
            if not self.is_nonnegative(factor if least else -factor):
                if trips is None or not self.is_nonnegative(-factor if least else factor):
                    return None
                polynomial = polynomial + factor * Polynomial.constant(max(0, trips - 1))
        changes = any(
            leaf.value is not self.counter and defined_inside(leaf.value, self.loop)
            for leaf in polynomial.leaves()
        )
        return None if changes else polynomial


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
    if tile.element_of(tile.pointer_of(first)) != tile.element_of(tile.pointer_of(second)):
        return False
    return _by_constants(first, second, loop) or (
        loop is not None and ends_before(first, second, loop)
    )


def _by_constants(first: Any, second: Any, loop: scf.ForOp | None) -> bool:
    """The same for constant strides and a constant distance of the bases."""
    reach_a, reach_b = _reach(first), _reach(second)
    if reach_a is None or reach_b is None or not _have_one_root(first, second, loop):
        return False
    symbols = Symbolic(Facts(accesses_arithmetic(first, second)))
    start_a, start_b = (offset_of(tile.pointer_of(op), symbols) for op in (first, second))
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
        counter = (symbols.unknown(loop.body.block.args[0]),)
        advance = dict(start.terms).get(counter)
        if advance is None or first != 0 or step != 1 or trips is None:
            continue
        far = advance * max(0, trips - 1)
        low, high = low + min(0, far), high + max(0, far)
        start = Polynomial.of({m: c for m, c in start.terms if m != counter})
    return start, (low, high)
