"""Copying panels of b with 2 or 4 rows interleaved, for instructions that add neighbouring products.

`vpdpbusd` multiplies unsigned bytes of a by signed bytes of b. Signed bytes of a are therefore offset
by 128 (one exclusive or), which adds 128 · (column sum of b) to every element of the result; that sum
is made here, once a call, and subtracted from the accumulators. All of it wraps, so it is exact.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from tilewright.backends.cpu.lower.dot_loops import (
    I32,
    at,
    element_type,
    i64,
    load,
    loop,
    repeat,
    zip_vectors,
)
from tilewright.passes.cpu.dot_plan import ELEMENT_BITS, GROUP, DotPlan


def interleave(
    b: ir.IRBuilder, plan: DotPlan, product: Callable[[ir.Value, ir.Value, ir.Value], ir.Value]
) -> tuple[ir.Value, ir.Value | None]:
    """(address of the copy, address of 128 · column sums or None).

    The copy is [panel][group of rows][column][row of the group]; rows beyond the last are zero.
    """
    return _Interleaver(b, plan, product).emit()


class _Interleaver:
    def __init__(
        self, b: ir.IRBuilder, plan: DotPlan,
        product: Callable[[ir.Value, ir.Value, ir.Value], ir.Value],
    ) -> None:  # fmt: skip
        self.b, self.plan, self.product = b, plan, product
        self.group = GROUP[plan.kind]
        self.element = ELEMENT_BITS[plan.b_type] // 8
        self.row = plan.micro.columns * self.element
        self.lanes = plan.micro.lanes
        self.panels = -(-plan.n // plan.micro.columns)
        self.groups = -(-plan.k // self.group)
        start = -(-plan.b_layout.matrix_size * self.element // 64) * 64
        self.copy = at(b, b.function.args[1], start)
        self.summed = plan.kind == "int_quads"
        self.sums_at = self.panels * self.groups * self.group * self.row

    def emit(self) -> tuple[ir.Value, ir.Value | None]:
        repeat(self.b, self.panels, self._panel)
        return self.copy, at(self.b, self.copy, self.sums_at) if self.summed else None

    def _panel(self, j: ir.Value) -> None:
        b, plan = self.b, self.plan
        source = at(b, b.function.args[1], b.mul(j, i64(plan.k * self.row)))
        out = at(b, self.copy, b.mul(j, i64(self.groups * self.group * self.row)))
        kind = ir.VectorType(I32, self.lanes)
        sums = [ir.Constant(kind, None)] * plan.micro.vectors if self.summed else []
        whole, rest = divmod(plan.k, self.group)

        def rows(p: ir.Value, state: list[ir.Value]) -> list[ir.Value]:
            skip = b.mul(p, i64(self.group * self.row))
            return self._group(at(b, source, skip), self.group, at(b, out, skip), state)

        if whole:
            sums = loop(b, 0, whole, 1, rows, sums)
        if rest:
            skip = whole * self.group * self.row
            sums = self._group(at(b, source, skip), rest, at(b, out, skip), sums)
        place = at(b, self.copy, self.sums_at)
        place = at(b, place, b.mul(j, i64(4 * plan.micro.columns)))
        for v, value in enumerate(sums):
            b.store(value, at(b, place, 4 * v * self.lanes), align=4 * self.lanes)

    def _group(
        self, source: ir.Value, count: int, out: ir.Value, sums: list[ir.Value]
    ) -> list[ir.Value]:
        """Copy one group of rows, of which `count` exist; the column sums with it added."""
        b, size = self.b, self.lanes * self.element
        kind = ir.VectorType(element_type(self.plan.b_type), self.lanes)
        result = []
        for v in range(self.plan.micro.vectors):
            rows = [
                load(b, at(b, source, r * self.row + v * size), kind, size) for r in range(count)
            ]
            rows += [ir.Constant(kind, None)] * (self.group - count)
            mixed = zip_vectors(b, rows)
            b.store(mixed, at(b, out, self.group * v * size), align=self.group * size)
            if self.summed:
                offsets = ir.Constant(mixed.type, [-128] * mixed.type.count)
                result.append(self.product(sums[v], offsets, mixed))
        return result
