"""Scalar integers of the IR as polynomials in the values that they are computed from.

Additions, subtractions, multiplications, extensions and truncations are expanded if they provably do not wrap. A
loop-carried scalar with an invariant step is `start + trips * step`. Everything else is an unknown.

Prove that polynomials in scalars are nonnegative, using inequalities between the scalars.

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
from tilewright.passes.analysis.edit import initial, yielded
from tilewright.passes.analysis.effects import defined_inside, is_pure_elementwise
from tilewright.passes.analysis.emit import constant_int, is_normalized
from tilewright.passes.analysis.facts import LOOP_INDEX, Facts
from tilewright.passes.analysis.facts.operations import advanced_by, width_of
from tilewright.passes.analysis.polynomial import ONE, Leaf, Polynomial, divided

_SUMS = (arith.AddiOp, arith.SubiOp, arith.MuliOp)


class Symbolic:
    """Polynomials of scalars, cached; a value is the same unknown wherever it occurs.

    `facts` decide which arithmetic does not wrap. With `modulo`, polynomials hold modulo 2^bits of the queried scalar
    only, and arithmetic of its width and truncations to it are always expanded. `congruent`: equal computations of equal
    operands are one unknown, that of the first. This is for comparisons only: the unknown's value need not be available
    at the second.
    """

    def __init__(
        self, facts: Facts | None = None, *, modulo: bool = False, congruent: bool = False
    ) -> None:
        self.facts = facts or Facts()
        self.modulo = modulo
        self.congruent = congruent
        self._alike: dict[object, Polynomial] = {}
        self._leaves: dict[SSAValue, Leaf] = {}
        self._known: dict[SSAValue, Polynomial] = {}

    def of(self, value: SSAValue) -> Polynomial:
        """The polynomial of an integer scalar."""
        if value not in self._known:
            self._known[value] = self.leaf(value)  # a carried scalar depends on itself
            self._known[value] = self._find(value)
        return self._known[value]

    def unknowns(self) -> list[SSAValue]:
        """The unknowns of all polynomials."""
        return list(self._leaves)

    def sums(self) -> list[tuple[SSAValue, Polynomial]]:
        """The expanded scalars so far, with their polynomials."""
        return [(v, p) for v, p in self._known.items() if len(p.terms) > 1]

    def unknown(self, value: SSAValue) -> Leaf:
        """The value itself as an unknown."""
        if value not in self._leaves:
            self._leaves[value] = Leaf(len(self._leaves), value, True)
        return self._leaves[value]

    def leaf(self, value: SSAValue) -> Polynomial:
        """The polynomial that is only the value itself, as an unknown."""
        return Polynomial.leaf(self.unknown(value))

    def step_per_iteration(self, polynomial: Polynomial, loop: scf.ForOp) -> int | None:
        """The constant by which a polynomial changes when the counter of a loop grows by one; None if it is none."""
        change = self.change_per_iteration(polynomial, loop)
        return change.number if change is not None else None

    def change_per_iteration(self, polynomial: Polynomial, loop: scf.ForOp) -> Polynomial | None:
        """By how much a polynomial changes when the counter of a loop grows by one; None if it is not linear in that, or
        depends on other values of the loop."""
        counter = self.unknown(loop.body.block.args[0])
        others = (leaf for leaf in polynomial.leaves() if leaf != counter)
        inside = any(defined_inside(leaf.value, loop) for leaf in others)
        return None if inside else polynomial.factor(counter)

    def advance_per_iteration(self, pointer: SSAValue, loop: scf.ForOp) -> Polynomial | None:
        """Elements by which a pointer is further when the counter of a loop has grown by one; None as of its changes."""
        total = Polynomial()
        while defined_inside(pointer, loop):
            op = pointer.owner
            if not isinstance(op, tile.AddPtrOp):
                return None
            total += self.of(op.offset)
            pointer = op.pointer
        return self.change_per_iteration(total, loop)

    def _find(self, value: SSAValue) -> Polynomial:
        number = constant_int(value)
        if number is not None:
            return Polynomial.constant(number)
        op = value.owner
        if isinstance(op, Block):
            return self._carried(value, op)
        if LOOP_INDEX in op.attributes:
            return self._index(op)
        if isinstance(op, _SUMS) and self._is_exact(op):
            return self._sum(op)
        if isinstance(op, arith.ExtSIOp) and not self.modulo:
            return self.of(op.input)
        if isinstance(op, arith.TruncIOp) and self._keeps(op.input, value):
            return self.of(op.input)
        return self._congruent(value, op) if self.congruent else self.leaf(value)

    def _congruent(self, value: SSAValue, op: Operation) -> Polynomial:
        """The unknown of `op` on such operands (value numbering)."""
        if not is_pure_elementwise(op) or len(op.results) != 1:
            return self.leaf(value)
        operands = tuple(self.of(operand) for operand in op.operands)
        properties = tuple(sorted((name, str(p)) for name, p in op.properties.items()))
        key = (op.name, properties, operands, value.type)
        return self._alike.setdefault(key, self.leaf(value))

    def _sum(self, op: Operation) -> Polynomial:
        lhs, rhs = self.of(op.operands[0]), self.of(op.operands[1])
        if isinstance(op, arith.AddiOp):
            return lhs + rhs
        return lhs - rhs if isinstance(op, arith.SubiOp) else lhs * rhs

    def _is_exact(self, op: Operation) -> bool:
        return self.modulo or not self.facts.may_wrap(op)

    def _keeps(self, wide: SSAValue, narrow: SSAValue) -> bool:
        """Whether a truncation preserves the value."""
        if self.modulo:
            return True
        fact, half = self.facts.of(wide), 1 << (width_of(narrow) or 1) - 1
        return -half <= fact.smin and fact.smax < half

    def _index(self, op: Operation) -> Polynomial:
        """A loop's index, `start + counter * step`: its terms may wrap, the sum does not."""
        if isinstance(op, arith.AddiOp):
            return self.of(op.lhs) + self._advance(op.rhs)
        return self._advance(op.results[0])

    def _advance(self, value: SSAValue) -> Polynomial:
        op = value.owner
        if isinstance(op, arith.MuliOp):
            return self._advance(op.lhs) * self.of(op.rhs)
        return self.of(op.input if isinstance(op, arith.TruncIOp) else value)

    def _carried(self, value: SSAValue, block: Block) -> Polynomial:
        loop = block.parent_op()
        if not isinstance(loop, scf.ForOp) or not isinstance(value, BlockArgument):
            return self.leaf(value)
        if value.index == 0 or not is_normalized(loop):
            return self.leaf(value)
        following = yielded(value).owner
        if not isinstance(following, arith.AddiOp) or not self._is_exact(following):
            return self.leaf(value)
        amount, _ = advanced_by(value, following) or (None, 0)
        if amount is None or defined_inside(amount, loop):
            return self.leaf(value)
        return self.of(initial(value)) + self.leaf(block.args[0]) * self.of(amount)


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
                rest = divided(monomial, part) if amount < 0 else None
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
        return self._symbols.of(floored_value(end) or end)

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


def floored_value(value: SSAValue) -> SSAValue | None:
    """n for `max(n, 0)`, as trip counts and the extents of descriptors and block pointers are; None for others."""
    op = value.owner
    if isinstance(op, arith.MaxSIOp):
        for kept, zero in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            if constant_int(zero) == 0:
                return kept
    return None


def _positive(value: SSAValue) -> bool:
    number = constant_int(value)
    return number is not None and number > 0
