"""Gathers and scatters with a small constant stride as whole vectors and shuffles.

A gather takes one load per lane. Lanes with a stride of 2, 3 or 4 elements, or in reverse order, lie in as many vectors as the stride
says: these are loaded whole (up to the last live lane) and shuffled, or shuffled and stored with masks. The elements between two lanes are never
farther from both than a page's size, so that loading them cannot fault; they are never stored.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from xdsl.dialects import arith
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import Block, Operation, SSAValue

from tilewright.backends.cpu.lower import KernelCodegen
from tilewright.backends.llvm.types import (
    I1,
    I32,
    I64,
    Value,
    clamped,
    concatenated,
    masked_load,
    masked_store,
    shuffle,
    splat,
    undefined,
)
from tilewright.dialects import cpu, tile
from tilewright.passes.analysis.emit import constant_int

_LARGEST = 4


def stride_of(pointers: SSAValue) -> tuple[SSAValue, int] | None:
    """The pointer of the first lane, and the small constant number of elements from lane to lane; None if not so."""
    add = pointers.owner
    if not isinstance(add, tile.AddPtrOp) or not isinstance(add.operands[0].owner, cpu.SplatOp):
        return None
    product = add.operands[1].owner
    if not isinstance(product, arith.MuliOp):
        return None
    iota, factor = (v.owner for v in product.operands)
    if not isinstance(iota, cpu.IotaOp) or not isinstance(factor, cpu.SplatOp):
        return None
    stride = constant_int(factor.operands[0])
    if constant_int(iota.operands[0]) != 0 or stride is None:
        return None
    if cpu.scalar_of(add.operands[1]) not in (i32, i64):  # products of narrower offsets may wrap
        return None
    if stride == 1 or not 1 <= abs(stride) <= _LARGEST:
        return None
    return add.operands[0].owner.operands[0], stride


class _Run:
    """`lanes` elements with a stride that begin at `pointer`: the vectors they lie in and their places there."""

    def __init__(
        self, gen: KernelCodegen, pointer: Value, stride: int, kind: ir.VectorType
    ) -> None:
        self.builder, self.kind, self.stride = gen.builder, kind, stride
        lanes, distance = kind.count, abs(stride)
        #: element of the first vector where each vector begins: the last one ends with the last lane
        self.starts = [lanes * j for j in range(distance - 1)] + [
            (lanes - 1) * distance + 1 - lanes
        ]
        #: lane at each place; -1: none
        self.lanes: list[list[int]] = [[-1] * lanes for _ in self.starts]
        for lane in range(lanes):
            place = distance * (lane if stride > 0 else lanes - 1 - lane)
            vector = min(place // lanes, distance - 1)
            self.lanes[vector][place - self.starts[vector]] = lane
        lowest = 0 if stride > 0 else (lanes - 1) * stride
        self.pointers = [
            self.builder.gep(pointer, [ir.Constant(I64, lowest + start)], source_etype=kind.element)
            for start in self.starts
        ]

    def load(self, align: int, live: Value | None) -> Value:
        """All lanes, or the first `live` (i32) ones; the others are undefined."""
        found: Value | None = None
        count = self.kind.count
        for vector, (pointer, lanes) in enumerate(zip(self.pointers, self.lanes, strict=True)):
            if live is None:
                loaded = self.builder.load(pointer, align=align, typ=self.kind)
            else:
                mask, zero = self._places_of(live, vector), ir.Constant(self.kind, None)
                loaded = masked_load(self.builder, pointer, align, mask, zero)
            before = undefined(self.kind) if found is None else found
            picks = [count + lanes.index(i) if i in lanes else i for i in range(count)]
            found = shuffle(self.builder, before, loaded, picks)
        assert found is not None
        return found

    def _places_of(self, live: Value, vector: int) -> Value:
        """Which places of a vector lie between the first lane and the last of the `live` first ones."""
        b, count = self.builder, self.kind.count
        places = [self.starts[vector] + i for i in range(count)]
        if self.stride < 0:  # the first lane has the last place
            places = [(count - 1) * -self.stride - place for place in places]
        end = b.mul(live, ir.Constant(I32, abs(self.stride)))
        end = b.sub(end, ir.Constant(I32, abs(self.stride) - 1))
        spread = splat(b, end, count)
        return b.icmp_signed(">", spread, ir.Constant(ir.VectorType(I32, count), places))

    def store(self, value: Value, align: int) -> None:
        for pointer, lanes in zip(self.pointers, self.lanes, strict=True):
            spread = shuffle(self.builder, value, None, [max(lane, 0) for lane in lanes])
            kind = ir.VectorType(I1, len(lanes))
            mask = ir.Constant(kind, [int(lane >= 0) for lane in lanes])
            masked_store(self.builder, spread, pointer, align, mask)


def _part(gen: KernelCodegen, kind: ir.VectorType, size: int) -> ir.VectorType:
    """What fits in one register of a vector."""
    lanes = min(kind.count, max(1, gen.target.vector_bits // (8 * size)))
    return ir.VectorType(kind.element, lanes)


def _runs(
    gen: KernelCodegen, pointers: SSAValue, kind: ir.VectorType, size: int
) -> list[_Run] | None:
    """The runs of the registers of a vector, if its lanes have a small stride."""
    found = stride_of(pointers)
    if found is None:
        return None
    part = _part(gen, kind, size)
    registers, rest = divmod(kind.count, part.count)
    if part.count < 2 * abs(found[1]) or rest or registers & (registers - 1):
        return None
    first: Any = gen.scalar(found[0])
    runs = []
    for start in range(0, kind.count, part.count):
        offset = [ir.Constant(I64, start * found[1])]
        place = gen.builder.gep(first, offset, source_etype=kind.element)
        runs.append(_Run(gen, place, found[1], part))
    return runs


def load(
    gen: KernelCodegen, pointers: SSAValue, mask: SSAValue | None, kind: ir.VectorType, size: int
) -> Value | None:
    """The live lanes of a gather, if they have a small stride and are all or the first ones; others are undefined."""
    count = None if mask is None else mask.owner
    if isinstance(count, Operation) and not isinstance(count, cpu.LaneMaskOp):
        return None
    if isinstance(count, Block) or (count is not None and not _has_masks(gen, size)):
        return None
    runs = _runs(gen, pointers, kind, size)
    if runs is None:
        return None
    parts = [run.load(size, _live(gen, count, run, i)) for i, run in enumerate(runs)]
    return concatenated(gen.builder, parts)


def _has_masks(gen: KernelCodegen, size: int) -> bool:
    return gen.target.has("avx512f" if size >= 4 else "avx512bw")


def _live(gen: KernelCodegen, mask: cpu.LaneMaskOp | None, run: _Run, index: int) -> Value | None:
    """How many of the lanes of the run at `index` are live."""
    if mask is None:
        return None
    b, lanes = gen.builder, run.kind.count
    count = b.sub(gen.scalar(mask.count), ir.Constant(I64, index * lanes))
    return b.trunc(clamped(b, count, lanes), I32)


def store(gen: KernelCodegen, pointers: SSAValue, value: Value, size: int) -> bool:
    """Store all lanes of a scatter, if they have a small stride and the target stores with masks."""
    if not _has_masks(gen, size):
        return False
    kind: Any = value.type
    runs = _runs(gen, pointers, kind, size)
    if runs is None:
        return False
    for index, run in enumerate(runs):
        count = run.kind.count
        picks = range(index * count, (index + 1) * count)
        run.store(value if len(runs) == 1 else shuffle(gen.builder, value, None, picks), size)
    return True
