"""Bank conflicts of accesses to shared memory, counted by what the hardware does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.layouts import Layout
from tilewright.layouts.shared import BANK_BYTES, BANKS, wavefronts


def min_wavefronts(size: int, lanes: int = 32) -> int:
    """Wavefronts of an access of `size` bytes by `lanes` lanes without bank conflicts."""
    return max(1, lanes * size // (BANKS * BANK_BYTES))


def bank_conflicts(
    layout: Layout, address: Callable[..., int], size: int, run: Sequence[Sequence[int]] = ()
) -> int:
    """Wavefronts beyond the minimum, over all accesses of all warps to a tile in `layout`.

    `address(*coordinates)` is the byte address of an element of `size` bytes; `run` lists the registers of each vector
    access, adjacent in memory (default: one each).
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
