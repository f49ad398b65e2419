"""Count the bytes of global loads that a thread has in flight at once, in the SASS of an assembled kernel.

A load has a latency of hundreds of cycles, so that the speed of a kernel that reads memory is the bytes that an SM
has in flight. Registers decide it, and `ptxas` saves them: it issues one load, uses it and issues the next one where
all of them would have fitted into the registers that it takes anyway. What it made is therefore looked at.

Instructions of compute capability 7.0 to 9.0 have 16 bytes. A load names a barrier in bits 110-112 that is set
while it is in flight; whatever depends on it names that barrier in the mask of bits 116-121 and waits. (Jia et al.,
"Dissecting the NVIDIA Volta GPU architecture via microbenchmarking", 2018, section 2.)
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

_LOAD_GLOBAL = 0x981
"""The lower 12 bits of `LDG`."""
_BRANCH = 0x947
"""Of `BRA`: bits 16-23 and 34 on are the distance from the next instruction, in 4 bytes."""
_SIZES = (1, 1, 2, 2, 4, 8, 16, 16)
"""Bytes of a load by bits 73-75."""
_NONE = 7
"""The barrier of an instruction without one."""


def bytes_in_flight(cubin: bytes) -> int:
    """The most bytes that global loads of one thread have in flight, in program order; 0: there are none.

    Of the innermost loop that loads the most counts, of several the first one (a loop for the last iterations follows
    the one for all others), or of the rest of the code, if that loads more than twice as much.
    """
    most, found = 0, 0
    for code in _code_sections(cubin):
        *loops, rest = _parts(code)
        for weight, part in [*((2, loop) for loop in loops), (1, rest)]:
            loaded, in_flight = _in_flight(part)
            if weight * loaded > most:
                most, found = weight * loaded, in_flight
    return found


def round_trips(cubin: bytes) -> int:
    """How often a thread waits for global loads outside loops before it issues the last of them, in program order, counting
    as one the waits for loads of which none had to wait for another; 0: there are none."""
    return max((_depth(_parts(code)[-1]) for code in _code_sections(cubin)), default=0)


def _depth(instructions: list[tuple[int, int]]) -> int:
    """The length of the longest chain of loads of which each is issued after a wait for the one before."""
    deepest, complete = 0, 0
    pending: dict[int, int] = {}
    for low, high in instructions:
        waits = high >> 52 & 63
        for barrier in [b for b in pending if waits >> b & 1]:
            complete = max(complete, pending.pop(barrier))
        barrier = high >> 46 & 7
        if low & 0xFFF == _LOAD_GLOBAL and barrier != _NONE:
            pending[barrier] = complete + 1
            deepest = max(deepest, complete + 1)
    return deepest


def _parts(code: bytes) -> list[list[tuple[int, int]]]:
    """The instructions of each innermost loop, then all others."""
    instructions = list(struct.iter_unpack("<QQ", code[: len(code) // 16 * 16]))
    loops: list[range] = []
    for first, last in sorted(_back_edges(instructions), key=lambda edge: edge[1] - edge[0]):
        if not any(first <= loop[0] <= last for loop in loops):
            loops.append(range(first, last + 1))
    loops.sort(key=lambda loop: loop[0])
    inside = {i for loop in loops for i in loop}
    rest = [each for i, each in enumerate(instructions) if i not in inside]
    return [*(instructions[loop[0] : loop[-1] + 1] for loop in loops), rest]


def _back_edges(instructions: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Branches to an earlier instruction: its index, and the branch's."""
    for i, (low, _) in enumerate(instructions):
        if low & 0xFFF == _BRANCH:
            distance = (low >> 34) - (low >> 63 << 30)
            to = i + 1 + ((distance << 8 | low >> 16 & 0xFF) >> 2)
            if to < i:
                yield to, i


def _in_flight(instructions: list[tuple[int, int]]) -> tuple[int, int]:
    """Bytes that instructions load, one after another, and the most of them in flight."""
    loaded, most = 0, 0
    pending: dict[int, int] = {}
    for low, high in instructions:
        waits = high >> 52 & 63
        if waits:
            pending = {b: size for b, size in pending.items() if not waits >> b & 1}
        barrier = high >> 46 & 7
        if low & 0xFFF == _LOAD_GLOBAL and barrier != _NONE:
            size = _SIZES[high >> 9 & 7]
            pending[barrier] = pending.get(barrier, 0) + size
            loaded, most = loaded + size, max(most, sum(pending.values()))
    return loaded, most


def _code_sections(cubin: bytes) -> Iterator[bytes]:
    """The sections of a cubin (ELF, 64 bit) that hold instructions."""
    table = struct.unpack_from("<Q", cubin, 40)[0]
    size, count = struct.unpack_from("<HH", cubin, 58)
    for i in range(count):
        kind, flags, _, start, length = struct.unpack_from("<IQQQQ", cubin, table + i * size + 4)
        if kind == 1 and flags & 4:  # SHT_PROGBITS, SHF_EXECINSTR
            yield cubin[start : start + length]
