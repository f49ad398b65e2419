"""The smallest or largest number of a warp and its index (`tl.argmin`), by two `redux.sync` instead of five rounds of
shuffles: of a number's bits in an order of integers, then of the indices of those that have it.

Zeros of both signs are equal, and NaNs, for which the combination depends on its order, are ordered by their bits.
"""

from __future__ import annotations

from llvmlite import ir
from xdsl.dialects.builtin import f32, i32
from xdsl.ir import Block, Operation, SSAValue

from tilewright.backends.llvm.types import F32, I32, Value, call
from tilewright.backends.nvidia.lower import KernelCodegen
from tilewright.backends.nvidia.threads import shuffle_word
from tilewright.dialects import tile

_EVERYONE = -1
_LARGEST = (1 << 31) - 1
_SIGN_BIT = 31
_ORDERS = {"olt": "min", "ogt": "max", "slt": "min", "sgt": "max"}


def order_of(block: Block) -> str | None:
    """ "min" or "max" if a reduction's combination keeps the smaller or larger of two numbers, fp32 or i32, of equal ones
    that with the smaller index; None for others."""
    args, end = list(block.args), block.last_op
    if [a.type for a in args] not in ([f32, i32] * 2, [i32] * 4) or end is None:
        return None
    value, index, other, other_index = args
    chosen = [_operands(v, tile.SelectOp.name) for v in end.operands]
    condition = chosen[0][0] if chosen[0] else value
    if chosen != [[condition, value, other], [condition, index, other_index]]:
        return None
    sides = _operands(condition, "arith.ori")
    for wins, ties in (sides, sides[::-1]) if len(sides) == 2 else ():
        order = _ORDERS.get(_compares(wins, value, other) or "")
        both = _operands(ties, "arith.andi")
        for equal, first in (both, both[::-1]) if len(both) == 2 else ():
            is_equal = _compares(equal, value, other) in ("oeq", "eq")
            if order and is_equal and _compares(first, index, other_index) == "slt":
                return order
    return None


def _operands(value: SSAValue, name: str) -> list[SSAValue]:
    owner = value.owner
    return list(owner.operands) if isinstance(owner, Operation) and owner.name == name else []


def _compares(value: SSAValue, left: SSAValue, right: SSAValue) -> str | None:
    """The predicate with which `value` compares `left` and `right`."""
    owner = value.owner
    if isinstance(owner, tile.CmpFOp | tile.CmpIOp) and [*owner.operands] == [left, right]:
        return owner.predicate.data
    return None


def reduce_warp(gen: KernelCodegen, block: Block, group: list[Value], order: str) -> list[Value]:
    """The number and the index that a combination of this `order` gives of all lanes."""
    b, (value, index) = gen.builder, group
    key = _key(gen, value) if value.type == F32 else value
    best = redux(gen, order, key)
    has_it = b.icmp_signed("==", key, best)
    first = redux(gen, "min", b.select(has_it, index, _LARGEST))
    if value.type == I32:
        return [best, first]
    owner = block.parent_op()
    if isinstance(owner, tile.ReduceOp) and not owner.results[0].uses:
        return [b.bitcast(_flipped(gen, best), F32), first]  # zeros have lost their sign
    is_first = b.and_(has_it, b.icmp_signed("==", index, first))
    lane = b.cttz(ballot(gen, is_first), ir.Constant(ir.IntType(1), 1))
    bits = shuffle_word(b, b.bitcast(value, I32), "idx", lane)
    return [b.bitcast(bits, F32), first]


def _key(gen: KernelCodegen, value: Value) -> Value:
    """An integer for each fp32 number, in the same order."""
    b = gen.builder
    return _flipped(gen, b.bitcast(b.fadd(value, ir.Constant(F32, 0.0)), I32))


def _flipped(gen: KernelCodegen, bits: Value) -> Value:
    """The lower bits of negative numbers inverted; its own inverse."""
    b = gen.builder
    sign = b.ashr(bits, _SIGN_BIT)
    return b.xor(bits, b.and_(sign, _LARGEST))


def redux(gen: KernelCodegen, kind: str, word: Value) -> Value:
    """An i32 of all lanes combined by one instruction (PTX ISA, `redux.sync`)."""
    every_lane = ir.Constant(I32, _EVERYONE)
    return call(gen.builder, f"llvm.nvvm.redux.sync.{kind}", I32, word, every_lane)


def ballot(gen: KernelCodegen, condition: Value) -> Value:
    """The lanes in which an i1 is true, as bits of an i32."""
    every_lane = ir.Constant(I32, _EVERYONE)
    return call(gen.builder, "llvm.nvvm.vote.ballot.sync", I32, every_lane, condition)
