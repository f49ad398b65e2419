"""What native code asks of a launch's arguments: that they are such as the kernel was compiled for.

A launch like the one before needs no key to find its kernel: the launcher compares the values that it fetches
anyway, each with a condition of one byte, and starts nothing where one does not hold. The specialisation
itself is `runtime.specialize`'s; functions here give the condition that stands for what it saw.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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

_LOWEST, _HIGHEST = -(1 << 31), (1 << 31) - 1


def of_integer(value: int, aligned: bool = True) -> int | None:
    """The condition that an integer's specialisation comes to; None where there is none for it: negative ones
    are rare, and found by their key."""
    if value == 1:
        return ONE
    if not 0 <= value <= _HIGHEST:
        return None
    if not aligned:
        return NOT_ONE
    return NO_MULTIPLE if value & 15 else MULTIPLE


def of_word(value: int) -> int | None:
    """Of an integer that only its width is asked of (`do_not_specialize`)."""
    return WORD if _LOWEST <= value <= _HIGHEST else None


def of_address(value: int, aligned: bool = True) -> int:
    """Of a pointer."""
    if not aligned:
        return SOMEWHERE
    return UNALIGNED if value & 15 else ALIGNED


def of_extent(value: int, remainder: bool = True) -> int | None:
    """Of an extent or a stride of a descriptor; with what is left of it by 16."""
    if not 1 < value <= _HIGHEST:
        return None
    return REMAINDERS + (value & 15) if remainder else LONG


def holds(condition: int, value: int) -> bool:
    """Whether a value meets a condition: what `HOLDS` does natively."""
    word, size = _LOWEST <= value <= _HIGHEST, 0 <= value <= _HIGHEST
    if condition >= REMAINDERS:
        return 1 < value <= _HIGHEST and value & 15 == condition - REMAINDERS
    return {
        ANY: True,
        ONE: value == 1,
        MULTIPLE: size and value & 15 == 0,
        NO_MULTIPLE: size and value != 1 and value & 15 != 0,
        NOT_ONE: size and value != 1,
        WORD: word,
        ALIGNED: value != 0 and value & 15 == 0,
        UNALIGNED: value & 15 != 0,
        SOMEWHERE: value != 0,
        LONG: 1 < value <= _HIGHEST,
    }[condition]


def all_hold(conditions: Sequence[int], values: Sequence[Any]) -> bool:
    """Of the arguments of a launch; with no conditions nothing is asked."""
    return all(c == ANY or holds(c, v) for c, v in zip(conditions, values, strict=False))


#: `i1 @holds(i8 condition, i64 value)`; of a value that is no integer of 64 bits (an error is set) none does
HOLDS = r"""
define internal i1 @holds(i8 %condition, i64 %value) nounwind {
entry:
  %strange = icmp eq i64 %value, -1
  %asked = icmp ne i8 %condition, 0
  %both.so = and i1 %asked, %strange
  br i1 %both.so, label %suspect, label %known
suspect:
  %error = call ptr @PyErr_Occurred()
  %raised = icmp ne ptr %error, null
  br i1 %raised, label %never, label %known
never:
  ret i1 false
known:
  %narrow = trunc i64 %value to i32
  %again = sext i32 %narrow to i64
  %word = icmp eq i64 %again, %value
  %one = icmp eq i64 %value, 1
  %more = xor i1 %one, true
  %positive = icmp sge i64 %value, 0
  %size = and i1 %word, %positive
  %low = and i64 %value, 15
  %even = icmp eq i64 %low, 0
  %odd = xor i1 %even, true
  %some = icmp ne i64 %value, 0
  %above = icmp sgt i64 %value, 1
  %long = and i1 %above, %word
  switch i8 %condition, label %remainder [ i8 0, label %always
    i8 1, label %is.one
    i8 2, label %is.multiple
    i8 3, label %is.no.multiple
    i8 4, label %is.not.one
    i8 5, label %is.word
    i8 6, label %is.aligned
    i8 7, label %is.unaligned
    i8 8, label %is.somewhere
    i8 9, label %is.long ]
always:
  ret i1 true
is.one:
  ret i1 %one
is.multiple:
  %multiple = and i1 %size, %even
  ret i1 %multiple
is.no.multiple:
  %not.one = and i1 %size, %more
  %no.multiple = and i1 %not.one, %odd
  ret i1 %no.multiple
is.not.one:
  %another = and i1 %size, %more
  ret i1 %another
is.word:
  ret i1 %word
is.aligned:
  %aligned = and i1 %some, %even
  ret i1 %aligned
is.unaligned:
  ret i1 %odd
is.somewhere:
  ret i1 %some
is.long:
  ret i1 %long
remainder:
  %wanted = sub i8 %condition, 16
  %wanted64 = zext i8 %wanted to i64
  %same = icmp eq i64 %low, %wanted64
  %both = and i1 %same, %long
  ret i1 %both
}
"""
