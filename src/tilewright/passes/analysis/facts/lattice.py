"""The lattice of integer facts: signed range, unsigned range, and known power-of-two divisor.

A `Fact` describes the bit patterns that an integer of `bits` bits may have. The signed and the unsigned
interval describe the same patterns; each tightens the other where all patterns have the same sign bit. There
is no bottom: the solver represents "not reached yet" by the absence of a fact.
"""

from __future__ import annotations

import functools
from typing import NamedTuple


class Fact(NamedTuple):
    """Bounds (inclusive) and divisor of an integer, or of every element of a tile."""

    bits: int
    smin: int
    smax: int
    """Range of the value as a signed integer."""
    umin: int
    umax: int
    """Range of the value as an unsigned integer."""
    zeros: int
    """The value is a multiple of 2^zeros modulo 2^bits; `bits` for 0."""

    @property
    def constant(self) -> int | None:
        """The signed value if the fact describes a constant, else None."""
        return self.smin if self.smin == self.smax else None

    def contains(self, pattern: int) -> bool:
        """Return whether the value may have this bit pattern, given modulo 2^bits."""
        full = 1 << self.bits
        unsigned = pattern % full
        signed = unsigned - full if unsigned >= full >> 1 else unsigned
        return (
            self.smin <= signed <= self.smax
            and self.umin <= unsigned <= self.umax
            and unsigned % (1 << self.zeros) == 0
        )


@functools.cache
def top(bits: int) -> Fact:
    """Return the fact that describes every value of a type."""
    half = 1 << bits - 1
    return Fact(bits, -half, half - 1, 0, 2 * half - 1, 0)


def constant(number: int, bits: int) -> Fact:
    """Return the fact of a single value, given modulo 2^bits."""
    unsigned = number % (1 << bits)
    signed = unsigned - (1 << bits) if unsigned >> bits - 1 else unsigned
    return Fact(bits, signed, signed, unsigned, unsigned, trailing_zeros(unsigned, bits))


def multiple(power: int, bits: int) -> Fact:
    """Return the fact that describes all multiples of 2^power."""
    return reduced(*top(bits)[:5], power)


def trailing_zeros(number: int, bits: int) -> int:
    """Return the exponent of the largest power of two that divides a number; `bits` for 0."""
    return min(bits, (number & -number).bit_length() - 1) if number else bits


def wrapped(bits: int, low: int, high: int, *, signed: bool) -> tuple[int, int]:
    """Return the interval of the residues modulo 2^bits of the integers from `low` to `high`, or the whole type if
    the residues are not one interval."""
    least = -(1 << bits - 1) if signed else 0
    turns = (low - least) >> bits
    if turns != (high - least) >> bits:
        return least, least + (1 << bits) - 1
    return low - (turns << bits), high - (turns << bits)


def of_range(bits: int, low: int, high: int, zeros: int = 0) -> Fact:
    """Return the fact of the mathematical integers from `low` to `high`, wrapped to the type."""
    return reduced(
        bits,
        *wrapped(bits, low, high, signed=True),
        *wrapped(bits, low, high, signed=False),
        min(zeros, bits),
    )


def signed_range(bits: int, low: int, high: int, zeros: int = 0) -> Fact:
    """Return the fact of the signed integers from `low` to `high`, clamped to the type."""
    _, least, most, umin, umax, _ = top(bits)
    return reduced(bits, max(low, least), min(high, most), umin, umax, min(zeros, bits))


def unsigned_range(bits: int, low: int, high: int, zeros: int = 0) -> Fact:
    """Return the fact of the unsigned integers from `low` to `high`, clamped to the type."""
    _, smin, smax, least, most, _ = top(bits)
    return reduced(bits, smin, smax, max(low, least), min(high, most), min(zeros, bits))


def reduced(bits: int, smin: int, smax: int, umin: int, umax: int, zeros: int) -> Fact:
    """Return a fact whose components are tightened by each other.

    Contradictory components describe a value that is never computed. Any fact is valid for it; top is returned.
    """
    full, half = 1 << bits, 1 << bits - 1
    if zeros:
        smin, smax = -(-smin >> zeros) << zeros, smax >> zeros << zeros
        umin, umax = -(-umin >> zeros) << zeros, umax >> zeros << zeros
    if smin >= 0:
        umin, umax = max(umin, smin), min(umax, smax)
    elif smax < 0:
        umin, umax = max(umin, smin + full), min(umax, smax + full)
    if umax < half:
        smin, smax = max(smin, umin), min(smax, umax)
    elif umin >= half:
        smin, smax = max(smin, umin - full), min(smax, umax - full)
    if smin >= 0:
        umax = min(umax, smax)
    elif smax < 0:
        umin = max(umin, smin + full)
    if smin > smax or umin > umax:
        return top(bits)
    if smin == smax:
        return constant(smin, bits)
    return Fact(bits, smin, smax, umin, umax, zeros)


def meet(a: Fact, b: Fact) -> Fact:
    """Return the conjunction of two facts about one value."""
    return reduced(
        a.bits, max(a.smin, b.smin), min(a.smax, b.smax), max(a.umin, b.umin), min(a.umax, b.umax),
        max(a.zeros, b.zeros),
    )  # fmt: skip


def join(a: Fact, b: Fact) -> Fact:
    """Return a fact that holds for either of two values."""
    if a == b:
        return a
    return Fact(
        a.bits, min(a.smin, b.smin), max(a.smax, b.smax), min(a.umin, b.umin), max(a.umax, b.umax),
        min(a.zeros, b.zeros),
    )  # fmt: skip


def widen(old: Fact, new: Fact) -> Fact:
    """Return an upper bound of `old` and `new`. Bounds that still grow move to 0, -1 or the limit of the type, so
    that ascending chains are short."""
    bits, half = old.bits, 1 << old.bits - 1
    smin, smax, umin, umax = old.smin, old.smax, old.umin, old.umax
    if new.smin < smin:
        smin = 0 if new.smin >= 0 else -half
    if new.smax > smax:
        smax = -1 if new.smax < 0 else half - 1
    if new.umin < umin:
        umin = half if new.umin >= half else 0
    if new.umax > umax:
        umax = half - 1 if new.umax < half else 2 * half - 1
    return Fact(bits, smin, smax, umin, umax, min(old.zeros, new.zeros))
