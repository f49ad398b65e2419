"""`peel-first-iteration`: take the first iteration out of a loop that has a branch for it.

`if i:` around what the first block of a row does not need, such as the rescaling of an online softmax, is a branch in each iteration
and hides that the first one starts from constants: `exp(x - max(x, -inf))` is 1 then.

    Change:
          func.func @k(%n: i64, %x: f32) -> f32 {
            %zero = arith.constant 0 : i64
            %one = arith.constant 1 : i64
        +   %any = tile.cmpi "slt", %zero, %n : i64, i64 to i1
        +   %first = scf.if %any -> (f32) {
        +     scf.yield %x : f32
        +   } else {
        +     scf.yield %x : f32
        +   }
        +   %second = arith.constant 1 : i64
        -   %all = scf.for %i = %zero to %n step %one iter_args(%sum = %x) -> (f32) : i64 {
        -     %later = tile.cmpi "ne", %i, %zero : i64, i64 to i1
        -     %more = scf.if %later -> (f32) {
        -       %square = arith.mulf %sum, %sum : f32
        -       scf.yield %square : f32
        -     } else {
        -       scf.yield %sum : f32
        -     }
        -     scf.yield %more : f32
        +   %all = scf.for %i = %second to %n step %one iter_args(%sum = %first) -> (f32) : i64 {
        +     %square = arith.mulf %sum, %sum : f32
        +     scf.yield %square : f32
            }
            func.return %all : f32
          }

Relies on: `vectorize`: what loops carry fits in registers.

Guarantees: the same iterations in the same order, with exact identities of floating-point arithmetic (`folding/arithmetic.py`).
Only innermost loops from a constant by a positive constant, whose branch compares the counter with its first value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import arith, math, scf
from xdsl.dialects.builtin import i1
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region, SSAValue

from tilewright.dialects import tile
from tilewright.ir.types import width_of
from tilewright.ir.walk import has_loops
from tilewright.passes.analysis.edit import Mapping, end_of, post_order
from tilewright.passes.analysis.effects import erase_dead
from tilewright.passes.analysis.emit import Emitter, constant_int
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.base import FunctionPass
from tilewright.passes.folding.arithmetic import RULES, Rule
from tilewright.passes.folding.control import simplify_control
from tilewright.targets import TargetInfo

_IDENTITIES: dict[type[Operation], Rule] = {
    kind: RULES[kind] for kind in (arith.SubfOp, math.ExpOp, math.Exp2Op)
}
_MOST_OPS = 200
"""Operations of a loop that are worth having twice."""
#: predicate of the counter and its first value -> whether it holds in the first iteration, and in no other
_OF_FIRST = {"eq": True, "sle": True, "ule": True, "ne": False, "sgt": False, "ugt": False}


@dataclass(frozen=True)
class PeelFirstIteration(FunctionPass):
    relevant_ops: ClassVar[tuple[str, ...]] = ("scf.if",)

    def run(self, function: FuncOp, target: TargetInfo) -> None:
        loops = [op for op in post_order(function) if isinstance(op, scf.ForOp)]
        peeled = [_peel(loop) for loop in loops if _is_small(loop)]
        if any(peeled):
            erase_dead(function.body.block)


def _is_small(loop: scf.ForOp) -> bool:
    first, step = constant_int(loop.lb), constant_int(loop.step)
    if first is None or step is None or step <= 0 or has_loops(loop):
        return False
    if (
        first + step >= 1 << width_of(loop.lb.type) - 1
    ):  # the second value would wrap to one below the end
        return False
    return sum(1 for _ in loop.body.walk()) <= _MOST_OPS


def _peel(loop: scf.ForOp) -> bool:
    ops = loop.body.block.ops
    conditions = [op for op in ops if isinstance(op, tile.CmpIOp) and _is_of_first(op, loop)]
    if not conditions:
        return False
    e = Emitter(loop)
    values = _first_iteration(e, loop, conditions)
    second = e.constant((constant_int(loop.lb) or 0) + (constant_int(loop.step) or 0), loop.lb.type)
    loop.operands[0] = second
    for i, value in enumerate(values):
        loop.operands[3 + i] = value
    for condition in conditions:
        holds = _OF_FIRST[condition.predicate.data]
        known = Emitter(condition).constant(int(not holds), i1)
        condition.result.replace_all_uses_with(known)
    _simplify(loop.body.block)
    return True


def _is_of_first(op: tile.CmpIOp, loop: scf.ForOp) -> bool:
    """Whether an operation compares the counter with its first value, for a branch."""
    if op.predicate.data not in _OF_FIRST:
        return False
    counter, bound = loop.body.block.args[0], constant_int(op.rhs)
    if op.lhs is not counter or bound is None or bound != constant_int(loop.lb):
        return False
    if op.predicate.data[0] == "u" and bound < 0:
        return False
    return any(isinstance(use.operation, scf.IfOp) for use in op.result.uses)


def _first_iteration(e: Emitter, loop: scf.ForOp, conditions: list[tile.CmpIOp]) -> list[SSAValue]:
    """The first iteration in front of a loop, if there is one; returns what the loop carries then."""
    sides = [Block([scf.YieldOp()]) for _ in range(2)]
    some = e.compare("slt", loop.lb, loop.ub)
    kinds = [v.type for v in loop.iter_args]
    taken = scf.IfOp.create(
        operands=[some], result_types=kinds, regions=[Region(side) for side in sides]
    )
    e.insert_op(taken)
    inside = Emitter(end_of(sides[0]))
    mapping: Mapping = dict(zip(loop.body.block.args, [loop.lb, *loop.iter_args], strict=True))
    for condition in conditions:
        holds = _OF_FIRST[condition.predicate.data]
        mapping[condition.result] = inside.constant(int(holds), i1)
    *ops, end = loop.body.block.ops
    for op in ops:
        if op not in conditions:
            inside.clone(op, mapping)
    end_of(sides[0]).operands = [mapping.get(v, v) for v in end.operands]
    end_of(sides[1]).operands = loop.iter_args
    _simplify(sides[0])
    return list(taken.results)


def _simplify(block: Block) -> None:
    """Take the branches of a block whose conditions are constants, then apply identities."""
    known = Facts()
    for op in list(block.ops):
        if isinstance(op, scf.IfOp) and constant_int(op.cond) is not None:
            simplify_control(op, known)
    for op in list(block.ops):
        rule = _IDENTITIES.get(type(op))
        value = rule(op, Emitter(op)) if rule is not None else None
        if value is not None and value is not op.results[0]:
            op.results[0].replace_all_uses_with(value)
            block.erase_op(op)
