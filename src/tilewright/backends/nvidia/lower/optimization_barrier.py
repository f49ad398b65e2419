"""Lower optimization barriers, which force LLVM and `ptxas` to rematerialize values instead of keeping them live.

CSE in LLVM and `ptxas` merges equal computations regardless of the distance between them, so the result stays in
registers. The barrier xors each word with a zero that is unknown at compile time: `%ntid.z - 1`, shifted by the number
of the barrier. A row of 64 bf16 elements per thread (softmax, 512 threads) needs 72 registers with the barrier and
more than 80 without. Words with two narrow elements stay packed.
"""

from __future__ import annotations

from llvmlite import ir
from llvmlite.ir import instructions as llvm

from tilewright.backends.llvm.inline_ptx import inline_ptx
from tilewright.backends.llvm.types import I32, Builder, Value
from tilewright.backends.nvidia.lower import KernelCodegen
from tilewright.backends.nvidia.lower.vector_access import pack, unpack
from tilewright.dialects import tile

_WORD = 4
_MAX_SHIFT = 31


def lower_optimization_barrier(gen: KernelCodegen, op: tile.OptimizationBarrierOp) -> None:
    element = tile.element_of(op.source)
    values = gen.parts(op.source)
    size = tile.element_bytes(element)
    each = max(1, _WORD // size)
    if (
        size > _WORD
        or isinstance(values[0].type, ir.PointerType)
        or values[0].type == ir.IntType(1)
    ):
        gen.bind(op.result, values)
        return
    zero = _unknown_zero(gen, op.number.value.data)
    found: list[Value] = []
    for start in range(0, len(values), each):
        part = values[start : start + each]
        found += _of_unknown_bits(gen, part, zero, op)
    gen.bind(op.result, found)


def _of_unknown_bits(
    gen: KernelCodegen, part: list[Value], zero: Value, op: tile.OptimizationBarrierOp
) -> list[Value]:
    """Apply the barrier to the values of one 32-bit word."""
    element = tile.element_of(op.source)
    word = _loaded_word(part)
    if word is None:
        (word,) = pack(gen, part, element)
    b, width = gen.builder, word.type.width
    held = b.xor(b.zext(word, I32) if width < I32.width else word, zero)
    gen.held |= {word, held}
    return unpack(
        gen, [b.trunc(held, word.type) if width < I32.width else held], len(part), element
    )


def _loaded_word(part: list[Value]) -> Value | None:
    """Return the loaded word whose elements, in order, are the values; None if there is no such word."""
    words: set[Value] = set()
    for i, value in enumerate(part):
        if isinstance(value, llvm.CastInstr) and value.opname == "bitcast":
            value = value.operands[0]
        if not isinstance(value, llvm.ExtractElement):
            return None
        vector, index = value.operands
        if not isinstance(vector, llvm.CastInstr) or index.constant != i:
            return None
        words.add(vector.operands[0])
    (word, *others) = words
    is_word = isinstance(word.type, ir.IntType) and word.type.width == I32.width
    return word if is_word and not others else None


def _unknown_zero(gen: KernelCodegen, number: int) -> Value:
    """Return a distinct opaque zero per barrier number. It is zero because the CTA's z extent is 1."""

    def make(b: Builder) -> Value:
        layers = inline_ptx(b, "mov.u32 $0, %ntid.z;", (), I32)
        return b.sub(layers, 1)

    zero = gen.threads.at_start("unknown zero", make)
    shift = min(number, _MAX_SHIFT)
    return gen.threads.at_start(("unknown zero", number), lambda b: b.shl(zero, shift))
