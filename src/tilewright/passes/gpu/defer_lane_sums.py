"""`defer-lane-sums`: sum over lanes once behind a loop, not in every iteration.

Attention carries the sum of each row's probabilities, of which a lane holds a part: shuffles add the parts. The carried
sum is linear in what is added to it, so that each lane may carry the sum of its own parts:

    l = l0                                     l = l0 in the first lane of a row, 0 in the others
    for i:                                     for i:
      l = l * alpha + sum(p)              ->     l = l * alpha + (sum of the lane's elements of p)
                                               l = sum of the lanes' l

In a loop over tiles of 64 x 64 these are 8 of 260 instructions, and shuffles use the bandwidth of shared memory, which MMAs
read. The factor has to be at most one, as `exp2(m - max(m, ...))` is: with an infinite one the lanes without a part would
get NaN. (FlashAttention-2, arXiv 2307.08691, keeps partial sums as well.)

Takes loops with dots, others wait for memory. Requires `assign-layouts`: which lanes share a row. Ensures: the same terms
are added, in another order.
"""

from __future__ import annotations

from xdsl.dialects import arith, math, scf
from xdsl.dialects.builtin import IntegerAttr, UnitAttr, f32, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.passes.analysis.edit import initial, insert_before, yielded
from tilewright.passes.base import FunctionPass
from tilewright.targets import TargetInfo

IN_PARTS = "gpu.in_parts"
"""On a reduction: each lane has its part of the result."""
_MAXIMA = (arith.MaxnumfOp, arith.MaximumfOp)
_EXPONENTIALS = (math.ExpOp, math.Exp2Op)
_BOUNDS = 2
"""Operands of `scf.for` in front of the first carried value, less the counter's place."""


class DeferLaneSums(FunctionPass):
    relevant_ops = ("scf.for",)
    requires = ("assign-layouts",)

    def run(self, function: FuncOp, target: TargetInfo) -> None:
        for op in list(function.walk()):
            if isinstance(op, scf.ForOp) and any(
                isinstance(o, tile.DotOp) for o in op.body.block.ops
            ):
                for argument in op.body.block.args[1:]:
                    reduction = _reduction(op, argument)
                    if reduction is not None:
                        _defer(op, argument, reduction)


def _reduction(loop: scf.ForOp, argument: BlockArgument) -> tile.ReduceOp | None:
    """The sum over lanes that an argument of a loop is increased by, and nothing else uses; None for others."""
    if not tile.is_tile(argument) or tile.element_of(argument) != f32:
        return None
    add = yielded(argument).owner
    if not isinstance(add, arith.AddfOp) or add.result.get_user_of_unique_use() is None:
        return None
    for kept, added in ((add.lhs, add.rhs), (add.rhs, add.lhs)):
        sums = added.owner
        if not isinstance(sums, tile.ReduceOp) or added.get_user_of_unique_use() is not add:
            continue
        scaled = kept.owner
        if kept is argument or (
            isinstance(scaled, arith.MulfOp)
            and kept.get_user_of_unique_use() is add
            and _scales(scaled, argument)
        ):
            alone = argument.get_user_of_unique_use() in (add, scaled)
            return sums if alone and sums.parent is loop.body.block and _lanes(sums) else None
    return None


def _scales(op: arith.MulfOp, argument: SSAValue) -> bool:
    """Whether an operation multiplies an argument by a factor of at most one: a power of a number less a maximum of it."""
    if argument not in (op.lhs, op.rhs):
        return False
    factor = (op.rhs if op.lhs is argument else op.lhs).owner
    if not isinstance(factor, _EXPONENTIALS):
        return False
    less = factor.operand.owner
    if not isinstance(less, arith.SubfOp):
        return False
    most = less.rhs.owner
    return isinstance(most, _MAXIMA) and less.lhs in (most.lhs, most.rhs)


def _lanes(op: tile.ReduceOp) -> int:
    """The bits of a lane's index along which a sum is taken; 0 if it is none within warps, or in another layout."""
    first, *others = op.combine.block.ops
    if len(op.inputs) != 1 or not isinstance(first, arith.AddfOp) or len(others) != 1:
        return 0
    arguments = op.combine.block.args
    if {first.lhs, first.rhs} != set(arguments) or list(others[0].operands) != [first.result]:
        return 0
    layout, own, axis = (
        gpu.layout_of(op.inputs[0]),
        gpu.layout_of(op.results[0]),
        op.axis.value.data,
    )
    if layout is None or own is None or own != layout.drop(axis):
        return 0
    if any(v[axis] for v in layout.warps) or layout.group_dim == axis:
        return 0
    return sum(1 << bit for bit, vector in enumerate(layout.lanes) if vector[axis])


def _defer(loop: scf.ForOp, argument: BlockArgument, reduction: tile.ReduceOp) -> None:
    lanes = IntegerAttr(_lanes(reduction), i32)
    start, result = initial(argument), loop.results[argument.index - 1]
    split = gpu.SplitOverLanesOp.create(
        operands=[start], properties={"lanes": lanes}, result_types=[start.type]
    )
    insert_before(split, loop)
    loop.operands[argument.index + _BOUNDS] = split.result
    reduction.attributes[IN_PARTS] = UnitAttr()
    total = gpu.SumOverLanesOp.create(
        operands=[result], properties={"lanes": lanes}, result_types=[result.type]
    )
    result.replace_uses_with_if(total.result, lambda use: use.operation is not total)
    block = loop.parent
    if block is not None:
        block.insert_op_after(total, loop)
