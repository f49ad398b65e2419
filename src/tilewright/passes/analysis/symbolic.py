"""Scalar integers of the IR as polynomials in what they were computed from.

Sums, differences, products and widenings are taken apart; a scalar that a loop carries and that each
iteration advances by an invariant amount is `start + trips * amount`. Offset arithmetic is taken not to
wrap (the contract of execution). Everything else is an unknown.
"""

from __future__ import annotations

from xdsl.dialects import arith, scf
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tilewright.passes.analysis.effects import defined_inside, is_lane_wise
from tilewright.passes.analysis.emit import constant_int
from tilewright.passes.analysis.polynomial import Leaf, Polynomial


class Symbolic:
    """Polynomials of scalars, remembered; one value is one unknown wherever it occurs."""

    def __init__(self, congruent: bool = False) -> None:
        """`congruent`: what two operations compute alike of equal operands is one unknown, that of the first one
        met. Only to compare: the unknown's value may not be available where the second one is."""
        self.congruent = congruent
        self._alike: dict[object, Polynomial] = {}
        self._leaves: dict[SSAValue, Leaf] = {}
        self._known: dict[SSAValue, Polynomial] = {}

    def of(self, value: SSAValue) -> Polynomial:
        """The polynomial of an integer scalar."""
        if value not in self._known:
            self._known[value] = self.leaf(value)  # a carried scalar meets itself
            self._known[value] = self._find(value)
        return self._known[value]

    def unknowns(self) -> list[SSAValue]:
        """The scalars that polynomials are made of."""
        return list(self._leaves)

    def sums(self) -> list[tuple[SSAValue, Polynomial]]:
        """The scalars met so far that are sums of others."""
        return [(v, p) for v, p in self._known.items() if len(p.terms) > 1]

    def leaf(self, value: SSAValue) -> Polynomial:
        """The value itself as an unknown."""
        if value not in self._leaves:
            self._leaves[value] = Leaf(len(self._leaves), value, True)
        return Polynomial.leaf(self._leaves[value])

    def _find(self, value: SSAValue) -> Polynomial:
        number = constant_int(value)
        if number is not None:
            return Polynomial.constant(number)
        op = value.owner
        if isinstance(op, Block):
            return self._carried(value, op)
        match op:
            case arith.AddiOp():
                return self.of(op.lhs) + self.of(op.rhs)
            case arith.SubiOp():
                return self.of(op.lhs) - self.of(op.rhs)
            case arith.MuliOp():
                return self.of(op.lhs) * self.of(op.rhs)
            case arith.ExtSIOp():
                return self.of(op.input)
            case arith.TruncIOp() if _is_counter(op.input):
                return self.of(op.input)  # normalize-loops counts in i64 what was an i32
        return self._congruent(value, op) if self.congruent else self.leaf(value)

    def _congruent(self, value: SSAValue, op: Operation) -> Polynomial:
        """The unknown that stands for `op` on such operands (value numbering)."""
        if not is_lane_wise(op) or len(op.results) != 1:
            return self.leaf(value)
        operands = tuple(self.of(operand) for operand in op.operands)
        properties = tuple(sorted((name, str(p)) for name, p in op.properties.items()))
        key = (op.name, properties, operands, value.type)
        return self._alike.setdefault(key, self.leaf(value))

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
        if not isinstance(following, arith.AddiOp):
            return self.leaf(value)
        for same, amount in ((following.lhs, following.rhs), (following.rhs, following.lhs)):
            if same is value and not defined_inside(amount, loop):
                trips = self.leaf(block.args[0])
                return self.of(loop.iter_args[value.index - 1]) + trips * self.of(amount)
        return self.leaf(value)


def _is_counter(value: SSAValue) -> bool:
    """Whether a value is a loop's counter, or computed from one and constants alone."""
    op = value.owner
    if isinstance(op, arith.AddiOp | arith.MuliOp | arith.SubiOp):
        return all(constant_int(v) is not None or _is_counter(v) for v in op.operands)
    return (
        isinstance(value, BlockArgument)
        and value.index == 0
        and isinstance(op.parent_op(), scf.ForOp)
    )
