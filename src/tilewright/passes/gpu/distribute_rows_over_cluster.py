"""`distribute-rows-over-cluster`: distribute rows that exceed a CTA's registers over the CTAs of a cluster.

A program that reduces a row and then needs its elements again (softmax, a norm, the gradient of cross entropy) reads
it once where it stays in registers in between. What one CTA cannot hold, `strip-mine-tiles` reads again for every
reduction, or keeps in the shared memory of one SM. This pass gives such a program the CTAs of a cluster: each
holds a slice of the row, and the parts of a reduction are exchanged through distributed shared memory. It chooses
`num_ctas` as a launch may; where the launch chose, programs are left alone.

    Change:
        - func.func @k(%p: !tile.ptr<f32>, %one: i64) attributes {gpu.num_warps = 4 : i32} {
        + func.func @k(%p: !tile.ptr<f32>, %one: i64) attributes {gpu.num_warps = 64 : i32, gpu.num_ctas = 4 : i32, gpu.ctas_per_sm = 2 : i32} {
            %x = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<65536xf32>
            %m = "tile.reduce"(%x) <{axis = 0 : i32}> ({
            ^bb0(%a: f32, %b: f32):
              %c = arith.maximumf %a, %b : f32
              tile.yield %c : f32
            }) : (tensor<65536xf32>) -> f32
            %s = tile.splat %m : f32 to tensor<65536xf32>
            %y = arith.subf %x, %s : tensor<65536xf32>
            tile.store_view %y, %p ["strided"] strides(%one) {limited = array<i64>} : tensor<65536xf32>, !tile.ptr<f32>
            func.return
          }

Cost model: the words of 4 bytes that wait at the same time for a reduction (`analysis/held_rows.py`) decide.
A CTA of `warps_per_cta` warps takes up to `words_per_cta` of them, so that two of them share an SM (`gpu.ctas_per_sm`)
and one loads while the other stores (`words_per_cta_in_loops` where each iteration of a loop would wait for an exchange);
a cluster has as many CTAs as that needs, up to `max_portable_ctas`, which every chip with clusters can place, or up to
`max_ctas`, if two of those share an SM and no tiles (weights) are loaded behind a reduction, which take more registers (NVIDIA
H100, 262,144 fp32 columns in 8 and 16 CTAs: cross entropy 2.74 and 2.89 TB/s, RMS norm 2.85 and 2.84). Where the registers
of a cluster do not hold the row either there are twice as many CTAs, and rows beyond that
stay with `strip-mine-tiles`, as does everything where this pass is disabled. A program that needs one CTA, more than half
of its registers and was launched with more warps gets as many as one of a cluster. What all programs load (weights) is not
held while a reduction is waited for: it is loaded where it is used. Reductions that do not wait for each other become
one, of several tiles, so that one exchange does for both.

Legality: programs count as before (`program_id` is the cluster's number, the launcher multiplies the grid), and
threads of a cluster synchronize at its barriers
([ADR 5](../adr/0005-num-ctas-distributes-one-program-over-a-cluster.md)). Programs with dots,
scans, atomics, barriers, inline assembly, or tiles that change their shape keep one CTA: they would exchange more
than the parts of reductions. So do tiles of several rows, and loops whose iterations wait for reductions of the ones
before (online softmax): an exchange in each would cost more than what is read again. Before `strip-mine-tiles`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import AnyFloat, IntegerAttr, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import tile
from tilewright.ir.walk import ancestors
from tilewright.passes.analysis.effects import is_pure_elementwise
from tilewright.passes.base import FunctionPass
from tilewright.passes.gpu.analysis.held_rows import (
    HeldRows,
    late_operations,
    merge_reductions,
    sink,
)
from tilewright.passes.gpu.analysis.num_ctas import (
    BLOCKS,
    CTAS_PER_SM,
    WARPS,
    num_ctas_of,
    warps_of,
)
from tilewright.passes.gpu.analysis.registers import (
    PARTITIONS,
    REGISTERS_PER_PARTITION,
    max_registers_per_thread,
)
from tilewright.targets import Feature, TargetInfo

_LANES = 32
_OTHER_REGISTERS = 32
"""Registers of a thread for addresses, counters and what is in the works."""
_FEW_OTHER_REGISTERS = 24
"""The same where more CTAs then share an SM, so that some load while others store."""
_ALLOWED = (
    tile.View, tile.LoadOp, tile.StoreOp, tile.ReduceOp, tile.YieldOp, tile.ProgramIdOp,
    tile.NumProgramsOp, tile.ArangeOp, tile.SplatOp, tile.BroadcastOp, tile.ExpandDimsOp, tile.AddPtrOp,
    tile.AssumeOp, tile.ClaimOp, arith.ConstantOp, scf.ForOp, scf.IfOp, scf.WhileOp, scf.YieldOp, scf.ConditionOp,
    func.ReturnOp,
)  # fmt: skip
"""Operations, besides element-wise ones, that every CTA does on its slice, or all do alike."""


@dataclass(frozen=True)
class DistributeRowsOverCluster(FunctionPass):
    relevant_ops = ("tile.reduce",)
    words_per_cta: int = 16384
    """Words of 4 bytes that a CTA holds in registers, where there is a choice."""
    words_per_cta_in_loops: int = 49152
    """The same where a loop reduces in each iteration, which waits for an exchange each time: as many as one has
    registers for."""
    warps_per_cta: int = 16
    """Warps of each CTA of a cluster."""
    max_portable_ctas: int = 0
    """CTAs of a cluster, where there is a choice; 0: as many as every chip of the target can place."""
    max_ctas: int = 16
    """CTAs of a cluster that a chip may place, where fewer have no registers for the row."""

    def run(self, function: FuncOp, target: TargetInfo) -> None:
        if not target.has(Feature.CLUSTERS):
            return
        if num_ctas_of(function) > 1 or not is_distributable(function):
            return
        late = late_operations(function)
        portable = self.max_portable_ctas or target.sm.max_cluster
        share = self.words_per_cta_in_loops if _reduces_in_loops(function) else self.words_per_cta
        words = HeldRows(function, late).words()
        if words <= self.max_ctas * share and not _loads_behind_reductions(function, late):
            portable = self.max_portable_ctas or self.max_ctas
        ctas = self._ctas(words, portable, share)
        if ctas > 1 or self._fills_cta(function, words):
            merge_reductions(function)
            sink(late_operations(function))
            function.attributes[WARPS] = IntegerAttr(ctas * self.warps_per_cta, i32)
            if ctas > 1:
                function.attributes[BLOCKS] = IntegerAttr(ctas, i32)
            planned = self._ctas_per_sm(words, ctas)
            function.attributes[CTAS_PER_SM] = IntegerAttr(planned, i32)

    def _ctas(self, words: int, portable: int, words_per_cta: int) -> int:
        """CTAs that hold so many words of a program between reductions; 1: one does, or none can."""
        ctas = 1
        while ctas < portable and words > ctas * words_per_cta:
            ctas *= 2
        while ctas < self.max_ctas and not self._holds(words, ctas):
            ctas *= 2
        return ctas if self._holds(words, ctas) else 1

    def _ctas_per_sm(self, words: int, ctas: int) -> int:
        """CTAs that share the registers of an SM, if ptxas needs few besides those of the row."""
        threads = self.warps_per_cta * _LANES
        registers = -(-words // (ctas * threads)) + _FEW_OTHER_REGISTERS
        return max(1, PARTITIONS * REGISTERS_PER_PARTITION // (registers * threads))

    def _fills_cta(self, function: FuncOp, words: int) -> bool:
        """Whether a program of one CTA has more warps than two CTAs that share an SM, and registers for its row with
        fewer."""
        return warps_of(function) > self.warps_per_cta and words > self.words_per_cta // 2

    def _holds(self, words: int, ctas: int) -> bool:
        """Whether so many CTAs have registers for so many words."""
        free = max_registers_per_thread(self.warps_per_cta) - _OTHER_REGISTERS
        return words <= ctas * self.warps_per_cta * _LANES * free


def _loads_behind_reductions(function: FuncOp, late: Mapping[Operation, Operation]) -> bool:
    """Whether tiles are loaded behind a reduction, once `late` operations are where they go: they take registers besides
    those of a row."""
    order = {op: i for i, op in enumerate(function.walk())}
    first = min(i for op, i in order.items() if isinstance(op, tile.ReduceOp))

    def position(op: Operation) -> int:
        while op in late:
            op = late[op]
        return order[op]

    return any(
        position(op) > first
        for op in order
        if isinstance(op, tile.Load) and tile.is_tile(op.result)
    )


def _reduces_in_loops(function: FuncOp) -> bool:
    """Whether any loop has a reduction in it."""
    loops = [op for op in function.walk() if isinstance(op, scf.ForOp | scf.WhileOp)]
    return any(isinstance(op, tile.ReduceOp) for loop in loops for op in loop.walk())


def is_distributable(function: FuncOp) -> bool:
    """Whether a program reduces rows, and does nothing else in which its CTAs had to wait for each other."""
    ops = [op for op in function.walk() if op is not function]
    reductions = [op for op in ops if isinstance(op, tile.ReduceOp)]
    return (
        bool(reductions)
        and all(map(_is_distributed, ops))
        and not any(map(_is_recurrence, reductions))
    )


def _is_distributed(op: Operation) -> bool:
    """Whether an operation is done slice by slice, on nothing that has more than one row."""
    if not isinstance(op, _ALLOWED) and not is_pure_elementwise(op):
        return False
    return all(map(_is_row, (*op.operands, *op.results)))


def _is_row(value: SSAValue) -> bool:
    shape = tile.shape_of(value) if tile.is_tile(value) else ()
    return prod(shape) == max(shape, default=1)


def _is_recurrence(op: Operation) -> bool:
    """Whether a loop around a reduction carries numbers, as it does where an iteration waits for the sums of the one
    before: with an exchange between CTAs in each."""
    return any(
        isinstance(value.type, AnyFloat)
        for above in ancestors(op)
        if isinstance(above, scf.ForOp | scf.WhileOp)
        for value in above.results
    )
