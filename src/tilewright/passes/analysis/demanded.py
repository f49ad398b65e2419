"""Demanded elements: rows of a tile that do not affect any store.

Kernels clamp the offsets of loads (`offs % M`, `where(offs < M, offs, 0)`, `minimum(offs, M - 1)`) only to keep
addresses valid. Rows beyond M flow row by row, through the rows or columns of a dot, to a store that masks them off. The
load may skip those rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import tile
from tilewright.dialects.address_arithmetic import Promise
from tilewright.ir.walk import closure, outgoing
from tilewright.passes.analysis.effects import is_pure_elementwise
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.analysis.masks import Conjunct, Limit
from tilewright.passes.analysis.polynomial import ZERO, Leaf, Polynomial
from tilewright.passes.analysis.projection import moved_dims
from tilewright.passes.analysis.symbolic import Symbolic

_Slices = list[tuple[SSAValue, int]]
"""Values, each with the dimension of the queried rows."""


class DemandedRows:
    """Queries about one function. Requires: its stores are not raised yet."""

    def __init__(
        self, conjuncts: Callable[[tile.StoreOp], list[Conjunct]], promise: Promise
    ) -> None:
        """`promise`: of the arithmetic that forms the addresses of the function."""
        self.conjuncts = conjuncts
        self._exact = Symbolic(Facts(promise), congruent=True)
        self._modulo = Symbolic(modulo=True, congruent=True)
        self._alike: dict[object, Leaf] = {}

    def are_dropped(self, value: SSAValue, dim: int, limit: Polynomial) -> bool:
        """Whether no store sees the rows of tile `value` from index `limit` on along `dim`.

        Follows every use. False for a use that mixes rows or is unknown.
        """
        expected = self._expanded(limit)
        following: _Slices = []
        for tile_, along in closure([(value, dim)], lambda _: following):
            following.clear()
            for use in tile_.uses:
                rows = self._follow(use.operation, use.index, tile_, along, expected)
                if rows is None:
                    return False
                following.extend(rows)
        return True

    def are_not_stored(self, op: tile.StoreOp, dim: int, limit: Polynomial) -> bool:
        """Whether a store writes none of the rows from index `limit` on along `dim`."""
        return self._masks_off(op, dim, self._expanded(limit))

    def _follow(
        self, op: Operation, index: int, value: SSAValue, dim: int, limit: Polynomial
    ) -> _Slices | None:
        """Rows of other values that a use computes from rows of `value`; None if they may reach memory."""
        match op:
            case tile.StoreOp():
                return [] if op.value is value and self._masks_off(op, dim, limit) else None
            case tile.DotOp():
                return _through_dot(op, value, dim)
            case scf.YieldOp() | scf.ForOp():
                passed = outgoing(op, index)
                return None if passed is None else [(v, dim) for v in passed]
            case tile.BroadcastOp() if tile.shape_of(value)[dim] == 1:
                return None
            case tile.BroadcastOp() | tile.ExpandDimsOp() | tile.TransOp() | tile.ReshapeOp():
                moved = moved_dims(op) or {}
                return [(op.result, moved[dim])] if dim in moved else None
            case tile.ReduceOp():
                axis = op.axis.value.data
                return None if axis == dim else [(r, dim - (dim > axis)) for r in op.results]
            case _ if is_pure_elementwise(op):
                return [(r, dim) for r in op.results]
        return None

    def _masks_off(self, op: tile.StoreOp, dim: int, limit: Polynomial) -> bool:
        """Whether the mask of a store drops the rows from `limit` on."""
        if op.mask is None:
            return False
        return any(
            isinstance(part, Limit)
            and part.dim == dim
            and part.divisor == 1
            and self._expanded(part.bound) == limit
            for part in self.conjuncts(op)
        )

    def _expanded(self, polynomial: Polynomial) -> Polynomial:
        """A polynomial whose unknowns are expanded modulo 2^bits, with one unknown for equal computations."""
        total = ZERO
        for monomial, coefficient in polynomial.terms:
            term = Polynomial.constant(coefficient)
            for leaf in monomial:
                plain = leaf.signed is not False and not leaf.floored
                exact = plain and not tile.is_tile(leaf.value)
                term = term * (self._exact.of(leaf.value) if exact else Polynomial.leaf(leaf))
            total = total + term
        return total.map_leaves(self._representative)

    def _representative(self, leaf: Leaf) -> Leaf:
        made = leaf.value if tile.is_tile(leaf.value) else self._modulo.of(leaf.value)
        key = (made, leaf.value.type, leaf.signed is not False, leaf.floored)
        if key not in self._alike:
            self._alike[key] = replace(leaf, order=len(self._alike))
        return self._alike[key]


def _through_dot(op: tile.DotOp, value: SSAValue, dim: int) -> _Slices | None:
    """Rows of A, columns of B and both of the accumulator are those of the result; k and batches mix."""
    rank = len(tile.shape_of(op.result))
    rows, columns = rank - 2, rank - 1
    for operand, kept in ((op.lhs, (rows,)), (op.rhs, (columns,)), (op.acc, (rows, columns))):
        if operand is value and dim not in kept:
            return None
    return [(op.result, dim)]
