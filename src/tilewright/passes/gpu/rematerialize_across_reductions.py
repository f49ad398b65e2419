"""`rematerialize-across-reductions`: hold rows in their narrowest type across reductions, and recompute the rest.

A program that needs a row again after a reduction (softmax, a norm) holds it in registers meanwhile, as what it last
computed of it: in fp32, where the row was loaded in bf16. This pass finds, for each reduction, the tiles of fewest
bytes from which everything needed after it can be computed, and computes that again there. In half the registers
twice as many bytes are in flight, or twice as long a row stays with one CTA.

    Change:
          func.func @k(%p: !tile.ptr<bf16>, %one: i64) attributes {gpu.num_warps = 4 : i32} {
            %x = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<bf16> to tensor<65536xbf16>
            %f = arith.extf %x : tensor<65536xbf16> to tensor<65536xf32>
            %m = "tile.reduce"(%f) <{axis = 0 : i32}> ({
            ^bb0(%a: f32, %b: f32):
              %c = arith.maximumf %a, %b : f32
              tile.yield %c : f32
            }) : (tensor<65536xf32>) -> f32
            %s = tile.splat %m : f32 to tensor<65536xf32>
        +   %x_1 = tile.optimization_barrier %x {number = 0 : i32} : tensor<65536xbf16> to tensor<65536xbf16>
        +   %f_1 = arith.extf %x_1 : tensor<65536xbf16> to tensor<65536xf32>
        -   %y = arith.subf %f, %s : tensor<65536xf32>
        +   %y = arith.subf %f_1, %s : tensor<65536xf32>
            %z = arith.truncf %y : tensor<65536xf32> to tensor<65536xbf16>
            tile.store_view %z, %p ["strided"] strides(%one) {limited = array<i64>} : tensor<65536xbf16>, !tile.ptr<bf16>
            func.return
          }

The tiles are a minimum cut of the graph from loads to uses after the reduction; among cuts of one weight the one
that recomputes least, so that programs in fp32 stay as they are. `tile.optimization_barrier` keeps LLVM and `ptxas`
from joining the two computations again.

Cost model: it pays where one CTA of few warps then holds a row that it did not, or fewer CTAs do, of `words_per_cta`
registers each (`distribute-rows-over-cluster`): cross entropy of 65536 columns in bf16 reached 0.78 of a copy's rate in
four CTAs and 0.87 in two. Where as many do,
the instructions are more (layer norm of 16384 columns: 0.92 without, 0.76 with a third more). Programs that load
weights after a reduction, in the registers that would be free, stay as they are, and so do
reductions where less than `min_saving` percent of the bytes would go, or an element would take more than
`max_instructions` again. A row that exceeds the registers of `max_ctas` CTAs, two to an SM, has none
to spare: there weights are even loaded again (from L2) behind a reduction instead of being held (NVIDIA H100, backward, 262,144
bf16 columns: RMS norm 2.69 -> 2.92 TB/s, layer norm 2.65 -> 2.82; with 131,072 columns, which 16 CTAs hold, 2.91 -> 2.86 and
2.86 -> 2.71).

Legality: only pure element-wise operations are repeated, and loads of what all programs load and none stores; nothing
else changes; a recomputed value has the bits that it had.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import IntegerAttr, i1, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import tile
from tilewright.ir.types import defining_op
from tilewright.ir.walk import ancestors, closure
from tilewright.passes.analysis.edit import Mapping, insert_before, outermost_in
from tilewright.passes.analysis.effects import (
    erase_dead,
    is_pure,
    is_pure_elementwise,
    is_volatile,
)
from tilewright.passes.base import FunctionPass
from tilewright.passes.gpu.analysis.held_rows import is_free, late_operations, merge_reductions
from tilewright.passes.gpu.analysis.min_cut import min_vertex_cut
from tilewright.passes.gpu.analysis.num_ctas import num_ctas_of, warps_of
from tilewright.passes.gpu.analysis.registers import max_registers_per_thread
from tilewright.passes.gpu.analysis.strips import cannot_clobber, is_program_variant
from tilewright.passes.gpu.distribute_rows_over_cluster import is_distributable
from tilewright.targets import Feature, TargetInfo

_OTHER_REGISTERS = 24
"""Registers of a thread for addresses, counters and the like."""
_INSTRUCTIONS = {
    "arith.divf": 8, "math.exp": 3, "math.exp2": 2, "math.log": 3, "math.rsqrt": 4, "math.sqrt": 6,
    "tile.mul_sigmoid": 7, "math.tanh": 3,
}  # fmt: skip
"""Of an element, where an operation is no single instruction."""
_EXPENSIVE = (
    "math.", "tile.libm", "tile.remf", "tile.inline_asm", "arith.rem", "arith.divsi", "arith.divui",
)  # fmt: skip
_CHEAP_MATH = ("math.absf", "math.fma", "math.floor", "math.ceil", "math.trunc")


@dataclass(frozen=True)
class RematerializeAcrossReductions(FunctionPass):
    relevant_ops = ("tile.reduce",)
    words_per_cta: int = 16384
    """Words of 4 bytes of a row that a CTA holds in registers."""
    max_ctas: int = 16
    """CTAs of the largest cluster."""
    min_saving: int = 25
    """Percent of the bytes that wait for a reduction, below which they stay as they are."""
    max_instructions: int = 12
    """Instructions per element that are repeated after one reduction."""

    def run(self, function: FuncOp, target: TargetInfo) -> None:
        if not target.has(Feature.CLUSTERS):
            return
        if num_ctas_of(function) > 1 or not is_distributable(function):
            return
        block = function.body.block
        reductions = [op for op in block.ops if isinstance(op, tile.ReduceOp)]
        if not reductions:
            return
        before, after = self._bytes_held(block, reductions, reload=False)
        exceeds = self._ctas(before) > self.max_ctas
        if exceeds:
            merge_reductions(function)
            reductions = [op for op in block.ops if isinstance(op, tile.ReduceOp)]
            before, after = self._bytes_held(block, reductions, reload=True)
        in_one = self._ctas(before) == 1
        fits = in_one and self._fits(function, after) and not self._fits(function, before)
        as_many = self._ctas(after) == self._ctas(before)
        late = _sinks_across(function, reductions) if exceeds else late_operations(function)
        if not fits and (as_many or late):
            return
        for number, reduction in reversed(list(enumerate(reductions))):
            cut = _Cut(_HeldValues(block), reduction, exceeds)
            if self._is_worth(cut):
                cut.recompute(number)
        erase_dead(block)

    def _bytes_held(
        self, block: Block, reductions: Sequence[tile.ReduceOp], *, reload: bool
    ) -> tuple[int, int]:
        """The most bytes that wait for a reduction, without this pass and with it."""
        values = _HeldValues(block)
        found = [self._bytes(_Cut(values, op, reload)) for op in reductions]
        return max(before for before, _ in found), max(after for _, after in found)

    def _ctas(self, bytes_held: int) -> int:
        """CTAs, a power of two, that hold so many bytes of a row."""
        return 1 << (max(1, -(-bytes_held // (4 * self.words_per_cta))) - 1).bit_length()

    @staticmethod
    def _fits(function: FuncOp, bytes_held: int) -> bool:
        """Whether threads can hold so many bytes of a row."""
        warps = warps_of(function)
        return bytes_held <= 128 * warps * (max_registers_per_thread(warps) - _OTHER_REGISTERS)

    def _bytes(self, cut: _Cut) -> tuple[int, int]:
        """Bytes that wait for a reduction without this pass and with it."""
        return cut.before, cut.after if self._is_worth(cut) else cut.before

    def _is_worth(self, cut: _Cut) -> bool:
        saves = 100 * (cut.before - cut.after) >= self.min_saving * cut.before
        return saves and 0 < sum(map(_instructions, cut.again)) <= self.max_instructions


class _HeldValues:
    """The tiles of a block that take registers, and between which of its operations."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.order = {op: i for i, op in enumerate(block.ops)}
        self._ranges = [
            (value, position, max(self._uses(value), default=-1))
            for op, position in self.order.items()
            for value in op.results
            if tile.is_tile(value) and not is_free(value)
        ]

    def _uses(self, value: SSAValue) -> Iterator[int]:
        """Positions of the operations of the block that use a value, or in which it is used."""
        return (self.order[outermost_in(self.block, use.operation)] for use in value.uses)

    def across(self, at: int) -> list[SSAValue]:
        """The tiles that are made before a position and used after it."""
        return [value for value, made, last_use in self._ranges if made < at < last_use]


class _Cut:
    """The tiles that wait for a reduction, and the fewest bytes from which they can be computed."""

    def __init__(self, values: _HeldValues, reduction: tile.ReduceOp, reload: bool) -> None:
        """`reload`: what all programs load may be loaded again."""
        self.reload = reload
        self.location = reduction.location
        self.block, self.order, self.at = values.block, values.order, values.order[reduction]
        self.weights: dict[SSAValue, int] = {}
        self.operands: dict[SSAValue, list[SSAValue]] = {}
        self.needed: list[SSAValue] = values.across(self.at)
        self.sources: list[SSAValue] = [v for v in self.needed if not self._add(v)]
        pending = [v for v in self.needed if v not in self.sources]
        while pending:
            for operand in self.operands[pending.pop()]:
                if operand not in self.weights:
                    if self._add(operand):
                        pending.append(operand)
                    else:
                        self.sources.append(operand)
        self.held = min_vertex_cut(self.weights, self.operands, self.sources, self.needed)
        self.again = self._between()
        self.before, self.after = (
            sum(self.weights[v] for v in s) for s in (self.needed, self.held)
        )

    def _add(self, value: SSAValue) -> bool:
        """Note a tile; returns whether it can be computed again."""
        self.weights[value] = _bytes(value)
        owner = value.owner
        self.operands[value] = []
        if self.reload and _is_reloadable(owner):
            return True
        if not isinstance(owner, Operation) or not is_pure_elementwise(owner) or not is_pure(owner):
            return False
        if isinstance(owner, tile.OptimizationBarrierOp) or owner.parent is not self.block:
            return False
        operands = [v for v in owner.operands if tile.is_tile(v) and not is_free(v)]
        self.operands[value] = operands
        return bool(operands)

    def _between(self) -> list[Operation]:
        """The operations from `self.held` to what is needed, in order."""

        def lost(values: list[SSAValue]) -> list[SSAValue]:
            return [v for v in values if v not in self.held and isinstance(v.owner, Operation)]

        values = closure(lost(self.needed), lambda v: lost(self.operands[v]))
        return sorted({defining_op(v) for v in values}, key=lambda op: self.order[op])

    def recompute(self, number: int) -> None:
        """Compute what is needed after the reduction from barriers of `self.held`, in front of its first use there."""
        users = [outermost_in(self.block, use.operation) for v in self.needed for use in v.uses]
        behind = [op for op in users if self.order[op] > self.at]
        anchor = min(behind, key=lambda op: self.order[op])
        mapping: Mapping = {}
        wanted = [v for v in self.weights if v in self.held]
        copies: list[Operation] = []
        for value in wanted:
            barrier = tile.OptimizationBarrierOp.create(
                operands=[value],
                result_types=[value.type],
                properties={"number": IntegerAttr(number, i32)},
                location=self.location,
            )
            copies.append(barrier)
            mapping[value] = barrier.result
        copies.extend(op.clone(mapping) for op in self.again)
        new = set(copies)
        for copy in copies:
            insert_before(copy, anchor)
        for old, value in mapping.items():
            value.name_hint = old.name_hint
            old.replace_uses_with_if(value, lambda use: self._is_behind(use.operation, new))

    def _is_behind(self, op: Operation, new: set[Operation]) -> bool:
        if op in new or isinstance(op, tile.OptimizationBarrierOp):
            return False
        return self.order[outermost_in(self.block, op)] > self.at


def _sinks_across(function: FuncOp, reductions: Sequence[Operation]) -> bool:
    """Whether loads of what all programs load will sink from before a reduction to behind it."""
    order = {op: i for i, op in enumerate(function.walk())}
    return any(
        order[op] < order[reduction] < order[first]
        for op, first in late_operations(function).items()
        for reduction in reductions
    )


def _is_reloadable(owner: object) -> bool:
    """Whether an operation loads what all programs load (weights, from L2), and no store of the program clobbers it."""
    if not isinstance(owner, tile.Load) or is_program_variant(owner) or is_volatile(owner):
        return False
    function = next(above for above in ancestors(owner) if isinstance(above, FuncOp))
    stores = (op for op in function.walk() if isinstance(op, tile.Store))
    return all(cannot_clobber(owner, store) for store in stores)


def _bytes(value: SSAValue) -> int:
    """Bytes of a tile; a mask takes a byte for eight elements."""
    element = tile.element_of(value)
    count = prod(tile.shape_of(value))
    return -(-count // 8) if element == i1 else count * tile.element_bytes(element)


def _instructions(op: Operation) -> int:
    """Instructions per element, about; very many for what should not be computed twice."""
    if op.name in _INSTRUCTIONS:
        return _INSTRUCTIONS[op.name]
    if op.name.startswith(_EXPENSIVE) and op.name not in _CHEAP_MATH:
        return 1000
    return 1
