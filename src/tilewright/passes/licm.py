"""`licm`: hoist pure loop-invariant operations out of loops.

    Change:
          func.func @k(%p: !tile.ptr<i32>, %x: i32, %n: i32) {
            %zero = arith.constant 0 : i32
            %one = arith.constant 1 : i32
        +   %square = arith.muli %x, %x : i32
            scf.for %i = %zero to %n step %one : i32 {
        -     %square = arith.muli %x, %x : i32
              %sum = arith.addi %square, %i : i32
              tile.store %p, %sum : !tile.ptr<i32>, i32
            }
            func.return
          }

Relies on: pure operations never trapping, so that they may run when the loop body would not.

Guarantees: from the inside out, an operation moves as far as its operands allow. Loads stay (memory
may change in the loop), and so does what stands in the branches of an `scf.if`: moving it would
compute it for nothing on the other branch.
"""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from tilewright.passes.analysis.edit import insert_before, post_order
from tilewright.passes.analysis.effects import defined_inside, is_pure, is_terminator
from tilewright.passes.base import FunctionPass
from tilewright.targets import TargetInfo


class Licm(FunctionPass):
    relevant_ops = ("scf.for", "scf.while")

    def run(self, function: FuncOp, target: TargetInfo) -> None:
        for op in post_order(function):
            if isinstance(op, (scf.ForOp, scf.WhileOp)):
                _hoist(op)


def _hoist(loop: Operation) -> None:
    """Move what does not depend on `loop` in front of it."""
    for region in loop.regions:
        for block in region.blocks:
            for op in list(block.ops):
                if is_pure(op) and not is_terminator(op) and _invariant(op, loop):
                    insert_before(op, loop)


def _invariant(op: Operation, loop: Operation) -> bool:
    """Whether everything `op` and its regions use is defined outside `loop` (or in `op` itself)."""
    used = (value for inner in op.walk() for value in inner.operands)
    return all(defined_inside(v, op) or not defined_inside(v, loop) for v in used)
