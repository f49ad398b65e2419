"""The solver of the fact analysis: a fixed point over the values that a question depends on.

A question collects the equations it depends on, as far as they are not solved yet. They are solved from "not
reached" upwards with a worklist in the order of definitions. Facts only grow, and every equation is evaluated
again when an operand's fact has grown, so that at the end each fact holds whatever its equation computes:
facts are sound for values carried by loops without a proof by assumption. Widening bounds the number of
evaluations per value by a constant.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from xdsl.dialects import arith, scf
from xdsl.ir import Operation, SSAValue

from tilewright.dialects.address_arithmetic import NOTHING_PROMISED, Promise, is_flagged
from tilewright.ir.walk import ancestors
from tilewright.passes.analysis.emit import constant_int
from tilewright.passes.analysis.facts import transfer
from tilewright.passes.analysis.facts.lattice import (
    Fact,
    constant,
    join,
    meet,
    signed_range,
    top,
    widen,
)
from tilewright.passes.analysis.facts.operations import Equation, Grid, equation, width_of
from tilewright.passes.analysis.polynomial import Leaf, Polynomial

ANY_GRID: Grid = (2**31 - 1, 2**31 - 1, 2**31 - 1)
"""Programs along x, y and z: program ids are i32, and launchers refuse larger grids."""
CUDA_GRID: Grid = (2**31 - 1, 65535, 65535)
"""CUDA C++ Programming Guide, technical specifications."""

LARGEST_DIVISOR = 1 << 16
"""Larger divisors are not distinguished (0 is a multiple of everything)."""

_MAY_WRAP: dict[type[Operation], Callable[[Fact, Fact], bool]] = {
    arith.AddiOp: transfer.signed_sum_wraps,
    arith.SubiOp: transfer.signed_difference_wraps,
    arith.MuliOp: transfer.signed_product_wraps,
    arith.ShLIOp: transfer.signed_shift_wraps,
}

_JOINS_BEFORE_WIDENING = 3
_JOINS_BEFORE_TOP = 24


class Facts:
    """Facts of the values of one function, found on demand and remembered.

    `promise`: arithmetic that forms addresses, of which the language promises more (`docs/language.md`).
    Remembered facts stay true as long as passes replace values by equal ones.
    """

    def __init__(self, promise: Promise = NOTHING_PROMISED, grid: Grid = ANY_GRID) -> None:
        self.promise, self.grid = promise, grid
        self._known: dict[SSAValue, Fact] = {}
        self._implied: dict[scf.ForOp, dict[SSAValue, Fact]] = {}

    def of(self, value: SSAValue) -> Fact:
        """The fact of an integer or pointer (of each element of a tile). Raises TypeError for other types."""
        known = self._known.get(value)
        if known is None:
            if width_of(value) is None:
                raise TypeError(f"not an integer or pointer: {value}")
            self._solve(value)
            known = self._known[value]
        return known

    def divisor(self, value: SSAValue) -> int:
        """A power of two (at most `LARGEST_DIVISOR`) that divides the integer, or the address in bytes."""
        return min(LARGEST_DIVISOR, 1 << self.of(value).zeros)

    def is_nonnegative(self, value: SSAValue) -> bool:
        """Whether the value is at least 0 as a signed number."""
        return self.of(value).smin >= 0

    def may_wrap(self, op: Operation) -> bool:
        """Whether the signed result of a sum, difference, product or left shift (`a * 2^b`) may wrap."""
        if op in self.promise.no_wrap or is_flagged(op):
            return False
        wraps = _MAY_WRAP[type(op)]
        if not wraps(self.of(op.operands[0]), self.of(op.operands[1])):
            return False
        return wraps(self._inside(op.operands[0], op), self._inside(op.operands[1], op))

    def _inside(self, value: SSAValue, op: Operation) -> Fact:
        """The fact of a value where `op` runs: in the body of loops."""
        fact = self.of(value)
        for parent in ancestors(op):
            if isinstance(parent, scf.ForOp):
                if parent not in self._implied:
                    self._implied[parent] = implied_by(parent, self.of)
                implied = self._implied[parent].get(value)
                fact = fact if implied is None else meet(fact, implied)
        return fact

    # ---- polynomials -------------------------------------------------------------------------------

    def bounds(self, polynomial: Polynomial) -> tuple[int, int]:
        """The least and the largest number that a polynomial of scalars may be."""
        low = high = 0
        for monomial, coefficient in polynomial.terms:
            ends = (coefficient, coefficient)
            for leaf in monomial:
                corners = [x * y for x in ends for y in self.range_of(leaf)]
                ends = (min(corners), max(corners))
            low, high = low + ends[0], high + ends[1]
        return low, high

    def range_of(self, leaf: Leaf) -> tuple[int, int]:
        """The range of an unknown, which may be meant as an unsigned number."""
        fact = self.of(leaf.value)
        low, high = (fact.umin, fact.umax) if leaf.signed is False else (fact.smin, fact.smax)
        return (max(low, 0), max(high, 0)) if leaf.floored else (low, high)

    # ---- the fixed point -------------------------------------------------------------------------------

    def _solve(self, root: SSAValue) -> None:
        order, equations = self._collect(root)
        numbers = {value: number for number, value in enumerate(order)}
        users: dict[SSAValue, list[int]] = {}
        for number, value in enumerate(order):
            for operand in equations[value].operands:
                if operand in numbers:
                    users.setdefault(operand, []).append(number)
        found: dict[SSAValue, Fact] = {}
        grown: dict[SSAValue, int] = {}
        waiting = list(range(len(order)))  # a heap: in order of definition
        queued = set(waiting)
        while waiting:
            number = heapq.heappop(waiting)
            queued.discard(number)
            value = order[number]
            if self._grow(value, equations[value], found, grown):
                for user in users.get(value, ()):
                    if user not in queued:
                        queued.add(user)
                        heapq.heappush(waiting, user)
        for value in order:
            self._known[value] = found.get(value) or top(width_of(value) or 1)

    def _grow(
        self,
        value: SSAValue,
        rule: Equation,
        found: dict[SSAValue, Fact],
        grown: dict[SSAValue, int],
    ) -> bool:
        """Evaluate one equation; whether the fact of its value has grown."""
        known = self._known
        fact = rule.compute([known.get(v) or found.get(v) for v in rule.operands])
        old = found.get(value)
        if fact is None or fact == old:
            return False
        if old is not None:
            joined = join(old, fact)
            if joined == old:
                return False
            count = grown[value] = grown.get(value, 0) + 1
            if count > _JOINS_BEFORE_TOP:
                joined = top(old.bits)
            elif count > _JOINS_BEFORE_WIDENING:
                joined = widen(old, joined)
            fact = joined
        found[value] = fact
        return True

    def _collect(self, root: SSAValue) -> tuple[list[SSAValue], dict[SSAValue, Equation]]:
        """Values that the fact of `root` depends on and that are not known yet, operands first where there is
        no cycle, and their equations."""
        order: list[SSAValue] = []
        equations: dict[SSAValue, Equation] = {}
        pending: list[tuple[SSAValue, bool]] = [(root, False)]
        while pending:
            value, complete = pending.pop()
            if complete:
                order.append(value)
                continue
            if value in equations or value in self._known:
                continue
            rule = self._equation(value)
            equations[value] = rule
            pending.append((value, True))
            pending += [(v, False) for v in rule.operands]
        return order, equations

    def _equation(self, value: SSAValue) -> Equation:
        bits = width_of(value)
        if bits is None:
            raise TypeError(f"not an integer or pointer: {value}")
        return equation(value, bits, self.promise, self.grid)


Known = Callable[[SSAValue], Fact]


def implied_by(loop: scf.ForOp, known: Known) -> dict[SSAValue, Fact]:
    """Facts of values defined before `loop` that hold in its body, where they say more than `known`."""
    step = constant_int(loop.step)
    if step is None or step <= 0:
        return {}
    upper = known(loop.ub)
    found: dict[SSAValue, Fact] = {}
    first = known(loop.lb).smin
    _refine(loop.ub, signed_range(upper.bits, first + 1, upper.smax), known, found)
    return found


def _refine(value: SSAValue, fact: Fact, known: Known, found: dict[SSAValue, Fact]) -> None:
    """Note that `fact` holds of a value, and what follows for the operands that it is computed from."""
    old = found.get(value) or known(value)
    new = meet(old, fact)
    if new == old or new.smin < old.smin or new.smax > old.smax:  # no news, or never the case
        return
    found[value] = new
    for operand, implied in (
        _backwards(value.owner, new, known) if isinstance(value.owner, Operation) else []
    ):
        _refine(operand, implied, known, found)


def _backwards(op: Operation, fact: Fact, known: Known) -> list[tuple[SSAValue, Fact]]:
    """Facts of the operands of `op` that follow from the one of its result."""
    bits = fact.bits
    most = top(bits).smax
    match op:
        case arith.ExtSIOp():
            narrow = known(op.input).bits
            return [(op.input, signed_range(narrow, fact.smin, fact.smax))]
        case arith.AddiOp() if (number := constant_int(op.rhs)) is not None:
            return [(op.lhs, transfer.sub(fact, constant(number, bits)))]
        case arith.SubiOp() if (number := constant_int(op.rhs)) is not None:
            return [(op.lhs, transfer.add(fact, constant(number, bits)))]
        case arith.MaxSIOp():
            pairs = ((op.lhs, op.rhs), (op.rhs, op.lhs))
            return [(x, fact) for x, y in pairs if known(y).smax < fact.smin]
        case arith.MinSIOp():
            return [(x, signed_range(bits, fact.smin, most)) for x in op.operands]
        case arith.DivSIOp() if (number := constant_int(op.rhs)) is not None:
            if number > 0 and fact.smin > 0:
                return [(op.lhs, signed_range(bits, fact.smin * number, most))]
    return []
