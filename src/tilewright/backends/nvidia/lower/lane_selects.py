"""Lower layout conversions in which each lane keeps some of the registers it has to selects.

After a reduction along lanes, all of these have the whole result. In a layout that divides it among them, a register is
one of several, which a lane chooses by bits of its index: neither shuffles nor shared memory are needed.
"""

from __future__ import annotations

from functools import lru_cache
from operator import xor

from tilewright.backends.llvm.types import Value
from tilewright.backends.nvidia.lower import KernelCodegen
from tilewright.layouts import Layout
from tilewright.layouts.layout import Vector

Selects = tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]
"""Bits of the lane's index, and for each register of the new layout the old ones that lanes keep, by the value of
these bits (the first bit is the least significant)."""


@lru_cache(maxsize=1024)
def plan_selects(source: Layout, target: Layout) -> Selects | None:
    """Plan the selects of a conversion. None if a lane needs an element that it does not hold."""
    steps = [[x.group_step(d) for d in range(x.rank)] for x in (source, target)]
    disjoint = source.has_disjoint_bits and target.has_disjoint_bits
    if source.warps != target.warps or steps[0] != steps[1] or not disjoint:
        return None
    if source.block != target.block:
        return None
    moved = [_difference(a, b) for a, b in zip(source.lanes, target.lanes, strict=True)]
    bits = tuple(bit for bit, vector in enumerate(moved) if any(vector))
    held: list[tuple[int, ...]] = []
    for offset in target.register_offsets:
        places = [offset]
        for bit in bits:
            places += [_difference(place, moved[bit]) for place in places]
        if any(place not in source.register_of for place in places):
            return None
        held.append(tuple(source.register_of[place] for place in places))
    return bits, tuple(held)


def _difference(one: Vector, other: Vector) -> Vector:
    return tuple(map(xor, one, other))


def convert_by_selects(gen: KernelCodegen, plan: Selects, parts: list[Value]) -> list[Value]:
    """Emit the selects and return the registers of the new layout."""
    b, (bits, held) = gen.builder, plan
    upper = [b.icmp_unsigned("!=", b.and_(gen.threads.lane, 1 << bit), 0) for bit in bits]
    found: list[Value] = []
    for registers in held:
        values = [parts[register] for register in registers]
        for condition in upper:
            pairs = zip(values[::2], values[1::2], strict=True)
            values = [b.select(condition, high, low) for low, high in pairs]
        found += values
    return found
