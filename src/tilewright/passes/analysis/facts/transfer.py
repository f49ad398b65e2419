"""Transfer functions: the fact of an operation's result from the facts of its operands.

Arithmetic is that of two's complement: results are taken modulo 2^bits. Division and remainder by zero,
the most negative number divided by -1, and shifts by the width or more give an unspecified value
(`docs/language.md`), so nothing is known of the result where operands allow them.

`exact` of a sum, difference, product or left shift: its signed result is known not to wrap. `positive` of a
division or remainder: its signed divisor is known to be greater than 0.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.passes.analysis.facts.lattice import (
    Fact,
    constant,
    join,
    meet,
    of_range,
    reduced,
    signed_range,
    top,
    trailing_zeros,
    unsigned_range,
    wrapped,
)


def add(a: Fact, b: Fact, exact: bool = False) -> Fact:
    """`a + b`."""
    zeros = min(a.zeros, b.zeros)
    low, high = a.smin + b.smin, a.smax + b.smax
    return _sum(a.bits, low, high, a.umin + b.umin, a.umax + b.umax, zeros, exact)


def sub(a: Fact, b: Fact, exact: bool = False) -> Fact:
    """`a - b`."""
    zeros = min(a.zeros, b.zeros)
    low, high = a.smin - b.smax, a.smax - b.smin
    return _sum(a.bits, low, high, a.umin - b.umax, a.umax - b.umin, zeros, exact)


def mul(a: Fact, b: Fact, exact: bool = False) -> Fact:
    """`a * b`."""
    zeros = min(a.bits, a.zeros + b.zeros)
    corners = [x * y for x in (a.smin, a.smax) for y in (b.smin, b.smax)]
    low, high = min(corners), max(corners)
    return _sum(a.bits, low, high, a.umin * b.umin, a.umax * b.umax, zeros, exact)


def _sum(bits: int, low: int, high: int, ulow: int, uhigh: int, zeros: int, exact: bool) -> Fact:
    """Signed mathematical results from `low` to `high`, unsigned ones from `ulow` to `uhigh`."""
    if exact:
        held = signed_range(bits, low, high, zeros)
        smin, smax = held.smin, held.smax
    else:
        smin, smax = wrapped(bits, low, high, signed=True)
    umin, umax = wrapped(bits, ulow, uhigh, signed=False)
    return reduced(bits, smin, smax, umin, umax, zeros)


def signed_sum_wraps(a: Fact, b: Fact) -> bool:
    """Whether the signed `a + b` may wrap."""
    return _leaves(a.bits, a.smin + b.smin, a.smax + b.smax)


def signed_difference_wraps(a: Fact, b: Fact) -> bool:
    """Whether the signed `a - b` may wrap."""
    return _leaves(a.bits, a.smin - b.smax, a.smax - b.smin)


def signed_product_wraps(a: Fact, b: Fact) -> bool:
    """Whether the signed `a * b` may wrap."""
    corners = [x * y for x in (a.smin, a.smax) for y in (b.smin, b.smax)]
    return _leaves(a.bits, min(corners), max(corners))


def signed_shift_wraps(a: Fact, b: Fact) -> bool:
    """Whether the signed `a << b` may differ from `a * 2^b`."""
    if b.umax >= a.bits:
        return True
    return _leaves(a.bits, a.smin << b.umax, a.smax << b.umax)


def _leaves(bits: int, low: int, high: int) -> bool:
    return low < -(1 << bits - 1) or high >= 1 << bits - 1


def shift_left(a: Fact, b: Fact, exact: bool = False) -> Fact:
    """`a << b`."""
    if b.umax >= a.bits:
        return top(a.bits)
    zeros = min(a.bits, a.zeros + b.umin)
    low = min(a.smin << b.umin, a.smin << b.umax)
    high = max(a.smax << b.umin, a.smax << b.umax)
    return _sum(a.bits, low, high, a.umin << b.umin, a.umax << b.umax, zeros, exact)


def shift_right_signed(a: Fact, b: Fact) -> Fact:
    """`a >> b` with copies of the sign bit."""
    if b.umax >= a.bits:
        return top(a.bits)
    low = min(a.smin >> b.umin, a.smin >> b.umax)
    high = max(a.smax >> b.umin, a.smax >> b.umax)
    return signed_range(a.bits, low, high, max(0, a.zeros - b.umax))


def shift_right_unsigned(a: Fact, b: Fact) -> Fact:
    """`a >> b` with zeros."""
    if b.umax >= a.bits:
        return top(a.bits)
    return unsigned_range(a.bits, a.umin >> b.umax, a.umax >> b.umin, max(0, a.zeros - b.umax))


def _quotient(a: int, b: int) -> int:
    """Division that truncates towards zero."""
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _exact_zeros(a: Fact, divisor: int | None) -> int:
    """Known zeros of a quotient: a power of two that divides the dividend takes its zeros away."""
    if divisor is None or abs(divisor) & abs(divisor) - 1:
        return 0
    return max(0, a.zeros - trailing_zeros(divisor, a.bits))


def _divisor(a: Fact, b: Fact, positive: bool) -> tuple[int, int] | None:
    """The signed range of a divisor of `a`; None if it may be 0, or -1 where the quotient overflows."""
    low, high = max(b.smin, 1) if positive else b.smin, b.smax
    overflows = a.smin == -(1 << a.bits - 1) and high == -1
    return None if low > high or low <= 0 <= high or overflows else (low, high)


def divide_signed(a: Fact, b: Fact, positive: bool = False) -> Fact:
    """`a / b`, truncated towards zero."""
    divisor = _divisor(a, b, positive)
    if divisor is None:
        return top(a.bits)
    corners = [_quotient(x, y) for x in (a.smin, a.smax) for y in divisor]
    return signed_range(a.bits, min(corners), max(corners), _exact_zeros(a, b.constant))


def divide_unsigned(a: Fact, b: Fact) -> Fact:
    """`a / b` of unsigned numbers."""
    if b.umin == 0:
        return top(a.bits)
    divisor = b.umin if b.umin == b.umax else None
    return unsigned_range(a.bits, a.umin // b.umax, a.umax // b.umin, _exact_zeros(a, divisor))


def remainder_signed(a: Fact, b: Fact, positive: bool = False) -> Fact:
    """`a - a / b * b`: it has the sign of `a`."""
    divisor = _divisor(a, b, positive)
    if divisor is None:
        return top(a.bits)
    least, most = sorted(abs(end) for end in divisor)
    if -least < a.smin and a.smax < least:
        return a
    low, high = max(1 - most, min(a.smin, 0)), min(most - 1, max(a.smax, 0))
    return signed_range(a.bits, low, high, min(a.zeros, b.zeros))


def remainder_unsigned(a: Fact, b: Fact) -> Fact:
    """`a % b` of unsigned numbers."""
    if b.umin == 0:
        return top(a.bits)
    if a.umax < b.umin:
        return a
    return unsigned_range(a.bits, 0, min(a.umax, b.umax - 1), min(a.zeros, b.zeros))


def bit_and(a: Fact, b: Fact) -> Fact:
    """`a & b`."""
    _, low, high, *_ = top(a.bits)
    if a.smax < 0 and b.smax < 0:
        high = -1
    return reduced(a.bits, low, high, 0, min(a.umax, b.umax), max(a.zeros, b.zeros))


def bit_or(a: Fact, b: Fact) -> Fact:
    """`a | b`."""
    most = (1 << max(a.umax.bit_length(), b.umax.bit_length())) - 1
    return unsigned_range(a.bits, max(a.umin, b.umin), most, min(a.zeros, b.zeros))


def bit_xor(a: Fact, b: Fact) -> Fact:
    """`a ^ b`."""
    for x, y in ((a, b), (b, a)):
        if y.constant == -1:  # not x
            return signed_range(a.bits, -1 - x.smax, -1 - x.smin)
    _, low, high, *_ = top(a.bits)
    if a.smax < 0 and b.smax < 0:
        low = 0
    if (a.smin >= 0 and b.smax < 0) or (a.smax < 0 and b.smin >= 0):
        high = -1
    most = (1 << max(a.umax.bit_length(), b.umax.bit_length())) - 1
    return reduced(a.bits, low, high, 0, most, min(a.zeros, b.zeros))


def _ends(a: Fact, signed: bool) -> tuple[int, int]:
    return (a.smin, a.smax) if signed else (a.umin, a.umax)


def _extreme(choose: Callable[[int, int], int], signed: bool) -> Callable[[Fact, Fact], Fact]:
    """The smaller (`min`) or the larger (`max`) of two numbers."""
    ranged = signed_range if signed else unsigned_range

    def extreme(a: Fact, b: Fact) -> Fact:
        (low_a, high_a), (low_b, high_b) = _ends(a, signed), _ends(b, signed)
        if high_a <= low_b or high_b <= low_a:  # it is known which
            return a if (high_a <= low_b) == (choose is min) else b
        return meet(join(a, b), ranged(a.bits, choose(low_a, low_b), choose(high_a, high_b)))

    return extreme


minimum_signed, maximum_signed = _extreme(min, True), _extreme(max, True)
minimum_unsigned, maximum_unsigned = _extreme(min, False), _extreme(max, False)


def absolute(a: Fact) -> Fact:
    """`|a|`; of the most negative number itself."""
    return of_range(a.bits, max(0, a.smin, -a.smax), max(-a.smin, a.smax), a.zeros)


def extend_signed(a: Fact, bits: int) -> Fact:
    """`a` with copies of its sign bit in front."""
    return signed_range(bits, a.smin, a.smax, a.zeros)


def extend_unsigned(a: Fact, bits: int) -> Fact:
    """`a` with zeros in front."""
    return unsigned_range(bits, a.umin, a.umax, a.zeros)


def truncate(a: Fact, bits: int) -> Fact:
    """The low bits of `a`."""
    zeros = min(a.zeros, bits)
    by_sign = of_range(bits, a.smin, a.smax, zeros)
    return meet(by_sign, of_range(bits, a.umin, a.umax, zeros))


def compare(predicate: str, a: Fact, b: Fact) -> Fact:
    """`a predicate b` as i1: known where the ranges do not overlap."""
    if predicate in ("eq", "ne"):
        disjoint = a.smax < b.smin or b.smax < a.smin or a.umax < b.umin or b.umax < a.umin
        if disjoint:
            return constant(int(predicate == "ne"), 1)
        same = a.constant is not None and a.constant == b.constant
        return constant(int(predicate == "eq"), 1) if same else top(1)
    if predicate[1:] in ("gt", "ge"):
        predicate, a, b = predicate[0] + {"gt": "lt", "ge": "le"}[predicate[1:]], b, a
    (low_a, high_a), (low_b, high_b) = (_ends(x, predicate[0] == "s") for x in (a, b))
    if predicate[1:] == "le":
        high_b, low_b = high_b + 1, low_b + 1
    if high_a < low_b:
        return constant(1, 1)
    return constant(0, 1) if low_a >= high_b else top(1)
