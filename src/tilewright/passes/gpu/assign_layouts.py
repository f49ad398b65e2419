"""`assign-layouts`: assign a register layout to every tile, and convert between layouts.

Each operation gets its operands in the layout in which it works best (its anchor layout, `analysis/anchor_layouts`):
accesses with neighbouring addresses in neighbouring lanes, dots in the fragments of the tensor
cores, the rest like its operands. Where a tile is wanted elsewhere, a `gpu.convert_layout` moves it; tiles
that cost nothing (aranges, masks, constants) are rematerialized instead.

    Change:
          func.func @k(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>, %one: i64) attributes {gpu.num_warps = 1 : i32} {
        -   %x = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
        -   %y = arith.addf %x, %x : tensor<64xf32>
        -   tile.store_view %y, %q ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
        +   %x = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32, "64 r[32] l[1 2 4 8 16] w[]">
        +   %y = arith.addf %x, %x : tensor<64xf32, "64 r[32] l[1 2 4 8 16] w[]">
        +   tile.store_view %y, %q ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32, "64 r[32] l[1 2 4 8 16] w[]">, !tile.ptr<f32>
            func.return
          }

Relies on `raise-access` (structured accesses say along which dimension they are contiguous) and
`select-mma`. Guarantees: every tile type carries a layout, and an operation's operands and results
are in layouts that its lowering takes as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, cast

from xdsl.dialects import arith, scf
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.errors import PassError
from tilewright.ir.walk import innermost_loop, outgoing
from tilewright.layouts import Layout
from tilewright.passes.analysis.edit import insert_before, with_operands
from tilewright.passes.analysis.effects import erase_dead, is_pure_elementwise
from tilewright.passes.analysis.emit import Emitter
from tilewright.passes.base import FunctionPass
from tilewright.passes.gpu.analysis.accesses import WIDEST, accesses_as_well, contiguous_dim
from tilewright.passes.gpu.analysis.anchor_layouts import (
    EXPENSIVE,
    REMAPS,
    AnchorLayouts,
    is_cheap,
)
from tilewright.passes.gpu.analysis.gathers import is_scatter
from tilewright.passes.gpu.analysis.num_ctas import num_ctas_of, warps_of
from tilewright.targets import TargetInfo

_FEW_LOADS = 4
"""Loads per thread of a row or column that is rematerialized in another layout."""
_DEEPEST = 8
"""Operations one after another that make such a row or column."""
_WIDENING = (arith.ExtFOp, arith.ExtSIOp, arith.ExtUIOp)
"""Conversions whose operands take fewer bytes than their results."""
_KEPT_REGISTERS = 16
"""Registers of a thread that a converted tile may take all through a loop."""


def _is_accumulator(value: SSAValue, user: Operation) -> bool:
    """Whether a dot adds to `value`, and does not multiply it."""
    return isinstance(user, tile.DotOp) and value is user.acc and value not in (user.lhs, user.rhs)


def _is_loaded_operand(value: SSAValue, user: Operation) -> bool:
    """Whether a dot reads what is loaded: `promote-shared` copies that as it lies in memory."""
    return isinstance(user, tile.DotOp) and isinstance(value.owner, tile.Load)


class AssignLayouts(FunctionPass):
    mandatory_reason = "without layouts no thread knows which elements are its own"

    def run(self, function: FuncOp, target: TargetInfo) -> None:
        _Assigner(function).run()


class _Assigner:
    def __init__(self, function: FuncOp) -> None:
        self.function = function
        self.warps = warps_of(function)
        self.anchors = AnchorLayouts(function, self.warps)
        self._made: dict[tuple[SSAValue, Layout, Block], SSAValue] = {}

    def run(self) -> None:
        self._walk(self.function.body.block)
        erase_dead(self.function.body.block)

    def _walk(self, block: Block) -> None:
        for op in list(block.ops):
            match op:
                case scf.YieldOp() | scf.ConditionOp():
                    self._pass_on(op)
                case scf.ForOp() | scf.IfOp() | scf.WhileOp():
                    self._control(op)
                case _:
                    self._visit(op)

    # ---- one operation ----

    def _visit(self, op: Operation) -> None:
        results = [r for r in op.results if tile.is_tile(r)]
        if results and (type(op) in REMAPS or all(self.anchors.is_free(r) for r in results)):
            return  # made where it is wanted
        match op:
            case tile.StoreViewOp() | tile.StoreOp():
                self._store(op)
            case tile.LoadViewOp():
                self._view_operands(op, self.anchors.default(op.result))
            case _ if op in self.anchors.operands:
                for i, layout in enumerate(self.anchors.operands[op]):
                    self._operand(op, i, layout)
            case tile.DotOp():
                self._shared_dot(op)
            case tile.ReduceOp():  # to scalars
                self._all_operands(op, self.anchors.reduced(op))
            case tile.JoinOp():
                self._all_operands(op, self.anchors.default(op.lhs))
            case tile.GatherOp():  # the source passes through shared memory
                self._operand(op, 0, self.anchors.default(op.source))
                self._operand(op, 1, self.anchors.default(op.result))
            case tile.HistogramOp():  # element-wise with its mask
                self._all_operands(op, self.anchors.default(op.source))
            case _ if tile.moves_lanes(op):
                for i, value in enumerate(op.operands):
                    self._operand(op, i, self.anchors.default(value))
            case _:
                self._same_layout(op, results)
        for result in results:
            self._set(result, self.anchors.default(result))

    def _same_layout(self, op: Operation, results: list[Any]) -> None:
        """Element-wise: all tiles of one shape in one layout."""
        tiles = [*results, *(v for v in op.operands if tile.is_tile(v))]
        if not tiles:
            return
        anchors = [self.anchors.of(v) for v in tiles]
        layout = next((h for h in anchors if h is not None), None) or self.anchors.default(tiles[0])
        self._all_operands(op, layout)

    def _all_operands(self, op: Operation, layout: Layout) -> None:
        for i, value in enumerate(op.operands):
            if tile.is_tile(value) and tile.shape_of(value) == layout.shape:
                self._operand(op, i, layout)

    def _operand(self, op: Operation, index: int, layout: Layout) -> None:
        value = op.operands[index]
        if tile.is_tile(value):
            op.operands[index] = self.want(value, layout, op)

    def _view_operands(self, op: Any, layout: Layout) -> None:
        indexed = [d for d, kind in enumerate(tile.view_kinds(op)) if kind == "indexed"]
        lines = {value: d for value, d in zip(op.indices, indexed, strict=True)}
        for i, value in enumerate(op.operands):
            if value in lines and tile.shape_of(value) != layout.shape:
                self._operand(op, i, _line(layout, lines[value]))
            elif tile.is_tile(value):
                self._operand(op, i, layout)

    def _store(self, op: tile.Store) -> None:
        if not tile.is_tile(op.value):
            return
        best = self.anchors.access(op)
        best = self.anchors.in_place(op.value, best)
        anchor = self.anchors.of(op.value)
        layout = anchor if anchor is not None and _as_good(op, anchor, best) else best
        if isinstance(op, tile.StoreViewOp):
            self._view_operands(op, layout)
        else:
            self._all_operands(op, layout)

    def _shared_dot(self, op: tile.DotOp) -> None:
        """Operands pass through shared memory, in any layout."""
        for i, value in enumerate((op.lhs, op.rhs, op.result)):
            self._operand(op, i, self.anchors.default(value))

    # ---- control flow ----

    def _control(self, op: scf.ForOp | scf.IfOp | scf.WhileOp) -> None:
        self._pass_on(op)
        for region in op.regions:
            for block in region.blocks:
                self._set_all(block.args)
                self._walk(block)
        self._set_all(op.results)

    def _pass_on(self, op: Operation) -> None:
        """Give each operand the layout of the result or argument that control flow makes of it."""
        for i, value in enumerate(op.operands):
            if tile.is_tile(value):
                self._operand(op, i, self.anchors.default(_passed_on(op, i)))

    def _set_all(self, values: Sequence[SSAValue]) -> None:
        for value in filter(tile.is_tile, values):
            self._set(value, self.anchors.default(value))

    # ---- a tile in a layout ----

    @staticmethod
    def _set(value: SSAValue, layout: Layout) -> None:
        value._type = gpu.laid_out(tile.element_of(value), layout)

    def want(self, value: SSAValue, layout: Layout, user: Operation) -> SSAValue:
        """`value` in `layout`, available before `user`."""
        if gpu.layout_of(value) == layout:
            return value
        if _is_small(value, layout):
            user = _outermost_loop_without(value, user) or user
        key = (value, layout, cast(Block, user.parent))
        if key not in self._made:
            self._made[key] = self._make(value, layout, user)
        return self._made[key]

    def _make(self, value: SSAValue, layout: Layout, user: Operation) -> SSAValue:
        op = value.owner
        if isinstance(op, Operation) and self.anchors.is_free(value):
            return self._clone(op, value, [layout] * len(op.operands), layout, user)
        if isinstance(op, Operation) and type(op) in REMAPS:
            source = source_layout(op, layout)
            if source is not None:
                return self._clone(op, value, [source], layout, user)
        if (
            isinstance(op, _WIDENING)
            and self._converts_once(op.operands[0], layout)
            and (_is_accumulator(value, user) or not _is_loaded_operand(op.operands[0], user))
        ):
            return self._clone(op, value, [layout], layout, user)  # fewer bytes to move
        if isinstance(op, Operation) and (
            self._makes_again(value, layout) or self._recomputes(value, layout)
        ):
            if isinstance(op, tile.LoadViewOp):  # where memory is as it was
                user = op.next_op or op
            return self._clone(op, value, [layout] * len(op.operands), layout, user)
        if gpu.layout_of(value) is None and isinstance(op, Operation):
            anchor = self.anchors.default(value)
            if anchor != layout:  # a change of shape that no layout of the source gives
                value = self.want(value, anchor, user)
            else:
                return self._clone(op, value, [self.anchors.default(op.operands[0])], layout, user)
        kind = gpu.laid_out(tile.element_of(value), layout)
        return Emitter(user).make(gpu.ConvertLayoutOp, [value], kind)

    def _recomputes(self, value: SSAValue, layout: Layout) -> bool:
        """Whether a small tile of a loop is rematerialized from what is converted once, in front of the loop."""
        op = value.owner
        loop = innermost_loop(op) if isinstance(op, Operation) else None
        if loop is None or not _is_small(value, layout) or not isinstance(op, Operation):
            return False
        return is_cheap(op) and all(
            not tile.is_tile(v)
            or not loop.is_ancestor(v.owner)
            or self.anchors.is_free(v)
            or self._recomputes(v, layout)
            for v in op.operands
        )

    def _makes_again(self, value: SSAValue, layout: Layout, depth: int = 0) -> bool:
        """Whether a row or column is loaded and computed where it is wanted, in few instructions, instead of passing
        through shared memory: caches serve the threads that want the same elements."""
        op, shape = value.owner, layout.shape
        if not isinstance(op, Operation) or prod(shape) != max(shape) or num_ctas_of(op) > 1:
            return False
        if isinstance(op, tile.LoadViewOp):
            if layout.rank != 1 or any(tile.is_tile(v) for v in op.operands):
                return False
            size = tile.element_bytes(value)
            most = 1 if contiguous_dim(op) is None else max(1, 16 // size)
            run = layout.num_consecutive(0, most)
            return layout.registers_per_thread <= _FEW_LOADS * run
        source = source_layout(op, layout) if type(op) in REMAPS else layout
        if source is None or not (
            type(op) in REMAPS or (is_pure_elementwise(op) and op.name not in EXPENSIVE)
        ):
            return False
        return depth < _DEEPEST and all(
            not tile.is_tile(v)
            or self.anchors.is_free(v)
            or self._makes_again(v, source, depth + 1)
            for v in op.operands
        )

    @staticmethod
    def _converts_once(source: SSAValue, layout: Layout) -> bool:
        """Whether threads in `layout` hold no more copies of elements than those of a tile do."""
        found = gpu.layout_of(source)
        return found is not None and layout.registers_per_thread <= found.registers_per_thread

    def _clone(
        self, op: Operation, value: SSAValue, layouts: list[Layout], layout: Layout, user: Operation
    ) -> SSAValue:
        if type(op) in REMAPS:
            layouts = [source_layout(op, layout) or layouts[0]]
        operands = [
            self.want(v, wanted, user) if tile.is_tile(v) else v
            for v, wanted in zip(op.operands, layouts, strict=True)
        ]
        copy = with_operands(op, operands, [gpu.laid_out(tile.element_of(value), layout)])
        insert_before(copy, user)
        copy.results[0].name_hint = value.name_hint
        return copy.results[0]


def _passed_on(op: Operation, index: int) -> SSAValue:
    """The argument, or else the result, that control flow makes of an operand."""
    passed, loop = outgoing(op, index), op.parent_op()
    if passed is not None:
        return passed[-1]
    if isinstance(op, scf.WhileOp):
        return op.before_region.block.args[index]
    if not isinstance(loop, scf.WhileOp):
        raise PassError(f"{op.name} is not in a loop or branch")
    if isinstance(op, scf.ConditionOp):
        return loop.after_region.block.args[index - 1]
    return loop.before_region.block.args[index]


def _is_small(value: SSAValue, layout: Layout) -> bool:
    """Whether a thread holds no more of a tile than it can keep during a loop."""
    words = max(1, tile.element_bytes(value) // 4)
    return layout.registers_per_thread * words <= _KEPT_REGISTERS


def _outermost_loop_without(value: SSAValue, user: Operation) -> Operation | None:
    """The outermost loop around `user` that `value` is defined outside of."""
    found, loop = None, innermost_loop(user)
    while loop is not None and not loop.is_ancestor(value.owner):
        found, loop = loop, innermost_loop(loop)
    return found


def source_layout(op: Operation, layout: Layout) -> Layout | None:
    """The layout of the source of a change of shape that makes its result be in `layout`."""
    match op:
        case tile.HintOp():
            return layout
        case tile.ExpandDimsOp():
            return layout.drop(op.axis.value.data)
        case tile.BroadcastOp():
            for d, extent in enumerate(tile.shape_of(op.source)):
                if extent == 1 and layout.shape[d] != 1:
                    layout = layout.flatten_axis(d)
            return layout
        case tile.TransOp():
            order = tuple(op.permutation)
            return layout.permute(tuple(order.index(d) for d in range(len(order))))
        case tile.ReshapeOp():
            return layout.reshape(tile.shape_of(op.source))
    return None


def _line(layout: Layout, dim: int) -> Layout:
    """The layout of the indices along one dimension."""
    for d in reversed(range(layout.rank)):
        if d != dim:
            layout = layout.drop(d)
    return layout


def _as_good(op: tile.Store, anchor: Layout, best: Layout) -> bool:
    """Whether a store from `anchor` makes about as few transactions as one from `best`."""
    few = anchor.rank == 1 and anchor.registers_per_thread <= _FEW_LOADS
    if (
        few
        and not is_scatter(op)
        and isinstance(op, tile.StoreViewOp)
        and contiguous_dim(op) is None
    ):
        return True  # elements go one by one, whoever has them
    if not is_scatter(op):
        return isinstance(op, tile.StoreOp) or accesses_as_well(op, op.value, anchor, best)
    if anchor.replicated("lanes") and not best.replicated("lanes"):
        return False
    runs = [best.num_consecutive(d, WIDEST) for d in range(best.rank)]
    dim = max(reversed(range(best.rank)), key=lambda d: runs[d])
    run = anchor.num_consecutive(dim, WIDEST)
    whole = runs[dim] * tile.element_bytes(op.value) >= WIDEST
    return run == runs[dim] or (whole and run > runs[dim])
