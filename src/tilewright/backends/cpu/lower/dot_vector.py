"""Emit vector micro-kernels: floating-point FMA, integers, and integer dot products of pairs and quads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llvmlite import ir

from tilewright.backends.cpu.lower.dot_interleave import ColumnSums, Interleaver
from tilewright.backends.cpu.lower.dot_loops import (
    Builder,
    Fetcher,
    Value,
    at,
    element_type,
    i64,
    load,
    repeat,
)
from tilewright.backends.llvm.blocks import counted_loop
from tilewright.backends.llvm.types import I32, BFloatType, call, lane_type, splat
from tilewright.passes.cpu.dot_plan import ELEMENT_BITS, GROUP, DotPlan, is_fused
from tilewright.targets import TargetInfo

#: (accumulator, broadcast of a, vector of b) → accumulator
Product = Callable[[Value, Value, Value], Value]


@dataclass(frozen=True)
class _Shape:
    """Sizes in bytes that the loops step by. A step takes `group` rows of b and columns of a."""

    group: int
    a_element: int
    a_row: int
    b_element: int
    b_row: int
    """Bytes of a panel per step."""
    panel: int
    """Bytes of a whole panel of b."""
    acc_row: int
    acc_vector: int

    @staticmethod
    def of(plan: DotPlan) -> _Shape:
        group, width = GROUP[plan.kind], plan.micro.columns
        a_element, b_element = ELEMENT_BITS[plan.a_type] // 8, ELEMENT_BITS[plan.b_type] // 8
        acc_element = ELEMENT_BITS[plan.acc_type] // 8
        depth = -(-plan.k // group)
        return _Shape(
            group, a_element, plan.a_layout.width * a_element, b_element,
            group * width * b_element, depth * group * width * b_element,
            width * acc_element, plan.micro.lanes * acc_element,
        )  # fmt: skip


def emit_vector_body(b: Builder, plan: DotPlan, target: TargetInfo) -> None:
    """Emit the body of a vector dot function: loops over panels and row blocks around register tiles."""
    _VectorKernel(b, plan, target).emit()


class _VectorKernel:
    def __init__(self, b: Builder, plan: DotPlan, target: TargetInfo) -> None:
        self.b, self.plan, self.target = b, plan, target
        self.shape = _Shape.of(plan)
        a, panels, acc, next_a, next_lda, next_b, next_ldb = b.function.args
        self.a, self.panels, self.acc = a, panels, acc
        self.count = -(-plan.n // plan.micro.columns)
        self.blocks = -(-plan.m // plan.micro.rows)
        self.fetcher = Fetcher(
            b, self.count * self.blocks,
            [(next_a, next_lda, plan.fetch_a), (next_b, next_ldb, plan.fetch_b)], a,
        )  # fmt: skip
        self.product = _product(b, plan, target)

    def emit(self) -> None:
        b, plan, shape = self.b, self.plan, self.shape
        in_place = plan.b_layout.in_place
        interleaver = (
            Interleaver(b, plan, self.product) if shape.group > 1 and not in_place else None
        )
        summed = (
            ColumnSums(b, plan, self.product) if in_place and plan.kind == "int_quads" else None
        )
        full, rest = divmod(plan.m, plan.micro.rows)

        def panel(j: Value) -> None:
            if interleaver is None:
                b_panel = at(b, self.panels, b.mul(j, i64(shape.panel)))
                correction = None if summed is None else summed.of(b_panel)
            else:
                b_panel, correction = interleaver.panel(j)
            acc_panel = at(b, self.acc, b.mul(j, i64(plan.m * shape.acc_row)))
            first = b.mul(j, i64(self.blocks))

            def block(i: Value, rows: int) -> None:
                skip = b.mul(i, i64(plan.micro.rows))
                self.register_tile(
                    rows,
                    at(b, self.a, b.mul(skip, i64(shape.a_row))),
                    b_panel,
                    at(b, acc_panel, b.mul(skip, i64(shape.acc_row))),
                    b.add(first, i),
                    correction,
                )

            repeat(b, full, lambda i: block(i, plan.micro.rows))
            if rest:
                block(i64(full), rest)

        repeat(b, self.count, panel)

    def register_tile(
        self, rows: int, a: Value, panel: Value, acc: Value, number: Value,
        correction: Value | None,
    ) -> None:  # fmt: skip
        """Load `rows` rows of accumulators, accumulate over the whole depth, store them."""
        b, plan, shape = self.b, self.plan, self.shape
        vector = ir.VectorType(element_type(plan.acc_type), plan.micro.lanes)
        places = [
            at(b, acc, r * shape.acc_row + v * shape.acc_vector)
            for r in range(rows)
            for v in range(plan.micro.vectors)
        ]
        accumulators = [load(b, p, vector, shape.acc_vector) for p in places]
        if correction is not None:
            columns = [
                load(b, at(b, correction, v * shape.acc_vector), vector, shape.acc_vector)
                for v in range(plan.micro.vectors)
            ]
            accumulators = [b.sub(s, columns[n % len(columns)]) for n, s in enumerate(accumulators)]
        steps = plan.k // shape.group
        unroll = min(plan.micro.unroll, steps) or 1
        trips = steps // unroll
        if trips > 1:

            def trip(t: Value, state: list[Value]) -> list[Value]:
                a_now, b_now, *values = state
                self.fetcher.emit(number, t, trips)
                for u in range(unroll):
                    values = self.step(rows, a_now, b_now, u, values)
                return [
                    at(b, a_now, unroll * shape.group * shape.a_element),
                    at(b, b_now, unroll * shape.b_row),
                    *values,
                ]

            a, panel, *accumulators = counted_loop(b, trips, 1, trip, [a, panel, *accumulators])
        else:
            trips = 0
            self.fetcher.emit(number, i64(0), 1)
        for u in range(steps - trips * unroll):
            accumulators = self.step(rows, a, panel, u, accumulators)
        if plan.k % shape.group:
            accumulators = self.step(
                rows, a, panel, steps - trips * unroll, accumulators, partial=True
            )
        for place, value in zip(places, accumulators, strict=True):
            b.store(value, place, align=shape.acc_vector)

    def step(
        self, rows: int, a: Value, panel: Value, u: int, accumulators: list[Value],
        partial: bool = False,
    ) -> list[Value]:  # fmt: skip
        """Accumulate step `u` from the given addresses. `partial`: the last group of rows is incomplete."""
        b, plan, shape = self.b, self.plan, self.shape
        lanes = plan.micro.lanes * shape.group
        vector = ir.VectorType(element_type(plan.b_type), lanes)
        size = lanes * shape.b_element
        align = shape.b_element if plan.b_layout.in_place else size
        width = [
            load(b, at(b, panel, u * shape.b_row + v * size), vector, align)
            for v in range(plan.micro.vectors)
        ]
        if plan.b_type != plan.acc_type and shape.group == 1:
            wide = ir.VectorType(element_type(plan.acc_type), lanes)
            width = [_widen(b, v, wide) for v in width]
        result = []
        for r in range(rows):
            place = at(b, a, r * shape.a_row + u * shape.group * shape.a_element)
            factor = self.factor(place, partial)
            result += [
                self.product(accumulators[r * plan.micro.vectors + v], factor, width[v])
                for v in range(plan.micro.vectors)
            ]
        return result

    def factor(self, place: Value, partial: bool) -> Value:
        """The element (or pair) of a at `place` in every lane."""
        b, plan, shape = self.b, self.plan, self.shape
        lanes = plan.micro.lanes
        if shape.group > 1:
            # Missing elements of the last group are zero here and in the copy of b.
            count = plan.k % shape.group if partial else shape.group
            bits = ir.IntType(8 * shape.a_element * count)
            group = load(b, place, bits, shape.a_element)
            group = splat(b, group if bits.width == 32 else b.zext(group, I32), lanes)
            if plan.kind == "int_quads":
                group = b.xor(group, ir.Constant(group.type, [-0x7F7F7F80] * lanes))
            return b.bitcast(group, ir.VectorType(element_type(plan.b_type), shape.group * lanes))
        scalar = load(b, place, element_type(plan.a_type), shape.a_element)
        if plan.a_type != plan.acc_type:
            scalar = _widen(b, scalar, element_type(plan.acc_type))
        return splat(b, scalar, lanes)


def _widen(b: Builder, value: Value, kind: ir.Type) -> Value:
    whole = isinstance(lane_type(value.type), ir.IntType)
    return b.sext(value, kind) if whole else b.fpext(value, kind)


def _product(b: Builder, plan: DotPlan, target: TargetInfo) -> Product:
    """Return the multiply-accumulate operation on vectors for this target."""
    lanes, acc = plan.micro.lanes, element_type(plan.acc_type)
    vector = ir.VectorType(acc, lanes)
    if plan.kind == "fma":
        if not is_fused(plan.kind, plan.acc_type, target):
            # llvm.fma would become a library call for each lane
            return lambda c, x, y: b.fadd(c, b.fmul(x, y))
        suffix = f"v{lanes}f{32 if plan.acc_type == 'f32' else 64}" if lanes > 1 else "f64"
        return lambda c, x, y: call(b, f"llvm.fma.{suffix}", vector, x, y, c)
    if plan.kind == "int":
        return lambda c, x, y: b.add(c, b.mul(x, y))
    bits = 32 * lanes
    if plan.kind == "bf16_pairs":
        halves = ir.VectorType(BFloatType(), 2 * lanes)
        name = f"llvm.x86.avx512bf16.dpbf16ps.{bits}"
        return lambda c, x, y: call(b, name, vector, c, b.bitcast(x, halves), b.bitcast(y, halves))
    if plan.kind == "int_quads":
        # unsigned bytes times signed bytes
        return lambda c, x, y: call(b, f"llvm.x86.avx512.vpdpbusd.{bits}", vector, c, x, y)
    if target.has("avx512vnni") and (bits == 512 or target.has("avx512vl")):
        return lambda c, x, y: call(b, f"llvm.x86.avx512.vpdpwssd.{bits}", vector, c, x, y)
    name = {512: "avx512.pmaddw.d.512", 256: "avx2.pmadd.wd", 128: "sse2.pmadd.wd"}[bits]
    return lambda c, x, y: b.add(c, call(b, f"llvm.x86.{name}", vector, x, y))
