"""What native code asks of a launch's arguments: that they are such as the kernel was compiled for.

A launch like the one before needs no key to find its kernel: the launcher compares the values that it fetches
anyway, each with a condition of one byte, and starts nothing where one does not hold. The specialisation
itself is `runtime.specialize`'s; functions here give the condition that stands for what it saw.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.runtime.native.language import i1, i8, i64

#: of any value: nothing is asked
ANY = 0
#: of integers: 1, which is folded; else of 31 bits and a multiple of 16 or none, or not asked which; of 32 bits
ONE, MULTIPLE, NO_MULTIPLE, NOT_ONE, WORD = 1, 2, 3, 4, 5
#: of addresses: at a multiple of 16 bytes, elsewhere, or anywhere but at 0
ALIGNED, UNALIGNED, SOMEWHERE = 6, 7, 8
#: of a descriptor's extents and strides: in 2 … 2^31 - 1; from 16 on also the remainder by 16
LONG, REMAINDERS = 9, 16
#: what a launcher returns instead of None where a condition does not hold
OTHER_CASE = 5

LOWEST, HIGHEST = -(1 << 31), (1 << 31) - 1


def of_integer(value: int, aligned: bool = True) -> int | None:
    """The condition that an integer's specialisation comes to; None where there is none for it: negative ones
    are rare, and found by their key."""
    if value == 1:
        return ONE
    if not 0 <= value <= HIGHEST:
        return None
    if not aligned:
        return NOT_ONE
    return NO_MULTIPLE if value & 15 else MULTIPLE


def of_word(value: int) -> int | None:
    """Of an integer that only its width is asked of (`do_not_specialize`)."""
    return WORD if LOWEST <= value <= HIGHEST else None


def of_address(value: int, aligned: bool = True) -> int:
    """Of a pointer."""
    if not aligned:
        return SOMEWHERE
    return UNALIGNED if value & 15 else ALIGNED


def of_extent(value: int, remainder: bool = True) -> int | None:
    """Of an extent or a stride of a descriptor; with what is left of it by 16."""
    if not 1 < value <= HIGHEST:
        return None
    return REMAINDERS + (value & 15) if remainder else LONG


def holds(condition: i8, value: i64) -> i1:
    """Whether a value meets a condition: asked in Python and, as host code, by native launchers."""
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
    """Of the arguments of a launch; with no conditions nothing is asked."""
    return all(c == ANY or holds(c, v) for c, v in zip(conditions, values, strict=False))
