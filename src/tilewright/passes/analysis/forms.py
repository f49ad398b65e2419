"""Affine forms of integer and pointer tiles (see `analysis/affine.py`), and the assumptions they rest on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd, prod

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import tile
from tilewright.dialects.address_arithmetic import is_promised
from tilewright.passes.analysis.emit import uniform_constant
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.analysis.polynomial import ZERO, Leaf, Polynomial
from tilewright.passes.analysis.remarks import Missed


@dataclass(frozen=True)
class Lane:
    """The lane index itself."""


@dataclass(frozen=True)
class Wrapped:
    """`(start + i) % size` with `start >= 0`."""

    start: Polynomial
    size: Polynomial


@dataclass(frozen=True)
class Digit:
    """`(i // step) % count`: lanes are rows of `step * count`, each of `count` groups."""

    step: int
    count: int


@dataclass(frozen=True)
class Entries:
    """The element of `value`, which varies along dimension `dim` only."""

    value: SSAValue
    dim: int
    signed: bool | None


@dataclass(frozen=True)
class Clamped:
    """`offset + Σ coefficient * atom` in lanes below all `limits`; equal to `entries` in all lanes."""

    offset: Polynomial
    terms: tuple[tuple[Atom, Polynomial], ...]
    limits: tuple[Polynomial, ...]
    entries: Entries


Atom = Lane | Digit | Wrapped | Clamped | Entries
LANE = Lane()


@dataclass(frozen=True)
class Form:
    """See the module docstring. `terms[d]` maps atoms of dimension d to their coefficients."""

    base: Leaf | None
    offset: Polynomial
    terms: dict[int, dict[Atom, Polynomial]]

    @property
    def is_uniform(self) -> bool:
        return not self.terms

    def __add__(self, other: Form) -> Form | None:
        if self.base is not None and other.base is not None:
            return None
        terms = {d: dict(atoms) for d, atoms in self.terms.items()}
        for d, atoms in other.terms.items():
            mine = terms.setdefault(d, {})
            for atom, coefficient in atoms.items():
                mine[atom] = mine.get(atom, ZERO) + coefficient
        return Form(self.base or other.base, self.offset + other.offset, tidy(terms))

    def scaled(self, factor: Polynomial) -> Form:
        terms = {d: {a: c * factor for a, c in atoms.items()} for d, atoms in self.terms.items()}
        return Form(self.base, self.offset * factor, tidy(terms))

    def moved(self, where: dict[int, int]) -> Form:
        """Return the form with dimension d renamed to `where[d]`."""
        return replace(self, terms={where[d]: atoms for d, atoms in self.terms.items()})


def tidy(terms: dict[int, dict[Atom, Polynomial]]) -> dict[int, dict[Atom, Polynomial]]:
    kept = {d: {a: c for a, c in atoms.items() if c.terms} for d, atoms in terms.items()}
    return {d: atoms for d, atoms in kept.items() if atoms}


class Reading:
    """Forms of the values of one function, given facts about which operations do not wrap."""

    def __init__(self, facts: Facts, *, for_masks: bool = False) -> None:
        self.facts = facts
        self.for_masks = for_masks
        """Whether promised values plus a constant do not wrap either (`offs + 1 < n`)."""
        self.forms: dict[SSAValue, Form | None] = {}
        self.missed: dict[SSAValue, Missed] = {}
        """Reasons why a value has no form in terms of the operands of its definition."""
        self._of_first: dict[SSAValue, int] = {}

    def is_exact(self, op: Operation) -> bool:
        """Return whether a sum, difference, product or left shift does not wrap in signed arithmetic."""
        return not self.facts.may_wrap(op) or (self.for_masks and self._adds_constant(op))

    def _adds_constant(self, op: Operation) -> bool:
        if not isinstance(op, arith.AddiOp | arith.SubiOp) or not is_promised(op):
            return False
        return any(
            uniform_constant(v) is not None and _is_made_by(other, self.facts.promise.no_wrap)
            for other, v in ((op.lhs, op.rhs), (op.rhs, op.lhs))
        )

    def divisor(self, polynomial: Polynomial) -> int:
        """Return a known divisor of a polynomial; 0 for the zero polynomial."""
        known = 0
        for monomial, coefficient in polynomial.terms:
            known = gcd(
                known, coefficient * prod(self._divisor_of_first(v.value) for v in monomial)
            )
        return known

    def _divisor_of_first(self, value: SSAValue) -> int:
        """Return a known divisor of a scalar, or of the first lane of a tile, which a leaf stands for; 0 if that is zero."""
        if value not in self._of_first:
            self._of_first[value] = self.facts.divisor(value)
            op = value.owner
            match op:
                case tile.ArangeOp():
                    self._of_first[value] = op.start.value.data
                case tile.SplatOp() | tile.BroadcastOp() | tile.ExpandDimsOp():
                    self._of_first[value] = self._divisor_of_first(op.operands[0])
                case arith.AddiOp() | arith.SubiOp() | arith.RemSIOp() | arith.RemUIOp():
                    self._of_first[value] = gcd(*map(self._divisor_of_first, op.operands))
                case arith.DivSIOp() | arith.DivUIOp():
                    known, size = self._divisor_of_first(op.lhs), uniform_constant(op.rhs)
                    if isinstance(size, int) and size > 0 and known % size == 0:
                        self._of_first[value] = known // size
        return self._of_first[value]

    def is_nonnegative(self, polynomial: Polynomial) -> bool:
        """Return whether a polynomial is provably nonnegative."""
        return self.facts.bounds(polynomial)[0] >= 0


_MOVING = (
    tile.SplatOp, tile.BroadcastOp, tile.ExpandDimsOp, tile.ReshapeOp, tile.TransOp, tile.HintOp,
)  # fmt: skip


def _is_made_by(value: SSAValue, operations: frozenset[Operation]) -> bool:
    """Return whether one of `operations` defines a value, ignoring shape operations in between."""
    while isinstance(value.owner, _MOVING):
        value = value.owner.operands[0]
    return value.owner in operations


def have_distinct_lanes(form: Form, shape: Sequence[int]) -> bool:
    """Whether no two lanes of a tile of `shape` have one address; False where that is unknown.

    True for constant strides of which each exceeds the span of all smaller ones, as of a tile of an array.
    """
    strides: list[tuple[int, int]] = []
    for dim, extent in enumerate(shape):
        if extent == 1:
            continue
        atoms = form.terms.get(dim, {})
        stride = atoms[LANE].number if atoms.keys() == {LANE} else None
        if not stride:
            return False
        strides.append((abs(stride), extent))
    span = 0
    for stride, extent in sorted(strides):
        if stride <= span:
            return False
        span += stride * (extent - 1)
    return True
