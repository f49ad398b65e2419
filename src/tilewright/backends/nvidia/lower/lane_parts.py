"""Lower sums of which each lane of a row holds a part (`defer-lane-sums`)."""

from __future__ import annotations

from llvmlite import ir

from tilewright.backends.llvm.types import I32
from tilewright.backends.nvidia.lower import KernelCodegen
from tilewright.backends.nvidia.lower.reductions import shuffle
from tilewright.dialects import gpu, tile

_LANE_BITS = 5


def lower_split(gen: KernelCodegen, op: gpu.SplitOverLanesOp) -> None:
    b = gen.builder
    others = b.and_(gen.threads.lane, op.lanes.value.data)
    first = b.icmp_unsigned("==", others, 0)
    parts = gen.parts(op.source)
    gen.bind(op.result, [b.select(first, v, ir.Constant(v.type, -0.0)) for v in parts])


def lower_sum(gen: KernelCodegen, op: gpu.SumOverLanesOp) -> None:
    """A butterfly, so that all lanes get the same bits."""
    b, element = gen.builder, tile.element_of(op.source)
    values = gen.parts(op.source)
    for bit in reversed(range(_LANE_BITS)):
        if op.lanes.value.data >> bit & 1:
            distance = ir.Constant(I32, 1 << bit)
            values = [b.fadd(v, shuffle(gen, v, element, "bfly", distance)) for v in values]
    gen.bind(op.result, values)
