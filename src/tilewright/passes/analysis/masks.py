"""Decompose masks into lane limits: `(offs_m[:, None] < M) & (offs_n[None, :] < N)` enables lane (i, j) iff
`i < M - start_m` and `j < N - start_n`.

A mask is a conjunction. Each conjunct is a `Limit` of one dimension, a `Condition` on the whole tile, or a
`Residue` that remains a mask.

Recognize clamped offsets: `where(i < M, i, 0)`, `where(i >= M, 0, i)`, `minimum(i, M - 1)`, `i * (i < M)`.

The result equals one operand (`kept`) if a condition holds. If the condition always holds, the form is the operand's
(`maximum(i, 0)` of a nonnegative i). If the condition consists of limits on the one dimension along which the operand
varies, the form is `Clamped`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from xdsl.dialects import arith
from xdsl.dialects.builtin import i1, i64
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import tile
from tilewright.dialects.address_arithmetic import NOTHING_PROMISED, Promise, promise_of
from tilewright.dialects.tile import shape_of
from tilewright.passes.analysis.emit import Emitter, constant_int, uniform_constant
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.analysis.forms import LANE, Clamped, Digit, Entries, Form, Reading
from tilewright.passes.analysis.polynomial import ONE, ZERO, Polynomial
from tilewright.passes.analysis.projection import moved_dims

if TYPE_CHECKING:
    from tilewright.passes.analysis.affine import AffineAnalysis


_SWAPPED = {"sgt": "slt", "sge": "sle", "ugt": "ult", "uge": "ule"}
_OPPOSITE = {
    "slt": "sge", "sle": "sgt", "sgt": "sle", "sge": "slt",
    "ult": "uge", "ule": "ugt", "ugt": "ule", "uge": "ult",
}  # fmt: skip


@dataclass(frozen=True)
class Limit:
    """Lane index of dimension `dim` < ceil(bound / divisor)."""

    dim: int
    bound: Polynomial
    divisor: int = 1


@dataclass(frozen=True)
class Condition:
    """`value`, an i1 scalar or a uniform i1 tile."""

    value: SSAValue


@dataclass(frozen=True)
class Residue:
    """`value`, an i1 tile to which the shape operations `wrappers` are applied, innermost first."""

    value: SSAValue
    wrappers: tuple[Operation, ...] = ()


Conjunct = Limit | Condition | Residue


class MaskAnalysis:
    """Decomposes the masks of accesses.

    Compared values may wrap (hashes, for example) unless they provably do not, or are part of the address
    arithmetic of the masked access. `promise` is that address arithmetic, which does not wrap.
    """

    def __init__(
        self,
        affine: AffineAnalysis,
        promise: Promise = NOTHING_PROMISED,
        *,
        reading: Reading | None = None,
    ) -> None:
        """`reading`: how to read compared values of a mask that does not belong to an access."""
        self.affine, self.promise = affine, promise
        self.reading = reading or affine.proven
        if promise != NOTHING_PROMISED:
            self.reading = Reading(Facts(promise), for_masks=True)
        self._conjuncts: dict[SSAValue, list[Conjunct]] = {}

    def conjuncts(self, mask: SSAValue) -> list[Conjunct]:
        """Return conjuncts that together are equivalent to `mask`."""
        found = self._conjuncts.get(mask)
        if found is None:
            found = self._conjuncts[mask] = self._find(mask)
        return found

    def _find(self, mask: SSAValue) -> list[Conjunct]:
        op = mask.owner
        if isinstance(op, arith.AndIOp):
            return [*self.conjuncts(op.lhs), *self.conjuncts(op.rhs)]
        if not shape_of(mask):
            return [] if constant_int(mask) == 1 else [Condition(mask)]
        if isinstance(op, tile.SplatOp):
            return self.conjuncts(op.source)
        if isinstance(op, (tile.HintOp,)):
            return self.conjuncts(op.source)
        where = moved_dims(op) if isinstance(op, Operation) else None
        if isinstance(op, Operation) and where is not None:
            return [_outer(c, op, where) for c in self.conjuncts(op.operands[0])]
        if isinstance(op, tile.CmpIOp):
            found = self.comparison(op.predicate.data, op.lhs, op.rhs)
            if found is not None:
                return found
        denied = _denied(op)
        found = self.complement(denied) if denied is not None else None
        if found is not None:
            return found
        projector = self.affine.projector
        if not projector.varies(mask) and projector.can_project(mask, None):
            return [Condition(mask)]
        return [Residue(mask)]

    def complement(self, mask: SSAValue) -> list[Conjunct] | None:
        """Return conjuncts that together are equivalent to `not mask`, or None if they are not all limits."""
        op = mask.owner
        if isinstance(op, arith.OrIOp):
            lhs, rhs = self.complement(op.lhs), self.complement(op.rhs)
            return None if lhs is None or rhs is None else [*lhs, *rhs]
        if isinstance(op, tile.CmpIOp) and op.predicate.data in _OPPOSITE:
            return self.comparison(_OPPOSITE[op.predicate.data], op.lhs, op.rhs)
        denied = _denied(op)
        if denied is not None:
            found = self.conjuncts(denied)
            return found if all(isinstance(part, Limit) for part in found) else None
        where = moved_dims(op) if isinstance(op, Operation) else None
        if isinstance(op, Operation) and where is not None:
            inner = self.complement(op.operands[0])
            return None if inner is None else [_outer(c, op, where) for c in inner]
        return None

    def comparison(self, predicate: str, lhs: SSAValue, rhs: SSAValue) -> list[Conjunct] | None:
        """Rewrite a comparison of affine tiles as `lane < bound`; [] if it always holds, None if that is impossible."""
        left, right = self.affine.form(lhs, self.reading), self.affine.form(rhs, self.reading)
        return None if left is None or right is None else self.of_forms(predicate, left, right)

    def of_forms(self, predicate: str, left: Form, right: Form) -> list[Conjunct] | None:
        """Like `comparison`, for affine forms."""
        if predicate in _SWAPPED:
            predicate, left, right = _SWAPPED[predicate], right, left
        if predicate not in ("slt", "sle", "ult", "ule"):
            return None
        if left.base is not None or right.base is not None:
            return None
        if predicate.startswith("u") and not (self._countable(left) and self._countable(right)):
            return None
        left, right = self.affine.settle(left, True), self.affine.settle(right, True)
        slack = right + left.scaled(-ONE)  # the comparison is slack > 0, or slack >= 0
        if slack is None or not slack.terms:
            return None
        bound = slack.offset + (ONE if predicate.endswith("le") else Polynomial())
        if self._countable(Form(None, bound - ONE, slack.terms)):
            return []
        ((dim, atoms), *others) = slack.terms.items()
        slope = atoms[LANE].number if set(atoms) == {LANE} else None
        if others or slope is None or slope >= 0:
            return None
        limit = self._held(bound, -slope, floor=not predicate.endswith("le"))
        return None if limit is None else [Limit(dim, limit, -slope)]

    def _held(self, bound: Polynomial, divisor: int, *, floor: bool) -> Polynomial | None:
        """Return the bound of a limit such that its i64 computation does not wrap, or None.

        `n - start` may wrap for a 64-bit n far below 0. If the other terms are at most 0, such an n enables no
        element, and neither does 0, so `max(n, 0)` replaces n.
        """
        if self._fits(bound, divisor):
            return bound
        for monomial, coefficient in bound.terms if floor else ():
            if coefficient != 1 or len(monomial) != 1:
                continue
            rest = bound - Polynomial(((monomial, 1),))
            held = rest + Polynomial.leaf(self.affine.floored(monomial[0]))
            if self.reading.facts.bounds(rest)[1] <= 0 and self._fits(held, divisor):
                return held
        return None

    def _fits(self, bound: Polynomial, divisor: int) -> bool:
        low, high = self.reading.facts.bounds(bound)
        return low >= -(1 << 63) and high + divisor - 1 < 1 << 63

    def _countable(self, form: Form) -> bool:
        """Return whether a tile is provably nonnegative, using lane indices and scalars only.

        The unsigned comparison of two such tiles compares their mathematical values.
        """
        form = self.affine.settle(form, True)
        lanes_only = all(
            set(atoms) == {LANE} and self.reading.is_nonnegative(atoms[LANE])
            for atoms in form.terms.values()
        )
        return lanes_only and self.reading.is_nonnegative(form.offset)

    # ---- emission ----------------------------------------------------------------------------------

    def emit_limit(self, limit: Limit, emitter: Emitter) -> SSAValue:
        """Emit the exclusive upper limit of the lanes, an i64 scalar. A negative limit enables no lane."""
        bound = limit.bound
        if limit.divisor == 1:
            return self.affine.emit(bound, emitter)
        # Truncating division rounds up for bounds <= 0, where any result <= 0 is correct.
        rounded = self.affine.emit(bound + Polynomial.constant(limit.divisor - 1), emitter)
        return emitter.binary(arith.DivSIOp, rounded, emitter.constant(limit.divisor, i64))

    def emit_condition(self, condition: Condition, emitter: Emitter) -> SSAValue:
        return self.affine.projector.project(condition.value, None, emitter)

    def emit_residue(self, residue: Residue, shape: tuple[int, ...], emitter: Emitter) -> SSAValue:
        """Emit the residue as a mask of the shape of the access."""
        value = self.affine.projector.current(residue.value)
        for op in residue.wrappers:
            value = emitter.insert(
                type(op).create(
                    operands=[value], result_types=op.result_types, properties=op.properties
                )
            )
        if shape_of(value) != shape:
            raise ValueError(f"mask {shape_of(value)} for a tile {shape}")
        return value


def _denied(op: object) -> SSAValue | None:
    """Return m if an operation is `not m`, else None."""
    if isinstance(op, arith.XOrIOp):
        for value, true in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            if uniform_constant(true) in (1, -1) and tile.element_of(true) == i1:
                return value
    return None


def _outer(conjunct: Conjunct, op: Operation, where: dict[int, int]) -> Conjunct:
    """Translate a conjunct of the source of shape operation `op` to its result."""
    if isinstance(conjunct, Limit):
        return replace(conjunct, dim=where[conjunct.dim])
    if isinstance(conjunct, Residue):
        return replace(conjunct, wrappers=(*conjunct.wrappers, op))
    return conjunct


def conjunction(values: list[SSAValue], emitter: Emitter) -> SSAValue | None:
    """Emit the conjunction of i1 tiles of one shape; None if there are no tiles."""
    total: SSAValue | None = None
    for value in values:
        total = value if total is None else emitter.binary(arith.AndIOp, total, value)
    return total


def clamped_form(affine: AffineAnalysis, op: Operation, reading: Reading) -> Form | None:
    """Return the form of a clamp. A clamp whose condition may be false has a form only in an address."""
    for kept, conditions in _kept(affine, op, reading):
        form = affine.form(kept, reading)
        if form is not None and conditions == []:
            return form
        if form is not None and reading is affine.addresses:
            found = _clamped(affine, op, kept, form, conditions)
            if found is not None:
                return found
    return None


def _kept(
    affine: AffineAnalysis, op: Operation, reading: Reading
) -> Iterator[tuple[SSAValue, list[Conjunct] | None]]:
    """Yield the operands that `op` may return unchanged, with the condition; None if it is not a set of limits."""

    def masks(kept: SSAValue) -> MaskAnalysis:
        if reading is affine.addresses:  # `kept` alone is known to be part of the address
            return MaskAnalysis(affine, promise_of([kept]))
        return MaskAnalysis(affine, reading=reading)

    match op:
        case tile.SelectOp():
            yield op.lhs, masks(op.lhs).conjuncts(op.condition)
            yield op.rhs, masks(op.rhs).complement(op.condition)
        case arith.MinSIOp() | arith.MaxSIOp():
            predicate = "sle" if isinstance(op, arith.MinSIOp) else "sge"
            for kept, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
                yield kept, masks(kept).comparison(predicate, kept, other)
        case arith.MuliOp():
            for kept, factor in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
                bit = factor.owner
                if isinstance(bit, arith.ExtUIOp) and tile.element_of(bit.input) == i1:
                    yield kept, masks(kept).conjuncts(bit.input)


def _clamped(
    affine: AffineAnalysis,
    op: Operation,
    kept: SSAValue,
    form: Form,
    conditions: list[Conjunct] | None,
) -> Form | None:
    """Return the `Clamped` form of the result, which equals `form` within limits along its only dimension."""
    opaque = affine.opaque(op.results[0], False)
    if opaque is None or form.base is not None or len(form.terms) != 1:
        return None
    if form.terms.keys() != opaque.terms.keys():
        return None
    if conditions is None:
        conditions = _within(affine, op, kept, form)
    (dim,) = form.terms
    (entries,) = opaque.terms[dim]
    if not isinstance(entries, Entries):
        return None
    limits = [
        c.bound
        for c in conditions or ()
        if isinstance(c, Limit) and c.dim == dim and c.divisor == 1
    ]
    if conditions is None or len(limits) < len(conditions):
        return None
    inside = affine.settle(form, True)
    offset, terms = inside.offset, dict(inside.terms[dim])
    (atom, factor), *more = terms.items()
    # merge nested clamps: the inner form with all limits
    if isinstance(atom, Clamped) and not more:
        offset, limits = offset + atom.offset * factor, [*limits, *atom.limits]
        terms = {a: c * factor for a, c in atom.terms}
    if any(isinstance(atom, Clamped | Digit | Entries) for atom in terms):
        return None
    clamped = Clamped(offset, tuple(terms.items()), tuple(limits), entries)
    return Form(None, ZERO, {dim: {clamped: ONE}})


def _within(
    affine: AffineAnalysis, op: Operation, kept: SSAValue, form: Form
) -> list[Conjunct] | None:
    """Return when `minimum` or `maximum` keeps a clamped operand, given the limits of the inner clamp."""
    ((dim, atoms),) = form.terms.items()
    ((atom, factor), *more) = atoms.items()
    if not isinstance(op, arith.MinSIOp | arith.MaxSIOp) or more or factor != ONE:
        return None
    if not isinstance(atom, Clamped) or form.offset.terms:
        return None
    other = op.rhs if kept is op.lhs else op.lhs
    masks = MaskAnalysis(affine, promise_of([kept]))
    bound = affine.form(other, masks.reading)
    predicate = "sle" if isinstance(op, arith.MinSIOp) else "sge"
    within = Form(None, atom.offset, {dim: dict(atom.terms)})
    return masks.of_forms(predicate, within, bound) if bound is not None else None
