"""Recognize clamped offsets: `where(i < M, i, 0)`, `where(i >= M, 0, i)`, `minimum(i, M - 1)`, `i * (i < M)`.

The result equals one operand (`kept`) if a condition holds. If the condition always holds, the form is the operand's
(`maximum(i, 0)` of a nonnegative i). If the condition consists of limits on the one dimension along which the operand
varies, the form is `Clamped`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from xdsl.dialects import arith
from xdsl.dialects.builtin import i1
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import tile
from tilewright.interpreter.offsets import promise_of
from tilewright.passes.analysis.forms import Clamped, Entries, Form, Reading
from tilewright.passes.analysis.masks import Conjunct, Limit, MaskAnalysis
from tilewright.passes.analysis.polynomial import ONE, ZERO

if TYPE_CHECKING:
    from tilewright.passes.analysis.affine import AffineAnalysis


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
    if any(isinstance(atom, Clamped | Entries) for atom in terms):
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
