"""Accesses that their limits keep apart: rows of `n` elements, each cut off at `n`.

What one iteration of a loop reaches ends where `base + limit` does, and a later one begins further on. Both
are polynomials in scalars of which some are known not to be negative, and others, because an access beyond
a limit below 1 would touch nothing, to be 1 or more.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import tile
from tilewright.interpreter.offsets import Promise, access_arithmetic
from tilewright.passes.analysis.effects import defined_inside
from tilewright.passes.analysis.emit import constant_int
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.analysis.polynomial import ONE, ZERO, Leaf, Polynomial
from tilewright.passes.analysis.symbolic import Symbolic

VIEWS = (tile.LoadViewOp, tile.StoreViewOp)


def base_of(op: Any) -> SSAValue:
    """Where an access begins."""
    return op.base if isinstance(op, VIEWS) else op.pointer


def dimensions_of(op: Any) -> list[tuple[SSAValue, int, SSAValue | None]]:
    """Stride, extent and limit of each dimension; none of the access of a scalar."""
    if not isinstance(op, VIEWS):
        return []
    accessed = op.result if isinstance(op, tile.LoadViewOp) else op.value
    limits = tile.view_limits(op)
    extents = enumerate(tile.shape_of(accessed))
    return [(s, n, limits.get(d)) for s, (d, n) in zip(op.strides, extents, strict=True)]


def is_strided(op: Operation) -> bool:
    """Whether an access is of a scalar, or of a tile by strides alone."""
    if isinstance(op, VIEWS):
        return all(kind == "strided" for kind in tile.view_kinds(op))
    return isinstance(op, tile.LoadOp | tile.StoreOp) and not tile.is_tile(op.pointer)


def offset_of(pointer: SSAValue, symbols: Symbolic) -> tuple[Polynomial, SSAValue]:
    """Elements from the pointer that a chain of additions starts at, and that pointer."""
    total, value = ZERO, pointer
    while isinstance(value.owner, tile.AddPtrOp):
        total = total + symbols.of(value.owner.offset)
        value = value.owner.pointer
    return total, value


def accesses_arithmetic(first: Operation, second: Operation) -> Promise:
    """The arithmetic that forms the addresses of two accesses."""
    a, b = access_arithmetic(first), access_arithmetic(second)
    return Promise(a.sums | b.sums, a.divisions | b.divisions)


def free_loops(op: Operation, other: Operation, loop: scf.ForOp | None) -> list[scf.ForOp]:
    """Loops around `op` of which it may be in any iteration, whatever the one of `other` is."""
    found: list[scf.ForOp] = []
    parent = op.parent_op()
    while parent is not None and parent is not loop:
        if isinstance(parent, scf.ForOp) and not (loop is None and parent.is_ancestor(other)):
            found.append(parent)
        parent = parent.parent_op()
    return found


def ends_before(first: Any, second: Any, loop: scf.ForOp) -> bool:
    """Whether the structured access `first` reaches no further than where `second` begins in any later
    iteration of `loop`, and nothing lies before that."""
    if constant_int(loop.lb) != 0 or constant_int(loop.step) != 1:
        return False
    symbols = Symbolic(Facts(accesses_arithmetic(first, second)))
    (start_a, root_a), (start_b, root_b) = (
        offset_of(base_of(op), symbols) for op in (first, second)
    )
    if root_a is not root_b:
        return False
    facts = _Facts(first, second, loop, symbols)
    strides = [stride for op in (first, second) for stride, _, _ in dimensions_of(op)]
    if not all(facts.is_nonnegative(symbols.of(stride)) for stride in strides):
        return False
    counter = symbols.leaf(loop.body.block.args[0]).terms[0][0][0]
    advance = _factor(start_b, counter)
    begin = facts.anywhere(start_b, second, least=True)
    if advance is None or begin is None or not facts.is_nonnegative(advance):
        return False
    for end in _ends(first, start_a, symbols):
        bounded = facts.anywhere(end, first, least=False)
        if bounded is not None and facts.is_nonnegative(begin + advance - bounded):
            return True
    return False


def _ends(view: Any, start: Polynomial, symbols: Symbolic) -> Iterator[Polynomial]:
    """Where an access ends, one past its last element: by the extent or the limit of each dimension."""
    choices: list[list[Polynomial]] = []
    for stride, extent, limit in dimensions_of(view):
        counts = [Polynomial.constant(extent)]
        if limit is not None:
            counts.append(symbols.of(limit))
        choices.append([(count - ONE) * symbols.of(stride) for count in counts])
    for chosen in itertools.product(*choices):
        yield sum(chosen, start) + ONE


def _factor(polynomial: Polynomial, leaf: Leaf) -> Polynomial | None:
    """What a polynomial has of `leaf`: its factor; None where it has its square."""
    found: dict[tuple[Leaf, ...], int] = {}
    for monomial, coefficient in polynomial.terms:
        if monomial.count(leaf) > 1:
            return None
        if leaf in monomial:
            found[tuple(each for each in monomial if each is not leaf)] = coefficient
    return Polynomial.of(found)


class _Facts:
    """What is known of the scalars of two accesses, both of which touch something."""

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
        """A limit of 1 or more that is one scalar less what is not negative: so is the scalar."""
        alone = [m[0] for m, c in limit.terms if c == 1 and len(m) == 1]
        for leaf in alone:
            rest = Polynomial.leaf(leaf) - limit
            if not defined_inside(leaf.value, self.loop) and self.is_nonnegative(rest):
                self.positive.add(leaf.value)

    def is_nonnegative(self, polynomial: Polynomial) -> bool:
        """Whether a polynomial is at least 0, because all its terms are."""
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
        """A bound from below (`least`) or above, whatever the iterations of loops within the loop are; None
        where something else changes within it."""
        for inner in self.free[op]:
            counter = self.symbols.leaf(inner.body.block.args[0]).terms[0][0][0]
            trips = constant_int(inner.ub)
            if counter not in polynomial.leaves():
                continue
            factor = _factor(polynomial, counter)
            if factor is None or constant_int(inner.lb) != 0 or constant_int(inner.step) != 1:
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
