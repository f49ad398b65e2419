"""`plan-scratch`: give every tile that crosses groups a buffer in per-thread scratch memory.

Before:
    %e = cpu.fusion_group { ... cpu.yield %exp } : tensor<1024xf32>
    cpu.fusion_group { divf %e, ...; store_view }

After:
    %b = cpu.scratch : !cpu.buffer<tensor<1024xf32>, "row">
    cpu.fusion_group { ... cpu.write %exp, %b }
    cpu.fusion_group { %e = cpu.read %b ... divf %e, ...; store_view }

Loop-carried tiles are updated in place: a carried tile, its initial value, the value yielded for it
and the loop's result share one buffer whenever no reader of the old value could see the new one;
otherwise the value is copied at the end of the body. Accumulators of dots likewise. Afterwards no
tile is an operand or result of anything but group members.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import scf
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, i32, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region, SSAValue

from tilewright.dialects import cpu, tile
from tilewright.ir.types import position_of
from tilewright.passes.analysis.edit import (
    Mapping,
    end_of,
    erase,
    insert_before,
    rebuild,
    start_of,
    without,
)
from tilewright.passes.analysis.effects import defined_inside
from tilewright.passes.analysis.emit import Emitter
from tilewright.passes.base import FunctionPass
from tilewright.passes.cpu.analysis.buffers import (
    BufferLayout,
    Slot,
    SlotTable,
    dot_layouts,
    layout_of,
    new_scratch,
    row_layout,
)
from tilewright.passes.cpu.analysis.classify import is_virtual
from tilewright.passes.cpu.analysis.inplace import coalesce
from tilewright.targets import TargetInfo


@dataclass(frozen=True)
class PlanScratch(FunctionPass):
    requires: ClassVar[tuple[str, ...]] = ("form-fusion-groups",)

    def run(self, function: FuncOp, target: TargetInfo) -> None:
        _Planner(function).run()


class _Planner:
    def __init__(self, function: FuncOp) -> None:
        self.function = function
        self.entry = function.body.block
        self.table = SlotTable()
        self.offset = 0

    def run(self) -> None:
        coalesce(self.entry, self.table)
        self._block(self.entry)
        _drop_dead(self.entry)  # again: the ends of loops and branches yield no tiles any more
        self.function.attributes["cpu.scratch_bytes"] = IntegerAttr(self.offset, i64)

    # ---- buffers ----

    def _buffer(self, slot: Slot) -> SSAValue:
        """The scratch operation of a slot, made at the function's entry when first asked for."""
        if slot.buffer is None:
            op, self.offset = new_scratch(self.entry, slot.tile, slot.layout, self.offset)
            slot.buffer = op.result
        return slot.buffer

    def _buffer_of(self, value: SSAValue) -> SSAValue:
        return self._buffer(self.table.slot(value))

    def _is_kept(self, value: SSAValue) -> bool:
        """Whether a tile lives in a buffer (else it is virtual)."""
        return isinstance(value.owner, Block) or not is_virtual(value.owner)

    # ---- rewriting ----

    def _block(self, block: Block) -> None:
        for op in list(block.ops):
            if isinstance(op, cpu.FusionGroupOp):
                self._group(op)
            elif isinstance(op, cpu.DotOp):
                self._dot(op)
            elif isinstance(op, tile.HistogramOp):
                self._histogram(op)
            elif isinstance(op, scf.ForOp):
                self._for(op)
            elif isinstance(op, scf.IfOp):
                self._if(op)
            elif isinstance(op, scf.WhileOp):
                self._while(op)
        _drop_dead(block)

    def _group(self, op: cpu.FusionGroupOp) -> None:
        body = op.body.block
        self._read_captured(op)
        end = end_of(body)
        scalars = []
        for value, result in zip(list(end.operands), op.results, strict=True):
            if tile.is_tile(result):
                buffer = self._buffer_of(result)
                body.insert_op_before(cpu.WriteOp.create(operands=[value, buffer]), end)
            else:
                scalars.append(value)
        if len(scalars) != len(op.results):
            end.operands = scalars
            self._drop_tiles(op, op.operands)

    @staticmethod
    def _drop_tiles(op: Operation, operands: Sequence[SSAValue]) -> None:
        """Rebuild `op` with `operands` and without the tiles among its results: their users ask the slot table, which
        is keyed by the old values."""
        scalars = [r for r in op.results if not tile.is_tile(r)]
        new = rebuild(op, operands, [r.type for r in scalars])
        for old, result in zip(scalars, new.results, strict=True):
            old.replace_all_uses_with(result)
        op.detach()
        op.drop_all_references()

    def _read_captured(self, op: cpu.FusionGroupOp) -> None:
        """Replace tiles from outside the group by reads of their buffers at its start."""
        body = op.body.block
        reads: Mapping = {}
        first = start_of(body)
        for nested in list(body.walk()):
            for i, operand in enumerate(nested.operands):
                if not tile.is_tile(operand) or defined_inside(operand, op):
                    continue
                if operand not in reads:
                    reads[operand] = self._read(operand, body, first)
                nested.operands[i] = reads[operand]

    def _read(self, value: SSAValue, body: Block, before: Operation) -> SSAValue:
        maker = value.owner
        if isinstance(maker, Operation) and not self._is_kept(value):
            copy = maker.clone()
            for i, operand in enumerate(copy.operands):
                if tile.is_tile(operand):
                    copy.operands[i] = self._read(operand, body, before)
            body.insert_op_before(copy, before)
            return copy.results[position_of(value)]
        read = cpu.ReadOp.create(operands=[self._buffer_of(value)], result_types=[value.type])
        read.result.name_hint = value.name_hint
        body.insert_op_before(read, before)
        return read.result

    def _write_group(self, value: SSAValue, buffer: SSAValue, before: Operation) -> None:
        """Insert a group that puts `value` into `buffer`."""
        body = Block()
        end = cpu.YieldOp.create()
        body.add_op(end)
        body.insert_op_before(
            cpu.WriteOp.create(operands=[self._read(value, body, end), buffer]), end
        )
        group = cpu.FusionGroupOp.create(
            properties={
                "iteration_space": DenseArrayBase.from_list(i64, list(tile.shape_of(value)))
            },
            regions=[Region(body)],
            location=before.location,
        )
        insert_before(group, before)

    def _copy(self, value: SSAValue, slot: Slot, before: Operation) -> None:
        """Make `slot` hold `value` unless it does already."""
        if self._is_kept(value) and self.table.slot(value) is slot:
            return
        self._write_group(value, self._buffer(slot), before)

    def _parallel_copy(self, pairs: list[tuple[SSAValue, Slot]], before: Operation) -> None:
        """Copy values to slots as if all at once (a swap of two carried tiles, say)."""
        targets = [slot for _, slot in pairs]
        pending = []
        for value, slot in pairs:
            if self._is_kept(value) and self.table.slot(value) is slot:
                continue
            if any(s in targets and s is not slot for s in self._slots_read(value)) or (
                not self._is_kept(value) and slot in self._slots_read(value)
            ):
                temporary = Slot(slot.tile, slot.layout)
                self._write_group(value, self._buffer(temporary), before)
                pending.append((temporary, slot))
            else:
                pending.append((value, slot))
        for source, slot in pending:
            if isinstance(source, Slot):
                self._move(source, slot, before)
            else:
                self._write_group(source, self._buffer(slot), before)

    def _move(self, source: Slot, target: Slot, before: Operation) -> None:
        """Make `target` hold what `source` holds."""
        stand_in = cpu.ReadOp.create(operands=[self._buffer(source)], result_types=[source.tile])
        self.table.bind(stand_in.result, source)
        self._write_group(stand_in.result, self._buffer(target), before)
        stand_in.drop_all_references()  # it stood for the slot only

    def _slots_read(self, value: SSAValue) -> set[Slot]:
        maker = value.owner
        if isinstance(maker, Block) or self._is_kept(value):
            return {self.table.slot(value)}
        return {s for v in maker.operands if tile.is_tile(v) for s in self._slots_read(v)}

    def _dot(self, op: cpu.DotOp) -> None:
        a_layout, b_layout, c_layout = dot_layouts(op)
        result = self.table.slot(op.result)
        if result.buffer is None and not result.fixed:
            result.layout, result.fixed = c_layout, True
        sums = result
        if layout_of(self._buffer(result).type) == c_layout:
            self._copy(op.acc, result, op)
        else:  # the slot's layout is what another dot adds to
            sums = Slot(result.tile, c_layout)
            self._write_group(op.acc, self._buffer(sums), op)
        lhs = self._operand(op.lhs, a_layout, op)
        rhs = self._operand(op.rhs, b_layout, op)
        new = cpu.BufferDotOp.create(
            operands=[lhs, rhs, self._buffer(sums)],
            properties={"plan": op.plan},
            location=op.location,
        )
        insert_before(new, op)
        if sums is not result:
            self._move(sums, result, op)
        op.detach()
        op.drop_all_references()

    def _histogram(self, op: tile.HistogramOp) -> None:
        tiles = [op.source] if op.mask is None else [op.source, op.mask]
        operands = [self._operand(v, row_layout(v.type), op) for v in tiles]
        segments = [1, len(operands) - 1, 1]
        new = cpu.HistogramBuffersOp.create(
            operands=[*operands, self._buffer_of(op.result)],
            properties={"operandSegmentSizes": DenseArrayBase.from_list(i32, segments)},
            location=op.location,
        )
        insert_before(new, op)
        op.detach()
        op.drop_all_references()

    def _operand(self, value: SSAValue, layout: BufferLayout, before: Operation) -> SSAValue:
        if isinstance(value.owner, cpu.PrepackedOp):
            return self._memory(value.owner, before)
        if self._is_kept(value):
            slot = self.table.slot(value)
            if layout_of(self._buffer(slot).type) == layout:
                return self._buffer(slot)
        slot = Slot(value.type, layout)
        self._write_group(value, self._buffer(slot), before)
        return self._buffer(slot)

    def _memory(self, op: cpu.PrepackedOp, dot: Operation) -> SSAValue:
        """The memory that an operand stands in, as a buffer; `dot` is its only reader."""
        kind = cpu.BufferType(op.result.type, op.layout)
        return Emitter(dot, op.location).make(cpu.BufferFromPtrOp, [op.pointer], kind)

    def _pass_on(self, end: Operation, targets: Sequence[SSAValue], first: int = 0) -> None:
        """Copy the tiles that a terminator passes on, from operand `first` on, to the slots of `targets`."""
        tiles = [i for i, target in enumerate(targets) if tile.is_tile(target)]
        copies = [(end.operands[first + i], self.table.slot(targets[i])) for i in tiles]
        self._parallel_copy(copies, end)
        end.operands = without(end.operands, [first + i for i in tiles])

    def _for(self, op: scf.ForOp) -> None:
        block, args = op.body.block, op.body.block.args[1:]
        tiles = [i for i, arg in enumerate(args) if tile.is_tile(arg)]
        self._parallel_copy([(op.iter_args[i], self.table.slot(args[i])) for i in tiles], op)
        self._block(block)
        self._pass_on(end_of(block), args)
        for i in tiles:
            block.erase_arg(args[i], safe_erase=False)
        if tiles:
            self._drop_tiles(op, [*op.operands[:3], *without(op.iter_args, tiles)])

    def _if(self, op: scf.IfOp) -> None:
        for region in op.regions:
            for block in region.blocks:
                self._block(block)
                self._pass_on(end_of(block), op.results)
        if any(map(tile.is_tile, op.results)):
            self._drop_tiles(op, [op.cond])

    def _while(self, op: scf.WhileOp) -> None:
        before, after = op.before_region.block, op.after_region.block
        first = [i for i, a in enumerate(before.args) if tile.is_tile(a)]
        second = [i for i, a in enumerate(after.args) if tile.is_tile(a)]
        self._parallel_copy([(op.arguments[i], self.table.slot(before.args[i])) for i in first], op)
        self._block(before)
        self._pass_on(end_of(before), after.args, 1)
        self._block(after)
        self._pass_on(end_of(after), before.args)
        if not first and not second:
            return
        inits = without(op.arguments, first)
        for block, indices in ((before, first), (after, second)):
            for i in reversed(indices):
                block.erase_arg(block.args[i], safe_erase=False)
        self._drop_tiles(op, inits)


def _drop_dead(block: Block) -> None:
    """Remove virtual tiles without users (all groups and copies have their own)."""
    for op in reversed(list(block.ops)):
        for region in op.regions:
            for inner in region.blocks:
                _drop_dead(inner)
        if any(r.uses for r in op.results):
            continue
        virtual = op.results and tile.is_tile(op.results[0]) and is_virtual(op)
        if virtual or isinstance(op, cpu.PrepackedOp):
            erase(op)
