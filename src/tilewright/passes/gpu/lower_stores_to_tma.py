"""`lower-stores-to-tma`: lower stores that would convert their layout to TMA stores.

An accumulator has the layout of MMA fragments, in which threads hold few consecutive elements; for wide stores it would go through
shared memory into another layout. If its destination is a TMA tile, writing it to shared memory suffices: one thread issues the
store, and the hardware clips it at the end of the array, which replaces the mask.

The tile passes through shared memory as epilogue subtiles where possible: panels of its columns, each computed (element-wise epilogue
operations are applied to the subtile alone), written, and stored while the next is computed. After a program's last dot
all subtiles fit into the memory of the operands. In a loop over tiles, whose next operands occupy that memory, the tile is
staged whole if it fits next to enough stages of the pipeline, else as subtiles that alternate: one is written when the
store that reads its slot has been waited for.

    Change:
          func.func @k(%p: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %n: i64 {tile.divisibility = 16 : i32}, %x: tensor<16x16xf16, "16x16 r[0,1 8,0 0,8] l[0,2 0,4 1,0 2,0 4,0] w[]">) {
        -   %c = arith.constant 1 : i64
        -   %y = gpu.convert_layout %x : tensor<16x16xf16, "16x16 r[0,1 8,0 0,8] l[0,2 0,4 1,0 2,0 4,0] w[]"> to tensor<16x16xf16, "16x16 r[0,1 0,2 0,4] l[0,8 1,0 2,0 4,0 8,0] w[]">
        -   tile.store_view %y, %p ["strided", "strided"] strides(%n, %c) {limited = array<i64>} : tensor<16x16xf16, "16x16 r[0,1 0,2 0,4] l[0,8 1,0 2,0 4,0 8,0] w[]">, !tile.ptr<f16>
        +   %0 = arith.constant 2147483648 : i64
        +   %1 = arith.constant 2147483648 : i64
        +   %2 = gpu.local_alloc : !gpu.shared<tensor<16x16xf16>, "16x16x2 dim1 swizzle32", 1>
        +   %3 = arith.constant 0 : i64
        +   %4 = arith.constant 0 : i64
        +   gpu.barrier
        +   %5 = arith.constant 0 : i32
        +   gpu.local_store %x, %2[%5] : tensor<16x16xf16, "16x16 r[0,1 8,0 0,8] l[0,2 0,4 1,0 2,0 4,0] w[]">, !gpu.shared<tensor<16x16xf16>, "16x16x2 dim1 swizzle32", 1>
        +   gpu.barrier
        +   %6 = gpu.elect : i1
        +   scf.if %6 {
        +     gpu.tma_store %2[%5] to %p[%3, %4] of[%0, %1] strides(%n) {range_checked = array<i64>} : !gpu.shared<tensor<16x16xf16>, "16x16x2 dim1 swizzle32", 1>, !tile.ptr<f16>
        +   } else {
        +   }
        +   gpu.tma_store_wait %2 : !gpu.shared<tensor<16x16xf16>, "16x16x2 dim1 swizzle32", 1>
            func.return
          }

Requires `assign-layouts`, and `pipeline-loads` to have chosen its buffers. Ensures: arrays stored by TMA are not accessed otherwise
by the kernel (the async proxy does not observe the order of its other accesses), and shared memory is not written again or freed
before the stores that read it have been waited for. In loops the stores of one iteration are in memory before
those of the next are issued, unless iterations store disjoint tiles (`iterations_are_disjoint`). Stores to an array from a table,
whose rows may end within 16 bytes, have two versions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import (
    IntegerAttr,
    TensorType,
    UnitAttr,
    i1,
    i32,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.ir.walk import innermost_loop, preceding
from tilewright.layouts import Layout
from tilewright.layouts.shared import SWIZZLE_ATOM_BYTES
from tilewright.passes.analysis.edit import (
    block_of,
    branch,
    end_of,
    erase,
    insert_before,
    outermost_in,
    with_operands,
)
from tilewright.passes.analysis.effects import erase_dead, is_pure, is_pure_elementwise
from tilewright.passes.analysis.emit import Emitter
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.analysis.remarks import Missed, Reason, report_missed
from tilewright.passes.base import FunctionPass
from tilewright.passes.gpu.analysis.buffer_views import buffer_users, program_block
from tilewright.passes.gpu.analysis.copy_engines import TMA
from tilewright.passes.gpu.analysis.epilogue_subtiles import Parts
from tilewright.passes.gpu.analysis.loop_carried import is_in_loop
from tilewright.passes.gpu.analysis.num_ctas import num_ctas_of
from tilewright.passes.gpu.analysis.operand_buffers import allocate
from tilewright.passes.gpu.analysis.shared_allocation import SharedAllocation, dead_buffers
from tilewright.passes.gpu.analysis.tma_stores import (
    RESERVE,
    TmaStorePlan,
    exchanged,
    exchanged_in_parts,
    iterations_are_disjoint,
    plan_tma_store,
)
from tilewright.passes.gpu.analysis.tma_tiles import TensorMapOperands, scalar_of
from tilewright.passes.gpu.assign_layouts import source_layout
from tilewright.passes.gpu.pipeline_loads import widen
from tilewright.passes.gpu.scheduling.ring import constant, true
from tilewright.targets import Feature, TargetInfo

_EARLY_WAIT_SLOTS = 3
"""Minimum number of subtile slots for waiting on the next slot before the existing barrier; with fewer slots, that
wait would cover the preceding subtile's store."""


_ONE_BUFFER = 1, 0
"""A tile staged whole, with no slot of its own: in the buffer of the stores before it."""


@dataclass(frozen=True)
class LowerStoresToTma(FunctionPass):
    requires = ("assign-layouts", "raise-access")
    epilogue_stages: int = 0
    """Slots for subtiles (0: as many as shared memory holds; in loops, and for tiles combined from several, the whole
    tile at once if it fits)."""

    def run(self, function: FuncOp, target: TargetInfo) -> None:
        if not target.has(Feature.TMA):
            return
        if num_ctas_of(function) == 1:
            known = Facts()
            for op in list(function.walk()):
                if isinstance(op, tile.StoreViewOp) and op.parent is not None:
                    self._lower(op, function, known, target)

    def _lower(
        self, op: tile.StoreViewOp, function: FuncOp, known: Facts, target: TargetInfo
    ) -> None:
        """Lower a store and the stores of adjacent tiles."""
        plan = plan_tma_store(op, function, known)
        if isinstance(plan, Missed):
            report_missed(op, TMA, plan)
            return
        group = [
            o
            for o in block_of(op).ops
            if isinstance(o, tile.StoreViewOp) and (o is op or o in plan.adjacent)
        ]
        plans = [plan if o is op else plan_tma_store(o, function, known) for o in group]
        found = [p for p in plans if isinstance(p, TmaStorePlan)]
        if len(found) < len(group):
            report_missed(op, TMA, Missed(Reason.STORE_ALIASED))
            return
        divisions = [
            self._division(o, p, found, function, target) for o, p in zip(group, found, strict=True)
        ]
        if None in divisions:
            report_missed(op, TMA, Missed(Reason.NO_ROOM))
            return
        staged: SSAValue | None = None
        for number, (o, p, division) in enumerate(zip(group, found, divisions, strict=True)):
            store, version = _as_version(o, p) if p.if_rows_end_aligned else (o, p)
            count, slots = division or (1, 1)
            place = number if len(group) > 1 else None
            storer = _Storer(store, version, function, count, slots, place, staged)
            storer.run()
            staged = storer.buffer if division == _ONE_BUFFER else None

    def _division(
        self,
        op: tile.StoreViewOp,
        store: TmaStorePlan,
        group: list[TmaStorePlan],
        function: FuncOp,
        target: TargetInfo,
    ) -> tuple[int, int] | None:
        """Number of subtiles and of slots for them; None if there is no memory. Several stores of a `group` are staged
        whole, one after another in one buffer (`_ONE_BUFFER`) if there is no more."""
        limit = target.shared_bytes
        used, count = (
            SharedAllocation(function).free_from(op) + RESERVE,
            store.cut[1] if store.cut else 1,
        )
        least, again = used, is_in_loop(op, function)
        if again:  # the buffer is live during other layout conversions
            twice = store.if_rows_end_aligned and _fragments(op, store) is None
            but = [] if twice else [each.convert for each in group]
            used += exchanged(op, function, but)
            least += exchanged_in_parts(op, function, target, but)
        at_once = again or _of_several_tiles(store, op)
        if len(group) > 1:
            if used + sum(each.whole_bytes for each in group) <= limit:
                return (1, 1) if at_once else (count, count)
            alike = all(
                each.whole == store.whole and not each.if_rows_end_aligned for each in group
            )
            return _ONE_BUFFER if alike and used + store.whole_bytes <= limit else None
        if at_once and not self.epilogue_stages and used + store.whole_bytes <= limit:
            return 1, 1
        fits = min((limit - least) // store.part_bytes, self.epilogue_stages or count, count)
        return (count, fits) if fits > 0 else None


def _as_version(op: tile.StoreViewOp, store: TmaStorePlan) -> tuple[tile.StoreViewOp, TmaStorePlan]:
    """Version a store by whether the array's rows end at a multiple of 16 bytes; return the version that can be a TMA
    store.

    The other version stores fragments if its mask can be computed in their layout, so that shared memory holds one
    tile only.
    """
    outer = store.tma_tile.encoded_before or op
    emitter = Emitter(outer)
    inside = emitter.constant(SWIZZLE_ATOM_BYTES // store.whole.size - 1, i64)
    rest = emitter.binary(arith.AndIOp, scalar_of(store.tma_tile.extents[0], outer), inside)
    aligned = emitter.compare("eq", rest, emitter.constant(0, i64))
    other = op.clone()
    versions = branch(aligned, [], otherwise=[other])
    versions.location = op.location
    insert_before(versions, op)
    convert = store.convert.clone()
    if (layout := _fragments(op, store)) is not None:
        for number, value in enumerate(op.operands):
            if value is store.convert.result:
                other.operands[number] = store.convert.source
            elif tile.is_tile(value):
                other.operands[number] = remake(value, layout, other)
    else:
        again = store.convert.clone()
        insert_before(again, other)
        other.operands[list(op.operands).index(store.convert.result)] = again.result
    end = end_of(versions.true_region.block)
    insert_before(convert, end)
    op.operands[list(op.operands).index(store.convert.result)] = convert.result
    insert_before(op, end)
    erase(store.convert)
    return op, replace(store, convert=convert)


def _fragments(op: tile.StoreViewOp, store: TmaStorePlan) -> Layout | None:
    """The layout of a tile before its conversion, if the tile can be stored in that layout."""
    layout = gpu.layout_of(store.convert.source)
    others = [v for v in op.operands if tile.is_tile(v) and v is not store.convert.result]
    return layout if layout is not None and all(can_remake(v, layout) for v in others) else None


def _of_several_tiles(store: TmaStorePlan, op: Operation) -> bool:
    """Return whether the stored value combines several tiles besides the accumulator.

    All of them would stay in registers while subtiles are computed one after another.
    """
    if store.cut is None:
        return False
    dim, count = store.cut
    source = store.convert.source
    parts = Parts(dim, tile.shape_of(source)[dim] // count, store.convert, op)
    return len(parts.sources(source)) > 1


class _Storer:
    """Rewrite one store."""

    def __init__(
        self,
        op: tile.StoreViewOp,
        store: TmaStorePlan,
        function: FuncOp,
        count: int,
        slots: int,
        number: int | None,
        staged: SSAValue | None,
    ) -> None:
        """`number`: index of the store among those to the same array; `staged`: the buffer of the one before, to reuse."""
        self.op, self.store, self.function, self.number = op, store, function, number
        self.count, self.slots, self.staged = count, max(1, slots), staged
        self.dim = store.cut[0] if store.cut is not None else 0
        extent: Any = self._part_type().get_shape()[self.dim]
        self.parts = Parts(self.dim, extent, store.convert, op) if count > 1 else None
        self.tensor_map: TensorMapOperands = (op.base, [], [])
        self.corner: list[SSAValue] = []
        self.again = False

    def run(self) -> None:
        """Write the tile to shared memory subtile by subtile, and issue a TMA store of each."""
        op, function = self.op, self.function
        dead = dead_buffers(function, op)
        whole = self.store.whole
        if self.staged is not None:
            self.buffer = self.staged
        else:
            self.buffer = allocate(
                self._part_type(), whole.major_dim, whole.swizzle_bytes, function
            )
            widen(self.buffer, self.slots)
        if dead:
            behind = _first_after(dead, op, function)
            insert_before(gpu.LocalDeallocOp.create(operands=dead), behind)
        tma_tile = self.store.tma_tile
        self.tensor_map, self.corner = tma_tile.tensor_map(function), tma_tile.place(op)
        self.again = is_in_loop(op, function)
        for number in range(self.count):
            self._part(number)
        end = end_of(program_block(function))
        insert_before(gpu.TmaStoreWaitOp.create(operands=[self.buffer]), end)
        if tma_tile.encoded_before is not None:
            self._order_later_accesses(tma_tile.encoded_before)
        erase(op)
        erase(self.store.convert)
        erase_dead(function.body.block)

    def _order_later_accesses(self, outer: Operation) -> None:
        """Order the stores with other accesses that may overlap after the map was encoded."""
        behind = outer.next_op
        if behind is not None and behind is not end_of(self.function.body.block):
            insert_before(gpu.ProxyFenceOp.create(operands=[true(behind)]), behind)
            insert_before(gpu.BarrierOp.create(), behind)

    def _part(self, number: int) -> None:
        """Write a subtile to its slot once that is free, and issue its store."""
        op, slots, following = self.op, self.slots, number + 1
        source = self._source(number)
        if number == 0:
            first = _after_products(op) if self.again else op
            barrier = _barrier_ahead(first) if self.again and not self.number else None
            if self.number:  # the first store of the group has waited for the previous iteration
                self._wait_if_rows_overlap()
                if self.staged is not None:  # which the store before still reads
                    first, barrier = op, None
                    self._wait()
            elif self.again:  # TMA stores of the previous iteration
                self._wait_for_iterations(barrier or first)
            if barrier is None:
                insert_before(gpu.BarrierOp.create(), first)
        elif number >= slots and slots < _EARLY_WAIT_SLOTS:
            self._wait(pending=IntegerAttr(slots - 1, i32))
            insert_before(gpu.BarrierOp.create(), op)
        slot = constant(number % slots, op)
        write = gpu.LocalStoreOp.create(operands=[source, self.buffer, slot], location=op.location)
        insert_before(write, op)
        if following >= slots >= _EARLY_WAIT_SLOTS and following < self.count:
            self._wait(pending=IntegerAttr(slots - 2, i32))
        insert_before(gpu.BarrierOp.create(), op)
        elect = gpu.ElectOp.create(result_types=[i1])
        insert_before(elect, op)
        self._store(number, slot, elect.result)

    def _wait_for_iterations(self, first: Operation) -> None:
        """Wait for the stores of earlier iterations.

        Until they have read shared memory if iterations store disjoint tiles, else until they are in memory.
        """
        loop = innermost_loop(self.op)
        shared, tma_tile = self.store.whole, self.store.tma_tile
        alone = self.number is None
        if (
            not alone
            or not isinstance(loop, scf.ForOp)
            or not iterations_are_disjoint(tma_tile, shared, loop)
        ):
            self._wait(first, complete=UnitAttr())
            return
        self._wait(first)
        if is_in_loop(
            loop, self.function
        ):  # other iterations of enclosing loops may store the same tile
            self._wait(loop, complete=UnitAttr())

    def _wait_if_rows_overlap(self) -> None:
        """Neighboring tiles are disjoint where no row reaches the next one; else their stores have an order."""
        emitter, tma_tile = Emitter(self.op), self.store.tma_tile
        extent, pitch = (scalar_of(p, self.op) for p in (tma_tile.extents[0], tma_tile.pitches[0]))
        overlap = emitter.compare("slt", pitch, extent)
        insert_before(branch(overlap, [self._new_wait(complete=UnitAttr())]), self.op)

    def _source(self, number: int) -> SSAValue:
        """The registers of a subtile."""
        whole = self.store.convert.source
        return whole if self.parts is None else self.parts.of(whole, number)

    def _part_type(self) -> TensorType:
        kind: Any = self.store.convert.source.type
        shape = [
            extent // self.count if d == self.dim else extent
            for d, extent in enumerate(kind.get_shape())
        ]
        return TensorType(kind.element_type, shape)

    def _store(self, number: int, slot: SSAValue, elected: SSAValue) -> None:
        op, tma_tile = self.op, self.store.tma_tile
        store = gpu.TmaStoreOp.build(
            operands=[*self.tensor_map, self._corner(number), self.buffer, slot],
            properties={"range_checked": tma_tile.range_checked},
        )
        store.location = op.location
        insert_before(branch(elected, [store]), op)

    def _corner(self, number: int) -> list[SSAValue]:
        """Coordinates of a subtile: x along its rows, y across them."""
        if number == 0:
            return self.corner
        extent: Any = self._part_type().get_shape()[self.dim]
        e = Emitter(self.op)
        along = 0 if self.dim == self.store.whole.major_dim else 1
        further = e.constant(number * extent, i64)
        moved = e.binary(arith.AddiOp, self.corner[along], further)
        return [moved if d == along else v for d, v in enumerate(self.corner)]

    def _wait(self, before: Operation | None = None, **properties: Attribute) -> None:
        insert_before(self._new_wait(**properties), before or self.op)

    def _new_wait(self, **properties: Attribute) -> Operation:
        return gpu.TmaStoreWaitOp.create(
            operands=[self.buffer], properties=properties, location=self.op.location
        )


def _after_products(op: Operation) -> Operation:
    """Return the position after the last MMA before `op` in its block.

    A barrier there waits for few threads; right before `op` it would separate the computation of the tile from its writes to shared
    memory, which otherwise overlap.
    """
    place = op
    for before in preceding(op):
        if before.regions or isinstance(before, gpu.WgmmaWaitOp | gpu.WgmmaOp | gpu.BarrierOp):
            break
        place = before
    return place


def _barrier_ahead(op: Operation) -> gpu.BarrierOp | None:
    """Return the barrier in front of `op` if there is nothing but the issue of copies in between: it serves both."""
    issues = (gpu.TmaLoadOp, gpu.MbarrierArriveExpectTxOp, scf.YieldOp)
    for before in preceding(op):
        if isinstance(before, gpu.BarrierOp):
            return before
        scalar = isinstance(before, gpu.ElectOp) or (is_pure(before) and not tile.has_tiles(before))
        inside = [o for region in before.regions for o in region.walk()]
        issue = isinstance(before, scf.IfOp) and all(
            isinstance(o, issues) or is_pure(o) for o in inside
        )
        if not (issue if before.regions else scalar):
            return None
    return None


def _first_after(buffers: list[SSAValue], op: Operation, function: FuncOp) -> Operation:
    """Return where buffers can be freed: after their last use and the wait for MMAs that read them.

    Layout conversions of an epilogue between there and `op` can then use the memory.
    """
    block = program_block(function)
    users = {outermost_in(block, user) for buffer in buffers for user in buffer_users(buffer)}
    end = outermost_in(block, op)
    place = end
    for current in preceding(end):
        if current in users or isinstance(current, gpu.WgmmaWaitOp):
            break
        place = current
    return place


_RESHAPING = (tile.ExpandDimsOp, tile.BroadcastOp, tile.TransOp, tile.HintOp)


def can_remake(value: SSAValue, layout: Layout) -> bool:
    """Return whether a tile can be computed from scalars in a layout."""
    if not tile.is_tile(value) or gpu.layout_of(value) == layout:
        return True
    op = value.owner
    if isinstance(op, Block) or op.regions or len(op.results) != 1:
        return False
    wanted = _operand_layout(op, layout)
    return wanted is not None and all(can_remake(v, wanted) for v in op.operands)


def remake(value: SSAValue, layout: Layout, before: Operation) -> SSAValue:
    """Emit the computation of a tile in a layout. Requires `can_remake`."""
    op = value.owner
    if not tile.is_tile(value) or gpu.layout_of(value) == layout or isinstance(op, Block):
        return value
    wanted = _operand_layout(op, layout) or layout
    operands = [remake(v, wanted, before) for v in op.operands]
    copy = with_operands(op, operands, [gpu.laid_out(tile.element_of(value), layout)])
    insert_before(copy, before)
    return copy.results[0]


def _operand_layout(op: Operation, layout: Layout) -> Layout | None:
    """The layout of the operands of an operation whose result is in `layout`; None where it has no such."""
    if isinstance(op, _RESHAPING):
        return source_layout(op, layout)
    if isinstance(op, tile.ArangeOp | tile.SplatOp) or is_pure_elementwise(op):
        return layout
    return None
