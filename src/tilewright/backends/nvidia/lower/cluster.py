"""Programs of several CTAs: their barriers, and the shared memory that they reach in each other.

Exchanges of tiles go through the shared memory of the cluster's first CTA, which all threads reach. What every
warp needs of every other one (the parts of a reduction) is written to each CTA instead, so that it is read from its
own shared memory, and nobody has to wait for readers of other CTAs before it ends (PTX ISA, `mapa`,
`st.shared::cluster`, `barrier.cluster`). Where reductions are all that is exchanged, memory barriers count those
parts, and no barrier of the cluster is needed for them (`cluster_exchange`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from llvmlite import ir

from tilewright.backends.llvm.types import Builder, Value

if TYPE_CHECKING:
    from tilewright.backends.nvidia.codegen import KernelCodegen

I32 = ir.IntType(32)
SHARED, CLUSTER_SHARED = ir.PointerType(None, 3), ir.PointerType(None, 7)


def arrive(gen: KernelCodegen, b: Builder, relaxed: bool = False) -> None:
    """This thread is at the cluster's barrier; what it wrote is released, unless it wrote nothing (`relaxed`)."""
    _step(gen, b, "arrive.relaxed" if relaxed else "arrive")


def wait(gen: KernelCodegen, b: Builder) -> None:
    """Wait until all threads of the cluster that have not ended have arrived; what they released is seen."""
    _step(gen, b, "wait")


def synchronize(gen: KernelCodegen) -> None:
    """Synchronize all threads of the cluster that have not ended; shared memory before is seen after."""
    arrive(gen, gen.builder)
    wait(gen, gen.builder)


def _step(gen: KernelCodegen, b: Builder, step: str) -> None:
    kind = ir.FunctionType(ir.VoidType(), [])
    b.call(gen.declare(f"llvm.nvvm.barrier.cluster.{step}.aligned", kind), [])


def wait_for_start(gen: KernelCodegen) -> None:
    """Wait until all CTAs of the cluster have started, which they say as soon as they do."""

    def say(b: Builder) -> Value:
        arrive(gen, b, relaxed=True)
        return ir.Constant(I32, 0)

    gen.threads.at_start("cluster started", say)
    wait(gen, gen.builder)


def shared_of(gen: KernelCodegen, b: Builder, pointer: Value, rank: Value) -> Value:
    """The address that `pointer`, into this CTA's shared memory, is in the CTA of number `rank`."""
    fn = gen.declare(
        "llvm.nvvm.mapa.shared.cluster", ir.FunctionType(CLUSTER_SHARED, [SHARED, I32])
    )
    return b.call(fn, [pointer, rank])


def shared_of_first(gen: KernelCodegen) -> Value:
    """Shared memory that all threads of the program reach: of several CTAs, that of the first."""
    space = gen.space()
    if gen.blocks == 1:
        return space
    gen.reaches_first_cta, first = True, ir.Constant(I32, 0)
    return gen.threads.at_start("mapa", lambda b: shared_of(gen, b, space, first))


def for_each_cta(gen: KernelCodegen, pointer: Value, store: Callable[[Value], None]) -> None:
    """Let `store` write to the place of `pointer` in every CTA: a lane of each warp does it for each."""
    b, lane = gen.builder, gen.threads.lane
    rank = b.and_(lane, ir.Constant(I32, gen.blocks - 1))  # LLVM may take `mapa` out of the branch
    with b.if_then(b.icmp_unsigned("<", lane, ir.Constant(I32, gen.blocks))):
        store(shared_of(gen, b, pointer, rank))
