"""Choose the LLVM values in which loops carry tiles: packed words, accumulators of `wgmma`, partial results of reductions.

An element by itself would have a register of its own, and what was loaded as words would be taken apart, hence waited
for, at the end of its iteration.

Accumulators that loops carry only to reduce them: each thread carries one partial result per row.

A loop that combines tiles elementwise, of which only a reduction by the same operation is used, carries a register
per element, booleans a predicate or a bit of a word. Instead, a thread combines its elements along the reduced axis
at the end of each iteration and carries these partial results; the other elements are the identity meanwhile. Both
orders of combination give the same bits: operations are integer, Boolean, or maxima and minima.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import itemgetter

from llvmlite import ir
from xdsl.dialects import scf
from xdsl.dialects.builtin import i1
from xdsl.ir import BlockArgument, OpResult, SSAValue

from tilewright.backends.llvm.types import Value
from tilewright.backends.nvidia.lower import KernelCodegen
from tilewright.backends.nvidia.lower.reductions import combination, in_thread
from tilewright.backends.nvidia.lower.vector_access import pack, unpack
from tilewright.backends.nvidia.lower.wgmma import accumulator_registers
from tilewright.dialects import gpu, tile
from tilewright.layouts import Layout
from tilewright.layouts.fragments import words_of
from tilewright.passes.analysis.edit import end_of

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
        unpacked = unpack(gen, parts, each * len(parts), element)
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


_OPERANDS_OF_LOOP = 3
"""Bounds and step of `scf.for`, before the initial values."""
"""Words carry several smaller elements, and pairs are combined."""
_IDENTITY: dict[str, Callable[[int], int | float]] = {
    "arith.andi": lambda bits: (1 << bits) - 1,
    "arith.ori": lambda bits: 0,
    "arith.xori": lambda bits: 0,
    "arith.addi": lambda bits: 0,
    "arith.maxsi": lambda bits: -1 << (bits - 1),
    "arith.minsi": lambda bits: (1 << (bits - 1)) - 1,
    "arith.maxui": lambda bits: 0,
    "arith.minui": lambda bits: (1 << bits) - 1,
    "arith.maximumf": lambda bits: -math.inf,
    "arith.minimumf": lambda bits: math.inf,
    "arith.maxnumf": lambda bits: math.nan,
    "arith.minnumf": lambda bits: math.nan,
}
"""What changes nothing, by operation, for a number of bits."""


def reduction_of(gen: KernelCodegen, value: SSAValue) -> tile.ReduceOp | None:
    """The reduction for which a loop carries `value`, its argument or result; None if threads carry all elements."""
    owner = value.owner
    loop = owner.parent_op() if isinstance(value, BlockArgument) else owner
    if not isinstance(loop, scf.ForOp) or not isinstance(value, BlockArgument | OpResult):
        return None
    if not tile.is_tile(value) or value in gen.paired:
        return None
    found = _of_loop(loop, value.index - isinstance(value, BlockArgument))
    element = tile.element_of(value)
    if found is None or (element != i1 and tile.element_bytes(element) < _WORD_BYTES):
        return None
    layout = gen.layout(value)
    count = len(layout.register_of)
    rows = len(_rows(layout, found.axis.value.data))
    return found if rows < count == layout.registers_per_thread else None


def _of_loop(loop: scf.ForOp, number: int) -> tile.ReduceOp | None:
    """The reduction of what a loop carries under this number, if it is all that its value is for."""
    found = _of_uses(loop.results[number])
    name = combination(found.combine.block) if found is not None else None
    if name not in _IDENTITY:
        return None
    block = loop.body.block
    value: SSAValue = block.args[number + 1]
    while True:
        (use, *others) = value.uses or (None,)
        if use is None or others:
            return None
        user = use.operation
        if user is end_of(block):
            return found if use.index == number else None
        if user.name != name or user.parent is not block:
            return None
        value = user.results[0]


def _of_uses(value: SSAValue) -> tile.ReduceOp | None:
    """The reduction that uses `value`, possibly after other loops; None if the uses differ."""
    found: tile.ReduceOp | None = None
    for use in value.uses:
        match user := use.operation:
            case tile.ReduceOp() if combination(user.combine.block):
                this = user
            case scf.ForOp() if use.index >= _OPERANDS_OF_LOOP:
                this = _of_loop(user, use.index - _OPERANDS_OF_LOOP)
            case _:
                return None
        if this is None or (found is not None and _form(this) != _form(found)):
            return None
        found = this
    return found


def _form(op: tile.ReduceOp) -> tuple[int, str | None]:
    return op.axis.value.data, combination(op.combine.block)


def _rows(layout: Layout, axis: int) -> list[list[int]]:
    """Registers of a thread by the element of the reduced tile that they belong to."""
    rows: dict[tuple[int, ...], list[int]] = {}
    for register, offset in enumerate(layout.register_offsets):
        rows.setdefault(offset[:axis] + offset[axis + 1 :], []).append(register)
    return list(rows.values())


def combine_rows(gen: KernelCodegen, op: tile.ReduceOp, value: SSAValue) -> list[Value]:
    """One partial result of `op` per row of a thread's elements of `value`."""
    groups = in_thread(gen, op, gen.layout(value), [gen.parts(value)])
    return [part for group in groups.values() for part in group]


def spread_rows(op: tile.ReduceOp, layout: Layout, parts: list[Value]) -> list[Value]:
    """The registers of a tile that `parts` are the partial results of: each in the first element of its row."""
    name = combination(op.combine.block)
    kind = parts[0].type
    bits = kind.width if isinstance(kind, ir.IntType) else 0
    identity = ir.Constant(kind, _IDENTITY[name or ""](bits))
    registers: list[Value] = [identity] * layout.registers_per_thread
    for row, part in zip(_rows(layout, op.axis.value.data), parts, strict=True):
        registers[row[0]] = part
    return registers
