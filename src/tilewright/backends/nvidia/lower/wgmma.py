"""Lower `gpu.wgmma`: operands in shared memory, accumulators in registers.

Operands are read through matrix descriptors, or A from registers (RS). Accumulators are tied operands of every asm, so that
LLVM keeps them in place; fp16 accumulators are packed in pairs (PTX ISA, "Asynchronous warpgroup level matrix multiply").
An MN-major A operand (`layouts/wgmma_partition.py`) is loaded a few k steps at a time into one set of registers while the
MMAs of the other set are in flight.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import copysign

from llvmlite import ir
from xdsl.dialects import scf
from xdsl.dialects.builtin import f16
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, SSAValue

from tilewright.backends.llvm.inline_ptx import inline_ptx, names
from tilewright.backends.llvm.types import I32, I64, Value
from tilewright.backends.nvidia.lower import KernelCodegen
from tilewright.backends.nvidia.lower.asynchronous import stage_address
from tilewright.backends.nvidia.lower.fma import is_shared_fma, lower_shared_fma
from tilewright.backends.nvidia.lower.vector_access import joined, storage
from tilewright.backends.nvidia.lower.wgmma_rs import RegisterOperand
from tilewright.dialects import gpu, tile
from tilewright.errors import PassError
from tilewright.ir.location import location_of
from tilewright.ir.types import position_of
from tilewright.layouts import Layout
from tilewright.layouts.fragments import WgmmaInstruction, parse_wgmma, wgmma_a_layout
from tilewright.layouts.shared import descriptor_bits, k_offset, mn_offset
from tilewright.layouts.wgmma_partition import partition_wgmma
from tilewright.passes.analysis.edit import end_of
from tilewright.passes.analysis.emit import constant_int, uniform_constant
from tilewright.passes.gpu.select_mma import SHARED_FMA

_WIDEST = 256
"""Columns of the widest `wgmma`."""
_MMAS_WITH_ACCUMULATORS = 4
"""MMAs of a product whose descriptors ptxas may add up between them. Tensor cores wait some 12 cycles per MMA for that. H100: dq
of attention with heads of 128, 8 MMAs of 64 columns: 394 instead of 326 µs; backward passes with heads of 64: 3.2 instead of 3.34 ms."""
_NAMES = {"f32": "f32", "i32": "s32", "f16": "f16"}
_FENCE = "wgmma.fence.sync.aligned;"


# ---- accumulators -------------------------------------------------------------------------------------------


def accumulator_registers(gen: KernelCodegen, value: SSAValue) -> list[Value]:
    """Accumulator registers as the instruction takes them: fp16 in pairs, others one by one."""
    if value in gen.pairs:
        return gen.pairs[value]
    parts = gen.parts(value)
    if tile.element_of(value) != f16:
        return parts
    bits = [storage(gen, part, f16) for part in parts]
    return [joined(bits[i : i + 2], gen.builder) for i in range(0, len(bits), 2)]


def _bind(gen: KernelCodegen, value: SSAValue, accumulators: list[Value]) -> None:
    (gen.pairs if tile.element_of(value) == f16 else gen.values)[value] = accumulators


def paired_in_loops(function: FuncOp) -> set[SSAValue]:
    """Loop-carried values that are fp16 accumulators, carried in pairs from MMA to MMA."""
    found: set[SSAValue] = set()
    pending = [op.acc for op in function.walk() if type(op) is gpu.WgmmaOp]
    while pending:
        value = pending.pop()
        loop = value.owner.parent_op() if isinstance(value, BlockArgument) else value.owner
        if not isinstance(loop, scf.ForOp) or value in found or tile.element_of(value) != f16:
            continue
        index = position_of(value) - isinstance(value, BlockArgument)
        found |= {loop.body.block.args[index + 1], loop.results[index]}
        pending += [loop.iter_args[index], end_of(loop.body.block).operands[index]]
    return found


# ---- MMA ---------------------------------------------------------------------------------------


def lower_wgmma(gen: KernelCodegen, op: gpu.WgmmaOp) -> None:
    """Emit all instructions of one dot as one wgmma group; without tensor cores it is synchronous FMA."""
    if op.instruction.data == SHARED_FMA:
        lower_shared_fma(gen, op)
    else:
        _WgmmaEmitter(gen, op).emit()


class _WgmmaEmitter:
    def __init__(self, gen: KernelCodegen, op: gpu.WgmmaOp) -> None:
        self.gen, self.op = gen, op
        self.instruction: WgmmaInstruction = parse_wgmma(op.instruction.data)
        self.in_registers = tile.is_tile(op.lhs)
        self.a = None if self.in_registers else gpu.shared_layout_of(op.lhs)
        self.b = gpu.shared_layout_of(op.rhs)
        m, n = tile.shape_of(op.result)
        partition = partition_wgmma(self.instruction, m, n, gen.warps)
        if partition is None:
            raise PassError(
                f"{self.instruction}: {gen.warps} warps do not share out a {m}x{n} tile",
                help="let select-mma choose the instruction",
                location=location_of(op),
            )
        self.partition = partition
        self.layout = gen.layout(op.result)
        self.rows, self.columns, self.width = _blocks(partition.plain)
        self.accumulator_kind = _NAMES[str(tile.element_of(op.result))]
        self._check_majors()

    def _check_majors(self) -> None:
        a, b = self.instruction.majors
        right = b in (None, self.b.major_dim)
        if self.a is None:
            (m, n), k = tile.shape_of(self.op.result), self.b.rows
            wanted = wgmma_a_layout(self.instruction, m, n, k, self.gen.warps)
            through = self.instruction.through
            if right and not through and self.gen.layout(self.op.lhs) == wanted:
                return
        elif right and a in (None, self.a.major_dim):
            return
        across = ", but what passes through registers" if self.instruction.through else ""
        raise PassError(
            f"{self.instruction} takes operands that are contiguous along k{across}, not"
            f" {self.op.lhs.type} and {self.b}",
            help="let promote-shared make the buffers",
            location=location_of(self.op),
        )

    def emit(self) -> None:
        gen, op = self.gen, self.op
        parts = list(accumulator_registers(gen, op.acc))
        self.first = self._descriptors()
        words = self._words() if self.in_registers else []
        self.words: dict[tuple[int, int], list[Value]] = {}
        steps = range(0, self.b.rows, self.instruction.k)
        if self.instruction.through:
            parts = self._through_registers(parts, list(steps))
        elif op.max_num_imprecise_acc is not None and self.accumulator_kind == "f32":
            at_once = max(1, -(-op.max_num_imprecise_acc.value.data // self.instruction.k))
            for start in range(0, len(steps), at_once):
                parts = self._promoted(parts, list(steps[start : start + at_once]))
        else:
            fresh = _is_zero(op.acc)
            if fresh:
                parts = [ir.Constant(part.type, ir.Undefined) for part in parts]
            parts, words = _fence(gen, None if fresh else op.acc, parts, words)
            for i, place in enumerate(self._places()):
                self.words[place] = words[4 * i : 4 * i + 4]
            self._blocks(parts, list(steps), fresh)
            _commit(gen, words)
        _bind(gen, op.result, parts)

    def _promoted(self, parts: list[Value], steps: list[int]) -> list[Value]:
        """Accumulate a few k steps separately and add them to the accumulator in full precision."""
        gen = self.gen
        made = list(parts)
        made, _ = _fence(gen, self.op.acc, made, [])
        self._blocks(made, steps, fresh=True)
        _commit(gen)
        made = _passed(gen, made, 0)
        return [gen.builder.fadd(a, b) for a, b in zip(parts, made, strict=True)]

    def _through_registers(self, parts: list[Value], steps: list[int]) -> list[Value]:
        """Alternate loads and MMAs of batches of k steps, each batch a group of its own.

        A batch is loaded when the MMAs of the batch before the last have completed, whose registers it takes, while those of the last batch
        are in flight. The same holds at the end, so that the next dot's first batch can be loaded at once. A dot with a single batch
        has no second set of registers, and waits.
        """
        gen, reader = self.gen, RegisterOperand(self.gen, self.op, self.partition)
        portions = reader.portions(steps)
        pending = min(1, len(portions) - 1)
        for i, portion in enumerate(portions):
            if i or not pending:
                _drain(gen, pending)
            places = [(row, k) for row in self.rows for k in portion]
            words = reader.words(places)
            if i == 0:
                parts, words = _fence(gen, self.op.acc, parts, words)
            else:
                words = _through(gen, _FENCE, words)
            self.words = {p: words[4 * j : 4 * j + 4] for j, p in enumerate(places)}
            self._blocks(parts, portion, fresh=False)
            _commit(gen)
        if pending:  # with an odd number of batches the last one has the registers of the first
            _drain(gen, 1 - len(portions) % 2)
        return parts

    def _blocks(self, parts: list[Value], steps: list[int], fresh: bool) -> None:
        """Emit the MMAs of every block of 64 rows, in place; `fresh`: ignore the previous accumulator."""
        for row in self.rows:
            for column in self.columns:
                registers = self._block_registers(row, column)
                if self.accumulator_kind == "f16":
                    registers = [r // 2 for r in registers[::2]]
                accumulators = [parts[r] for r in registers]
                for i, k in enumerate(steps):
                    accumulators = self._one(row, column, k, accumulators, fresh and i == 0)
                for r, value in zip(registers, accumulators, strict=True):
                    parts[r] = value

    def _one(
        self, row: int, column: int, k: int, accumulators: list[Value], fresh: bool
    ) -> list[Value]:
        """One `wgmma.mma_async` of 64 rows."""
        gen, i = self.gen, self.instruction
        count = len(accumulators)
        from_words = self.a is None or bool(i.through)
        left = self.words[row, k] if from_words else [self._at(0, row, k)]
        right = self._at(0, column, k) if self.partition.swap_ab else self._at(1, column, k)
        operands = [*left, right]
        signs = "" if i.left == "s8" else ", 1, 1"
        turned = [
            "" if self.a is None else f", {int(self.a.major_dim == 0)}",
            f", {int(self.b.major_dim == 1)}",
        ]
        majors = "".join(turned) if i.any_major else ""
        listed = ", ".join(f"${j}" for j in range(count))
        a = names(len(left), count)
        text = (
            f"wgmma.mma_async.sync.aligned.m64n{self.width}k{i.k}.{self.accumulator_kind}.{i.left}.{i.right}"
            f" {{{listed}}}, {a}, ${count + len(left)}, {int(not fresh)}{signs}{majors};"
        )
        tied, kinds = range(len(operands), len(operands) + count), [v.type for v in accumulators]
        given = [*operands, *accumulators]
        return gen.emit_convergent_asm(text, given, kinds, memory=False, tied=tied)

    def _at(self, operand: int, start: int, k: int) -> Value:
        """Descriptor of the block of A (0) or B (1) at row or column `start`, and `k`."""
        layout, k_dim = (self.b, 0) if operand or self.a is None else (self.a, 1)
        offset = mn_offset(layout, k_dim, start) + k_offset(layout, k_dim, k)
        first = self.first[operand]
        return self.gen.builder.add(first, offset >> 4) if offset else first

    def _block_registers(self, row: int, column: int) -> list[int]:
        """Registers of one instruction's accumulator, in its order (PTX ISA, fragment D)."""
        return [
            self.layout.register_of[
                self.partition.place(row + 8 * (i >> 1 & 1), column + 8 * (i >> 2) + (i & 1))
            ]
            for i in range(self.width // 2)
        ]

    def _places(self) -> list[tuple[int, int]]:
        """Rows and k of the blocks of operand A that one instruction takes."""
        return [(m, k) for m in self.rows for k in range(0, self.b.rows, self.instruction.k)]

    def _words(self) -> list[Value]:
        """Operand A from registers: four 32-bit registers per block of 64 rows and k step."""
        gen, value, pack = self.gen, self.op.lhs, self.instruction.k // 8
        layout, parts, element = gen.layout(value), gen.parts(value), tile.element_of(value)
        registers = [
            [layout.register_of[m + high, k + further + i] for i in range(pack)]
            for m, k in self._places()
            for further in (0, 4 * pack)
            for high in (0, 8)
        ]
        return [
            joined([storage(gen, parts[r], element) for r in group], gen.builder)
            if pack > 1
            else gen.builder.bitcast(parts[group[0]], I32)
            for group in registers
        ]

    def _descriptors(self) -> list[Value]:
        """Matrix descriptors of the operands in shared memory at this warpgroup's first block."""
        gen, op, b = self.gen, self.op, self.gen.builder
        result: list[Value] = []
        through = self.instruction.through
        for name, buffer, slot, k_dim in (
            ("a", op.lhs, op.lhs_stage, 1),
            ("b", op.rhs, op.rhs_stage, 0),
        ):
            if tile.is_tile(buffer) or name == through:
                result.append(ir.Constant(I64, 0))
                continue
            layout = gpu.shared_layout_of(buffer)
            start = stage_address(gen, buffer, slot)
            if op.parent is gen.source.body.block:  # made anew for each MMA: kept, they spill
                start = gen.emit_asm("mov.b32 $0, $1;", [start], I32, memory=False)
            dim = 1 if self.partition.swap_ab else 1 - k_dim
            for index, extent in _group_place(gen, self.partition.plain, dim):
                step = mn_offset(layout, k_dim, extent)
                start = b.add(start, b.mul(index, step))
            opaque = self._has_opaque_descriptors()
            if gen.cluster * gen.blocks > 1 or not opaque:
                start = b.and_(start, 0x3FFFF)
            field = b.zext(b.lshr(start, 4), I64)
            bits = descriptor_bits(layout, k_dim)
            signed = bits - (1 << 64) if bits >> 63 else bits
            if opaque:
                result.append(_opaque_sum(gen, field, signed))
            else:
                result.append(b.or_(field, signed))
        return result

    def _has_opaque_descriptors(self) -> bool:
        """Whether an operand is read from a stage that iterations of a loop count, and the product has few MMAs."""
        op = self.op
        operands = ((op.lhs, op.lhs_stage), (op.rhs, op.rhs_stage))
        varies = any(not tile.is_tile(v) and constant_int(stage) is None for v, stage in operands)
        return varies and self.b.rows <= _MMAS_WITH_ACCUMULATORS * self.instruction.k


def _opaque_sum(gen: KernelCodegen, field: Value, bits: int) -> Value:
    """Return the sum of a descriptor's address (14 bits: shared memory has less than 256 KB) and its other fields.

    Where ptxas knows the upper words it writes all four words of both descriptors before each MMA, with four instructions.
    A sum may have a carry: ptxas then advances each descriptor by one addition of 64 bits. LLVM would make a bitwise OR of an `add`.
    """
    return inline_ptx(gen.builder, f"add.s64 $0, $1, {bits};", [field], I64)


def _blocks(layout: Layout) -> tuple[list[int], list[int], int]:
    """First row and column of every instruction of a warpgroup, and the instruction's width."""
    rows = sorted({row for row, _ in layout.register_offsets if row % 64 == 0})
    columns = sorted({column for _, column in layout.register_offsets if column % 8 == 0})
    width = 8
    while width < _WIDEST and width in columns:
        width += 8
    while len(columns) * 8 % width:  # the same for all stretches
        width -= 8
    return rows, columns[:: width // 8], width


def _group_place(gen: KernelCodegen, accumulators: Layout, dim: int) -> list[tuple[Value, int]]:
    """Where a warpgroup begins along `dim` of the accumulator: indices, and the stride of each."""
    b, group = gen.builder, gen.threads.warp_group()
    bits = [v[dim] for v in accumulators.warps[2:]]
    found = []
    for bit, extent in enumerate(bits):
        if extent:
            one = b.and_(b.lshr(group, bit), 1)
            found.append((one, extent))
    if step := accumulators.group_step(dim):
        found.append((b.lshr(group, len(bits)), step))
    return found


def _is_zero(acc: SSAValue) -> bool:
    """Whether an accumulator is 0: the first MMA ignores it then (`scale-d`), and no register has to be set before.

    Zeros that are set between the MMAs of two dots would make ptxas serialize them (C7515).
    """
    number = uniform_constant(acc)
    return number is not None and number == 0 and copysign(1, number) > 0


def _fence(
    gen: KernelCodegen, acc: SSAValue | None, accumulators: list[Value], words: list[Value]
) -> tuple[list[Value], list[Value]]:
    """Emit `wgmma.fence`, which orders earlier register writes before the MMAs.

    Accumulators that ordinary instructions wrote, and operands (`words`), pass through the asm, so that LLVM cannot sink their
    computation below it. `acc` is None where the MMAs ignore it.
    """
    in_place = acc is None or _made_by_products(acc)
    values = [*([] if in_place else accumulators), *words]
    if not values:
        gen.emit_convergent_asm(_FENCE)
        return accumulators, words
    values = _through(gen, _FENCE, values)
    through = len(values) - len(words)
    return (accumulators if in_place else values[:through]), values[through:]


def _made_by_products(acc: SSAValue) -> bool:
    """Whether accumulators come from an MMA, which may be in flight.

    Of a loop only if it carries them: LLVM may peel or unroll a loop that waits for its MMAs, and then place the initialization
    of the accumulator anywhere.
    """
    loop = acc.owner.parent_op() if isinstance(acc, BlockArgument) else None
    if isinstance(loop, scf.ForOp) and isinstance(acc, BlockArgument):
        end = loop.body.block.last_op
        carried = end.operands[acc.index - 1].owner if end is not None else None
        ended = isinstance(carried, gpu.WgmmaWaitOp) and carried.pending.value.data == 0
        return isinstance(carried, gpu.WgmmaOp | gpu.WgmmaWaitOp) and not ended
    return isinstance(acc.owner, Block | gpu.WgmmaWaitOp | gpu.WgmmaOp)


def _drain(gen: KernelCodegen, pending: int) -> None:
    """Wait until at most `pending` groups are in flight: the registers of the others are free."""
    read = _completed(gen, pending)
    gen.emit_convergent_asm(_wait_text(gen, pending), read)


def _commit(gen: KernelCodegen, words: Sequence[Value] = ()) -> None:
    """`words`: registers that the group reads until it is complete."""
    gen.emit_convergent_asm("wgmma.commit_group.sync.aligned;")
    block, count = gen.in_flight
    gen.in_flight = block, count + 1
    gen.operand_words.append((gen.current.parent, words))


def _completed(gen: KernelCodegen, pending: int) -> list[Value]:
    """The registers that MMAs of this block have read when at most `pending` groups are in flight.

    They are operands of the wait: LLVM would give a value that a loop carries, and computes meanwhile, the registers of this
    iteration's, so that ptxas would serialize the MMAs (C7513).
    """
    last = max(0, len(gen.operand_words) - pending)
    complete, gen.operand_words = gen.operand_words[:last], gen.operand_words[last:]
    return [word for block, words in complete if block is gen.current.parent for word in words]


def _wait_text(gen: KernelCodegen, pending: int) -> str:
    """The instruction that leaves `pending` groups in flight; none where no more are.

    ptxas takes a wait for the begin of a stage of its own: after one that left fewer groups it would serialize the MMAs whose
    accumulators meet others there (C7515).
    """
    block, count = gen.in_flight
    if block is gen.builder.block and count <= pending:
        return ""
    gen.in_flight = gen.builder.block, pending
    return f"wgmma.wait_group.sync.aligned {pending};"


def _through(
    gen: KernelCodegen, text: str, accumulators: list[Value], read: Sequence[Value] = ()
) -> list[Value]:
    """An asm that accumulators pass through: their definition stays before it, their uses after it. `read` stay in their
    registers up to it."""
    kinds = [v.type for v in accumulators]
    return gen.emit_convergent_asm(text, [*accumulators, *read], kinds, tied=range(len(kinds)))


def _passed(gen: KernelCodegen, accumulators: list[Value], pending: int) -> list[Value]:
    """Wait until at most `pending` groups are in flight."""
    read = _completed(gen, pending)
    return _through(gen, _wait_text(gen, pending), accumulators, read)


def lower_wgmma_wait(gen: KernelCodegen, op: gpu.WgmmaWaitOp) -> None:
    if op.acc in gen.over:
        _bind(gen, op.result, accumulator_registers(gen, op.acc))
        return
    if is_shared_fma(op.acc):
        gen.bind(op.result, gen.parts(op.acc))
        return
    _bind(gen, op.result, _passed(gen, accumulator_registers(gen, op.acc), op.pending.value.data))


def wait_after_loop(gen: KernelCodegen, result: SSAValue, accumulators: list[Value]) -> list[Value]:
    """Pass a loop's accumulator through the wait for all MMAs after the loop.

    ptxas overlaps MMAs only if nothing else can have defined the accumulators of a wait; zeros that reach it when the loop does not
    run would (C7515).
    """
    users = [use.operation for use in result.uses]
    if len(users) != 1 or not isinstance(users[0], gpu.WgmmaWaitOp):
        return accumulators
    if users[0].pending.value.data != 0:
        return accumulators
    gen.over.add(result)
    return _passed(gen, accumulators, 0)


def pin_to_block(gen: KernelCodegen, values: list[Value]) -> list[Value]:
    """Values that LLVM must not recompute in another block."""
    kinds = [v.type for v in values]
    if not values or not {*kinds} <= {I32, I64, ir.FloatType(), ir.DoubleType()}:
        return values
    return gen.emit_asm("", values, kinds, memory=False, tied=range(len(kinds)))
