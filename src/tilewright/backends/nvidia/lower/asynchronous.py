"""Lower copies of tiles to shared memory: stores from registers, and asynchronous copies (`cp.async`).

`cp.async` moves 4 to 16 bytes per thread and fills the rest with zeros; commit groups are waited for in order.

Stores from registers are scheduled: operations on tiles are emitted one after another, each for all registers of a
thread, and the assembler keeps that order, first arithmetic without a store, then stores without arithmetic. After an
epilogue, whose units are busy, each word is stored as soon as it is computed.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Any

from llvmlite import ir
from llvmlite.ir import instructions as kinds
from xdsl.ir import SSAValue

from tilewright.backends.llvm.types import I32, Value, as_vector
from tilewright.backends.nvidia.lower import KernelCodegen, instruction_order
from tilewright.backends.nvidia.lower.instruction_order import tree_of
from tilewright.backends.nvidia.lower.matrix_access import store_matrices
from tilewright.backends.nvidia.lower.memory import ViewAddress, runs
from tilewright.backends.nvidia.lower.vector_access import joined, storage
from tilewright.dialects import gpu, tile
from tilewright.layouts import Layout, parse_layout
from tilewright.layouts.layout import Vector
from tilewright.layouts.shared import LINEAR, SWIZZLE_ATOM_BYTES, SharedLayout, swizzle
from tilewright.passes.analysis.effects import is_pure
from tilewright.passes.gpu.analysis.accesses import SMALLEST_COPY, vector_of
from tilewright.passes.gpu.analysis.buffer_views import buffer_root, buffer_users
from tilewright.targets import Feature

# ---- addresses in a buffer --------------------------------------------------------------------------


def stage_address(gen: KernelCodegen, buffer: SSAValue, slot: SSAValue) -> Value:
    """Shared address (i32) of a stage."""
    b = gen.builder
    layout = gpu.shared_layout_of(buffer)
    base = gen.buffer_address(buffer)
    offset = b.mul(gen.scalar(slot), layout.bytes)
    return b.add(base, offset)


class Place:
    """Addresses of a thread's elements inside a stage."""

    def __init__(
        self, gen: KernelCodegen, start: Value, layout: Layout, shared: SharedLayout
    ) -> None:
        self.gen, self.start, self.layout, self.shared = gen, start, layout, shared
        self._bases: dict[int, Value] = {}

    def address(self, offset: Vector) -> Value:
        """Of the element of a register at `offset`."""
        base, more = self.split(offset)
        return self.gen.builder.add(base, more) if more else base

    def split(self, offset: Vector) -> tuple[Value, int]:
        """The same as an address and bytes to add to it.

        Thread and register have no coordinate bit in common, so what they contribute adds up, but for
        the chunk inside a line that is swizzled: there it is the exclusive or.
        """
        shared, layout = self.shared, self.layout
        if not layout.has_disjoint_bits or (
            layout.groups > 1
            and layout.group_dim == shared.major_dim
            and layout.own_repeats[shared.major_dim] > 1
        ):  # where a group starts and where its copy does may add up to the next panel
            return self._whole(offset), 0
        panel, inside = divmod(offset[shared.major_dim], shared.width)
        flat = swizzle(
            offset[1 - shared.major_dim] * shared.row_stride_bytes + inside * shared.size,
            shared.swizzle_bytes,
        )
        exchanged = flat % shared.swizzle_bytes if shared.swizzled else 0
        if exchanged not in self._bases:
            self._bases[exchanged] = self.gen.builder.add(self.start, self._mine(exchanged))
        return self._bases[exchanged], panel * shared.panel_bytes + flat - exchanged

    def _mine(self, exchanged: int) -> Value:
        """What this thread contributes, with an exclusive or: the same in the whole kernel."""
        gen, shared, layout = self.gen, self.shared, self.layout
        along, line = (
            gen.threads.coordinate(layout, d) for d in (shared.major_dim, 1 - shared.major_dim)
        )
        steps = tuple(layout.group_step(d) for d in range(layout.rank))
        key = ("place", layout.lanes, layout.warps, steps, str(shared), exchanged)
        return gen.threads.at_start(key, lambda b: self._byte(b, along, line, exchanged))

    def _whole(self, offset: Vector) -> Value:
        gen, b, shared = self.gen, self.gen.builder, self.shared
        along, line = (
            gen.threads.with_offset(
                b, self.layout, gen.threads.coordinate(self.layout, d), offset, d
            )
            for d in (shared.major_dim, 1 - shared.major_dim)
        )
        return b.add(self.start, self._byte(b, along, line, 0))

    def _byte(self, b: Value, along: Value, line: Value, exchanged: int) -> Value:
        """Byte of an element in a stage, with an exclusive or in its line."""
        shared = self.shared
        byte = _times(b, along, shared.size)
        if shared.swizzle_bytes == LINEAR:
            return b.add(_times(b, line, shared.row_stride_bytes), byte)
        width = shared.row_stride_bytes
        panel = b.lshr(byte, width.bit_length() - 1)
        inside = b.and_(byte, width - 1)
        flat = b.add(_times(b, line, width), inside)
        if shared.swizzled:
            bits = b.and_(b.lshr(flat, 7), shared.swizzle_bytes // SWIZZLE_ATOM_BYTES - 1)
            flat = b.xor(flat, b.shl(bits, 4))
            if exchanged:
                flat = b.xor(flat, exchanged)
        return b.add(flat, _times(b, panel, shared.panel_bytes))


def _times(b: Value, value: Value, factor: int) -> Value:
    if isinstance(value, ir.Constant):
        return ir.Constant(I32, value.constant * factor)
    return b.mul(value, factor)


# ---- copies ---------------------------------------------------------------------------------------------


def lower_local_store(gen: KernelCodegen, op: gpu.LocalStoreOp) -> None:
    """Registers to a stage: whole matrices at once, or pieces of up to 16 bytes."""
    layout, shared = gen.layout(op.source), gpu.shared_layout_of(op.buffer)
    start = stage_address(gen, op.buffer, op.stage)
    parts, element = gen.parts(op.source), tile.element_of(op.source)
    b = gen.builder
    by_matrices = _by_matrices(layout, shared) if gen.target.has(Feature.STMATRIX) else None
    if by_matrices is not None:
        bits = [storage(gen, part, element) for part in parts]
        _store_matrices(gen, Place(gen, start, by_matrices, shared), layout, bits)
        _fence_after(gen, op)
        return
    place = Place(gen, start, layout, shared)
    for run in runs(layout, shared.major_dim, vector_of(op)):
        values = [storage(gen, parts[r], element) for r in run.registers]
        pointer = b.inttoptr(place.address(run.offset), gen.shared_pointer)
        b.store(_side_by_side(values, b), pointer, align=shared.size * len(values))
    _fence_after(gen, op)


def _side_by_side(values: list[Value], b: Value) -> Value:
    """Values to store at once: a vector, or one integer of bytes, which are often those of a word already."""
    if len(values) > 1 and values[0].type.width == 8:
        kind = ir.IntType(8 * len(values))
        moved = [b.shl(b.zext(v, kind), 8 * i) for i, v in enumerate(values)]
        return reduce(b.or_, moved)
    return as_vector(b, values)


def _fence_after(gen: KernelCodegen, op: gpu.LocalStoreOp) -> None:
    """The fence that a store of its own needs; of several with nothing but computing in between, the last
    has it for all."""
    following = op.next_op
    while following is not None and is_pure(following) and not following.regions:
        following = following.next_op
    if not isinstance(following, gpu.LocalStoreOp):
        proxy_fence(gen)


_ACCUMULATOR_LANES = ((0, 2), (0, 4), (1, 0), (2, 0), (4, 0))
"""Lanes of the accumulators of tensor cores."""
_CORNERS = ((0, 0), (8, 0), (0, 8), (8, 8))


def _by_matrices(layout: Layout, shared: SharedLayout) -> Layout | None:
    """Where lanes point to lines of 8x8 matrices (PTX ISA, `stmatrix`), if a tile is made of such.

    Eight lanes point to the lines of one matrix; the four matrices of an instruction stand 2 × 2.
    """
    own = ((0, 1), (8, 0), (0, 8))
    fits = (
        shared.size == 2
        and layout.lanes == _ACCUMULATOR_LANES
        and all(v in layout.registers for v in own)
    )
    if not fits or shared.contiguous_extent % 8:
        return None
    lines = ((1, 0), (2, 0), (4, 0)) if shared.major_dim == 1 else ((0, 1), (0, 2), (0, 4))
    rest = tuple(v for v in layout.registers if v not in own)
    return replace(layout, registers=rest, lanes=(*lines, (8, 0), (0, 8)))


def _store_matrices(gen: KernelCodegen, place: Place, layout: Layout, bits: list[Value]) -> None:
    """16-bit elements, 16x16 of them with an instruction."""
    writes: list[Value] = []
    for row, column in place.layout.register_offsets:
        words = []
        for i, j in _CORNERS:
            pair = [layout.register_of[row + i, column + j + k] for k in (0, 1)]
            words.append(joined([bits[r] for r in pair], gen.builder))
        address, transposed = place.address((row, column)), place.shared.major_dim == 0
        writes.append(store_matrices(gen, address, words, transposed))
    sink_to_stores(gen.builder.block, writes)


def lower_release(gen: KernelCodegen, op: gpu.LocalDeallocOp) -> None:
    """Order the accesses of threads to buffers before TMA loads to buffers in the same place (another proxy)."""
    by_threads = (gpu.LocalStoreOp, gpu.LocalLoadOp, gpu.LocalTransposeOp, gpu.AsyncCopyOp)
    touched = [b for b in op.buffers if any(isinstance(u, by_threads) for u in buffer_users(b))]
    loads = {o.buffer: None for o in gen.source.walk() if isinstance(o, gpu.TmaLoadOp)}
    if any(gen.shared.overlap(b, buffer_root(load)) for b in touched for load in loads):
        proxy_fence(gen)


def proxy_fence(gen: KernelCodegen) -> None:
    """Writes to shared memory before are seen by asynchronous readers after, where there are any."""
    if not gen.reads_asynchronously:
        return
    gen.emit_convergent_asm("fence.proxy.async.shared::cta;")


def lower_copy(gen: KernelCodegen, op: gpu.AsyncCopyOp) -> None:
    """One `cp.async` a run; what is beyond a limit is not read, and zero."""
    layout = parse_layout(op.layout.data)
    shared = gpu.shared_layout_of(op.buffer)
    base: Any = op.base.type
    source = ViewAddress(gen, op, layout, base.pointee)
    masks = gen.parts(op.mask) if op.mask is not None else None
    place = Place(gen, stage_address(gen, op.buffer, op.stage), layout, shared)
    length = max(vector_of(op), SMALLEST_COPY // shared.size)
    active = gen.scalar(op.pred)
    always = isinstance(active, ir.Constant)
    for run in runs(layout, shared.major_dim, length):
        count = len(run.registers)
        bytes_ = count * shared.size
        target, address = place.address(run.offset), source.address(run.offset)
        live = source.bytes_alive(run.offset, count, shared.major_dim)
        if masks is not None:  # equal in a run
            whole = live if live is not None else ir.Constant(I32, bytes_)
            live = gen.builder.select(masks[run.registers[0]], whole, 0)
        cache = "cg" if bytes_ == SWIZZLE_ATOM_BYTES else "ca"
        guard = "" if always else "@$3 "
        text = f"{guard}cp.async.{cache}.shared.global [$0], [$1], {bytes_}, $2;"
        amount = ir.Constant(I32, bytes_) if live is None else live
        gen.emit_asm(text, [target, address, amount, *([] if always else [active])])


def lower_commit(gen: KernelCodegen, op: gpu.AsyncCommitGroupOp) -> None:
    gen.emit_convergent_asm("cp.async.commit_group;")


_BY_THREADS = (
    gpu.BarrierOp, gpu.LocalStoreOp, gpu.LocalLoadOp, gpu.AsyncCopyOp, gpu.AsyncCommitGroupOp, gpu.AsyncWaitOp,
    gpu.WgmmaWaitOp, tile.LoadOp, tile.LoadViewOp,
)  # fmt: skip
"""Operations that read no shared memory asynchronously."""


def lower_wait(gen: KernelCodegen, op: gpu.AsyncWaitOp) -> None:
    text = f"cp.async.wait_group {op.pending.value.data};"
    gen.emit_convergent_asm(text)
    if not _is_fenced_later(op):
        proxy_fence(gen)


def _is_fenced_later(op: gpu.AsyncWaitOp) -> bool:
    """Whether stores of the same block have a fence, and a barrier behind it, before anything else reads shared memory
    asynchronously."""
    current, stored = op.next_op, False
    while current is not None and not current.regions:
        if isinstance(current, gpu.BarrierOp) and stored:
            return True
        stored |= isinstance(current, gpu.LocalStoreOp)
        if not (is_pure(current) or isinstance(current, _BY_THREADS)):
            return False
        current = current.next_op
    return False


_SHARED = 3
"""The address space of shared memory."""


def sink_to_stores(block: Any, writes: list[Any]) -> None:
    """Move what only computes, and reads of shared memory, from before `writes` to where a write needs it first.

    `writes`: the last effects of `block`, in order. What a write takes is computed before the write in front of it,
    what is read for it before the one in front of that: the latencies of one lie in the work of another.
    Nothing moves across anything else that has an effect. Reads pass writes: these go to buffers, which are disjoint from
    where tiles change their layouts.
    """
    instructions = block.instructions
    written = set(writes)
    start = len(instructions)
    while start and (instructions[start - 1] in written or _moves(instructions[start - 1])):
        start -= 1
    waiting = dict.fromkeys(each for each in instructions[start:] if each not in written)
    needs = [tree_of(write, waiting, ())[:-1] for write in writes]
    ordered: dict[Any, None] = {}
    for i in range(-2, len(writes)):
        if i + 2 < len(writes):
            for each in needs[i + 2]:
                if isinstance(each, ir.LoadInstr):
                    ordered |= dict.fromkeys(tree_of(each, waiting, ()))
        if -1 <= i < len(writes) - 1:
            ordered |= dict.fromkeys(needs[i + 1])
        if i >= 0:
            ordered[writes[i]] = None
    ordered |= waiting  # what is needed elsewhere
    instructions[start:] = ordered


def _moves(instruction: Any) -> bool:
    """Whether an instruction only computes, or reads shared memory."""
    if isinstance(instruction, kinds.LoadInstr):
        return instruction.operands[0].type.addrspace == _SHARED
    return instruction_order.is_pure(instruction)
