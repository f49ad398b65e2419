"""Lower cluster barriers and distributed shared memory for programs of several CTAs.

Tiles are exchanged through the shared memory of the cluster's first CTA, which all threads can access. Partial results
of reductions, which every warp needs, are written to each CTA instead. A CTA then reads its own shared memory and need
not wait for readers in other CTAs before it exits (PTX ISA, `mapa`, `st.shared::cluster`, `barrier.cluster`). If
reductions are the only exchanges, mbarriers track the partial results and no cluster barrier is needed
(`cluster_exchange`).
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from tilewright.backends.llvm.types import I32, Builder, Value, call
from tilewright.backends.nvidia.lower import KernelCodegen

SHARED, CLUSTER_SHARED = ir.PointerType(None, 3), ir.PointerType(None, 7)


def arrive(gen: KernelCodegen, b: Builder, relaxed: bool = False) -> None:
    """Arrive at the cluster barrier with release semantics, or without (`relaxed`) if there are no prior writes."""
    _step(gen, b, "arrive.relaxed" if relaxed else "arrive")


def wait(gen: KernelCodegen, b: Builder) -> None:
    """Wait until all non-exited threads of the cluster have arrived, with acquire semantics."""
    _step(gen, b, "wait")


def synchronize(gen: KernelCodegen) -> None:
    """Synchronize all non-exited threads of the cluster and order their shared-memory accesses."""
    gen.has_cluster_barrier = True
    arrive(gen, gen.builder)
    wait(gen, gen.builder)


def _step(gen: KernelCodegen, b: Builder, step: str) -> None:
    call(b, f"llvm.nvvm.barrier.cluster.{step}.aligned", ir.VoidType())


def wait_for_start(gen: KernelCodegen) -> None:
    """Wait until all CTAs of the cluster have started. Each CTA arrives at its start, unless there is a barrier in between:
    threads may not arrive twice before they wait."""
    if gen.has_cluster_barrier:
        synchronize(gen)
        return

    def say(b: Builder) -> Value:
        arrive(gen, b, relaxed=True)
        return ir.Constant(I32, 0)

    gen.has_cluster_barrier = True
    gen.threads.at_start("cluster started", say)
    wait(gen, gen.builder)


def shared_of(b: Builder, pointer: Value, rank: Value) -> Value:
    """Map `pointer` into this CTA's shared memory to the same offset in the CTA with rank `rank` (`mapa`)."""
    return call(b, "llvm.nvvm.mapa.shared.cluster", CLUSTER_SHARED, pointer, rank)


def shared_of_first(gen: KernelCodegen) -> Value:
    """Return the shared memory that all threads of the program can access: that of the cluster's first CTA."""
    space = gen.space()
    if gen.blocks == 1:
        return space
    gen.reaches_first_cta, first = True, ir.Constant(I32, 0)
    return gen.threads.at_start("mapa", lambda b: shared_of(b, space, first))


def for_each_cta(gen: KernelCodegen, pointer: Value, store: Callable[[Value], None]) -> None:
    """Call `store` with the address of `pointer` in every CTA of the cluster, one lane per destination CTA."""
    b, lane = gen.builder, gen.threads.lane
    rank = b.and_(lane, gen.blocks - 1)  # LLVM may hoist `mapa` out of the branch
    with b.if_then(b.icmp_unsigned("<", lane, gen.blocks)):
        store(shared_of(b, pointer, rank))
