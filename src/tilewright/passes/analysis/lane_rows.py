"""Split a dimension of an access whose lanes are rows of memory.

`224 * (lane // 16 % 16) + lane % 16` goes through 16 rows of 16 elements: an access of two dimensions, each strided, whose
tile is reshaped. As one dimension it would be a gather.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from xdsl.dialects.builtin import i32
from xdsl.ir import Attribute, SSAValue

from tilewright.passes.analysis.emit import Emitter
from tilewright.passes.analysis.forms import LANE, Atom, Digit
from tilewright.passes.analysis.polynomial import ONE, ZERO, Polynomial

SHORT_ROW = 8
"""Lanes of the shortest rows that are worth a dimension, or chunks, of their own."""


@dataclass(frozen=True)
class Rows:
    """The extents of the dimensions that take the place of one, outermost first, and their strides."""

    extents: tuple[int, ...]
    strides: tuple[Polynomial, ...]


def rows_of(atoms: Mapping[Atom, Polynomial], extent: int) -> Rows | None:
    """The rows that `Σ coefficient * digit` of `extent` lanes goes through; None if there is but one, or neighbors of a row do
    not lie side by side."""
    digits: list[tuple[Digit, Polynomial]] = []
    for atom, coefficient in atoms.items():
        digit = Digit(1, extent) if atom == LANE else atom
        if not isinstance(digit, Digit):
            return None
        digits.append((digit, coefficient))
    ends = {end for digit, _ in digits for end in (digit.step, digit.step * digit.count)}
    steps = sorted(ends | {1, extent})
    if len(steps) <= 2 or any(outer % inner for inner, outer in pairwise(steps)):
        return None
    strides: list[Polynomial] = []
    for step in steps[:-1]:
        stride = ZERO
        for digit, coefficient in digits:
            if digit.step <= step < digit.step * digit.count:
                stride += coefficient * Polynomial.constant(step // digit.step)
        strides.append(stride)
    if strides[0] != ONE:
        return None
    extents = [outer // inner for inner, outer in pairwise(steps)]
    return Rows(tuple(reversed(extents)), tuple(reversed(strides)))


def emit_digit(digit: Digit, extent: int, kind: Attribute, emitter: Emitter) -> SSAValue:
    """A digit of `extent` lanes as a tile of the integer type `kind`: each row of lanes counts alike."""
    rows = (extent // (digit.step * digit.count), digit.count, digit.step)
    counted = emitter.resize(emitter.arange(digit.count), kind)
    spread = emitter.broadcast(emitter.reshape(counted, (1, digit.count, 1)), rows)
    return emitter.reshape(spread, (extent,))


def lanes_below(limit: SSAValue, shape: tuple[int, ...], dim: int, emitter: Emitter) -> SSAValue:
    """Which lanes of a tile of `shape` are below `limit` (an i64 scalar) along `dim`."""
    extent = shape[dim]
    within = emitter.minimum(emitter.maximum(limit, emitter.constant(0)), emitter.constant(extent))
    ends = emitter.splat(emitter.resize(within, i32), (extent,))
    mask = emitter.compare("slt", emitter.arange(extent), ends)
    column = [extent if d == dim else 1 for d in range(len(shape))]
    return emitter.broadcast(emitter.reshape(mask, column), shape)
