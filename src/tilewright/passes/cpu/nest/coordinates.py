"""Coordinates of the element or chunk that code in a loop nest processes."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.ir import Operation, SSAValue

from tilewright.dialects import tile
from tilewright.passes.cpu.analysis.classify import is_virtual
from tilewright.passes.cpu.nest.emit import Emitter, Index


class NeedsScalar(Exception):
    """Raised if a value cannot be vectorized; the loop nest is then rebuilt with one lane per chunk."""


@dataclass(frozen=True, eq=False)
class Coordinate:
    """Index along one dimension: `base`, and the number of `lanes` of a chunk."""

    base: Index
    lanes: int = 1

    @property
    def key(self) -> tuple[object, int]:
        return (self.base if isinstance(self.base, int) else id(self.base), self.lanes)


Coordinates = tuple[Coordinate, ...]
ZERO = Coordinate(0)


def key_of(at: Coordinates) -> tuple[object, ...]:
    """Hashable identity of coordinates within one nest."""
    return tuple(c.key for c in at)


def lanes_at(at: Coordinates) -> int:
    """Lanes of a chunk, 1 for a single element."""
    return max((c.lanes for c in at), default=1)


def broadcast(at: Coordinates, source: tuple[int, ...]) -> Coordinates:
    """Coordinates in the source of a broadcast."""
    return tuple(ZERO if extent == 1 else c for c, extent in zip(at, source, strict=True))


def row_limit(members: list[Operation], extent: int, limit: int) -> int:
    """`limit`, or fewer lanes, so that chunks along the last dimension stay within the rows that reshapes join there.

    Rows of fewer than 8 elements do not count: their groups go element by element.
    """
    pending: list[SSAValue] = [v for op in members for v in op.operands]
    seen = set[Operation]()
    while pending:
        op = pending.pop().owner
        if not isinstance(op, Operation) or op in seen or not is_virtual(op):
            continue
        seen.add(op)
        pending += op.operands
        if isinstance(op, tile.ReshapeOp) and tile.shape_of(op.result)[-1:] == (extent,):
            row = tile.shape_of(op.source)[-1]
            lanes = row & -row
            if 8 <= lanes < limit and row < extent:
                limit = lanes
    return limit


def drop(at: Coordinates, axis: int) -> Coordinates:
    return at[:axis] + at[axis + 1 :]


def permute(at: Coordinates, order: tuple[int, ...]) -> Coordinates:
    """Coordinates in the source of a transposition whose result is at `at`."""
    source: list[Coordinate] = [ZERO] * len(order)
    for result_dim, source_dim in enumerate(order):
        source[source_dim] = at[result_dim]
    return tuple(source)


def reshape(
    emit: Emitter, at: Coordinates, result: tuple[int, ...], source: tuple[int, ...]
) -> Coordinates | None:
    """Coordinates in the source of a reshape, or None if the chunk is not contiguous there."""
    linear: Index = 0
    run = 1
    stride = 1
    for c, extent in zip(reversed(at), reversed(result), strict=True):
        linear = emit.plus(emit.times(c.base, stride), linear)
        if c.lanes > 1:
            if stride != 1:
                # a chunk along an outer dimension: contiguous only over extents of 1
                return None
            run = c.lanes
        stride *= extent
    coordinates: list[Coordinate] = []
    rest = linear
    for d in range(len(source) - 1, -1, -1):
        extent = source[d]
        if run > 1:
            if extent == 1:
                coordinates.append(ZERO)
                continue
            if extent % run:
                return None
            outer = prod(source[:d])
            base = rest if outer == 1 else emit.modulo(rest, extent)
            coordinates.append(Coordinate(base, run))
            run = 1
        else:
            outer = prod(source[:d])
            coordinates.append(Coordinate(rest if outer == 1 else emit.modulo(rest, extent)))
        rest = emit.divide(rest, extent)
    return tuple(reversed(coordinates))
