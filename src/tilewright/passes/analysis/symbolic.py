"""Scalar integers of the IR as polynomials in the values that they are computed from.

Additions, subtractions, multiplications, extensions and truncations are expanded if they provably do not wrap. A
loop-carried scalar with an invariant step is `start + trips * step`. Everything else is an unknown.
"""

from __future__ import annotations

from xdsl.dialects import arith, scf
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tilewright.passes.analysis.effects import defined_inside, is_pure_elementwise
from tilewright.passes.analysis.emit import constant_int
from tilewright.passes.analysis.facts import LOOP_INDEX, Facts
from tilewright.passes.analysis.facts.operations import advanced_by, width_of
from tilewright.passes.analysis.polynomial import Leaf, Polynomial

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

    def leaf(self, value: SSAValue) -> Polynomial:
        """The value itself as an unknown."""
        if value not in self._leaves:
            self._leaves[value] = Leaf(len(self._leaves), value, True)
        return Polynomial.leaf(self._leaves[value])

    def step_per_iteration(self, polynomial: Polynomial, loop: scf.ForOp) -> int | None:
        """The constant by which a polynomial changes when the counter of a loop grows by one; None if it depends on
        other values of the loop."""
        counter: Leaf = self.leaf(loop.body.block.args[0]).terms[0][0][0]
        step = 0
        for monomial, coefficient in polynomial.terms:
            if monomial == (counter,):
                step = coefficient
            elif any(defined_inside(leaf.value, loop) for leaf in monomial):
                return None
        return step

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
        if value.index == 0 or constant_int(loop.lb) != 0 or constant_int(loop.step) != 1:
            return self.leaf(value)
        end = block.last_op
        if end is None:
            return self.leaf(value)
        following = end.operands[value.index - 1].owner
        if not isinstance(following, arith.AddiOp) or not self._is_exact(following):
            return self.leaf(value)
        amount, _ = advanced_by(value, following) or (None, 0)
        if amount is None or defined_inside(amount, loop):
            return self.leaf(value)
        return self.of(loop.iter_args[value.index - 1]) + self.leaf(block.args[0]) * self.of(amount)
