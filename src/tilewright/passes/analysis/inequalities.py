"""Prove that polynomials in scalars are nonnegative, using inequalities between the scalars.

A polynomial with negative terms, such as `n - 1 - i` of a loop that counts down, is nonnegative because of relations
between its scalars: `i < n`. Inequalities follow from the definitions of the scalars and from the program point (loop
counters, conditions of enclosing branches). A proof subtracts multiples of inequalities until no negative term is
left.

Polynomials describe integers that do not wrap (`symbolic`), and so do the inequalities.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from xdsl.dialects import arith, scf
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tilewright.dialects import tile
from tilewright.passes.analysis.emit import constant_int
from tilewright.passes.analysis.facts import LOOP_INDEX
from tilewright.passes.analysis.polynomial import ONE, Monomial, Polynomial
from tilewright.passes.analysis.symbolic import Symbolic

_DEPTH = 4
"""Maximum number of inequalities per proof."""
_COMPARED = {
    "sgt": ("lhs", "rhs", 1), "sge": ("lhs", "rhs", 0), "slt": ("rhs", "lhs", 1), "sle": ("rhs", "lhs", 0),
}  # fmt: skip
_OPPOSITE = {"sgt": "sle", "sge": "slt", "slt": "sge", "sle": "sgt"}


class Inequalities:
    """Polynomials known to be nonnegative at an operation."""

    def __init__(self, symbols: Symbolic, at: Operation) -> None:
        self._symbols = symbols
        self._of_leaves: dict[SSAValue, list[Polynomial]] = {}
        self._here = list(self._conditions(at))
        self._known: dict[tuple[Polynomial, bool], bool] = {}

    def nonnegative(self, total: Polynomial, assumed: bool = False) -> bool:
        """Return whether a polynomial is provably >= 0; with `assumed`, given that all its leaves are."""
        if (total, assumed) not in self._known:
            self._known[total, assumed] = self._proved(total, assumed, _DEPTH)
        return self._known[total, assumed]

    def highest(self, total: Polynomial) -> int:
        """Return an upper bound of a polynomial."""
        return self._symbols.facts.bounds(total)[1]

    def _is_nonnegative(self, value: SSAValue) -> bool:
        return self._symbols.facts.is_nonnegative(value)

    def _is_nonnegative_index(self, value: SSAValue) -> bool:
        """Return whether a value is a loop index that is known to be nonnegative."""
        op = value.owner
        marked = isinstance(op, Operation) and LOOP_INDEX in op.attributes
        return marked and self._is_nonnegative(value)

    def _of_positives(self, total: Polynomial, assumed: bool) -> bool:
        """Return whether every term of a polynomial is nonnegative."""
        if assumed:
            return all(coefficient > 0 for _, coefficient in total.terms)
        return self._symbols.facts.bounds(total)[0] >= 0

    def _proved(self, total: Polynomial, assumed: bool, depth: int) -> bool:
        if self._of_positives(total, assumed):
            return True
        negative = [term for term in total.terms if term[1] < 0]
        if not negative or not depth:
            return False
        monomial, coefficient = max(negative, key=lambda term: len(term[0]))
        for fact in self._facts(total):
            for part, amount in fact.terms:
                rest = _without(monomial, part) if amount < 0 else None
                if rest is None or not self._of_positives(Polynomial(((rest, 1),)), assumed):
                    continue
                common = gcd(coefficient, amount)
                scaled = total * Polynomial.constant(-amount // common)
                multiple = Polynomial(((rest, -coefficient // common),))
                if self._proved(scaled - multiple * fact, assumed, depth - 1):
                    return True
        return False

    def _facts(self, total: Polynomial) -> Iterator[Polynomial]:
        for value in dict.fromkeys(leaf.value for leaf in total.leaves()):
            if value not in self._of_leaves:
                self._of_leaves[value] = list(self._implied(value))
            yield from self._of_leaves[value]
        yield from self._here
        yield from (p for value, p in self._symbols.sums() if self._is_nonnegative_index(value))

    def _implied(self, value: SSAValue) -> Iterator[Polynomial]:
        """Yield the inequalities implied by the definition of a leaf."""
        op, this = value.owner, self._symbols.of(value)
        if isinstance(op, Block):
            loop = op.parent_op()
            if isinstance(loop, scf.ForOp) and isinstance(value, BlockArgument) and not value.index:
                step = constant_int(loop.step)
                if step is not None and step > 0:
                    yield self._bound(loop.ub) - ONE - this
            return
        match op:
            case arith.RemSIOp() if self._is_nonnegative(op.lhs) and _positive(op.rhs):
                yield self._symbols.of(op.rhs) - ONE - this
                yield self._symbols.of(op.lhs) - this
            case arith.DivSIOp() if self._is_nonnegative(op.lhs) and _positive(op.rhs):
                by, of = self._symbols.of(op.rhs), self._symbols.of(op.lhs)
                yield of - by * this
                yield by * this + by - ONE - of
            case arith.MinSIOp():
                yield from (self._symbols.of(v) - this for v in op.operands)
            case arith.MaxSIOp():
                yield from (this - self._symbols.of(v) for v in op.operands)
            case tile.ProgramIdOp():
                for other in self._symbols.unknowns():
                    owner = other.owner
                    if isinstance(owner, tile.NumProgramsOp) and owner.axis == op.axis:
                        yield self._symbols.of(other) - ONE - this
            case _:
                return

    def _bound(self, end: SSAValue) -> Polynomial:
        """Return the upper bound of a loop as seen in its body, where `max(n, 0)` equals n."""
        op = end.owner
        if isinstance(op, arith.MaxSIOp):
            for value, zero in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
                if constant_int(zero) == 0:
                    return self._symbols.of(value)
        return self._symbols.of(end)

    def _conditions(self, at: Operation) -> Iterator[Polynomial]:
        """Yield the conditions of the branches that enclose an operation."""
        inner: Operation = at
        while (outer := inner.parent_op()) is not None:
            if isinstance(outer, scf.IfOp):
                compared = outer.cond.owner
                if isinstance(compared, tile.CmpIOp) and not tile.is_tile(compared.lhs):
                    name = compared.predicate.data
                    if inner.parent_region() is not outer.true_region:
                        name = _OPPOSITE.get(name, "")
                    if name in _COMPARED:
                        more, less, apart = _COMPARED[name]
                        values = [self._symbols.of(getattr(compared, v)) for v in (more, less)]
                        yield values[0] - values[1] - Polynomial.constant(apart)
            inner = outer


def _positive(value: SSAValue) -> bool:
    number = constant_int(value)
    return number is not None and number > 0


def _without(monomial: Monomial, part: Monomial) -> Monomial | None:
    """Divide a monomial by another one; None if it is not divisible."""
    rest = list(monomial)
    for leaf in part:
        if leaf not in rest:
            return None
        rest.remove(leaf)
    return tuple(rest)
