"""Shared memory in banks: how often a warp has to try until all its lanes have their bytes.

32 banks of 4 bytes each give one word at a time. Lanes that want different words of one bank wait for
each other; lanes that want the same word do not. Accesses of 8 and 16 bytes are made by half and by
quarter warps (CUDA C++ programming guide, "Shared memory"; CUTLASS assumes the same).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.layouts.layout import Layout

BANKS = 32
BANK_BYTES = 4


def wavefronts(addresses: Sequence[int], size: int) -> int:
    """Times that shared memory is asked for one access of `size` bytes (1 … 16) at each lane's address."""
    lanes = BANKS * BANK_BYTES // max(BANK_BYTES, size)
    total = 0
    for start in range(0, len(addresses), lanes):
        words: dict[int, set[int]] = {}
        for address in addresses[start : start + lanes]:
            for word in range(address // BANK_BYTES, -(-(address + size) // BANK_BYTES)):
                words.setdefault(word % BANKS, set()).add(word)
        total += max(map(len, words.values()))
    return total


def min_wavefronts(size: int, lanes: int = 32) -> int:
    """Times that an access of `size` bytes by `lanes` lanes takes without any conflict."""
    return max(1, lanes * size // (BANKS * BANK_BYTES))


def bank_conflicts(
    layout: Layout, address: Callable[..., int], size: int, run: Sequence[Sequence[int]] = ()
) -> int:
    """Passes beyond the fewest possible, over all accesses of all warps to a tile in `layout`.

    `address(*coordinates)` is the byte of an element, `size` its bytes; `run` lists the registers that
    one access takes, neighbours in memory (default: each on its own).
    """
    groups = run or [[register] for register in range(layout.registers_per_thread)]
    total = 0
    for warp in range(layout.warp_count):
        for registers in groups:
            places = [
                address(*layout.coordinates(registers[0], lane, warp))
                for lane in range(1 << len(layout.lanes))
            ]
            width = size * len(registers)
            total += wavefronts(places, width) - min_wavefronts(width)
    return total
