"""Convert accumulators to operand A of 8-bit elements: two 4-byte shuffles per eight elements (`layouts/fragments.py`).

Lane q of a quad holds column pairs p0 ... p3, one per group of eight columns. It packs them into words z0 = (p0, p2),
which lanes t < 2 read, and z1 = (p1, p3), which lanes t >= 2 read. Lane t = 2 t1 + t0 reads from lanes 2 t0 and
2 t0 + 1. A lane provides one word per shuffle, so odd lanes provide their words in the opposite order.
"""

from __future__ import annotations

from llvmlite import ir

from tilewright.backends.llvm.inline_ptx import inline_ptx
from tilewright.backends.llvm.types import I8, I32, Value, elements
from tilewright.backends.nvidia.lower import KernelCodegen
from tilewright.backends.nvidia.threads import shuffle_word
from tilewright.layouts import Layout
from tilewright.layouts.fragments import WANTED, blocks_of, exchanged_words

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
