"""Bulk prefetches into the L2 cache (PTX ISA, `cp.async.bulk.prefetch.L2`)."""

from __future__ import annotations

from typing import cast

from tilewright.backends.llvm.types import I32, I64, Value
from tilewright.backends.nvidia.lower import KernelCodegen
from tilewright.backends.nvidia.lower.tma import elected
from tilewright.dialects import gpu, tile

_GRANULE = 16
"""Addresses and sizes of bulk prefetches are multiples of this many bytes."""


def lower_prefetch(gen: KernelCodegen, op: gpu.PrefetchOp) -> None:
    """One thread of each CTA prefetches a part. Both ends are rounded outwards to granules, each of which holds a byte of
    an element, and lies in one page with it."""
    b, size = gen.builder, tile.element_bytes(cast(tile.PtrType, op.base.type).pointee)
    base = b.ptrtoint(gen.scalar(op.base), I64)
    end = b.add(base, b.mul(gen.scalar(op.count), size))
    end = b.and_(b.add(end, _GRANULE - 1), -_GRANULE)
    at = b.and_(base, -_GRANULE)
    part = -(-op.extent.value.data * size // (gen.blocks * _GRANULE)) + 1
    whole = part * _GRANULE
    warp: Value = gen.threads.uniform_warp()
    if gen.blocks > 1:
        rank = gen.threads.special("cluster.ctarank")
        at = b.add(at, b.mul(b.zext(rank, I64), whole))
        warp = b.urem(warp, gen.warps // gen.blocks)
    left = b.sub(end, at)
    live = b.and_(gen.scalar(op.pred), b.icmp_signed(">", left, 0))
    live = b.and_(live, b.icmp_unsigned("==", warp, 0))
    live = b.and_(live, elected(gen))
    amount = b.trunc(b.select(b.icmp_signed("<", left, whole), left, whole), I32)
    with b.if_then(live):
        gen.emit_convergent_asm("cp.async.bulk.prefetch.L2.global [$0], $1;", [at, amount])
