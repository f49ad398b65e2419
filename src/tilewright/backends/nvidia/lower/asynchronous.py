"""Copies to shared memory that run on their own, and products of warp groups (`wgmma`).

`cp.async` moves 4 to 16 bytes a thread and fills the rest with zeros; groups of copies are waited for
in order. `wgmma` reads both operands from shared memory through descriptors; its sums are tied from
asm to asm, so that LLVM keeps them in place (PTX ISA, "Asynchronous warpgroup level matrix multiply").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir
from xdsl.ir import SSAValue

from tilewright.backends.llvm.types import Value
from tilewright.backends.nvidia.lower.memory import ViewAddress, runs
from tilewright.backends.nvidia.lower.words import storage
from tilewright.dialects import gpu, tile
from tilewright.layouts import Layout, parse_layout
from tilewright.layouts.fragments import arrange_groups
from tilewright.layouts.layout import Vector
from tilewright.layouts.shared import (
    CHUNK,
    SharedLayout,
    descriptor_bits,
    k_offset,
    mn_offset,
)
from tilewright.passes.gpu.analysis.accesses import run_length

if TYPE_CHECKING:
    from tilewright.backends.nvidia.codegen import KernelCodegen

I1, I8, I32, I64 = ir.IntType(1), ir.IntType(8), ir.IntType(32), ir.IntType(64)
_K_PER_INSTRUCTION = 16


# ---- addresses in a buffer --------------------------------------------------------------------------


def stage_address(gen: KernelCodegen, buffer: SSAValue, slot: SSAValue) -> Value:
    """Shared address (i32) of a stage."""
    b = gen.builder
    layout = gpu.shared_layout_of(buffer)
    base = gen.buffer_address(buffer)
    offset = b.mul(gen.scalar(slot), ir.Constant(I32, layout.bytes))
    return b.add(base, offset)


class _Place:
    """Addresses of a thread's elements inside a stage."""

    def __init__(
        self, gen: KernelCodegen, start: Value, layout: Layout, shared: SharedLayout
    ) -> None:
        self.gen, self.start, self.layout, self.shared = gen, start, layout, shared
        self._known: dict[Vector, Value] = {}

    def address(self, offset: Vector) -> Value:
        """Of the element of a register at `offset`."""
        gen, b, shared = self.gen, self.gen.builder, self.shared
        along, line = (
            gen.threads.with_offset(
                b, self.layout, gen.threads.coordinate(self.layout, d), offset, d
            )
            for d in (shared.dim, 1 - shared.dim)
        )
        width = max(CHUNK, shared.span)
        byte = _times(b, along, shared.size)
        panel = b.lshr(byte, ir.Constant(I32, width.bit_length() - 1))
        inside = b.and_(byte, ir.Constant(I32, width - 1))
        flat = b.add(_times(b, line, width), inside)
        if shared.span:
            mask = ir.Constant(I32, shared.span // CHUNK - 1)
            bits = b.and_(b.lshr(flat, ir.Constant(I32, 7)), mask)
            flat = b.xor(flat, b.shl(bits, ir.Constant(I32, 4)))
        total = b.add(flat, _times(b, panel, shared.panel_bytes))
        return b.add(self.start, total)


def _times(b: Value, value: Value, factor: int) -> Value:
    if isinstance(value, ir.Constant):
        return ir.Constant(I32, value.constant * factor)
    return b.mul(value, ir.Constant(I32, factor))


# ---- copies ---------------------------------------------------------------------------------------------


def lower_local_store(gen: KernelCodegen, op: gpu.LocalStoreOp) -> None:
    """Registers to a stage, in pieces of up to 16 bytes."""
    layout, shared = gen.layout(op.source), gpu.shared_layout_of(op.buffer)
    place = _Place(gen, stage_address(gen, op.buffer, op.slot), layout, shared)
    parts, element = gen.parts(op.source), tile.element_of(op.source)
    b = gen.builder
    for run in runs(layout, shared.dim, CHUNK // shared.size):
        values = [storage(gen, parts[r], element) for r in run.registers]
        vector: Value = values[0]
        if len(values) > 1:
            vector = ir.Constant(ir.VectorType(values[0].type, len(values)), ir.Undefined)
            for i, value in enumerate(values):
                vector = b.insert_element(vector, value, ir.Constant(I32, i))
        pointer = b.inttoptr(place.address(run.offset), gen.shared_pointer)
        b.store(vector, pointer, align=shared.size * len(values))
    _proxy_fence(gen)


def _proxy_fence(gen: KernelCodegen) -> None:
    """Writes to shared memory before are seen by asynchronous readers after."""
    gen.together("fence.proxy.async.shared::cta;", "~{memory}", ir.VoidType(), [])


def lower_copy(gen: KernelCodegen, op: gpu.CopyOp) -> None:
    """One `cp.async` a run; what is beyond a limit is not read, and zero."""
    layout = parse_layout(op.layout.data)
    shared = gpu.shared_layout_of(op.buffer)
    base: Any = op.base.type
    source = ViewAddress(gen, op, layout, base.pointee)
    place = _Place(gen, stage_address(gen, op.buffer, op.slot), layout, shared)
    length = min(run_length(op, gen.known), CHUNK // shared.size)
    active = gen.scalar(op.active)
    always = isinstance(active, ir.Constant)
    for run in runs(layout, shared.dim, length):
        count = len(run.registers)
        bytes_ = count * shared.size
        target, address = place.address(run.offset), source.address(run.offset)
        live = source.bytes_alive(run.offset, count, shared.dim)
        cache = "cg" if bytes_ == CHUNK else "ca"
        guard = "" if always else "@$3 "
        text = f"{guard}cp.async.{cache}.shared.global [$0], [$1], {bytes_}, $2;"
        amount = ir.Constant(I32, bytes_) if live is None else live
        operands = [target, address, amount, *([] if always else [active])]
        constraints = "r,l,r" + ("" if always else ",b") + ",~{memory}"
        gen.assembly(text, constraints, ir.VoidType(), operands)


def lower_commit(gen: KernelCodegen, op: gpu.CommitOp) -> None:
    gen.together("cp.async.commit_group;", "~{memory}", ir.VoidType(), [])


def lower_wait(gen: KernelCodegen, op: gpu.WaitOp) -> None:
    text = f"cp.async.wait_group {op.pending.value.data};"
    gen.together(text, "~{memory}", ir.VoidType(), [])
    _proxy_fence(gen)


# ---- products ----------------------------------------------------------------------------------------------


def lower_wgmma(gen: KernelCodegen, op: gpu.WgmmaOp) -> None:
    """All instructions of one tile product as one group."""
    m, n = tile.shape_of(op.result)
    groups = arrange_groups(m, n, gen.warps)
    if groups is None:
        raise AssertionError("select-mma gave wgmma a shape that warp groups do not share")
    a, b_ = gpu.shared_layout_of(op.lhs), gpu.shared_layout_of(op.rhs)
    layout, parts = gen.layout(op.result), list(gen.parts(op.acc))
    element = op.instruction.data.split(".")[-1]
    width = groups.width(n)
    first = _group_descriptors(gen, op, groups.rows, n // groups.columns)
    gen.together("wgmma.fence.sync.aligned;", "~{memory}", ir.VoidType(), [])
    for row in range(0, m, 64 * groups.rows):
        for column in range(0, n // groups.columns, width):
            registers = _block_registers(layout, row, column, width)
            sums = [parts[r] for r in registers]
            for k in range(0, a.columns, _K_PER_INSTRUCTION):
                steps = (
                    mn_offset(a, 1, row) + k_offset(a, 1, k, _K_PER_INSTRUCTION),
                    mn_offset(b_, 0, column) + k_offset(b_, 0, k, _K_PER_INSTRUCTION),
                )
                transposed = (int(a.dim == 0), int(b_.dim == 1))
                sums = _instruction(gen, element, width, first, steps, transposed, sums)
            for r, value in zip(registers, sums, strict=True):
                parts[r] = value
    gen.together("wgmma.commit_group.sync.aligned;", "~{memory}", ir.VoidType(), [])
    gen.bind(op.result, parts)


def _group_descriptors(
    gen: KernelCodegen, op: gpu.WgmmaOp, rows: int, columns: int
) -> tuple[Value, Value]:
    """Descriptors of both operands at the first block of this warp group."""
    b = gen.builder
    group = gen.threads.warp_group()
    row = b.urem(group, ir.Constant(I32, rows)) if rows > 1 else ir.Constant(I32, 0)
    column = b.udiv(group, ir.Constant(I32, rows))
    result = []
    for buffer, slot, k_dim, index, extent in (
        (op.lhs, op.lhs_slot, 1, row, 64),
        (op.rhs, op.rhs_slot, 0, column, columns),
    ):
        layout = gpu.shared_layout_of(buffer)
        start = stage_address(gen, buffer, slot)
        start = b.add(start, b.mul(index, ir.Constant(I32, mn_offset(layout, k_dim, extent))))
        field = b.lshr(b.and_(start, ir.Constant(I32, 0x3FFFF)), ir.Constant(I32, 4))
        bits = descriptor_bits(layout, k_dim)
        signed = bits - (1 << 64) if bits >> 63 else bits
        result.append(b.or_(b.zext(field, I64), ir.Constant(I64, signed)))
    return result[0], result[1]


def _block_registers(layout: Layout, row: int, column: int, width: int) -> list[int]:
    """Registers of one instruction's sums, in its order (PTX ISA, fragment D)."""
    return [
        layout.register_of[row + 8 * (i >> 1 & 1), column + 8 * (i >> 2) + (i & 1)]
        for i in range(width // 2)
    ]


def _instruction(
    gen: KernelCodegen,
    element: str,
    width: int,
    first: tuple[Value, Value],
    steps: tuple[int, int],
    transposed: tuple[int, int],
    sums: list[Value],
) -> list[Value]:
    """One `wgmma.mma_async` of 64 rows."""
    b, count = gen.builder, len(sums)
    a_desc, b_desc = (
        b.add(desc, ir.Constant(I64, step >> 4)) if step else desc
        for desc, step in zip(first, steps, strict=True)
    )
    names = ", ".join(f"${i}" for i in range(count))
    text = (
        f"wgmma.mma_async.sync.aligned.m64n{width}k16.f32.{element}.{element} "
        f"{{{names}}}, ${count}, ${count + 1}, 1, 1, 1, {transposed[0]}, {transposed[1]};"
    )
    constraints = ",".join(["=f"] * count + ["l", "l"] + [str(i) for i in range(count)])
    kind = ir.LiteralStructType([v.type for v in sums])
    made = gen.together(text, constraints, kind, [a_desc, b_desc, *sums])
    return [b.extract_value(made, i) for i in range(count)]


def lower_wgmma_wait(gen: KernelCodegen, op: gpu.WgmmaWaitOp) -> None:
    """Wait; the sums pass through the instruction, so that nothing reads them before."""
    parts = gen.parts(op.acc)
    count = len(parts)
    constraints = ",".join(["=f"] * count + [str(i) for i in range(count)] + ["~{memory}"])
    text = f"wgmma.wait_group.sync.aligned {op.pending.value.data};"
    kind = ir.LiteralStructType([v.type for v in parts])
    made = gen.together(text, constraints, kind, list(parts))
    gen.bind(op.result, [gen.builder.extract_value(made, i) for i in range(count)])
