"""How many bytes of global memory a thread of an assembled kernel waits for at once.

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
_SIZES = (1, 1, 2, 2, 4, 8, 16, 16)
"""Bytes of a load by bits 73-75."""
_NONE = 7
"""The barrier of an instruction without one."""


def bytes_in_flight(cubin: bytes) -> int:
    """The most bytes that global loads of one thread have in flight, in program order; 0: there are none."""
    most = 0
    for code in _code_sections(cubin):
        pending: dict[int, int] = {}
        for low, high in struct.iter_unpack("<QQ", code[: len(code) // 16 * 16]):
            waits = high >> 52 & 63
            if waits:
                pending = {b: size for b, size in pending.items() if not waits >> b & 1}
            barrier = high >> 46 & 7
            if low & 0xFFF == _LOAD_GLOBAL and barrier != _NONE:
                pending[barrier] = pending.get(barrier, 0) + _SIZES[high >> 9 & 7]
                most = max(most, sum(pending.values()))
    return most


def _code_sections(cubin: bytes) -> Iterator[bytes]:
    """The sections of a cubin (ELF, 64 bit) that hold instructions."""
    table = struct.unpack_from("<Q", cubin, 40)[0]
    size, count = struct.unpack_from("<HH", cubin, 58)
    for i in range(count):
        kind, flags, _, start, length = struct.unpack_from("<IQQQQ", cubin, table + i * size + 4)
        if kind == 1 and flags & 4:  # SHT_PROGBITS, SHF_EXECINSTR
            yield cubin[start : start + length]
