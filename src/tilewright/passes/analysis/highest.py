"""The largest values that integers may have."""

from __future__ import annotations

from math import prod

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Block, SSAValue

from tilewright.dialects import tile
from tilewright.passes.analysis.emit import constant_int
from tilewright.passes.analysis.polynomial import Polynomial
from tilewright.passes.analysis.sign import nonnegative, nonnegative_sum

_GRID = (2**31 - 1, 65535, 65535)
"""Programs along x, y and z (CUDA C++ Programming Guide, technical specifications)."""


def highest_sum(polynomial: Polynomial) -> int | None:
    """A number that a sum of products of scalars never exceeds; None where a term with an unknown is not
    known to be >= 0 as a signed number.

    Relies on conventions of offset arithmetic: it does not wrap, and divisors are positive.
    """
    search = _Search()
    total = 0
    for monomial, coefficient in polynomial.terms:
        unsigned = any(leaf.signed is False for leaf in monomial)
        if monomial and (unsigned or not nonnegative_sum(Polynomial(((monomial, 1),)))):
            return None
        if not monomial or coefficient > 0:
            total += coefficient * prod(search.of(leaf.value) for leaf in monomial)
    return total


class _Search:
    """One question; remembers its answers, because operands are shared."""

    def __init__(self) -> None:
        self.known: dict[SSAValue, int] = {}

    def of(self, value: SSAValue) -> int:
        """A number that `value` never exceeds: at most the largest of its type, as a signed integer."""
        number = constant_int(value)
        if number is not None:
            return number
        if value not in self.known:
            self.known[value] = min(_largest(value), self._found(value))
        return self.known[value]

    def _found(self, value: SSAValue) -> int:
        op = value.owner
        if isinstance(op, Block):
            loop = op.parent_op()
            counts = isinstance(loop, scf.ForOp) and op.args[0] is value
            return self._last(loop) if counts else _largest(value)  # type: ignore[arg-type]
        match op:
            case arith.AddiOp():
                return self.of(op.lhs) + self.of(op.rhs)
            case arith.SubiOp() if nonnegative(op.rhs):
                return self.of(op.lhs) - (constant_int(op.rhs) or 0)
            case arith.MuliOp() if nonnegative(op.lhs) and nonnegative(op.rhs):
                return self.of(op.lhs) * self.of(op.rhs)
            case arith.DivSIOp():
                return max(0, self.of(op.lhs)) // max(1, constant_int(op.rhs) or 1)
            case arith.RemSIOp() if nonnegative(op.lhs):
                return min(self.of(op.lhs), max(0, self.of(op.rhs) - 1))
            case arith.MinSIOp():
                return min(self.of(op.lhs), self.of(op.rhs))
            case arith.MaxSIOp():
                return max(self.of(op.lhs), self.of(op.rhs))
            case tile.ProgramIdOp():
                return _GRID[op.axis.value.data] - 1
            case arith.ExtSIOp():
                return self.of(op.input)
            case arith.ExtUIOp() if nonnegative(op.input):
                return self.of(op.input)
        return _largest(value)

    def _last(self, loop: scf.ForOp) -> int:
        """The largest number that a loop counts to."""
        step = constant_int(loop.step)
        if step is None or step <= 0:
            return _largest(loop.body.block.args[0])
        return max(self.of(loop.lb), self.of(loop.ub) - 1)


def _largest(value: SSAValue) -> int:
    bits = value.type.width.data if isinstance(value.type, IntegerType) else 64
    return max(1, (1 << bits - 1) - 1)
