"""AMX dot kernels: bf16, int8, and fp16 as the exact sum of two bf16 halves.

`tdpbf16ps` and `tdpbssd` require the rows of the right operand that share a 32-bit lane to be interleaved. A copy
in that order is packed after the operand's matrix, panel by panel.

A finite fp16 value has 11 significant bits. Truncating its fp32 representation to 8 bits leaves a remainder that
bf16 also represents exactly, so four bf16 products (high and low half of each operand) give the exact product.
Infinities and NaN have no such split (inf - inf), so a call with such an element uses the fp32 kernel.

AMX, the tile matrix unit of newer x86 servers: configuring it, and the permission to use it.

Eight tile registers of 16 rows × 64 bytes; `tdpbf16ps` and `tdpbssd` add the product of two of them
to a third (Intel SDM volume 2, "AMX"). The register extents come from a 64-byte configuration, loaded
per thread. Linux hands out the large register state only to processes that ask for it
(Documentation/arch/x86/xstate.rst).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from llvmlite import ir

from tilewright.backends.cpu.lower.dot_loops import (
    BYTE,
    Builder,
    Fetcher,
    Value,
    at,
    element_type,
    i64,
    load,
    repeat,
    zip_vectors,
)
from tilewright.backends.cpu.lower.dot_vector import emit_vector_body
from tilewright.backends.llvm.blocks import counted_loop
from tilewright.backends.llvm.types import I16, VOID, call, constant_bytes
from tilewright.passes.cpu.dot_plan import ELEMENT_BITS, GROUP, BufferLayout, DotPlan, MicroTile
from tilewright.targets import TargetInfo

_INSTRUCTION = {"amx_bf16": "tdpbf16ps", "amx_fp16": "tdpbf16ps", "amx_int8": "tdpbssd"}


def emit_amx_body(b: Builder, plan: DotPlan, target: TargetInfo) -> None:
    """Emit the body of an AMX dot function."""
    kernel = _AmxKernel(b, plan)
    if plan.kind != "amx_fp16":
        kernel.run()
        return
    special = kernel.split_operands()
    with b.if_else(special, likely=False) as (unusual, usual):
        with unusual:
            emit_vector_body(b, _fallback(plan), target)
        with usual:
            kernel.run()


def _fallback(plan: DotPlan) -> DotPlan:
    """Return the plan of the fp32 kernel on the same buffers, which converts elements as it loads them."""
    rows = next(r for r in (8, 6, 4, 3, 2, 1) if plan.m % r == 0)
    unroll = 2 if plan.k % 2 == 0 else 1
    return replace(
        plan,
        kind="fma",
        micro=MicroTile(rows, plan.micro.vectors, plan.micro.lanes, unroll),
        a_layout=BufferLayout.row(plan.m, plan.k),
        b_layout=BufferLayout.panel(plan.k, plan.n, plan.micro.columns),
        fetch_a=(0, 0),
        fetch_b=(0, 0),
    )


def _behind(layout: BufferLayout, element: int) -> int:
    """Byte offset of a buffer's workspace, aligned to a cache line."""
    return -(-layout.matrix_size * element // 64) * 64


@dataclass(frozen=True)
class _Sources:
    """Operand addresses of the tile products, one per operand half."""

    left: list[Value]
    right: list[Value]


class _AmxKernel:
    def __init__(self, b: Builder, plan: DotPlan) -> None:
        self.b, self.plan = b, plan
        a, right, acc, next_a, next_lda, next_b, next_ldb = b.function.args
        self.a, self.right, self.acc = a, right, acc
        tile = plan.micro
        self.element = ELEMENT_BITS[plan.a_type] // 8
        self.group = GROUP[plan.kind]
        self.row_tiles = plan.m // tile.rows
        self.panels = plan.n // tile.columns
        self.steps = plan.k // tile.unroll
        self.copy = at(b, right, _behind(plan.b_layout, self.element))
        self.in_place = plan.b_layout.in_place
        """Whether b is prepacked in memory as panels with interleaved rows."""
        self.strip = plan.k * tile.lanes * self.element
        """Bytes of the interleaved copy per column of AMX tiles."""
        # strides in bytes between columns of AMX tiles, and between rows of a tile
        self.right_tile = 4 * tile.lanes if self.in_place else self.strip
        self.right_row = 4 * tile.columns if self.in_place else 4 * tile.lanes
        self.fetcher = Fetcher(
            b, self.panels * -(-self.row_tiles // 2),
            [(next_a, next_lda, plan.fetch_a), (next_b, next_ldb, plan.fetch_b)], a,
        )  # fmt: skip
        self.sources = _Sources([a], [right if self.in_place else self.copy])
        self.whole = plan.kind == "amx_fp16" or self.in_place
        """Whether all panels are packed in advance; otherwise each is packed right before its use."""

    # ---- copies ----------------------------------------------------------------------------------

    def interleave(self, j: Value) -> None:
        """Copy panel j of b with the rows of a lane interleaved: [strip][k / group][lane][group]."""
        b, plan = self.b, self.plan
        kind = ir.VectorType(element_type(plan.b_type), plan.micro.lanes)

        def group(place: Value, out: Value, state: list[Value]) -> list[Value]:
            row = plan.micro.columns * self.element
            rows = [load(b, at(b, place, r * row), kind, self.element) for r in range(self.group)]
            b.store(zip_vectors(b, rows), out, align=4 * plan.micro.lanes)
            return state

        self._each_group(group, j, self.copy, [])

    def _each_group(
        self, body: Callable[[Value, Value, list[Value]], list[Value]],
        j: Value, out: Value, carried: list[Value],
    ) -> list[Value]:  # fmt: skip
        """Emit a loop over the row groups of panel j: `body(address of first row, address in copy, state)`."""
        b, plan, tile = self.b, self.plan, self.plan.micro
        row = tile.columns * self.element
        source = at(b, self.right, b.mul(j, i64(plan.k * row)))

        def rows(p: Value, inner: list[Value]) -> list[Value]:
            first = at(b, source, b.mul(p, i64(self.group * row)))
            place = at(b, out, b.mul(p, i64(4 * tile.lanes)))
            for v in range(tile.vectors):
                shift = v * tile.lanes * self.element
                inner = body(at(b, first, shift), at(b, place, v * self.strip), inner)
            return inner

        return counted_loop(b, plan.k // self.group, 1, rows, carried)

    def split_operands(self) -> Value:
        """Write the bf16 halves of both operands. Returns whether any element is infinite or NaN (i1)."""
        b, plan, tile = self.b, self.plan, self.plan.micro
        count = plan.m * plan.k
        lanes = next(w for w in (32, 16, 8, 4, 2, 1) if count % w == 0)
        high = at(b, self.a, _behind(plan.a_layout, 2))
        low = at(b, high, 2 * count)
        halves = ir.VectorType(ir.HalfType(), lanes)

        def chunk(i: Value, state: list[Value]) -> list[Value]:
            offset = b.mul(i, i64(2))
            value = load(b, at(b, self.a, offset), halves, 2)
            for part, base in zip(_split(b, value), (high, low), strict=True):
                b.store(part, at(b, base, offset), align=2)
            return [_larger(b, state[0], value)]

        zero = ir.Constant(ir.VectorType(I16, lanes), None)
        seen_a = counted_loop(b, count, lanes, chunk, [zero])[0]
        row = tile.columns * 2
        rows_kind = ir.VectorType(ir.HalfType(), tile.lanes)
        low_copy = plan.k * plan.n * 2

        def group(place: Value, out: Value, state: list[Value]) -> list[Value]:
            x, y = (load(b, at(b, place, r * row), rows_kind, 2) for r in (0, 1))
            parts = zip(_split(b, x), _split(b, y), (0, low_copy), strict=True)
            for first, second, shift in parts:
                b.store(zip_vectors(b, [first, second]), at(b, out, shift), align=4 * tile.lanes)
            return [_larger(b, _larger(b, state[0], x), y)]

        zero = ir.Constant(ir.VectorType(I16, tile.lanes), None)

        def panel(j: Value, state: list[Value]) -> list[Value]:
            out = at(b, self.copy, b.mul(j, i64(tile.vectors * self.strip)))
            return self._each_group(group, j, out, state)

        seen_b = counted_loop(b, self.panels, 1, panel, [zero])[0]
        self.sources = _Sources([high, low], [self.copy, at(b, self.copy, low_copy)])
        infinity = ir.Constant(I16, 0x7C00)
        return b.or_(
            b.icmp_unsigned(">=", _largest(b, seen_a), infinity),
            b.icmp_unsigned(">=", _largest(b, seen_b), infinity),
        )

    # ---- products --------------------------------------------------------------------------------

    def run(self) -> None:
        """Emit all register blocks of two row tiles by the panel's column tiles."""
        b, plan = self.b, self.plan
        emit_amx_config(b, plan)
        blocks = -(-self.row_tiles // 2)

        def panel(j: Value) -> None:
            if not self.whole:
                self.interleave(j)

            def block(i: Value, rows: int) -> None:
                self.block(i, j, rows, b.add(b.mul(j, i64(blocks)), i))

            repeat(b, self.row_tiles // 2, lambda i: block(i, 2))
            if self.row_tiles % 2:
                block(i64(self.row_tiles // 2), 1)

        repeat(b, self.panels, panel)
        # a dirty state would make every thread switch save 8 KB
        call(b, "llvm.x86.tilerelease", VOID)

    def block(self, i: Value, j: Value, rows: int, number: Value) -> None:
        """Accumulate `rows` × `vectors` AMX tiles over the whole depth."""
        b, plan, tile = self.b, self.plan, self.plan.micro
        acc_row = 4 * tile.columns
        first_row = b.mul(i, i64(2 * tile.rows))
        acc = at(b, self.acc, b.mul(b.add(b.mul(j, i64(plan.m)), first_row), i64(acc_row)))
        places = [
            (ACCUMULATORS[2 * r + v], at(b, acc, r * tile.rows * acc_row + v * 4 * tile.lanes))
            for r in range(rows)
            for v in range(tile.vectors)
        ]
        for register, place in places:
            self._load(register, place, acc_row)
        a_row = plan.k * self.element
        skip_a = b.mul(first_row, i64(a_row))
        skip_b = b.mul(j, i64(tile.vectors * self.strip)) if self.whole else i64(0)

        def step(s: Value) -> None:
            self.fetcher.emit(number, s, self.steps)
            x = b.add(skip_a, b.mul(s, i64(tile.unroll * self.element)))
            y = b.add(skip_b, b.mul(s, i64(tile.unroll // self.group * self.right_row)))
            self._products(x, y, rows, a_row)

        repeat(b, self.steps, step)
        for register, place in places:
            call(b, "llvm.x86.tilestored64", VOID, _register(register), place, i64(acc_row))

    def _products(self, x: Value, y: Value, rows: int, a_row: int) -> None:
        """Emit one K step. fp16 orders its four products so that each reloads only one operand."""
        b, tile = self.b, self.plan.micro
        name = f"llvm.x86.{_INSTRUCTION[self.plan.kind]}"
        many = len(self.sources.left) > 1
        loaded_left = loaded_right = -1
        for left, right in [(0, 0), (1, 0), (1, 1), (0, 1)] if many else [(0, 0)]:
            for r in range(rows):
                if left != loaded_left:
                    place = at(b, self.sources.left[left], x)
                    self._load(LEFT[r], at(b, place, r * self.plan.micro.rows * a_row), a_row)
                for v in range(tile.vectors):
                    if right != loaded_right and r == 0:
                        place = at(b, self.sources.right[right], y)
                        shift = v * self.right_tile
                        self._load(RIGHT[v], at(b, place, shift), self.right_row)
                    sums = _register(ACCUMULATORS[2 * r + v])
                    call(b, name, VOID, sums, _register(LEFT[r]), _register(RIGHT[v]))
            loaded_left, loaded_right = left, right

    def _load(self, register: int, place: Value, stride: int) -> None:
        call(self.b, "llvm.x86.tileloadd64", VOID, _register(register), place, i64(stride))


def _register(number: int) -> ir.Constant:
    return ir.Constant(BYTE, number)


def _split(b: Builder, halves: Value) -> tuple[Value, Value]:
    """Split an fp16 vector into two bf16 vectors (as i16) whose sum is exact."""
    lanes = halves.type.count
    whole = ir.VectorType(ir.IntType(32), lanes)
    floats, narrow = ir.VectorType(ir.FloatType(), lanes), ir.VectorType(I16, lanes)
    sixteen = ir.Constant(whole, [16] * lanes)
    value = b.fpext(halves, floats)
    bits = b.bitcast(value, whole)
    high = b.and_(bits, ir.Constant(whole, [0xFFFF0000] * lanes))
    low = b.bitcast(b.fsub(value, b.bitcast(high, floats)), whole)
    return tuple(b.trunc(b.lshr(x, sixteen), narrow) for x in (high, low))


def _larger(b: Builder, seen: Value, halves: Value) -> Value:
    """Lane-wise maximum of `seen` and the bits of the magnitudes."""
    lanes = halves.type.count
    bits = b.and_(b.bitcast(halves, seen.type), ir.Constant(seen.type, [0x7FFF] * lanes))
    return call(b, f"llvm.umax.v{lanes}i16", seen.type, seen, bits)


def _largest(b: Builder, seen: Value) -> Value:
    return call(b, f"llvm.vector.reduce.umax.v{seen.type.count}i16", I16, seen)


#: tile registers: up to 2 × 2 accumulators, two of the left and two of the right operand
ACCUMULATORS = (0, 1, 2, 3)
LEFT = (4, 5)
RIGHT = (6, 7)


def tile_configuration(plan: DotPlan) -> bytes:
    """The 64 bytes `ldtilecfg` wants for this plan: palette 1, then bytes per row and rows per register."""
    tile, group = plan.micro, GROUP[plan.kind]
    element = 1 if plan.kind == "amx_int8" else 2
    data = bytearray(64)
    data[0] = 1

    def extents(register: int, rows: int, row_bytes: int) -> None:
        data[16 + 2 * register] = row_bytes
        data[48 + register] = rows

    for register in ACCUMULATORS:
        extents(register, tile.rows, 4 * tile.lanes)
    for register in LEFT:
        extents(register, tile.rows, tile.unroll * element)
    for register in RIGHT:
        extents(register, tile.unroll // group, 4 * tile.lanes)
    return bytes(data)


def emit_amx_config(b: Builder, plan: DotPlan) -> None:
    """Load the tile configuration of `plan` on the running thread (clears the tile registers)."""
    data = tile_configuration(plan)
    name = f"amx_config_{plan.micro.rows}_{plan.micro.lanes}_{data[16 + 2 * LEFT[0]]}"
    table: Any = b.module.globals.get(name)
    if table is None:
        table = constant_bytes(b.module, name, data)
        table.align = 64
    call(b, "llvm.x86.ldtilecfg", VOID, table)
