"""Prove that the TMA tiles that a loop stores in different iterations are disjoint.

TMA stores in flight are unordered, so stores of different iterations that may alias must wait for completion, which
takes a memory latency. The wait is not needed if exactly one coordinate depends on the loop counter and its step is
at least the extent of the tile in that dimension.
"""

from __future__ import annotations

from xdsl.dialects import scf

from tilewright.layouts.shared import SharedLayout
from tilewright.passes.analysis.effects import defined_inside
from tilewright.passes.analysis.emit import constant_int
from tilewright.passes.analysis.polynomial import Polynomial
from tilewright.passes.gpu.analysis.tma_tiles import TmaTile


def iterations_are_disjoint(tile: TmaTile, shared: SharedLayout, loop: scf.ForOp) -> bool:
    """Return whether the tiles of any two iterations of `loop` are disjoint."""
    step = constant_int(loop.step)
    if tile.parts or step is None:
        return False
    moved = {d: place for d, place in enumerate(tile.corner) if _varies(place, loop)}
    if len(moved) != 1:
        return False
    ((d, place),) = moved.items()
    advance = _advance(place, loop)
    if advance is None:
        return False
    distance = abs(advance * step)
    width, height = shared.contiguous_extent, shared.strided_extent
    pitch = tile.pitches[0]
    if d == 0:  # rows do not overlap
        return distance >= width and _is_nonnegative(pitch - tile.extents[0])
    if (
        d == 1
    ):  # rows of one tile do not overlap; otherwise the order of its own elements would be undefined
        return distance >= height > 1
    apart = Polynomial.constant(distance) * tile.pitches[d - 1]
    covered = Polynomial.constant(height) * pitch
    return _is_nonnegative(apart - covered) and _is_nonnegative(pitch - Polynomial.constant(width))


def _varies(place: Polynomial, loop: scf.ForOp) -> bool:
    return any(defined_inside(leaf.value, loop) for leaf in place.leaves())


def _advance(place: Polynomial, loop: scf.ForOp) -> int | None:
    """Return the step of a coordinate per iteration; None if it depends on more than the loop counter."""
    counter, found = loop.body.block.args[0], 0
    for monomial, coefficient in place.terms:
        if not any(defined_inside(leaf.value, loop) for leaf in monomial):
            continue
        if len(monomial) != 1 or monomial[0].value is not counter:
            return None
        found += coefficient
    return found


def _is_nonnegative(difference: Polynomial) -> bool:
    number = difference.number
    return number is not None and number >= 0
