"""Recognize bounds masks of tensor descriptors: `0 <= start + lane < extent`.

A lower bound is not a limit of a structured access, so it remains a mask unless `start` is known to be nonnegative.
Tensor maps check it in hardware: a TMA tile may start before the array; out-of-bounds elements are loaded as zeros
and not stored.
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
