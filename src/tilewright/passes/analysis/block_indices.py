"""Indices of a block of lanes as a scalar and small numbers: quotients and remainders of `start + lane` in 32 bits.

With r = start % size, `(start + lane) % size = (r + lane) % size` and
`(start + lane) / size = start / size + (r + lane) / size`: what depends on the lane is at most the size and the number of
lanes, whatever the start. CPUs divide vectors of 32 bits by constants with multiplications, of 64 bits lane by lane, and gather
twice as many lanes per instruction with offsets of 32 bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import Operation, SSAValue

from tilewright.passes.analysis.emit import Emitter
from tilewright.passes.analysis.forms import LANE, Atom, Entries, Lane, Wrapped
from tilewright.passes.analysis.polynomial import ONE, Polynomial

if TYPE_CHECKING:
    from tilewright.passes.analysis.affine import AffineAnalysis

_LIMIT = 1 << 31


@dataclass(frozen=True)
class _Division:
    """A lane's part of `(start + lane) / size` or `% size`. `kind` None: the lane itself."""

    kind: type[Operation] | None
    start: Polynomial
    size: int
    largest: int


def block_index(
    affine: AffineAnalysis, atoms: dict[Atom, Polynomial], extent: int, emitter: Emitter
) -> tuple[SSAValue, SSAValue | None] | None:
    """`Σ coefficient * atom(i)` as (`tensor<extent x i64>` extended from 32 bits, i64 scalar to add); None if it is not so
    small, or not made of lanes, quotients and remainders alone."""
    parts: list[tuple[int, _Division]] = []
    for atom, coefficient in atoms.items():
        part = _part(affine, atom, extent)
        if part is None or coefficient.number is None:
            return None
        parts.append((coefficient.number, part))
    if not parts or sum(abs(factor) * part.largest for factor, part in parts) >= _LIMIT:
        return None
    if all(part.kind is None for _, part in parts):
        return None
    total: SSAValue | None = None
    uniform: SSAValue | None = None
    for factor, part in parts:
        value, whole = _emit(affine, part, extent, emitter)
        factors = emitter.splat(emitter.constant(factor, i32), [extent])
        value = value if factor == 1 else emitter.binary(arith.MuliOp, value, factors)
        total = value if total is None else emitter.binary(arith.AddiOp, total, value)
        if whole is not None:
            whole = emitter.mul(whole, emitter.constant(factor))
            uniform = whole if uniform is None else emitter.add(uniform, whole)
    assert total is not None
    return emitter.resize(total, i64), uniform


def _part(affine: AffineAnalysis, atom: Atom, extent: int) -> _Division | None:
    if isinstance(atom, Lane):
        return _Division(None, Polynomial(), 1, extent - 1)
    if isinstance(atom, Wrapped):
        size = atom.size.number
        if size is None or size + extent >= _LIMIT:
            return None
        return _Division(arith.RemSIOp, atom.start, size, size - 1)
    if not isinstance(atom, Entries) or not isinstance(atom.value.owner, arith.DivSIOp):
        return None
    reading, op = affine.addresses, atom.value.owner
    lhs, rhs = affine.form(op.lhs, reading), affine.form(op.rhs, reading)
    size = rhs.offset.number if rhs is not None and rhs.is_uniform else None
    if lhs is None or lhs.base is not None or size is None or not 0 < size < _LIMIT - extent:
        return None
    if [*lhs.terms.values()] != [{LANE: ONE}] or not reading.is_nonnegative(lhs.offset):
        return None
    return _Division(arith.DivSIOp, lhs.offset, size, (size + extent - 2) // size)


def _emit(
    affine: AffineAnalysis, part: _Division, extent: int, emitter: Emitter
) -> tuple[SSAValue, SSAValue | None]:
    lanes = emitter.arange(extent)
    if part.kind is None:
        return lanes, None
    start, size = affine.emit(part.start, emitter), emitter.constant(part.size)
    rest = emitter.resize(emitter.binary(arith.RemSIOp, start, size), i32)
    shifted = emitter.binary(arith.AddiOp, lanes, emitter.splat(rest, [extent]))
    sizes = emitter.splat(emitter.constant(part.size, i32), [extent])
    value = emitter.binary(part.kind, shifted, sizes)
    whole = emitter.binary(arith.DivSIOp, start, size) if part.kind is arith.DivSIOp else None
    return value, whole
