"""Comparisons of positions with a bound: once for neighbours that are all below it, or none.

`columns < n` with an `n` that is a multiple of 16 has one value for 16 neighbours that begin at a multiple of 16. A
thread whose registers hold such neighbours compares once for them, and has one predicate instead of one each: a layer
norm of 16384 fp32 columns has 8 instead of 32, which loads of the same elements have anyway, and takes 66 registers
instead of 74. Positions may have several dimensions: `rows[:, None] * 8 + lanes[None, :] < n`.

`columns == label` with a 64-bit label compares 32 bits of each column: that the label has no more is found once.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

from llvmlite import ir
from xdsl.dialects import arith
from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from tilewright.backends.llvm.elementwise import lower_elementwise
from tilewright.backends.llvm.types import Value
from tilewright.dialects import gpu, tile
from tilewright.layouts import Layout
from tilewright.passes.analysis.lane_groups import LaneGroups
from tilewright.passes.gpu.analysis.accesses import EQUAL

if TYPE_CHECKING:
    from tilewright.backends.nvidia.codegen import KernelCodegen

_MAX_RUN = 16


def lower_compare(gen: KernelCodegen, op: tile.CmpIOp) -> None:
    """Compare each register, or one of each run that has the same result."""
    same = _representatives(gen, op) if EQUAL not in op.attributes else None
    if same is None:
        if not _lower_narrow_equality(gen, op):
            gen.elementwise(op)
        return
    lhs, rhs = gen.parts(op.lhs), gen.parts(op.rhs)
    types = [tile.element_of(op.lhs), tile.element_of(op.rhs)]
    made: dict[int, Value] = {}
    for register in same:
        if register not in made:
            values = [p[register] if len(p) > 1 else p[0] for p in (lhs, rhs)]
            results = lower_elementwise(
                gen.builder,
                op.name,
                values,
                op.properties,
                [tile.element_of(op.result)],
                types,
                gen.math,
            )
            (made[register],) = results
    gen.bind(op.result, [made[register] for register in same])


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


def _representatives(gen: KernelCodegen, op: tile.CmpIOp) -> list[int] | None:
    """For each register the one whose result it has; None where all differ."""
    layout = gpu.layout_of(op.result)
    if layout is None or not tile.is_tile(op.result):
        return None
    sizes = [_run(gen, op, layout, d) for d in range(layout.rank)]
    if max(sizes, default=1) == 1:
        return None
    first: dict[tuple[int, ...], int] = {}
    starts = (tuple(c & -s for c, s in zip(o, sizes, strict=True)) for o in layout.register_offsets)
    return [first.setdefault(start, register) for register, start in enumerate(starts)]


def _run(gen: KernelCodegen, op: tile.CmpIOp, layout: Layout, axis: int) -> int:
    """The length of aligned runs along an axis that have one result, each in registers of one thread."""
    run = layout.num_consecutive(axis, _MAX_RUN)
    run = gcd(run, layout.group_step(axis), layout.block[axis])
    return LaneGroups(gen.known).equal_run(op.result, axis, run)
