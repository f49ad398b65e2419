"""`split-loop-bounds`: split a loop where a condition on its counter changes, if dots depend on the condition.

A loop whose first or last iterations leave out a product has it in a branch. Copies and dots of a branch cannot be
pipelined: the loop waits for each copy and for each dot. Since the condition compares the counter with a value that
the loop does not change, it holds in the first iterations or in the last ones, and two loops need no branch.

    Change:
          func.func @k(%p: tensor<16x16x!tile.ptr<f32>>, %a: tensor<16x16xf32>, %n: i32, %end: i32) {
            %zero = arith.constant 0 : i32
            %one = arith.constant 1 : i32
        +   %wide = arith.extsi %end : i32 to i64
        +   %low = arith.constant 0 : i64
        +   %trips = arith.extsi %n : i32 to i64
        +   %after = arith.maxsi %wide, %low : i64
        +   %cut = arith.minsi %after, %trips : i64
        +   %m = arith.trunci %cut : i64 to i32
        -   %r = scf.for %i = %zero to %n step %one iter_args(%x = %a) -> (tensor<16x16xf32>) : i32 {
        -     %c = tile.cmpi "slt", %i, %end : i32, i32 to i1
        -     %s = scf.if %c -> (tensor<16x16xf32>) {
        -       %y = tile.dot %x, %a, %a, "ieee" : tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32> to tensor<16x16xf32>
        -       scf.yield %y : tensor<16x16xf32>
        -     } else {
        -       scf.yield %x : tensor<16x16xf32>
        -     }
        -     scf.yield %s : tensor<16x16xf32>
        +   %first = scf.for %i = %zero to %m step %one iter_args(%x = %a) -> (tensor<16x16xf32>) : i32 {
        +     %y = tile.dot %x, %a, %a, "ieee" : tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32> to tensor<16x16xf32>
        +     scf.yield %y : tensor<16x16xf32>
        +   }
        +   %rest = arith.subi %n, %m : i32
        +   %r = scf.for %j = %zero to %rest step %one iter_args(%x = %first) -> (tensor<16x16xf32>) : i32 {
        +     scf.yield %x : tensor<16x16xf32>
            }
            tile.store %p, %r : tensor<16x16x!tile.ptr<f32>>, tensor<16x16xf32>
            func.return
          }

Relies on: `normalize-loops`, whose counters run from 0 by 1 and whose indices (`tile.loop_index`) do not wrap; `cse`,
which makes equal conditions one value. Counters and indices of at most 32 bits: where the condition changes is
computed in i64.

Guarantees: the same iterations in the same order. At most two conditions per loop are removed, and loops in the body
keep it whole.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerType, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import tile
from tilewright.ir.types import width_of
from tilewright.ir.walk import has_loops
from tilewright.passes.analysis.edit import (
    Mapping,
    backward_slice,
    block_of,
    post_order,
    replace_op,
)
from tilewright.passes.analysis.effects import defined_inside, erase_dead, is_pure
from tilewright.passes.analysis.emit import Emitter, constant_int, is_normalized
from tilewright.passes.analysis.facts import LOOP_INDEX
from tilewright.passes.base import FunctionPass
from tilewright.passes.folding.control import inline
from tilewright.targets import TargetInfo

_CONDITIONS = 2
"""Conditions of a loop at which it is split: four loops."""
_BITS = 32
_SWAPPED = {"slt": "sgt", "sle": "sge", "sgt": "slt", "sge": "sle"}


class SplitLoopBounds(FunctionPass):
    relevant_ops = ("scf.if",)
    requires = ("normalize-loops",)

    def run(self, function: FuncOp, target: TargetInfo) -> None:
        loops = [op for op in post_order(function) if isinstance(op, scf.ForOp)]
        changed = [_split(loop, _CONDITIONS) for loop in loops if _is_innermost(loop)]
        if any(changed):
            erase_dead(function.body.block)


@dataclass(frozen=True)
class _Index:
    """`start + counter * step`, which does not wrap; a `start` of None is 0."""

    value: SSAValue
    start: SSAValue | None
    step: int


@dataclass(frozen=True)
class _Condition:
    """A comparison of an index with `bound`, which the loop does not change."""

    op: tile.CmpIOp
    index: _Index
    bound: SSAValue
    inclusive: bool
    """Whether the condition changes behind the bound: `index <= bound`, not `index < bound`."""
    first: bool
    """Whether it holds in the first iterations; else in the last ones."""


def _split(loop: scf.ForOp, conditions: int) -> bool:
    """Split at the first condition found, and both halves at others; returns whether there was one."""
    condition = _condition(loop) if conditions else None
    if condition is None:
        return False
    for half in _Splitter(loop, condition).run():
        _split(half, conditions - 1)
    return True


def _is_innermost(loop: scf.ForOp) -> bool:
    """Whether a normalized loop has no loop in it."""
    return is_normalized(loop) and not has_loops(loop)


def _condition(loop: scf.ForOp) -> _Condition | None:
    """The condition of the first branch with a dot that the counter decides."""
    for op in loop.body.block.ops:
        if isinstance(op, scf.IfOp) and any(isinstance(o, tile.DotOp) for o in op.walk()):
            test = op.cond.owner
            if isinstance(test, tile.CmpIOp) and test.parent is loop.body.block:
                found = _of_comparison(loop, test)
                if found is not None:
                    return found
    return None


def _of_comparison(loop: scf.ForOp, test: tile.CmpIOp) -> _Condition | None:
    predicate = test.predicate.data
    if predicate not in _SWAPPED:
        return None
    for value, bound, name in (
        (test.lhs, test.rhs, predicate),
        (test.rhs, test.lhs, _SWAPPED[predicate]),
    ):
        index = _index(loop, value)
        if index is not None and _is_invariant(loop, bound):
            return _Condition(test, index, bound, name in ("sle", "sgt"), name in ("slt", "sle"))
    return None


def _index(loop: scf.ForOp, value: SSAValue) -> _Index | None:
    """A value as an index of the loop: its counter, or what `normalize-loops` computes from it."""
    while isinstance(value.owner, arith.ExtSIOp):
        value = value.owner.input
    counter = loop.body.block.args[0]
    if not isinstance(value.type, IntegerType) or value.type.width.data > _BITS:
        return None
    if value is counter:
        return _Index(value, None, 1)
    op = value.owner
    if not isinstance(op, Operation) or LOOP_INDEX not in op.attributes:
        return None
    start, scaled = None, value
    if isinstance(op, arith.AddiOp):
        start, scaled = op.lhs, op.rhs
        if defined_inside(start, loop):
            return None
    step = 1
    if isinstance(scaled.owner, arith.MuliOp):
        step = constant_int(scaled.owner.rhs) or 0
        scaled = scaled.owner.lhs
    if isinstance(scaled.owner, arith.TruncIOp):
        scaled = scaled.owner.input
    return _Index(value, start, step) if scaled is counter and step > 0 else None


def _is_invariant(loop: scf.ForOp, bound: SSAValue) -> bool:
    """Whether a value is computed by pure operations from values that the loop does not change."""
    if not isinstance(bound.type, IntegerType):
        return False
    body = loop.body.block
    found = backward_slice(body, [bound], is_pure)
    values = [bound, *(v for op in found[0] for v in op.operands)] if found is not None else []
    return found is not None and all(value.owner is not body for value in values)


@dataclass(frozen=True)
class _Splitter:
    """Splits one loop at one condition."""

    loop: scf.ForOp
    condition: _Condition

    def run(self) -> tuple[scf.ForOp, scf.ForOp]:
        """The loops of the iterations before and after the condition changes."""
        loop, e = self.loop, Emitter(self.loop)
        cut = self._cut(e)
        first = loop.clone()
        block_of(loop).insert_op_before(first, loop)
        first.operands[1] = cut
        # the branches of both are decided after the second starts where the first ended
        copy = _same_op(self.condition.op, loop, first)
        self._start_at(cut, Emitter(loop))
        loop.operands[1] = Emitter(loop).sub(loop.ub, cut)
        for i, value in enumerate(first.results):
            loop.operands[3 + i] = value
        _decide(copy, self.condition.first)
        _decide(self.condition.op, not self.condition.first)
        return first, loop

    def _cut(self, e: Emitter) -> SSAValue:
        """The number of iterations before the condition changes, of the counter's type."""
        condition, index = self.condition, self.condition.index
        mapping: Mapping = {}
        found = backward_slice(self.loop.body.block, [condition.bound])
        for op in found[0] if found is not None else ():
            e.clone(op, mapping)
        bound = mapping.get(condition.bound, condition.bound)
        bound = _at_most_33_bits(e, bound)
        if condition.inclusive:
            bound = e.add(bound, e.constant(1))
        span = bound if index.start is None else e.sub(bound, e.resize(index.start, i64))
        if index.step != 1:
            rounded = e.add(span, e.constant(index.step - 1))
            span = e.binary(arith.DivSIOp, rounded, e.constant(index.step))
        trips = e.resize(self.loop.ub, i64)
        cut = e.minimum(e.maximum(span, e.constant(0)), trips)
        return e.resize(cut, self.loop.lb.type)

    def _start_at(self, cut: SSAValue, e: Emitter) -> None:
        """Let the loop's body count from `cut` on; its counter begins with 0 as before."""
        body, index = self.loop.body.block, self.condition.index
        counter = body.args[0]
        inner = Emitter.at_start(body, self.loop.location)
        kept: list[Operation] = []
        if index.value is not counter:
            kind = index.value.type
            moved = e.mul(e.resize(cut, kind), e.constant(index.step, kind))
            start = moved if index.start is None else e.add(index.start, moved)
            narrow = inner.resize(counter, kind)
            scaled = inner.mul(narrow, inner.constant(index.step, kind))
            # written out even where it adds nothing: the mark of an index belongs to this operation
            value = inner.insert(arith.AddiOp(start, scaled))
            old = index.value.owner
            assert isinstance(old, Operation) and isinstance(value.owner, Operation)
            value.owner.attributes[LOOP_INDEX] = old.attributes[LOOP_INDEX]
            value.name_hint = index.value.name_hint
            index.value.replace_all_uses_with(value)
            kept = [op for op in (narrow.owner, scaled.owner) if isinstance(op, Operation)]
        total = inner.insert(arith.AddiOp(cut, counter))
        assert isinstance(total.owner, Operation)
        kept.append(total.owner)
        counter.replace_uses_with_if(total, lambda use: use.operation not in kept)


def _at_most_33_bits(e: Emitter, bound: SSAValue) -> SSAValue:
    """A bound as an i64 near which an index of 32 bits compares as with itself."""
    if width_of(bound.type) <= _BITS:
        return e.resize(bound, i64)
    lowest, beyond = e.constant(-(1 << _BITS)), e.constant(1 << _BITS)
    return e.maximum(e.minimum(bound, beyond), lowest)


def _same_op(op: tile.CmpIOp, loop: scf.ForOp, copy: scf.ForOp) -> tile.CmpIOp:
    """The operation of a loop's copy that stands where `op` does in the loop's body."""
    for mine, other in zip(loop.body.block.ops, copy.body.block.ops, strict=True):
        if mine is op and isinstance(other, tile.CmpIOp):
            return other
    raise ValueError("the operation is not in the loop's body")


def _decide(test: tile.CmpIOp, holds: bool) -> None:
    """Replace a comparison by its value, and the branches that it decides by what they do then."""
    for use in list(test.result.uses):
        op = use.operation
        if isinstance(op, scf.IfOp) and op.parent is test.parent:
            region = op.true_region if holds else op.false_region
            results = inline(region, op, []) if region.blocks else []
            replace_op(op, results)
    known = Emitter(test).constant(int(holds), test.result.type)
    replace_op(test, [known])
