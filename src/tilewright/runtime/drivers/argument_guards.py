"""Guards: native checks that a launch's arguments match the specialization of a compiled kernel.

A repeated launch computes no cache key. The launcher tests each value that it fetches anyway against a one-byte
condition and does not launch if one fails. `runtime.specialize` defines the specialization; functions here
map a specialized value to its condition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.runtime.native.language import i1, i8, i64

#: any value
ANY = 0
#: integers: equal to 1 (folded); 31 bits and a multiple of 16, not a multiple, or either; 32 bits
ONE, MULTIPLE, NO_MULTIPLE, NOT_ONE, WORD = 1, 2, 3, 4, 5
#: of addresses: at a multiple of 16 bytes, elsewhere, or anywhere but at 0
ALIGNED, UNALIGNED, SOMEWHERE = 6, 7, 8
#: of a descriptor's extents and strides: in 2 … 2^31 - 1; from 16 on also the remainder by 16
LONG, REMAINDERS = 9, 16
#: return code of a launcher if a condition fails
OTHER_CASE = 5

LOWEST, HIGHEST = -(1 << 31), (1 << 31) - 1


def of_integer(value: int, aligned: bool = True) -> int | str:
    """The condition of an integer's specialization, or its key if there is none: negative integers are rare and are
    looked up."""
    if value == 1:
        return ONE
    if not 0 <= value <= HIGHEST:
        return _unguarded(value, value & 15 == 0)
    if not aligned:
        return NOT_ONE
    return NO_MULTIPLE if value & 15 else MULTIPLE


def of_word(value: int) -> int | str:
    """The condition or key of an integer specialized by width only (`do_not_specialize`)."""
    return WORD if LOWEST <= value <= HIGHEST else _unguarded(value, "")


def _unguarded(value: int, remainder: object) -> str:
    """The key of an integer without condition: its type (None if it fits none), sign and remainder."""
    ends = (LOWEST, HIGHEST), (-(1 << 63), (1 << 63) - 1), (0, (1 << 64) - 1)
    width = next((i for i, (low, high) in enumerate(ends) if low <= value <= high), None)
    return f"{width} {value < 0} {remainder}"


def of_extent(value: int, remainder: bool = True) -> int | str:
    """The condition or key of a descriptor's extent or stride; with its remainder modulo 16 unless `remainder` is
    False."""
    if not 1 < value <= HIGHEST:
        return str(value) if value in (0, 1) else _unguarded(value, value & 15)
    return REMAINDERS + (value & 15) if remainder else LONG


def holds(condition: i8, value: i64) -> i1:
    """Whether a value satisfies a condition; runs in Python and, as host code, in native launchers."""
    word = LOWEST <= value <= HIGHEST
    size = 0 <= value <= HIGHEST
    multiple = value & 15 == 0
    if condition == ANY:
        return True
    if condition == ONE:
        return value == 1
    if condition == MULTIPLE:
        return size and multiple
    if condition == NO_MULTIPLE:
        return size and value != 1 and not multiple
    if condition == NOT_ONE:
        return size and value != 1
    if condition == WORD:
        return word
    if condition == ALIGNED:
        return value != 0 and multiple
    if condition == UNALIGNED:
        return not multiple
    if condition == SOMEWHERE:
        return value != 0
    remainder = i64(condition) - REMAINDERS
    return size and value > 1 and (condition == LONG or value & 15 == remainder)


def all_hold(conditions: Sequence[int], values: Sequence[Any]) -> bool:
    """Whether all arguments of a launch satisfy their conditions; True if there are no conditions."""
    return all(c == ANY or holds(c, v) for c, v in zip(conditions, values, strict=False))
