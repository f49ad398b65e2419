"""Comparisons of indices with a 64-bit scalar, in 32 bits.

`columns == label` with a 64-bit label compares 32 bits of each column: that the label has no more is found once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir
from xdsl.dialects import arith
from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from tilewright.dialects import tile

if TYPE_CHECKING:
    from tilewright.backends.nvidia.codegen import KernelCodegen


def lower_compare(gen: KernelCodegen, op: tile.CmpIOp) -> None:
    """Compare each register, or one of each group that has the same result."""
    if not _lower_narrow_equality(gen, op):
        gen.elementwise(op)


def _lower_narrow_equality(gen: KernelCodegen, op: tile.CmpIOp) -> bool:
    """Compare indices that were widened with a 64-bit scalar in 32 bits: with its low half if that is all of it, else
    with -1, which no index is. Returns whether `op` is such a comparison."""
    if op.predicate.data not in ("eq", "ne") or tile.element_of(op.lhs) != i64:
        return False
    sides = [(op.lhs.owner, op.rhs.owner), (op.rhs.owner, op.lhs.owner)]
    for widened, scalar in sides:
        if isinstance(widened, arith.ExtSIOp) and isinstance(scalar, tile.SplatOp):
            return _lower_index_equality(gen, op, widened.input, scalar.source)
    return False


def _lower_index_equality(
    gen: KernelCodegen, op: tile.CmpIOp, indices: SSAValue, scalar: SSAValue
) -> bool:
    if not isinstance(indices.owner, tile.ArangeOp) or indices.owner.start.value.data < 0:
        return False
    b, number = gen.builder, gen.scalar(scalar)
    low = b.trunc(number, ir.IntType(32))
    fits = b.icmp_signed("==", b.sext(low, ir.IntType(64)), number)
    wanted = b.select(fits, low, ir.Constant(ir.IntType(32), -1))
    sign = "==" if op.predicate.data == "eq" else "!="
    parts = gen.parts(indices)
    gen.bind(op.result, [b.icmp_signed(sign, part, wanted) for part in parts])
    return True
