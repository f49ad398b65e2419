"""Tiles that loops carry: elements of 8 and 16 bits as words, accumulators of `wgmma` as it has them, partial results
of reductions.

An element by itself would have a register of its own, and what was loaded as words would be taken apart, hence waited
for, at the end of its iteration.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import i1
from xdsl.ir import SSAValue

from tilewright.backends.llvm.types import Value
from tilewright.backends.nvidia.lower.partial_reductions import (
    combine_rows,
    reduction_of,
    spread_rows,
)
from tilewright.backends.nvidia.lower.vector_access import pack, unpack
from tilewright.backends.nvidia.lower.wgmma import accumulator_registers
from tilewright.dialects import gpu, tile
from tilewright.layouts.fragments import words_of

if TYPE_CHECKING:
    from tilewright.backends.nvidia.codegen import KernelCodegen

_WORD_BYTES = 4


def carried(gen: KernelCodegen, value: SSAValue, to: SSAValue) -> list[Value]:
    """The registers in which a loop carries `value` as its argument or result `to`."""
    if to in gen.paired:
        return accumulator_registers(gen, value)
    if (reduction := reduction_of(gen, to)) is not None:
        return combine_rows(gen, reduction, value)
    parts, each = gen.parts(value), _elements_per_word(to)
    if each == 1:
        return parts
    words = words_of(gen.layout(to), each)
    groups = [[parts[register] for register in word] for word in words]
    return [word for group in groups for word in pack(gen, group, tile.element_of(to))]


def bind_carried(gen: KernelCodegen, value: SSAValue, parts: list[Value]) -> None:
    """Bind an argument or result of a loop to the registers in which it is carried."""
    each = _elements_per_word(value)
    if value in gen.paired:
        gen.pairs[value] = parts
    elif (reduction := reduction_of(gen, value)) is not None:
        gen.values[value] = spread_rows(reduction, gen.layout(value), parts)
    elif each == 1:
        gen.values[value] = parts
    else:
        element, words = tile.element_of(value), words_of(gen.layout(value), each)
        unpacked = [part for word in parts for part in unpack(gen, [word], each, element)]
        registers = [register for word in words for register in word]
        gen.values[value] = [
            part for _, part in sorted(zip(registers, unpacked, strict=True), key=itemgetter(0))
        ]


def _elements_per_word(value: SSAValue) -> int:
    element = tile.element_of(value)
    layout = gpu.layout_of(value) if tile.is_tile(value) else None
    if layout is None or element == i1 or tile.element_bytes(element) >= _WORD_BYTES:
        return 1
    each = _WORD_BYTES // tile.element_bytes(element)
    return 1 if layout.registers_per_thread % each else each
