"""Changes of layout that need no shared memory.

Each thread may have what it needs, in other registers. Or its warp has: `shfl.sync` gives each lane a register
of a lane of its choice, which is enough where the register is the same for all lanes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tilewright.layouts.layout import Layout, Vector


@dataclass(frozen=True)
class Shuffles:
    """Register r of lane l is register `sources[r][0]` of lane `image(l) ^ sources[r][1]`.

    `lanes[i]` is what bit i of a lane's number contributes to `image`. `together`: neighbouring registers, a
    power of two, that come from neighbouring registers of one lane.
    """

    lanes: tuple[int, ...]
    sources: tuple[tuple[int, int], ...]
    together: int

    def in_a_word(self, size: int) -> int:
        """Elements of `size` bytes that are exchanged together."""
        return min(self.together, max(1, _WORD // size))


_WORD = 4
_MOST = 64
"""Shuffles of one tile: more than these cost more than shared memory."""


def same_threads(source: Layout, target: Layout) -> bool:
    """Whether each thread already has, in some register, every element it needs."""
    if source.lanes != target.lanes or source.warps != target.warps:
        return False
    if any(source.group_step(d) != target.group_step(d) for d in range(source.rank)):
        return False
    return all(o in source.register_of for o in target.register_offsets)


def within_warps(source: Layout, target: Layout, size: int) -> Shuffles | None:
    """The shuffles by which a tile of elements of `size` bytes comes from `source` to `target`; None where it
    does not, or better goes through shared memory."""
    found = shuffles(source, target)
    return found if found and len(found.sources) // found.in_a_word(size) <= _MOST else None


@lru_cache(maxsize=1024)
def shuffles(source: Layout, target: Layout) -> Shuffles | None:
    """How a tile comes from `source` to `target` inside its warps; None where it does not."""
    same = source.warps == target.warps and source.groups == target.groups
    if not same or (source.along, source.repeats) != (target.along, target.repeats):
        return None
    solve = _Solver(source)
    images: list[int] = []
    for vector in target.lanes:
        found = solve(vector)
        if found is None or found[0]:
            return None
        images.append(found[1])
    inside: list[tuple[int, int]] = []
    for offset in target.register_offsets[: 1 << len(target.registers)]:
        found = solve(offset)
        if found is None:
            return None
        inside.append(found)
    copies = target.registers_per_thread >> len(target.registers)
    size = 1 << len(source.registers)
    sources = tuple((copy * size + r, lane) for copy in range(copies) for r, lane in inside)
    together = 1
    while _in_runs(sources, 2 * together):
        together *= 2
    return Shuffles(tuple(images), sources, together)


def _in_runs(sources: tuple[tuple[int, int], ...], length: int) -> bool:
    """Whether each `length` neighbours come from as many neighbours."""
    return len(sources) % length == 0 and all(
        source == (sources[i - i % length][0] + i % length, sources[i - i % length][1])
        for i, source in enumerate(sources)
    )


class _Solver:
    """Register and lane of one warp that contribute a given vector of coordinates."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._lanes = len(layout.lanes)
        self._pivots: dict[int, tuple[int, int]] = {}
        for bit, vector in enumerate((*layout.lanes, *layout.registers)):
            value, index = self._reduced(self._flat(vector), 1 << bit)
            if value:
                self._pivots[value.bit_length() - 1] = value, index

    def _flat(self, vector: Vector) -> int:
        value = 0
        for coordinate, extent in zip(vector, self._layout.block, strict=True):
            value = value * extent + coordinate
        return value

    def _reduced(self, value: int, index: int) -> tuple[int, int]:
        """`value` less what vectors in the basis explain of it, and these vectors beside `index`."""
        left = 0
        while value:
            found = self._pivots.get(value.bit_length() - 1)
            if found is None:
                left = value
                break
            value, index = value ^ found[0], index ^ found[1]
        return left, index

    def __call__(self, vector: Vector) -> tuple[int, int] | None:
        left, index = self._reduced(self._flat(vector), 0)
        return None if left else (index >> self._lanes, index & (1 << self._lanes) - 1)
