"""Express tiles of integers and pointers as affine forms: sums over dimensions.

The form of a tile is

    base + offset + Σ_d Σ_k coefficient_{d,k} * atom_{d,k}(i_d)

with a scalar pointer `base` (pointer tiles only), an `offset` and coefficients that are polynomials in
scalars, and atoms that each depend on one lane index: the index itself (`LANE`), a digit of it (`Digit`), the index modulo
a size (`Wrapped`), the clamped index (`Clamped`), or the entries of any tile that varies along that dimension only
(`Entries`).

Integers in forms are mathematical integers, so a form describes arithmetic that does not wrap. The facts of a
`Reading` decide whether an operation may wrap. All readings use proven facts. For addresses, the language
guarantees in addition that address arithmetic does not wrap (`interpreter.offsets`); for a mask, this holds for
arithmetic shared with the address of the same access. Operations that may wrap, and operations without a form
(divisions, remainders of scaled elements, right shifts, bit operations, truncations), become `Entries`, which
are exact. Quotients that are uniform across lanes are scalars.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import gcd

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType, i64
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.dialects.address_arithmetic import NOTHING_PROMISED, Promise
from tilewright.dialects.tile import PtrType, element_of, shape_of
from tilewright.passes.analysis.emit import Emitter, constant_int
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.analysis.forms import (
    LANE,
    Atom,
    Clamped,
    Digit,
    Entries,
    Form,
    Lane,
    Reading,
    Wrapped,
    tidy,
)
from tilewright.passes.analysis.lane_rows import SHORT_ROW, emit_digit
from tilewright.passes.analysis.masks import clamped_form
from tilewright.passes.analysis.polynomial import ONE, ZERO, Leaf, Polynomial
from tilewright.passes.analysis.projection import Projector, moved_dims
from tilewright.passes.analysis.remarks import Missed, Reason, why_opaque


@dataclass(frozen=True)
class _Started:
    """`(start + digit) / size` or `% size` along one dimension; `known` divides the start (0: which is zero)."""

    dim: int
    digit: Digit
    size: int
    known: int


class AffineAnalysis:
    """Affine forms of the values of one function, computed on demand and cached.

    `promise`: the arithmetic that forms the function's addresses. `has_digits`: quotients and remainders that make rows of
    the lanes have forms, too.
    """

    def __init__(self, promise: Promise = NOTHING_PROMISED, has_digits: bool = False) -> None:
        self.has_digits = has_digits
        self.projector = Projector()
        self.proven = Reading(Facts())
        self.addresses = Reading(Facts(promise))
        self._leaves: dict[tuple[SSAValue, bool | None], Leaf] = {}
        self._floored: dict[tuple[SSAValue, bool | None], Leaf] = {}
        self.emitted: dict[tuple[Block | None, Polynomial], SSAValue] | None = None
        """Emitted polynomials per block, reused by passes that emit in program order; None disables reuse."""

    # ---- leaves ------------------------------------------------------------------------------------

    def leaf(self, value: SSAValue, signed: bool | None) -> Leaf:
        key = (value, signed)
        if key not in self._leaves:
            self._leaves[key] = Leaf(len(self._leaves) + len(self._floored), value, signed)
        return self._leaves[key]

    def floored(self, leaf: Leaf) -> Leaf:
        """Return `max(leaf, 0)` as a leaf."""
        key = (leaf.value, leaf.signed)
        if key not in self._floored:
            self._floored[key] = replace(
                leaf, order=len(self._leaves) + len(self._floored), floored=True
            )
        return self._floored[key]

    def scalar(self, value: SSAValue) -> Polynomial:
        """Return a scalar or uniform tile as a polynomial."""
        number = constant_int(value)
        if number is not None:
            return Polynomial.constant(number)
        signed = True if element_of(value) == i64 else None
        return Polynomial.leaf(self.leaf(value, signed))

    def settle(self, form: Form, signed: bool) -> Form:
        """Return `form` with leaves and entries of undetermined signedness set to `signed`."""

        def change(leaf: Leaf) -> Leaf:
            return self.leaf(leaf.value, signed) if leaf.signed is None else leaf

        def settled(p: Polynomial) -> Polynomial:
            return p.map_leaves(change)

        def one(atom: Atom) -> Atom:
            match atom:
                case Wrapped():
                    return Wrapped(settled(atom.start), settled(atom.size))
                case Clamped():
                    inner = tuple((one(a), settled(c)) for a, c in atom.terms)
                    limits = tuple(settled(limit) for limit in atom.limits)
                    entries = atom.entries
                    entries = replace(entries, signed=signed) if entries.signed is None else entries
                    return Clamped(settled(atom.offset), inner, limits, entries)
                case Entries():
                    return replace(atom, signed=signed) if atom.signed is None else atom
                case Lane() | Digit():
                    return atom

        terms: dict[int, dict[Atom, Polynomial]] = {}
        for d, atoms in form.terms.items():
            mine = terms.setdefault(d, {})
            for atom, coefficient in atoms.items():
                new = one(atom)
                mine[new] = mine.get(new, ZERO) + settled(coefficient)
        return Form(form.base, settled(form.offset), tidy(terms))

    # ---- forms -------------------------------------------------------------------------------------

    def form(self, value: SSAValue, reading: Reading) -> Form | None:
        """The form of an integer or pointer tile (or scalar), or None."""
        forms = reading.forms
        if value not in forms:
            forms[value] = None  # terminates cycles through loop arguments
            forms[value] = self._find(value, reading)
        return forms[value]

    def _find(self, value: SSAValue, reading: Reading) -> Form | None:
        element = element_of(value)
        pointer = isinstance(element, PtrType)
        if not pointer and (not isinstance(element, IntegerType) or element.width.data == 1):
            return None
        if not shape_of(value):
            return self._uniform(value, pointer)
        op = value.owner
        # arithmetic below 32 bits is on data (quantized, packed) and may wrap
        narrow = isinstance(element, IntegerType) and element.width.data < 32
        handler = None if narrow else _HANDLERS.get(type(op))
        found = handler(self, op, reading) if handler is not None else None
        if found is not None:
            return found
        reading.missed.setdefault(value, why_opaque(value))
        return self.opaque(value, pointer)

    def _uniform(self, value: SSAValue, pointer: bool) -> Form:
        if pointer:
            return Form(self.leaf(value, None), ZERO, {})
        return Form(None, self.scalar(value), {})

    def opaque(self, value: SSAValue, pointer: bool) -> Form | None:
        """Return the form of any value that varies along at most one dimension."""
        dims = self.projector.varies(value)
        if not dims:
            return (
                self._uniform(value, pointer) if self.projector.can_project(value, None) else None
            )
        if pointer or len(dims) > 1:
            return None
        (dim,) = dims
        if not self.projector.can_project(value, dim):
            return None
        signed = True if element_of(value) == i64 else None
        return Form(None, ZERO, {dim: {Entries(value, dim, signed): ONE}})

    def _splat(self, op: tile.SplatOp, reading: Reading) -> Form | None:
        return self.form(op.source, reading)

    def _arange(self, op: tile.ArangeOp, reading: Reading) -> Form:
        start, extent = op.start.value.data, shape_of(op.result)[0]
        terms: dict[int, dict[Atom, Polynomial]] = {0: {LANE: ONE}} if extent > 1 else {}
        return Form(None, Polynomial.constant(start), terms)

    def _same(self, op: Operation, reading: Reading) -> Form | None:
        return self.form(op.operands[0], reading)

    def _hint(self, op: tile.HintOp, reading: Reading) -> Form | None:
        """The form of the value; entries without an affine form keep the promise."""
        form = self.form(op.source, reading)
        if form is None or form.base is not None or len(shape_of(op.result)) != 1:
            return form
        atoms = form.terms.get(0, {})
        entries = [a for a in atoms if isinstance(a, Entries) and a.value is op.source]
        return self.opaque(op.result, False) if entries and len(atoms) == 1 else form

    def _moved(self, op: Operation, reading: Reading) -> Form | None:
        form = self.form(op.operands[0], reading)
        return form and form.moved(moved_dims(op) or {})

    def _reshape(self, op: tile.ReshapeOp, reading: Reading) -> Form | None:
        form = self.form(op.source, reading)
        moved = moved_dims(op)
        if form is None or (moved is None and form.terms):
            return form and _split_lanes(form, shape_of(op.source), shape_of(op.result))
        return form.moved(moved or {})

    def _arithmetic(self, op: Operation, reading: Reading) -> Form | None:
        """Return the form of a sum, difference, product or left shift that does not wrap."""
        lhs, rhs = (self.form(v, reading) for v in op.operands)
        if lhs is None or rhs is None:
            return None
        if not reading.is_exact(op):
            reading.missed[op.results[0]] = Missed(Reason.MAY_WRAP, (op.results[0],))
            return None
        if isinstance(op, arith.AddiOp):
            return lhs + rhs
        if isinstance(op, arith.SubiOp):
            return lhs + rhs.scaled(-ONE)
        if isinstance(op, arith.ShLIOp):
            amount = rhs.offset.number if rhs.is_uniform else None
            if amount is None or not 0 <= amount < 63:
                return None
            return lhs.scaled(Polynomial.constant(1 << amount))
        if rhs.is_uniform:
            return lhs.scaled(rhs.offset)
        return rhs.scaled(lhs.offset) if lhs.is_uniform else clamped_form(self, op, reading)

    def _extsi(self, op: arith.ExtSIOp, reading: Reading) -> Form | None:
        form = self.form(op.operands[0], reading)
        if form is None or element_of(op.operands[0]) == IntegerType(1):
            return None
        return self.settle(form, True)

    def _extui(self, op: arith.ExtUIOp, reading: Reading) -> Form | None:
        """Return the form of a zero extension of a nonnegative value or of a single leaf."""
        form = self.form(op.operands[0], reading)
        if form is None:
            return None
        if reading.facts.is_nonnegative(op.operands[0]):
            return self.settle(form, True)
        single = form.offset.terms and len(form.offset.terms) == 1
        if form.is_uniform and single:
            monomial, coefficient = form.offset.terms[0]
            if len(monomial) == 1 and coefficient == 1 and monomial[0].signed is None:
                return self.settle(form, False)
        return None

    def _div(self, op: arith.DivSIOp | arith.DivUIOp, reading: Reading) -> Form | None:
        """Return the form of a quotient in an address that is uniform across lanes, or across rows of them."""
        if reading is not self.addresses:
            return None
        inner = reading if isinstance(op, arith.DivSIOp) else self.proven
        if (first := self._first_of_block(op, inner)) is not None:
            return first
        if (rows := self._rows_of_block(op, inner)) is None:
            return None
        dim, digit, size = rows
        terms: dict[Atom, Polynomial] = {Digit(digit.step * size, digit.count // size): ONE}
        return Form(None, self.scalar(op.results[0]), {dim: terms})

    def _started(self, op: Operation, reading: Reading) -> _Started | None:
        """What a division by a positive constant divides, if that is a uniform start, not negative, plus a digit."""
        lhs, rhs = (self.form(v, reading) for v in op.operands)
        if lhs is None or rhs is None or not self.projector.has_first_lane(op.results[0]):
            return None
        size = rhs.offset.number if rhs.is_uniform else None
        if size is None or size <= 0 or lhs.base is not None or len(lhs.terms) > 1:
            return None
        start = self.settle(Form(None, lhs.offset, {}), True).offset
        for dim, atoms in lhs.terms.items():
            (atom, coefficient), *more = atoms.items()
            digit = Digit(1, shape_of(op.results[0])[dim]) if atom == LANE else atom
            if more or coefficient != ONE or not isinstance(digit, Digit):
                return None
            known = reading.divisor(start) if reading.is_nonnegative(start) else 1
            return _Started(dim, digit, size, known)
        return _Started(0, Digit(1, 1), size, 0)

    def _first_of_block(self, op: Operation, reading: Reading) -> Form | None:
        """Return the form of `(start + lane) / size` if it is uniform, namely the quotient of the first lane.

        Requires: `start` is nonnegative, and the number of lanes divides `start` and the constant `size`, so no
        lane crosses a multiple of `size`. (Instead of the lane also a digit of its number.)
        """
        found = self._started(op, reading)
        if found is None or gcd(found.size, found.known) % found.digit.count:
            return None
        return Form(None, self.scalar(op.results[0]), {})

    def _rows_of_block(self, op: Operation, reading: Reading) -> tuple[int, Digit, int] | None:
        """Return dimension, digit and constant `size` of `(start + lane) / size`, if the lanes are rows of `size` elements.

        Requires: `start` is nonnegative, and `size` divides `start` and the number of lanes.
        """
        found = self._started(op, reading) if self.has_digits else None
        if found is None or found.size < SHORT_ROW:
            return None
        if found.known % found.size or found.digit.count % found.size:
            return None
        return found.dim, found.digit, found.size

    def _rem(self, op: arith.RemSIOp | arith.RemUIOp, reading: Reading) -> Form | None:
        """`(start + lane) % size` of an address; with a start that might be negative it is no wrapped
        dimension."""
        signed = isinstance(op, arith.RemSIOp)
        if reading is not self.addresses:
            return None
        inner = reading if signed else self.proven
        lhs, rhs = self.form(op.lhs, inner), self.form(op.rhs, inner)
        first = self._first_of_block(op, inner)
        if lhs is not None and first is not None:
            return replace(first, terms=lhs.terms)
        if (rows := self._rows_of_block(op, inner)) is not None:
            dim, digit, count = rows
            return Form(None, ZERO, {dim: {Digit(digit.step, count): ONE}})
        if lhs is None or rhs is None or not rhs.is_uniform or len(lhs.terms) != 1:
            return None
        ((dim, atoms),) = lhs.terms.items()
        start = self.settle(Form(None, lhs.offset, {}), True).offset
        size = self.settle(Form(None, rhs.offset, {}), signed).offset
        if atoms == {LANE: ONE} and not inner.is_nonnegative(start):
            reading.missed[op.results[0]] = Missed(Reason.SIGN_OF_START, (op.lhs,))
        if atoms != {LANE: ONE} or not inner.is_nonnegative(start):
            return None
        if size.number is not None and size.number <= 0:
            return None
        return Form(None, ZERO, {dim: {Wrapped(start, size): ONE}})

    def _addptr(self, op: tile.AddPtrOp, reading: Reading) -> Form | None:
        pointer, offset = self.form(op.pointer, reading), self.form(op.offset, reading)
        if pointer is None or offset is None:
            return None
        return pointer + self.settle(offset, True)

    # ---- emission ----------------------------------------------------------------------------------

    def emit_leaf(self, leaf: Leaf, emitter: Emitter) -> SSAValue:
        """Emit a leaf as an i64 scalar."""
        value = self.projector.project(leaf.value, None, emitter)
        wide = emitter.resize(value, i64, leaf.signed is not False)
        return emitter.maximum(wide, emitter.constant(0)) if leaf.floored else wide

    def emit(self, polynomial: Polynomial, emitter: Emitter) -> SSAValue:
        """Emit a polynomial as an i64 scalar."""
        if self.emitted is None:
            return polynomial.emit(emitter, self.emit_leaf)
        key = (emitter.anchor.parent, polynomial)
        if (found := self.emitted.get(key)) is None:
            found = self.emitted[key] = polynomial.emit(emitter, self.emit_leaf)
        return found

    def emit_terms(self, atoms: dict[Atom, Polynomial], extent: int, emitter: Emitter) -> SSAValue:
        """Emit `Σ coefficient * atom(i)` as `tensor<extent x i64>`."""
        total: SSAValue | None = None
        for atom, coefficient in atoms.items():
            value = self._emit_atom(atom, extent, emitter)
            if coefficient != ONE:
                factor = emitter.splat(self.emit(coefficient, emitter), [extent])
                value = emitter.binary(arith.MuliOp, value, factor)
            total = value if total is None else emitter.binary(arith.AddiOp, total, value)
        if total is None:
            return emitter.splat(emitter.constant(0), [extent])
        return total

    def _emit_atom(self, atom: Atom, extent: int, emitter: Emitter) -> SSAValue:
        if isinstance(atom, Clamped):
            atom = atom.entries
        if isinstance(atom, Entries):
            value = self.projector.project(atom.value, atom.dim, emitter)
            return emitter.resize(value, i64, atom.signed is not False)
        if isinstance(atom, Digit):
            return emit_digit(atom, extent, i64, emitter)
        lanes = emitter.resize(emitter.arange(extent), i64)
        if isinstance(atom, Lane):
            return lanes
        start = emitter.splat(self.emit(atom.start, emitter), [extent])
        size = emitter.splat(self.emit(atom.size, emitter), [extent])
        shifted = emitter.binary(arith.AddiOp, lanes, start)
        return emitter.binary(arith.RemSIOp, shifted, size)


def _split_lanes(form: Form, before: tuple[int, ...], after: tuple[int, ...]) -> Form | None:
    """Reshape the form of a strided rank-1 tile: lane `i*n + j` becomes indices `(i, j)`."""
    if len(before) != 1 or set(form.terms) != {0} or set(form.terms[0]) != {LANE}:
        return None
    coefficient = form.terms[0][LANE]
    terms: dict[int, dict[Atom, Polynomial]] = {}
    for dim in reversed(range(len(after))):
        if after[dim] > 1:
            terms[dim] = {LANE: coefficient}
        coefficient = coefficient * Polynomial.constant(after[dim])
    return Form(form.base, form.offset, dict(sorted(terms.items())))


_HANDLERS: dict[type, Callable[..., Form | None]] = {
    tile.SplatOp: AffineAnalysis._splat,
    tile.ArangeOp: AffineAnalysis._arange,
    tile.BroadcastOp: AffineAnalysis._same,
    tile.HintOp: AffineAnalysis._hint,
    tile.ExpandDimsOp: AffineAnalysis._moved,
    tile.TransOp: AffineAnalysis._moved,
    tile.ReshapeOp: AffineAnalysis._reshape,
    arith.AddiOp: AffineAnalysis._arithmetic,
    arith.SubiOp: AffineAnalysis._arithmetic,
    arith.MuliOp: AffineAnalysis._arithmetic,
    arith.ShLIOp: AffineAnalysis._arithmetic,
    arith.ExtSIOp: AffineAnalysis._extsi,
    arith.ExtUIOp: AffineAnalysis._extui,
    arith.DivSIOp: AffineAnalysis._div,
    arith.DivUIOp: AffineAnalysis._div,
    arith.RemSIOp: AffineAnalysis._rem,
    arith.RemUIOp: AffineAnalysis._rem,
    tile.AddPtrOp: AffineAnalysis._addptr,
    tile.SelectOp: clamped_form,
    arith.MinSIOp: clamped_form,
    arith.MaxSIOp: clamped_form,
    gpu.ConvertLayoutOp: AffineAnalysis._same,
}
