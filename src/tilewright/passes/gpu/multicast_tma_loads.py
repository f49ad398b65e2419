"""`multicast-tma-loads`: distribute independent iterations over a cluster and multicast their common TMA loads.

A program that is a loop of two independent iterations (`tile.parallel_iterations`: a described matmul's with
`tma_multicast`, or `tl.range(2, parallel_iterations=True)`) runs on a cluster of two CTAs. Their
producer warps issue the same TMA loads in the same order, and a tile whose coordinates do not depend on the iteration
is the same in both: each CTA loads half of it and multicasts it to both. That halves the L2 traffic, which limits
matmuls whose rows start inside 128-byte lines: each row of a tile then touches one more line.

    Change:
        - func.func @k(%x: !tile.ptr<f16>, %n: i64, %slot: i32) {
        + func.func @k(%x: !tile.ptr<f16>, %n: i64, %slot: i32) attributes {gpu.cluster_size = 2 : i32} {
            %zero = arith.constant 0 : i64
            %one = arith.constant 1 : i64
            %two = arith.constant 2 : i64
            %buffer = gpu.local_alloc : !gpu.shared<tensor<64x64xf16>, "64x64x2 dim1 swizzle128", 2>
            scf.for %i = %zero to %two step %one : i64 {
              %full = gpu.mbarrier_init : !gpu.mbarriers<2>
              gpu.producer_warp {
                scf.for %k = %zero to %n step %one : i64 {
                  %elected = gpu.elect : i1
                  scf.if %elected {
                    gpu.tma_load %x[%i, %zero] of[%n, %n] strides(%n) to %buffer[%slot], %full {range_checked = array<i64>} : !tile.ptr<f16>, !gpu.shared<tensor<64x64xf16>, "64x64x2 dim1 swizzle128", 2>, !gpu.mbarriers<2>
        -           gpu.tma_load %x[%k, %zero] of[%n, %n] strides(%n) to %buffer[%slot], %full {range_checked = array<i64>} : !tile.ptr<f16>, !gpu.shared<tensor<64x64xf16>, "64x64x2 dim1 swizzle128", 2>, !gpu.mbarriers<2>
        +           gpu.tma_load %x[%k, %zero] of[%n, %n] strides(%n) to %buffer[%slot], %full {range_checked = array<i64>, gpu.multicast} : !tile.ptr<f16>, !gpu.shared<tensor<64x64xf16>, "64x64x2 dim1 swizzle128", 2>, !gpu.mbarriers<2>
                  }
                }
              }
            } {tile.parallel_iterations = 1 : i32}
            func.return
          }

A stage is refilled when both CTAs have released it. Requires `specialize-warps`. Without it, or if the loads or
their number depend on the iteration, each CTA loads its own tiles.
"""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr, UnitAttr, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from tilewright.dialects import gpu
from tilewright.passes.analysis.effects import has_effect
from tilewright.passes.base import FunctionPass
from tilewright.passes.gpu.analysis.cluster_loops import (
    BLOCKS,
    CLUSTER,
    SHARED,
    Dependence,
    cluster_loop,
)
from tilewright.passes.gpu.analysis.num_ctas import num_ctas_of
from tilewright.targets import Feature, TargetInfo

#: rows after which the order of chunks in a swizzled panel starts again
_ROWS = 8


class MulticastTmaLoads(FunctionPass):
    relevant_ops = ("scf.for",)

    def run(self, function: FuncOp, target: TargetInfo) -> None:
        if not target.has(Feature.MULTICAST):
            return
        if num_ctas_of(function) == 1:
            _spread(function)


def _spread(function: FuncOp) -> None:
    loop = cluster_loop(function)
    if loop is None:
        return
    ops = list(function.body.block.ops)
    if any(_is_output(op) for op in ops[ops.index(loop) + 1 :]):
        return
    function.attributes[CLUSTER] = IntegerAttr(BLOCKS, i32)
    varies = Dependence(loop.body.block.args[0])
    for produce in list(loop.walk()):
        if isinstance(produce, gpu.ProducerWarpOp):
            _share(produce, varies)


def _is_output(op: Operation) -> bool:
    """Whether executing `op` in both CTAs can be noticed."""
    if isinstance(op, gpu.TmaStoreOp):
        return True
    return has_effect(op) and not op.name.startswith("gpu.")


def _share(produce: gpu.ProducerWarpOp, varies: Dependence) -> None:
    """Mark TMA loads that are the same in all CTAs, if all CTAs issue the same number in the same order."""
    inside = list(produce.walk())
    bounds = [v for op in inside if isinstance(op, scf.ForOp) for v in op.operands[:3]]
    if any(varies.of(v) for v in bounds) or any(isinstance(op, scf.WhileOp) for op in inside):
        return
    if any(isinstance(op, scf.IfOp) and varies.of(op.cond) for op in inside):
        return
    for op in inside:
        if isinstance(op, gpu.TmaLoadOp) and halves(op) and not any(map(varies.of, op.operands)):
            op.attributes[SHARED] = UnitAttr()


def halves(op: gpu.TmaLoadOp) -> str:
    """How a TMA load is split between the CTAs: "panels", "lines", or "" if neither is possible."""
    shared = gpu.shared_layout_of(op.buffer)
    if shared.panels % BLOCKS == 0:
        return "panels"
    return "lines" if shared.strided_extent % (BLOCKS * _ROWS) == 0 else ""
