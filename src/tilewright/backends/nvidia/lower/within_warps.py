"""What lanes of a warp give each other (PTX ISA, `shfl.sync`): registers, and tiles in other layouts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir
from xdsl.ir import Attribute

from tilewright.backends.llvm.types import Value
from tilewright.backends.nvidia.lower.words import pack, register, storage, unpack
from tilewright.dialects import gpu, tile
from tilewright.layouts.shuffles import Shuffles

if TYPE_CHECKING:
    from tilewright.backends.nvidia.codegen import KernelCodegen

I32 = ir.IntType(32)


def shuffle(gen: KernelCodegen, value: Value, element: Attribute, mode: str, lane: Value) -> Value:
    """A register of another lane: `mode` "bfly" (lane xor), "up" (lane minus) or "idx"."""
    b = gen.builder
    bits = storage(gen, value, element)
    width = bits.type.width
    if width == 64:
        halves = b.bitcast(bits, ir.VectorType(I32, 2))
        result: Value = ir.Constant(ir.VectorType(I32, 2), ir.Undefined)
        for i in range(2):
            part = b.extract_element(halves, ir.Constant(I32, i))
            result = b.insert_element(
                result, shuffle_word(gen, part, mode, lane), ir.Constant(I32, i)
            )
        return register(gen, b.bitcast(result, ir.IntType(64)), element)
    moved = shuffle_word(gen, b.zext(bits, I32) if width < 32 else bits, mode, lane)
    return register(gen, b.trunc(moved, bits.type) if width < 32 else moved, element)


def shuffle_word(gen: KernelCodegen, word: Value, mode: str, lane: Value) -> Value:
    """A register of 32 bits of another lane, as for `shuffle`."""
    kind = ir.FunctionType(I32, [I32] * 4)
    fn = gen.declare(f"llvm.nvvm.shfl.sync.{mode}.i32", kind)
    clamp = ir.Constant(I32, 0 if mode == "up" else 31)
    return gen.builder.call(fn, [ir.Constant(I32, -1), word, lane, clamp])


# ---- tiles ----


def convert_within_warps(gen: KernelCodegen, op: gpu.ConvertOp, found: Shuffles) -> None:
    """Each word of the result from one lane, that of this lane's number with some bits changed."""
    b, element = gen.builder, tile.element_of(op.source)
    parts = gen.parts(op.source)
    each = found.in_a_word(tile.element_bytes(element))
    image = gen.threads.lane_image(found.lanes)
    words: dict[int, Value] = {}
    made: list[Value] = []
    for first, moved in found.sources[::each]:
        lane = b.xor(image, ir.Constant(I32, moved)) if moved else image
        if each == 1:
            made.append(shuffle(gen, parts[first], element, "idx", lane))
            continue
        if first not in words:
            (word,) = pack(gen, parts[first : first + each], element)
            words[first] = word if word.type == I32 else b.zext(word, I32)
        word = shuffle_word(gen, words[first], "idx", lane)
        narrow = ir.IntType(8 * each * tile.element_bytes(element))
        word = word if narrow == I32 else b.trunc(word, narrow)
        made += unpack(gen, [word], each, element)
    gen.bind(op.result, made)
