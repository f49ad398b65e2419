"""Lower layout conversions within warps to shuffles and selects, without shared memory and barriers.

Shuffles: if each warp holds the same part of a tile before and after, a register of the new layout is one register of
the old layout in other lanes: lane l reads from lane m(l) ^ c, with one linear map m for all registers (arXiv
2505.23819, section 5.4, describes the general case). Example: row statistics that a loop loads, one element per lane,
are converted to the layout of MMA fragments; through shared memory this costs two CTA barriers per iteration.

Selects: after a reduction along lanes, all of these have the whole result. In a layout that divides it among them, a
register is one of several, which a lane chooses by bits of its index.

Quads: accumulators become operand A of 8-bit elements by two 4-byte shuffles per eight elements (`layouts/fragments.py`).
Lane q of a quad holds column pairs p0 ... p3, one per group of eight columns. It packs them into words z0 = (p0, p2),
which lanes t < 2 read, and z1 = (p1, p3), which lanes t >= 2 read. Lane t = 2 t1 + t0 reads from lanes 2 t0 and
2 t0 + 1. A lane provides one word per shuffle, so odd lanes provide their words in the opposite order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import xor

from llvmlite import ir
from xdsl.ir import Attribute

from tilewright.backends.llvm.inline_ptx import inline_ptx
from tilewright.backends.llvm.types import I8, I32, Value, elements
from tilewright.backends.nvidia.lower import KernelCodegen
from tilewright.backends.nvidia.lower.reductions import shuffle
from tilewright.backends.nvidia.threads import shuffle_word
from tilewright.layouts import Layout
from tilewright.layouts.fragments import WANTED, blocks_of, exchanged_words
from tilewright.layouts.layout import Vector

_BITS = 5
_MOST_SHUFFLES = 16
"""Above this, shared memory is cheaper, which moves up to four registers per instruction."""

Place = tuple[int, int]
"""(register, lane)."""
Shuffles = tuple[tuple[int, ...], tuple[Place, ...]]
"""Image of each lane bit under the map m, and the (register, lane) that lane 0 reads for each register of the new
layout."""


def _stay_in_warps(source: Layout, target: Layout) -> bool:
    """Whether the warps of two layouts hold the same elements."""
    steps = [[x.group_step(d) for d in range(x.rank)] for x in (source, target)]
    disjoint = source.has_disjoint_bits and target.has_disjoint_bits
    return source.warps == target.warps and steps[0] == steps[1] and disjoint


@lru_cache(maxsize=1024)
def plan_shuffles(source: Layout, target: Layout) -> Shuffles | None:
    """Plan the shuffles of a conversion. None if warps exchange elements, the source register depends on the lane, or
    shared memory is cheaper."""
    if not _stay_in_warps(source, target) or len(target.register_of) > _MOST_SHUFFLES:
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


# ---- selects ----------------------------------------------------------------------------------------

Selects = tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]
"""Bits of the lane's index, and for each register of the new layout the old ones that lanes keep, by the value of
these bits (the first bit is the least significant)."""


@lru_cache(maxsize=1024)
def plan_selects(source: Layout, target: Layout) -> Selects | None:
    """Plan the selects of a conversion. None if a lane needs an element that it does not hold."""
    if not _stay_in_warps(source, target) or source.block != target.block:
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


# ---- quads ------------------------------------------------------------------------------------------

_IN_ORDER, _SWAPPED = (0x5410, 0x7632), (0x1054, 0x3276)
"""`prmt` selectors of the low and the high halves of two words, in order and swapped."""


def convert_in_quads(
    gen: KernelCodegen, source: Layout, target: Layout, parts: list[Value]
) -> list[Value]:
    """Emit the conversion of a tile of 8-bit elements, or of i1, and return its registers in the new layout."""
    b = gen.builder
    made: dict[tuple[int, int], Value] = {}
    words = exchanged_words(source)
    for number, (row, column) in enumerate(blocks_of(target)):
        pair = words[2 * number : 2 * number + 2]
        first, second = (_word(gen, [parts[r] for r in word]) for word in pair)
        odd = gen.threads.at_start("odd lane", lambda at: _bit(gen, at, 0))
        high = gen.threads.at_start("high lane", lambda at: _bit(gen, at, 1))
        near, far = (
            gen.threads.at_start(("quad", n), lambda at, n=n: _from(gen, at, n)) for n in (0, 1)
        )
        one = shuffle_word(b, b.select(odd, second, first), "idx", near)
        other = shuffle_word(b, b.select(odd, first, second), "idx", far)
        for half in (0, 1):
            selector = b.select(
                high, ir.Constant(I32, _SWAPPED[half]), ir.Constant(I32, _IN_ORDER[half])
            )
            word = inline_ptx(b, "prmt.b32 $0, $1, $2, $3;", [one, other, selector], I32)
            parts_of_word = elements(b, b.bitcast(word, ir.VectorType(I8, 4)))
            for c, byte in zip(WANTED[4 * half : 4 * half + 4], parts_of_word, strict=True):
                made[row, column + c] = b.trunc(byte, parts[0].type)
    return [made[row, column] for row, column in target.register_offsets]


def _word(gen: KernelCodegen, codes: list[Value]) -> Value:
    b, word = gen.builder, ir.Constant(I32, 0)
    for i, code in enumerate(codes):
        byte = b.zext(code, I32)
        word = b.or_(word, b.shl(byte, 8 * i))
    return word


def _bit(gen: KernelCodegen, at: Value, number: int) -> Value:
    return at.icmp_unsigned("!=", at.and_(gen.threads.lane, 1 << number), 0)


def _from(gen: KernelCodegen, at: Value, number: int) -> Value:
    """Return the source lane of the first (0) or second (1) shuffle."""
    lane = gen.threads.lane
    low, high = at.and_(lane, 1), at.and_(at.lshr(lane, 1), 1)
    inside = at.or_(at.shl(low, 1), at.xor(high, number))
    return at.or_(at.and_(lane, 28), inside)
