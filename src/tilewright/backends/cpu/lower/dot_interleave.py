"""Pack panels of b with 2 or 4 interleaved rows, for dot-product instructions (`vpdpbusd`, `vpdpwssd`, `vdpbf16ps`).

`vpdpbusd` multiplies unsigned bytes of a by signed bytes of b. Signed bytes of a are therefore offset
by 128 (one xor), which adds 128 · (column sum of b) to every element of the result. The column sums are
computed here, once per call, and subtracted from the accumulators. The arithmetic is modular, so it is exact.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from tilewright.backends.cpu.lower.dot_loops import (
    Builder,
    Value,
    at,
    element_type,
    i64,
    load,
    zip_vectors,
)
from tilewright.backends.llvm.blocks import counted_loop
from tilewright.backends.llvm.types import I32, I64, POINTER
from tilewright.passes.cpu.dot_plan import ELEMENT_BITS, GROUP, DotPlan


class Interleaver:
    """Copies one panel at a time, right before its use, so that the copy stays in L1.

    The copy is [group of rows][column][row of the group]; rows beyond the last are zero-padded.
    """

    def __init__(
        self, b: Builder, plan: DotPlan,
        product: Callable[[Value, Value, Value], Value],
    ) -> None:  # fmt: skip
        self.b, self.plan, self.product = b, plan, product
        self.group = GROUP[plan.kind]
        self.element = ELEMENT_BITS[plan.b_type] // 8
        self.row = plan.micro.columns * self.element
        self.lanes = plan.micro.lanes
        start = -(-plan.b_layout.matrix_size * self.element // 64) * 64
        self.copy = at(b, b.function.args[1], start)
        copy_bytes = -(-plan.k // self.group) * self.group * self.row
        self.summed = plan.kind == "int_quads"
        self.sums = at(b, self.copy, copy_bytes)

    def panel(self, j: Value) -> tuple[Value, Value | None]:
        """Pack panel j; return the address of the copy, and the address of 128 · its column sums or None."""
        b, plan = self.b, self.plan
        source = at(b, b.function.args[1], b.mul(j, i64(plan.k * self.row)))
        kind = ir.VectorType(I32, self.lanes)
        sums = [ir.Constant(kind, None)] * plan.micro.vectors if self.summed else []
        whole, rest = divmod(plan.k, self.group)

        def rows(p: Value, state: list[Value]) -> list[Value]:
            skip = b.mul(p, i64(self.group * self.row))
            return self._group(at(b, source, skip), self.group, at(b, self.copy, skip), state)

        if whole:
            sums = counted_loop(b, whole, 1, rows, sums)
        if rest:
            skip = whole * self.group * self.row
            sums = self._group(at(b, source, skip), rest, at(b, self.copy, skip), sums)
        for v, value in enumerate(sums):
            b.store(value, at(b, self.sums, 4 * v * self.lanes), align=4 * self.lanes)
        return self.copy, self.sums if self.summed else None

    def _group(self, source: Value, count: int, out: Value, sums: list[Value]) -> list[Value]:
        """Copy one group of rows, of which `count` exist; return the updated column sums."""
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


class ColumnSums:
    """Computes 128 times the column sums of prepacked panels, one panel at a time."""

    def __init__(
        self, b: Builder, plan: DotPlan, product: Callable[[Value, Value, Value], Value]
    ) -> None:
        self.b, self.plan, self.product = b, plan, product
        kind = ir.ArrayType(I32, plan.micro.columns)
        room = b.alloca(kind)
        room.align = 4 * plan.micro.lanes
        # llvmlite returns a typed pointer, through which vectors cannot be stored
        self.sums = b.inttoptr(b.ptrtoint(room, I64), POINTER)

    def of(self, panel: Value) -> Value:
        """Return the address of the column sums of the panel at an address."""
        b, plan, tile = self.b, self.plan, self.plan.micro
        group, size = GROUP[plan.kind], tile.lanes * GROUP[plan.kind]
        kind, bytes_ = ir.VectorType(I32, tile.lanes), ir.VectorType(ir.IntType(8), size)
        offsets = ir.Constant(bytes_, [-128] * size)

        def step(p: Value, sums: list[Value]) -> list[Value]:
            row = at(b, panel, b.mul(p, i64(tile.vectors * size)))
            return [
                self.product(value, offsets, load(b, at(b, row, v * size), bytes_, 1))
                for v, value in enumerate(sums)
            ]

        none = [ir.Constant(kind, None)] * tile.vectors
        for v, value in enumerate(counted_loop(b, plan.k // group, 1, step, none)):
            b.store(value, at(b, self.sums, 4 * v * tile.lanes), align=4 * tile.lanes)
        return self.sums
