"""Emit LLVM IR for a kernel in one walk over the vector-level IR.

Requires: every value is a scalar or a vector of a few registers, control flow is `scf`, and memory accesses are
vector operations of the `cpu` dialect. Each operation maps to a few LLVM instructions. LLVM's middle end is not run, so
loops are emitted rotated, and branch-free if possible.
Element-wise operations are lowered by `backends.llvm`, shared with other targets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from tilewright.backends.cpu.fault_lines import InstructionPlaces
from tilewright.backends.cpu.lower import bounds, memory, output
from tilewright.backends.cpu.lower.half import add_half_conversions
from tilewright.backends.llvm import control
from tilewright.backends.llvm.codegen import Codegen
from tilewright.backends.llvm.function import KernelFunction
from tilewright.backends.llvm.types import (
    I8,
    I32,
    I64,
    POINTER,
    Value,
    as_vector,
    call,
    clamped,
    llvm_type,
    shuffle,
    splat,
    steps,
)
from tilewright.dialects import cpu, tile
from tilewright.passes.base import functions_of
from tilewright.targets import TargetInfo


class KernelCodegen(Codegen):
    """Code generation state of one kernel: the builder, emitted values and the entry's arguments."""

    def __init__(self, module: ir.Module, function: func.FuncOp, target: TargetInfo, fuse: bool):
        super().__init__(module, function, target, fuse, HANDLERS)
        self.limits: dict[tuple[Value, int], Value] = {}
        """Limits of bounds checks, by size of the range and size of the access in bytes."""
        asserts: Any = function.attributes["cpu.asserts"]
        self.assert_count = len(asserts.data)
        kind = ir.FunctionType(I32, [POINTER, I64, I64, POINTER])
        self.function = KernelFunction(module, kind, function.sym_name.data)
        self.function.attributes.add("nounwind")
        # else LLVM spills 64-byte registers to slots that straddle cache lines
        self.function.attributes.alignstack = 64
        self.args, self.first, self.last, self.thread = self.function.args
        for name, arg in zip(("args", "first", "last", "thread"), self.function.args, strict=True):
            arg.name = name
        self.builder = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.streams = False
        """Whether there are non-temporal stores."""
        self.places: InstructionPlaces | None = None
        """Records the origin of instructions, if requested."""

    def run(self) -> None:
        block = self.source.body.block
        self.set(block.args[0], self.first)
        self.set(block.args[1], self.last)
        self.scratch = self.builder.load(self.thread, name="scratch", typ=POINTER)
        for op in block.ops:
            self.op(op)

    def op(self, op: Operation) -> None:
        if self.places is not None:
            self.builder.debug_metadata = self.places.of(op)
        super().op(op)

    def set(self, value: SSAValue, result: Value) -> None:
        self.values[value] = [result]

    def type(self, value: SSAValue) -> ir.Type:
        return llvm_type(value.type)


# ---- small operations ---------------------------------------------------------------------------


def _return(gen: KernelCodegen, op: Operation) -> None:
    if gen.streams and gen.target.triple.startswith("x86_64"):  # these are ordered by no barrier
        call(gen.builder, "llvm.x86.sse.sfence", ir.VoidType())
    gen.builder.ret(ir.Constant(I32, 0))


def _argument(gen: KernelCodegen, op: cpu.ArgumentOp) -> None:
    b = gen.builder
    slot = b.gep(gen.args, [ir.Constant(I64, op.index.value.data)], source_etype=I64)
    kind = gen.type(op.result)
    if isinstance(kind, ir.IntType) and kind.width < 64:
        value = b.trunc(b.load(slot, typ=I64), kind)
    else:
        value = b.load(slot, typ=kind)
    gen.set(op.result, value)


def _scratch_address(gen: KernelCodegen, op: cpu.ScratchAddressOp) -> None:
    offset = ir.Constant(I64, op.offset.value.data)
    gen.set(op.result, gen.builder.gep(gen.scratch, [offset], source_etype=I8))


def _splat(gen: KernelCodegen, op: cpu.SplatOp) -> None:
    lane = op.source.owner
    if isinstance(lane, cpu.SliceOp):
        # stays in vector registers: LLVM moves an extracted integer through a general one
        picks = [lane.start.value.data] * cpu.lanes_of(op.result)
        gen.set(op.result, shuffle(gen.builder, gen.scalar(lane.source), None, picks))
        return
    gen.set(op.result, splat(gen.builder, gen.scalar(op.source), cpu.lanes_of(op.result)))


def _iota(gen: KernelCodegen, op: cpu.IotaOp) -> None:
    b, base, lanes = gen.builder, gen.scalar(op.base), cpu.lanes_of(op.result)
    gen.set(op.result, b.add(splat(b, base, lanes), steps(base.type, lanes)))


def _lane_mask(gen: KernelCodegen, op: cpu.LaneMaskOp) -> None:
    b, count, lanes = gen.builder, gen.scalar(op.count), cpu.lanes_of(op.result)
    # clamp in 64 bits, compare in 32: cheaper than a 64-bit compare of every lane
    limit = splat(b, b.trunc(clamped(b, count, lanes), I32), lanes)
    gen.set(op.result, b.icmp_signed(">", limit, steps(I32, lanes)))


def _slice(gen: KernelCodegen, op: cpu.SliceOp) -> None:
    b, source, start = gen.builder, gen.scalar(op.source), op.start.value.data
    lanes = cpu.lanes_of(op.result)
    if lanes == 1:
        gen.set(op.result, b.extract_element(source, ir.Constant(I32, start)))
        return
    gen.set(op.result, shuffle(b, source, None, range(start, start + lanes)))


def _splice(gen: KernelCodegen, op: cpu.SpliceOp) -> None:
    start, lanes = op.start.value.data, cpu.lanes_of(op.result)
    picks = range(start, start + lanes)
    gen.set(op.result, shuffle(gen.builder, gen.scalar(op.lhs), gen.scalar(op.rhs), picks))


def _shuffle_xor(gen: KernelCodegen, op: cpu.ShuffleXorOp) -> None:
    lanes, mask = cpu.lanes_of(op.result), op.mask.value.data
    picks = [lane ^ mask for lane in range(lanes)]
    gen.set(op.result, shuffle(gen.builder, gen.scalar(op.source), None, picks))


def _all_true(gen: KernelCodegen, op: cpu.AllTrueOp) -> None:
    kind = ir.IntType(cpu.lanes_of(op.mask))
    bits = gen.builder.bitcast(gen.scalar(op.mask), kind)
    gen.set(op.result, gen.builder.icmp_unsigned("==", bits, ir.Constant(kind, -1)))


def _concat(gen: KernelCodegen, op: cpu.FromElementsOp) -> None:
    gen.set(op.result, as_vector(gen.builder, [gen.scalar(part) for part in op.values]))


def _transpose(gen: KernelCodegen, op: cpu.TransposeOp) -> None:
    """Transpose in `log n` rounds; each interleaves the vectors of the first half with those of the second."""
    rows = [gen.scalar(v) for v in op.rows]
    count = len(rows)
    low = [lane for i in range(count // 2) for lane in (i, count + i)]
    high = [lane + count // 2 for lane in low]
    for _ in range(count.bit_length() - 1):
        pairs = list(zip(rows[: count // 2], rows[count // 2 :], strict=True))
        rows = [shuffle(gen.builder, a, b, picks) for a, b in pairs for picks in (low, high)]
    for result, value in zip(op.columns, rows, strict=True):
        gen.set(result, value)


Handler = Callable[[KernelCodegen, Any], None]

HANDLERS: dict[type[Operation], Handler] = {
    func.ReturnOp: _return,
    cpu.ArgumentOp: _argument,
    cpu.ScratchAddressOp: _scratch_address,
    cpu.SplatOp: _splat,
    cpu.IotaOp: _iota,
    cpu.LaneMaskOp: _lane_mask,
    cpu.SliceOp: _slice,
    cpu.SpliceOp: _splice,
    cpu.ShuffleXorOp: _shuffle_xor,
    cpu.AllTrueOp: _all_true,
    cpu.FromElementsOp: _concat,
    cpu.TransposeOp: _transpose,
    **control.HANDLERS,
    cpu.VectorLoadOp: memory.lower_vector_load,
    cpu.VectorStoreOp: memory.lower_vector_store,
    cpu.GatherOp: memory.lower_gather,
    cpu.ScatterOp: memory.lower_scatter,
    tile.LoadOp: memory.lower_scalar_load,
    tile.StoreOp: memory.lower_scalar_store,
    tile.AtomicRMWOp: memory.lower_atomic_rmw,
    tile.AtomicCASOp: memory.lower_atomic_cas,
    cpu.CallMicrokernelOp: memory.lower_dot_call,
    cpu.FaultIfOp: output.lower_fault_if,
    cpu.CheckBoundsOp: bounds.lower_check_bounds,
    tile.PrintOp: output.lower_print,
    tile.ClaimOp: lambda gen, op: None,
}


def emit_module(
    module: ModuleOp,
    target: TargetInfo,
    fuse: bool = True,
    places: list[InstructionPlaces] | None = None,
) -> tuple[str, ir.Module]:
    """Emit LLVM IR for the kernel of a vector-level module; return (entry symbol, llvmlite module).

    If `places` is given, instructions are annotated with their source operations, recorded in `places`.
    """
    out = ir.Module("tilewright")
    out.triple = target.triple
    entry = ""
    for function in functions_of(module):
        entry = function.sym_name.data
        codegen = KernelCodegen(out, function, target, fuse)
        if places is not None:
            codegen.places = InstructionPlaces(out, codegen.function)
            places.append(codegen.places)
        codegen.run()
    add_half_conversions(out, target)
    return entry, out
