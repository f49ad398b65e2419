"""`accumulate-dot`: fold an addition into the accumulator operand of a dot.

    Change:
          func.func @k(%p: tensor<16x16x!tile.ptr<f32>>, %a: tensor<16x16xf16>, %b: tensor<16x16xf16>, %acc: tensor<16x16xf32>) {
        -   %z = arith.constant 0.0 : f32
        -   %zeros = tile.splat %z : f32 to tensor<16x16xf32>
        -   %d = tile.dot %a, %b, %zeros, "ieee" : tensor<16x16xf16>, tensor<16x16xf16>, tensor<16x16xf32> to tensor<16x16xf32>
        -   %r = arith.addf %acc, %d : tensor<16x16xf32>
        -   tile.store %p, %r : tensor<16x16x!tile.ptr<f32>>, tensor<16x16xf32>
        +   %d = tile.dot %a, %b, %acc, "ieee" : tensor<16x16xf16>, tensor<16x16xf16>, tensor<16x16xf32> to tensor<16x16xf32>
        +   tile.store %p, %d : tensor<16x16x!tile.ptr<f32>>, tensor<16x16xf32>
            func.return
          }

Back ends keep the accumulator in registers across the loop and never write the dot anywhere.

Relies on: dots having no fixed order of summation, so that the sum may start from the accumulator.

Guarantees: applies to `arith.addf` and `arith.addi` with the dot on either side, when nothing else
uses the dot and the dot's own accumulator is the constant 0. Dots of 8-bit floats take only sums that a
loop carries: units that add them keep 14 bits of the largest of products and accumulator (Hopper), so that the
dot of small numbers is lost next to a large one.
"""

from __future__ import annotations

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import Float8E4M3FNType, Float8E5M2Type, ModuleOp
from xdsl.ir import SSAValue

from tilewright.dialects import tile
from tilewright.passes.analysis.edit import replace_op, with_operands
from tilewright.passes.analysis.effects import erase_dead
from tilewright.passes.analysis.emit import uniform_constant
from tilewright.passes.base import Pass
from tilewright.targets import TargetInfo


class AccumulateDot(Pass):
    relevant_ops = ("tile.dot",)

    def apply(self, module: ModuleOp, target: TargetInfo) -> None:
        changed = False
        for op in list(module.walk()):
            if isinstance(op, (arith.AddfOp, arith.AddiOp)):
                changed |= _accumulate(op)
        if changed:
            erase_dead(module.body.block)


def _accumulate(op: arith.AddfOp | arith.AddiOp) -> bool:
    for product, accumulator in ((op.rhs, op.lhs), (op.lhs, op.rhs)):
        dot = _plain_dot(product)
        if dot is None or op.parent is None or (_coarse(dot) and not _carried(op)):
            continue
        # The new dot stands where the addition was: the accumulator may be computed after the old one.
        new = with_operands(dot, [dot.lhs, dot.rhs, accumulator], [op.result.type])
        op.parent.insert_op_before(new, op)
        replace_op(op, [new.result])
        if dot.parent is not None:
            dot.parent.erase_op(dot)
        return True
    return False


def _coarse(dot: tile.DotOp) -> bool:
    """Whether dots are added with fewer bits than the accumulator has."""
    kinds = [tile.element_of(value) for value in (dot.lhs, dot.rhs)]
    return any(isinstance(kind, Float8E4M3FNType | Float8E5M2Type) for kind in kinds)


def _carried(op: arith.AddfOp | arith.AddiOp) -> bool:
    """Whether the sum is what a loop carries on."""
    return all(isinstance(use.operation, scf.YieldOp) for use in op.result.uses)


def _plain_dot(value: SSAValue) -> tile.DotOp | None:
    """The dot that computes `value` for one user only, onto zeros."""
    op = value.owner
    if not isinstance(op, tile.DotOp) or not value.has_one_use():
        return None
    return op if uniform_constant(op.acc) == 0 else None
