"""Integer polynomials in scalars, the coefficients of affine forms.

A `Polynomial` represents an i64 scalar that has not been emitted yet: `3 + 4*pid*stride`. Its variables are `Leaf`s:
scalar integers of the IR, or uniform tiles. Operations are emitted by `emit` only, so an access that is not affine
leaves the IR unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from tilewright.passes.analysis.effects import loop_depth
from tilewright.passes.analysis.emit import Emitter


@dataclass(frozen=True)
class Leaf:
    """A variable. `order` numbers leaves in order of creation, which makes the emitted code deterministic."""

    order: int
    value: SSAValue
    signed: bool | None
    """Whether it is sign- or zero-extended to i64; None until a user determines it."""
    floored: bool = False
    """Whether the leaf is `max(value, 0)`."""


Monomial = tuple[Leaf, ...]


@dataclass(frozen=True)
class Polynomial:
    """`Σ coefficient * Π leaves`, in one canonical order; no coefficient is 0."""

    terms: tuple[tuple[Monomial, int], ...] = ()

    @staticmethod
    def of(terms: dict[Monomial, int]) -> Polynomial:
        kept = [(m, c) for m, c in terms.items() if c]
        if len(kept) > 1:
            kept.sort(key=lambda item: [leaf.order for leaf in item[0]])
        return Polynomial(tuple(kept))

    @staticmethod
    def constant(number: int) -> Polynomial:
        return Polynomial((((), number),)) if number else ZERO

    @staticmethod
    def leaf(leaf: Leaf) -> Polynomial:
        return Polynomial((((leaf,), 1),))

    @property
    def number(self) -> int | None:
        """The value of a constant polynomial, else None."""
        if not self.terms:
            return 0
        (monomial, coefficient), *rest = self.terms
        return coefficient if not rest and not monomial else None

    def leaves(self) -> list[Leaf]:
        return [leaf for monomial, _ in self.terms for leaf in monomial]

    def factor(self, leaf: Leaf) -> Polynomial | None:
        """The coefficient of `leaf`, a polynomial in the others; None if this is not linear in it."""
        found: dict[Monomial, int] = {}
        for monomial, coefficient in self.terms:
            if monomial.count(leaf) > 1:
                return None
            if leaf in monomial:
                found[tuple(each for each in monomial if each != leaf)] = coefficient
        return Polynomial.of(found)

    def __add__(self, other: Polynomial) -> Polynomial:
        total = dict(self.terms)
        for monomial, coefficient in other.terms:
            total[monomial] = total.get(monomial, 0) + coefficient
        return Polynomial.of(total)

    def __neg__(self) -> Polynomial:
        return Polynomial(tuple((m, -c) for m, c in self.terms))

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + -other

    def __mul__(self, other: Polynomial) -> Polynomial:
        total: dict[Monomial, int] = {}
        for m1, c1 in self.terms:
            for m2, c2 in other.terms:
                m = _product(m1, m2)
                total[m] = total.get(m, 0) + c1 * c2
        return Polynomial.of(total)

    def map_leaves(self, change: Callable[[Leaf], Leaf]) -> Polynomial:
        total: dict[Monomial, int] = {}
        for monomial, coefficient in self.terms:
            m = tuple(sorted((change(leaf) for leaf in monomial), key=lambda leaf: leaf.order))
            total[m] = total.get(m, 0) + coefficient
        return Polynomial.of(total)

    def emit(self, emitter: Emitter, scalar: Callable[[Leaf, Emitter], SSAValue]) -> SSAValue:
        """Emit the value as an i64 scalar. `scalar` emits a leaf as i64.

        Factors and summands defined in outer loops come first, so that LICM can hoist the longest invariant
        prefix.
        """
        total: SSAValue | None = None
        for monomial, coefficient in sorted(
            self.terms, key=lambda item: (_depth(item[0]), item[1] < 0)
        ):
            product: SSAValue | None = None
            for leaf in sorted(monomial, key=lambda leaf: (loop_depth(leaf.value), leaf.order)):
                factor = scalar(leaf, emitter)
                product = factor if product is None else emitter.mul(product, factor)
            subtract = coefficient < 0 and total is not None and product is not None
            size = -coefficient if subtract else coefficient
            if product is None:
                product = emitter.constant(size, i64)
            elif size != 1:
                product = emitter.mul(product, emitter.constant(size, i64))
            if total is None:
                total = product
            else:
                total = (emitter.sub if subtract else emitter.add)(total, product)
        return emitter.constant(0, i64) if total is None else total


def _product(one: Monomial, other: Monomial) -> Monomial:
    if not one or not other:
        return one or other
    return tuple(sorted(one + other, key=lambda leaf: leaf.order))


def divided(monomial: Monomial, part: Monomial) -> Monomial | None:
    """Divide a monomial by another one; None if it is not divisible."""
    rest = list(monomial)
    for leaf in part:
        if leaf not in rest:
            return None
        rest.remove(leaf)
    return tuple(rest)


def _depth(monomial: Monomial) -> int:
    return max((loop_depth(leaf.value) for leaf in monomial), default=0)


ZERO = Polynomial()
ONE = Polynomial.constant(1)
