"""How many registers the hardware has for each thread of a program."""

from __future__ import annotations

PARTITIONS = 4
"""Partitions of a multiprocessor, each with its warps and its registers."""
OF_A_PARTITION = 16 << 10
"""Registers of each."""
_MOST = 255
UNIT = 8
"""Registers of a thread come in multiples of this."""


def registers_of_a_thread(warps: int) -> int:
    """The most that a thread may have in a program of so many warps (CUDA C++ programming guide, "Compute
    capabilities"; the assembler has the same limit): warps are dealt out to four partitions one by one, so
    that 13 leave as few as 16 do.
    """
    in_a_part = -(-warps // PARTITIONS)
    return min(_MOST, OF_A_PARTITION // (32 * in_a_part) // UNIT * UNIT)
