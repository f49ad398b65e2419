"""Factor the offset of a TMA tile into coordinates of a tensor map.

The address of a tile is `root + offset` in elements, where `offset` is a polynomial. The dimensions of a tensor
map have strides that the host knows. Any solution of `Σ coordinate_d * stride_d = offset` addresses the same element
if all coordinates are nonnegative and fit in 32 bits; out-of-range coordinates read zeros. The polynomial does not
tell which terms belong to which coordinate, so the assignment is inferred:

- The limit of a dimension determines the terms of its coordinate that the host does not know: coordinate plus limit
  is the extent, which the host encodes.
- A term belongs to a dimension without a limit if the stride of the dimension divides it. Terms that would change
  the end of a limited dimension become additional dimensions (*planes*), whose strides are products of arguments.
- The remaining terms are known to the host (constants, matrix strides) or negative (counters that count down). They
  are assigned such that each coordinate is provably nonnegative if its scalars are. If no assignment achieves this
  for all coordinates, the best assignment must be unique.

Ensures: `Σ coordinate_d * stride_d = offset`, exactly. Does not ensure that coordinates are in range: callers prove
that, or check it at run time.

Recognize bounds masks of tensor descriptors: `0 <= start + lane < extent`.

A lower bound is not a limit of a structured access, so it remains a mask unless `start` is known to be nonnegative.
Tensor maps check it in hardware: a TMA tile may start before the array; out-of-bounds elements are loaded as zeros
and not stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import gcd, prod

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.analysis.polynomial import ONE, ZERO, Leaf, Monomial, Polynomial, divided
from tilewright.passes.analysis.projection import moved_dims
from tilewright.passes.analysis.symbolic import Symbolic

_MOST_ASSIGNMENTS = 256
_FARTHEST = 1 << 30
"""Bounds of this size or more follow from the type only and carry no information."""


@dataclass(frozen=True)
class Rules:
    """Predicates about scalars that the factorization uses."""

    on_host: Callable[[Leaf], bool]
    """Whether the launcher knows a scalar, i.e. it is a kernel argument."""
    stands_for_end: Callable[[Monomial], bool]
    """Whether a term of a limit may be part of an extent although the launcher does not know it."""
    plausible: Callable[[Polynomial], bool]
    """Whether a coordinate is provably nonnegative if all its scalars are."""
    highest: Callable[[Polynomial], int | None]
    """Upper bound of a coordinate, or None."""
    aligned: Callable[[Polynomial], bool]
    """Whether a number of elements is a multiple of 16 bytes."""

    def known(self, monomial: Monomial) -> bool:
        return all(map(self.on_host, monomial))


@dataclass(frozen=True)
class Axis:
    """A dimension of the tile: its stride and the number of elements from the tile's start to its end."""

    stride: Polynomial
    limit: Polynomial | None = None

    @property
    def open(self) -> bool:
        """Whether the coordinate may contain any term, i.e. has no limit."""
        return self.limit is None


@dataclass(frozen=True)
class Plane:
    """A dimension in which the tile has extent 1: its coordinate and stride."""

    stride: Polynomial
    place: Polynomial


@dataclass(frozen=True)
class Coordinates:
    """Coordinates of the tile's dimensions, and of planes."""

    places: tuple[Polynomial, ...]
    planes: tuple[Plane, ...]

    def all(self) -> list[Polynomial]:
        return [*self.places, *(plane.place for plane in self.planes)]


Term = tuple[Monomial, int]


def divide_offset(offset: Polynomial, axes: Sequence[Axis], rules: Rules) -> Coordinates | None:
    """Return the coordinates of an offset, or None if there is no valid factorization. Axes: smallest stride first."""
    if any(len(axis.stride.terms) != 1 for axis in axes):
        return None
    required = _required(offset, axes, rules)
    if required is None:
        return None
    left = offset
    for place, axis in zip(required, axes, strict=True):
        left = left - place * axis.stride
    return _Division(axes, required, rules).of(left)


def _required(offset: Polynomial, axes: Sequence[Axis], rules: Rules) -> list[Polynomial] | None:
    """Return the terms of each coordinate that its limit determines; None if the offset does not contain them."""
    left, places = dict(offset.terms), list[Polynomial]()
    for axis in axes:
        terms = axis.limit.terms if axis.limit is not None else ()
        moving = [t for t in terms if not rules.known(t[0]) and not rules.stands_for_end(t[0])]
        place = -Polynomial(tuple(moving))
        for monomial, coefficient in (place * axis.stride).terms:
            have = left.get(monomial, 0)
            if have * coefficient <= 0 or abs(have) < abs(coefficient):
                return None
            left[monomial] = have - coefficient
        places.append(place)
    return places


def quotient(term: Term, stride: Polynomial) -> Polynomial | None:
    """Return a term divided by a stride of one term; None if it is not divisible."""
    ((divisor, size),) = stride.terms
    rest = divided(term[0], divisor)
    if rest is None or not size or term[1] % size:
        return None
    return Polynomial.of({rest: term[1] // size})


Home = int
"""Index of the axis or plane that a term is assigned to; planes are numbered after the axes."""
Choices = list[tuple[Term, list[Home]]]


class _Division:
    """Assign the terms of an offset to axes and planes."""

    def __init__(self, axes: Sequence[Axis], required: list[Polynomial], rules: Rules) -> None:
        self.axes, self.required, self.rules = axes, required, rules
        self.planes: list[Plane] = []

    def of(self, left: Polynomial) -> Coordinates | None:
        """Assign each term to its first candidate if no term is negative; otherwise search for the best assignment."""
        signs = (left, *self.required)
        mixed = any(coefficient < 0 for part in signs for _, coefficient in part.terms)
        choices = self._choices(left, mixed)
        if choices is None:
            return None
        if not mixed:
            return self._coordinates([(term, homes[0]) for term, homes in choices])
        return self._best(choices)

    def _best(self, choices: Choices) -> Coordinates | None:
        """Return the assignment with the most plausible coordinates. None if a coordinate is not plausible and an
        equally good assignment places negative terms differently."""
        found: list[tuple[int, list[Home], Coordinates]] = []
        for assignment in self._assignments(choices):
            coordinates = self._coordinates(assignment)
            doubts = self._doubts(coordinates)
            if doubts is not None:
                negative = [home for (_, coefficient), home in assignment if coefficient < 0]
                found.append((doubts, negative, coordinates))
        if not found:
            return None
        doubts, homes, best = min(found, key=lambda item: item[0])
        if doubts and any(d == doubts and others != homes for d, others, _ in found):
            return None
        return best

    def _assignments(self, choices: Choices) -> Iterator[list[tuple[Term, Home]]]:
        """Enumerate assignments of all terms. The constant is one term of the offset but may be the sum of the
        constants of several coordinates, so ways to split it are enumerated too: a coordinate with bounded negative
        terms gets a constant that offsets them."""
        constant = next((term for term, _ in choices if not term[0]), None)
        needs = self._needs(choices) if constant is not None else {}
        for count in range(len(needs) + 1):
            for pinned in combinations(needs.items(), count):
                pins: Choices = [(((), size), [home]) for home, size in pinned]
                rest = (constant[1] if constant else 0) - sum(size for _, size in pinned)
                others = [choice for choice in choices if choice[0][0]]
                homes = self._homes_of(((), rest)) if rest else []
                if rest and not homes:
                    continue
                yield from _products([*pins, *others, *([(((), rest), homes)] if rest else [])])

    def _needs(self, choices: Choices) -> dict[Home, int]:
        """Return the constants (in elements) that keep axes and planes with bounded negative terms nonnegative."""
        moving = [(term, homes[0]) for term, homes in choices if not self.rules.known(term[0])]
        places = self._coordinates(moving).all()
        needs = self._at_ends()
        for home, (place, stride) in enumerate(zip(places, self._strides(), strict=True)):
            least = 0
            for monomial, coefficient in place.terms:
                if coefficient < 0:
                    most = self.rules.highest(Polynomial(((monomial, 1),)))
                    least = None if most is None or least is None else least - coefficient * most
            if least and stride.number and least < _FARTHEST:
                needs[home] = least * stride.number
        return needs

    def _at_ends(self) -> dict[Home, int]:
        """Return, per axis, the constant (in elements) that cancels the constant of its end: a reversed loop has
        coordinate `(n - 1 - i) * 64` and limit `end - (n - 1 - i) * 64`."""
        found: dict[Home, int] = {}
        for home, axis in enumerate(self.axes):
            terms = dict(axis.limit.terms) if axis.limit is not None else {}
            constant = terms.pop((), 0)
            if constant and terms and axis.stride.number:
                found[home] = -constant * axis.stride.number
        return found

    def _doubts(self, coordinates: Coordinates) -> int | None:
        """Return the number of coordinates that are not plausible; None if one is certainly negative, or ends at 0 or
        before: all that its limit leaves is then at negative coordinates (rows from `end - count` on up to a loaded
        `end`, whose plane would begin at `end`)."""
        for place, axis in zip(coordinates.places, self.axes, strict=True):
            end = (axis.limit + place).number if axis.limit is not None else None
            if end is not None and end <= 0:
                return None
        doubts = 0
        for place in coordinates.all():
            if self.rules.plausible(place):
                continue
            highest = self.rules.highest(place)
            if all(c < 0 for _, c in place.terms) or (highest is not None and highest < 0):
                return None
            doubts += 1
        return doubts

    def _coordinates(self, assignment: list[tuple[Term, Home]]) -> Coordinates:
        places = [*self.required, *(plane.place for plane in self.planes)]
        strides = self._strides()
        for term, home in assignment:
            part = quotient(term, strides[home])
            if part is None:
                raise ValueError("a term is not a multiple of the stride that it is divided by")
            places[home] += part
        count = len(self.axes)
        planes = [
            Plane(plane.stride, place)
            for plane, place in zip(self.planes, places[count:], strict=True)
        ]
        return Coordinates(tuple(places[:count]), tuple(planes))

    def _strides(self) -> list[Polynomial]:
        return [*(axis.stride for axis in self.axes), *(plane.stride for plane in self.planes)]

    def _choices(self, left: Polynomial, mixed: bool) -> Choices | None:
        """Create the planes and return the candidates of each term. None if a plane would not be aligned."""
        known = [term for term in left.terms if self.rules.known(term[0])]
        moving = [(term, self._axes_of(term)) for term in left.terms if term not in known]
        if not self._make_planes([term for term, axes in moving if not axes]):
            return None
        choices = [(t, axes if mixed and t[1] < 0 else axes[:1]) for t, axes in moving if axes]
        for term in known:
            homes = self._homes_of(term)
            if not homes:
                return None
            choices.append((term, homes))
        return choices

    def _axes_of(self, term: Term) -> list[Home]:
        """Return candidate axes of a term unknown to the launcher, largest stride first; empty if it needs a plane."""
        dividing = [
            d
            for d in reversed(range(len(self.axes)))
            if quotient(term, self.axes[d].stride) is not None
        ]
        if not dividing or not self.axes[dividing[0]].open:
            return []
        return [d for d in dividing if self.axes[d].open]

    def _make_planes(self, terms: list[Term]) -> bool:
        """Create a plane per product of arguments in the terms. Returns whether all strides are aligned."""
        groups: dict[Monomial, dict[Monomial, int]] = {}
        for monomial, coefficient in terms:
            stride = tuple(leaf for leaf in monomial if self.rules.on_host(leaf))
            place = tuple(leaf for leaf in monomial if not self.rules.on_host(leaf))
            groups.setdefault(stride, {})[place] = coefficient
        for leaves, places in groups.items():
            step = gcd(*places.values())
            stride = Polynomial.of({leaves: step})
            place = Polynomial.of({m: c // step for m, c in places.items()})
            self.planes.append(Plane(stride, place))
        return all(self.rules.aligned(plane.stride) for plane in self.planes)

    def _homes_of(self, term: Term) -> list[Home]:
        """Return candidates of a term known to the launcher: those whose strides share scalars with it, else all."""
        strides = self._strides()
        axes = list(reversed(range(len(self.axes))))
        planes = list(range(len(self.axes), len(strides)))
        homes = [d for d in (*axes, *planes) if quotient(term, strides[d]) is not None]
        named = [d for d in (*planes, *axes) if d in homes and strides[d].terms[0][0]]
        if named:
            return named
        return [d for d in homes if strides[d] != ONE or self.rules.aligned(Polynomial((term,)))]


def _products(choices: Choices) -> Iterator[list[tuple[Term, Home]]]:
    """Enumerate all assignments; if there are too many, vary negative terms only."""
    if prod(len(homes) for _, homes in choices) > _MOST_ASSIGNMENTS:
        choices = [(t, homes if t[1] < 0 else homes[:1]) for t, homes in choices]
    if prod(len(homes) for _, homes in choices) <= _MOST_ASSIGNMENTS:
        for homes in product(*(homes for _, homes in choices)):
            yield [(term, home) for (term, _), home in zip(choices, homes, strict=True)]


@dataclass(frozen=True)
class Window:
    """Bounds along one dimension: array index of lane 0, and extent of the array."""

    start: Polynomial
    extent: Polynomial


def windows_of(mask: SSAValue, known: Facts, symbols: Symbolic) -> dict[int, Window] | None:
    """Return the window of each dimension that a mask bounds; None if the mask is not a conjunction of windows."""
    found: dict[int, Window] = {}
    pending: list[tuple[SSAValue, tuple[int, ...]]] = [
        (mask, tuple(range(len(tile.shape_of(mask)))))
    ]
    while pending:
        value, dims = pending.pop()
        op = value.owner
        match op:
            case arith.AndIOp():
                pending += [(op.lhs, dims), (op.rhs, dims)]
            case gpu.ConvertLayoutOp():
                pending.append((op.source, dims))
            case tile.BroadcastOp() | tile.ExpandDimsOp() | tile.TransOp():
                moved = sorted((moved_dims(op) or {}).items())
                pending.append((op.source, tuple(dims[d] for _, d in moved)))
            case tile.CmpIOp():
                window = _window(op, known, symbols)
                if window is None or len(dims) != 1 or dims[0] in found:
                    return None
                found[dims[0]] = window
            case _:
                return None
    return found


def _window(op: tile.CmpIOp, known: Facts, symbols: Symbolic) -> Window | None:
    """Return the window of an unsigned comparison of a one-dimensional tile.

    Negative sums are out of bounds: as unsigned integers they exceed the extent, which is nonnegative.
    """
    if op.predicate.data != "ult" or not isinstance(op.rhs.owner, tile.SplatOp):
        return None
    extent = op.rhs.owner.source
    if not known.is_nonnegative(extent):
        return None
    start: Polynomial | None = ZERO if _counts(op.lhs) else None
    if isinstance(op.lhs.owner, arith.AddiOp):
        for lanes, other in (op.lhs.owner.operands, reversed(op.lhs.owner.operands)):
            if _counts(lanes) and isinstance(other.owner, tile.SplatOp):
                start = symbols.of(other.owner.source)
    return None if start is None else Window(start, symbols.of(extent))


def _counts(value: SSAValue) -> bool:
    """Return whether a tile is 0, 1, 2, …"""
    op = value.owner
    while isinstance(op, arith.ExtSIOp | arith.ExtUIOp | gpu.ConvertLayoutOp):
        op = op.operands[0].owner
    return isinstance(op, Operation) and isinstance(op, tile.ArangeOp) and not op.start.value.data
