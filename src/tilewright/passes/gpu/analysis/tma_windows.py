"""Masks that say where a tile lies in an array, as those of tensor descriptors do: `0 <= start + lane < extent`.

A comparison from below is no limit of a structured access: it stays a mask where a start is not known to be at
least 0. A tensor map has it anyway: boxes may begin before the array, and what they have there is zero, or is
not written.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.analysis.polynomial import ZERO, Polynomial
from tilewright.passes.analysis.symbolic import Symbolic


@dataclass(frozen=True)
class Window:
    """Along one dimension: the element of the array that lane 0 is, and the elements that the array has."""

    start: Polynomial
    extent: Polynomial


def windows_of(mask: SSAValue, known: Facts, symbols: Symbolic) -> dict[int, Window] | None:
    """The dimensions that a mask restricts, if it says no more than `0 <= start + lane < extent` of each."""
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
            case tile.BroadcastOp() | gpu.ConvertLayoutOp():
                pending.append((op.operands[0], dims))
            case tile.ExpandDimsOp():
                axis = op.axis.value.data
                pending.append((op.source, dims[:axis] + dims[axis + 1 :]))
            case tile.TransOp():
                order = op.permutation
                pending.append((op.source, tuple(dims[order.index(d)] for d in range(len(order)))))
            case tile.CmpIOp():
                window = _window(op, known, symbols)
                if window is None or len(dims) != 1 or dims[0] in found:
                    return None
                found[dims[0]] = window
            case _:
                return None
    return found


def _window(op: tile.CmpIOp, known: Facts, symbols: Symbolic) -> Window | None:
    """The window of a comparison of a tile with one dimension.

    Sums that wrap are on neither side: as unsigned numbers they are beyond an extent, which is at least 0.
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
    """Whether a tile is 0, 1, 2, …"""
    op = value.owner
    while isinstance(op, arith.ExtSIOp | arith.ExtUIOp | gpu.ConvertLayoutOp):
        op = op.operands[0].owner
    return isinstance(op, Operation) and isinstance(op, tile.ArangeOp) and not op.start.value.data
