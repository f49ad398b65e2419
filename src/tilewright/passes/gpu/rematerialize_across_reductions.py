"""`rematerialize-across-reductions`: rows wait for a reduction in their narrowest form.

A program that needs a row again behind a reduction (softmax, a norm) holds it in registers meanwhile, as what it last
computed of it: in fp32, where the row was loaded in bf16. This pass finds, for each reduction, the tiles of fewest
bytes from which everything needed behind it can be computed, and computes that again there. In half the registers
twice as many bytes are in flight, or twice as long a row stays with one CTA.

    Before:
        func.func @k(%p: !tile.ptr<bf16>, %one: i64) attributes {gpu.num_warps = 4 : i32} {
          %x = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<bf16> to tensor<8192xbf16>
          %f = arith.extf %x : tensor<8192xbf16> to tensor<8192xf32>
          %m = "tile.reduce"(%f) <{axis = 0 : i32}> ({
          ^bb0(%a: f32, %b: f32):
            %c = arith.maximumf %a, %b : f32
            tile.yield %c : f32
          }) : (tensor<8192xf32>) -> f32
          %s = tile.splat %m : f32 to tensor<8192xf32>
          %y = arith.subf %f, %s : tensor<8192xf32>
          %z = arith.truncf %y : tensor<8192xf32> to tensor<8192xbf16>
          tile.store_view %z, %p ["strided"] strides(%one) {limited = array<i64>} : tensor<8192xbf16>, !tile.ptr<bf16>
          func.return
        }
    After:
        func.func @k(%p: !tile.ptr<bf16>, %one: i64) attributes {gpu.num_warps = 4 : i32} {
          %x = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<bf16> to tensor<8192xbf16>
          %f = arith.extf %x : tensor<8192xbf16> to tensor<8192xf32>
          %m = "tile.reduce"(%f) <{axis = 0 : i32}> ({
          ^bb0(%a: f32, %b: f32):
            %c = arith.maximumf %a, %b : f32
            tile.yield %c : f32
          }) : (tensor<8192xf32>) -> f32
          %x_1 = tile.optimization_barrier %x {number = 0 : i32} : tensor<8192xbf16> to tensor<8192xbf16>
          %f_1 = arith.extf %x_1 : tensor<8192xbf16> to tensor<8192xf32>
          %s = tile.splat %m : f32 to tensor<8192xf32>
          %y = arith.subf %f_1, %s : tensor<8192xf32>
          %z = arith.truncf %y : tensor<8192xf32> to tensor<8192xbf16>
          tile.store_view %z, %p ["strided"] strides(%one) {limited = array<i64>} : tensor<8192xbf16>, !tile.ptr<bf16>
          func.return
        }

The tiles are a minimum cut of the graph from loads to uses behind the reduction; among cuts of one weight the one
that recomputes least, so that programs in fp32 stay as they are. `tile.optimization_barrier` keeps LLVM and `ptxas`
from joining the two computations again.

Cost model: programs with fewer than `min_registers_per_thread` registers of a row stay as they are, and so do
reductions where less than `min_saving` percent of the bytes would go, or an element would take more than
`max_instructions` again. Only pure element-wise operations are repeated, never loads. Legality: nothing else
changes; a recomputed value has the bits that it had.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i1, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import tile
from tilewright.passes.analysis.edit import insert_before, outermost_in
from tilewright.passes.analysis.effects import erase_dead, is_pure, is_pure_elementwise
from tilewright.passes.base import Pass
from tilewright.passes.gpu.analysis.held_rows import HeldRows, is_free
from tilewright.passes.gpu.analysis.min_cut import min_vertex_cut
from tilewright.passes.gpu.assign_layouts import warps_of
from tilewright.targets import TargetInfo

_LANES = 32
_INSTRUCTIONS = {
    "arith.divf": 8, "math.exp": 3, "math.exp2": 2, "math.log": 3, "math.rsqrt": 4, "math.sqrt": 6,
    "tile.mul_sigmoid": 7, "math.tanh": 3,
}  # fmt: skip
"""Of an element, where an operation is no single instruction."""
_EXPENSIVE = (
    "math.",
    "tile.libm",
    "tile.remf",
    "tile.inline_asm",
    "arith.rem",
    "arith.divsi",
    "arith.divui",
)
_CHEAP_MATH = ("math.absf", "math.fma", "math.floor", "math.ceil", "math.trunc")


@dataclass(frozen=True)
class RematerializeAcrossReductions(Pass):
    """See the module docstring."""

    name: ClassVar[str] = "rematerialize-across-reductions"
    relevant_ops: ClassVar[tuple[str, ...]] = ("tile.reduce",)
    min_registers_per_thread: int = 16
    """Registers of a thread that wait for a reduction, below which a program stays as it is."""
    min_saving: int = 25
    """Percent of the bytes that wait for a reduction, below which they stay as they are."""
    max_instructions: int = 12
    """Instructions per element that are repeated behind one reduction."""

    def apply(self, module: ModuleOp, target: TargetInfo) -> None:
        for function in module.body.block.ops:
            if not isinstance(function, FuncOp) or not function.body.blocks:
                continue
            threads = _LANES * warps_of(function)
            if HeldRows(function).words() < self.min_registers_per_thread * threads:
                continue
            block = function.body.block
            reductions = [op for op in block.ops if isinstance(op, tile.ReduceOp)]
            for number, reduction in reversed(list(enumerate(reductions))):
                self._rematerialize(block, reduction, number)
            erase_dead(block)

    def _rematerialize(self, block: Block, reduction: tile.ReduceOp, number: int) -> None:
        order = {op: i for i, op in enumerate(block.ops)}
        graph = _Held(block, order, order[reduction])
        held = min_vertex_cut(graph.weights, graph.operands, graph.sources, graph.needed)
        before, after = (sum(graph.weights[v] for v in vs) for vs in (graph.needed, held))
        again = graph.between(held)
        if 100 * (before - after) < self.min_saving * before or not again:
            return
        if sum(map(_instructions, again)) <= self.max_instructions:
            graph.recompute(reduction, held, again, number)


class _Held:
    """The tiles that wait for a reduction, and what they are computed from."""

    def __init__(self, block: Block, order: dict[Operation, int], at: int) -> None:
        self.block, self.order, self.at = block, order, at
        self.weights: dict[SSAValue, int] = {}
        self.operands: dict[SSAValue, list[SSAValue]] = {}
        self.needed = [
            v for op in block.ops if order[op] < at for v in op.results if self._is_held(v)
        ]
        self.sources = [v for v in self.needed if not self._add(v)]
        pending = [v for v in self.needed if v not in self.sources]
        while pending:
            for operand in self.operands[pending.pop()]:
                if operand not in self.weights:
                    if self._add(operand):
                        pending.append(operand)
                    else:
                        self.sources.append(operand)

    def _is_held(self, value: SSAValue) -> bool:
        """Whether a tile is used behind the reduction, and takes registers."""
        if not tile.is_tile(value) or is_free(value):
            return False
        return any(self.order[outermost_in(self.block, u.operation)] > self.at for u in value.uses)

    def _add(self, value: SSAValue) -> bool:
        """Note a tile; returns whether it can be computed again."""
        self.weights[value] = _bytes(value)
        owner = value.owner
        self.operands[value] = []
        if not isinstance(owner, Operation) or not is_pure_elementwise(owner) or not is_pure(owner):
            return False
        if isinstance(owner, tile.OptimizationBarrierOp) or owner.parent is not self.block:
            return False
        operands = [v for v in owner.operands if tile.is_tile(v) and not is_free(v)]
        self.operands[value] = operands
        return bool(operands)

    def between(self, held: set[SSAValue]) -> list[Operation]:
        """The operations from `held` to what is needed, in order."""
        found: set[Operation] = set()
        pending = [v for v in self.needed if v not in held]
        while pending:
            value = pending.pop()
            if (
                value not in held
                and isinstance(value.owner, Operation)
                and value.owner not in found
            ):
                found.add(value.owner)
                pending += self.operands[value]
        return sorted(found, key=lambda op: self.order[op])

    def recompute(
        self, reduction: Operation, held: set[SSAValue], again: list[Operation], number: int
    ) -> None:
        """Compute what is needed behind the reduction from barriers of `held`, in front of its first use there."""
        users = [outermost_in(self.block, use.operation) for v in self.needed for use in v.uses]
        behind = [op for op in users if self.order[op] > self.at]
        anchor = min(behind, key=lambda op: self.order[op])
        mapping: dict[SSAValue, SSAValue] = {}
        wanted = [v for v in self.weights if v in held]
        copies: list[Operation] = []
        for value in wanted:
            barrier = tile.OptimizationBarrierOp.create(
                operands=[value],
                result_types=[value.type],
                properties={"number": IntegerAttr(number, i32)},
                location=reduction.location,
            )
            copies.append(barrier)
            mapping[value] = barrier.result
        for op in again:
            copies.append(copy := op.clone(mapping))
            copy.location = op.location
            mapping.update(zip(op.results, copy.results, strict=True))
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
