"""Comparisons of indices with a 64-bit scalar, in 32 bits.

`columns == label`, or `start + columns == label`, with a 64-bit label compares 32 bits of each column: that the label (less
the start) has no more is found once.
"""

from __future__ import annotations

from llvmlite import ir
from xdsl.dialects import arith
from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from tilewright.backends.nvidia.lower import KernelCodegen
from tilewright.dialects import tile


def lower_compare(gen: KernelCodegen, op: tile.CmpIOp) -> None:
    """Compare each register, or one of each group that has the same result."""
    if not _lower_narrow_equality(gen, op):
        gen.elementwise(op)


def _lower_narrow_equality(gen: KernelCodegen, op: tile.CmpIOp) -> bool:
    """Compare indices that were widened with a 64-bit scalar in 32 bits: with its low half if that is all of it, else
    with -1, which no index is. Returns whether `op` is such a comparison."""
    if op.predicate.data not in ("eq", "ne") or tile.element_of(op.lhs) != i64:
        return False
    for widened, scalar in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        found = _widened_indices(widened)
        if found is not None and isinstance(scalar.owner, tile.SplatOp):
            _lower_index_equality(gen, op, *found, scalar.owner.source)
            return True
    return False


def _widened_indices(value: SSAValue) -> tuple[SSAValue, SSAValue | None] | None:
    """Match `start + i` with indices i >= 0 of 32 bits. Returns the indices and the scalar start, None for none."""
    op = value.owner
    if isinstance(op, arith.AddiOp):
        for start, rest in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            indices = _indices(rest)
            if indices is not None and isinstance(start.owner, tile.SplatOp):
                return indices, start.owner.source
    indices = _indices(value)
    return None if indices is None else (indices, None)


def _indices(value: SSAValue) -> SSAValue | None:
    """The `tile.arange` that a value is extended from."""
    source = value.owner.input if isinstance(value.owner, arith.ExtSIOp) else None
    arange = source.owner if source is not None else None
    found = isinstance(arange, tile.ArangeOp) and arange.start.value.data >= 0
    return source if found else None


def _lower_index_equality(
    gen: KernelCodegen, op: tile.CmpIOp, indices: SSAValue, start: SSAValue | None, scalar: SSAValue
) -> None:
    """`start + i == scalar` as `i == scalar - start`, which holds modulo 2^64 for the same i."""
    b, number = gen.builder, gen.scalar(scalar)
    if start is not None:
        number = b.sub(number, gen.scalar(start))
    low = b.trunc(number, ir.IntType(32))
    fits = b.icmp_signed("==", b.sext(low, ir.IntType(64)), number)
    wanted = b.select(fits, low, -1)
    sign = "==" if op.predicate.data == "eq" else "!="
    parts = gen.parts(indices)
    gen.bind(op.result, [b.icmp_signed(sign, part, wanted) for part in parts])
