"""Lower intra-warp layout conversions to warp shuffles, without shared memory and barriers.

If each warp holds the same part of a tile before and after, a register of the new layout is one register of the old
layout in other lanes: lane l reads from lane m(l) ^ c, with one linear map m for all registers (arXiv 2505.23819,
section 5.4, describes the general case). Example: row statistics that a loop loads, one element per lane, are converted
to the layout of MMA fragments; through shared memory this costs two CTA barriers per iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from llvmlite import ir
from xdsl.ir import Attribute

from tilewright.backends.llvm.types import I32, Value
from tilewright.backends.nvidia.lower import KernelCodegen
from tilewright.backends.nvidia.lower.reductions import shuffle
from tilewright.layouts import Layout

_BITS = 5
_MOST_SHUFFLES = 16
"""Above this, shared memory is cheaper, which moves up to four registers per instruction."""

Place = tuple[int, int]
"""(register, lane)."""
Shuffles = tuple[tuple[int, ...], tuple[Place, ...]]
"""Image of each lane bit under the map m, and the (register, lane) that lane 0 reads for each register of the new
layout."""


@lru_cache(maxsize=1024)
def plan_shuffles(source: Layout, target: Layout) -> Shuffles | None:
    """Plan the shuffles of a conversion. None if warps exchange elements, the source register depends on the lane, or
    shared memory is cheaper."""
    steps = [[x.group_step(d) for d in range(x.rank)] for x in (source, target)]
    apart = source.has_disjoint_bits and target.has_disjoint_bits
    if source.warps != target.warps or steps[0] != steps[1] or not apart:
        return None
    if len(target.register_of) > _MOST_SHUFFLES:
        return None
    held: dict[tuple[int, ...], list[Place]] = {}
    for register in sorted(set(source.register_of.values())):
        for lane in range(1 << _BITS):
            held.setdefault(source.coordinates(register, lane, 0), []).append((register, lane))

    def places(register: int, lane: int) -> list[Place]:
        return held.get(target.coordinates(register, lane, 0), [])

    for first, start in places(0, 0):
        bits = [
            next((at ^ start for r, at in places(0, 1 << bit) if r == first), None)
            for bit in range(_BITS)
        ]
        known = [bit for bit in bits if bit is not None]
        if len(known) < _BITS:
            continue
        found = [_start(places, r, known) for r in range(target.registers_per_thread)]
        if all(place is not None for place in found):
            return tuple(known), tuple(place for place in found if place is not None)
    return None


def _start(
    places: Callable[[int, int], list[Place]], register: int, bits: Sequence[int]
) -> Place | None:
    """Return the (register, lane) that lane 0 reads such that the lane map is valid for all lanes; None if none is."""
    for chosen, start in places(register, 0):
        lanes = range(1 << _BITS)
        if all((chosen, start ^ _mapped(bits, lane)) in places(register, lane) for lane in lanes):
            return chosen, start
    return None


def _mapped(bits: Sequence[int], lane: int) -> int:
    result = 0
    for bit, image in enumerate(bits):
        result ^= image if lane >> bit & 1 else 0
    return result


def convert_by_shuffles(
    gen: KernelCodegen, plan: Shuffles, parts: list[Value], element: Attribute
) -> list[Value]:
    """Emit the shuffles and return the registers of the new layout."""
    b, (bits, places) = gen.builder, plan
    lane = _lane(gen, bits)
    made: dict[Place, Value] = {}
    for register, start in places:
        if (register, start) not in made:
            at = b.xor(lane, start) if start else lane
            made[register, start] = shuffle(gen, parts[register], element, "idx", at)
    return [made[place] for place in places]


def _lane(gen: KernelCodegen, bits: Sequence[int]) -> Value:
    """Return the source lane m(l) of each lane, without the constant c."""

    def make(b: Value) -> Value:
        total: Value = ir.Constant(I32, 0)
        for bit, image in enumerate(bits):
            mine = b.and_(b.lshr(gen.threads.index, bit), 1)
            if image:
                total = b.xor(total, b.mul(mine, image))
        return total

    return gen.threads.at_start(("shuffled lane", tuple(bits)), make)
