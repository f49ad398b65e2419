"""`store-boxes`: tiles that change their layout to be stored are stored by the tensor memory accelerator.

A tile that tensor cores made lies in their fragments, in which no thread has many neighbours; to be
stored it goes through shared memory into a layout of wide accesses. Where its place in memory is a box of
a matrix, it is enough to bring it there: one thread then has the whole box copied, and the hardware
leaves out what is beyond the matrix, which takes the place of a mask.

    Before:
        func.func @k(%p: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %n: i64 {tile.divisibility = 16 : i32}, %x: tensor<16x16xf16, "16x16 r[0,1 8,0 0,8] l[0,2 0,4 1,0 2,0 4,0] w[]">) {
          %c = arith.constant 1 : i64
          %y = gpu.convert %x : tensor<16x16xf16, "16x16 r[0,1 8,0 0,8] l[0,2 0,4 1,0 2,0 4,0] w[]"> to tensor<16x16xf16, "16x16 r[0,1 0,2 0,4] l[0,8 1,0 2,0 4,0 8,0] w[]">
          "tile.store_view"(%p, %n, %c, %y) <{kinds = ["strided", "strided"], limited = array<i64>, operandSegmentSizes = array<i32: 1, 2, 0, 0, 0, 0, 0, 1>}> : (!tile.ptr<f16>, i64, i64, tensor<16x16xf16, "16x16 r[0,1 0,2 0,4] l[0,8 1,0 2,0 4,0 8,0] w[]">) -> ()
          func.return
        }
    After:
        func.func @k(%p: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %n: i64 {tile.divisibility = 16 : i32}, %x: tensor<16x16xf16, "16x16 r[0,1 8,0 0,8] l[0,2 0,4 1,0 2,0 4,0] w[]">) {
          %0 = arith.constant 2147483648 : i64
          %1 = arith.constant 2147483648 : i64
          %2 = gpu.alloc : !gpu.shared<tensor<16x16xf16>, "16x16x2 dim1 span32", #builtin.int<1>>
          %c = arith.constant 1 : i64
          gpu.barrier
          %3 = arith.constant 0 : i32
          gpu.local_store %x, %2[%3] : tensor<16x16xf16, "16x16 r[0,1 8,0 0,8] l[0,2 0,4 1,0 2,0 4,0] w[]">, !gpu.shared<tensor<16x16xf16>, "16x16x2 dim1 span32", #builtin.int<1>>
          gpu.barrier
          %4 = gpu.elect : i1
          %5 = arith.constant 0 : i64
          %6 = arith.constant 0 : i64
          scf.if %4 {
            "gpu.tma_store"(%p, %0, %1, %n, %5, %6, %2, %3) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1>}> : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<16x16xf16>, "16x16x2 dim1 span32", #builtin.int<1>>, i32) -> ()
          } else {
          }
          gpu.tma_store_wait %2 : !gpu.shared<tensor<16x16xf16>, "16x16x2 dim1 span32", #builtin.int<1>>
          func.return
        }

Relies on `assign-layouts`, and on `pipeline-loads` having chosen its buffers. Guarantees: what is stored
as boxes is accessed in no other way by the kernel (boxes are written past the order of its other accesses),
and the shared memory that they are read from is waited for before it is written again or given back. In
loops the boxes of one iteration are in memory before those of the next are started.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, UnitAttr, i1, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.layouts.shared import ALIGNMENT, SharedLayout, widest_span
from tilewright.passes.analysis.addresses import root_of
from tilewright.passes.analysis.divisibility import Divisibility
from tilewright.passes.analysis.edit import end_of, erase, insert_before, outermost_in, start_of
from tilewright.passes.base import Pass
from tilewright.passes.gpu.analysis.accesses import contiguous_dim
from tilewright.passes.gpu.analysis.around import repeats
from tilewright.passes.gpu.analysis.blocks import blocks_of
from tilewright.passes.gpu.analysis.boxes import Box, box_of
from tilewright.passes.gpu.analysis.shared_plan import dead_buffers, live_bytes
from tilewright.passes.gpu.pipeline_loads import exchanged
from tilewright.passes.gpu.promote_shared import allocate

_SIZES = (2, 4)
"""Bytes of elements that are stored as boxes: narrower ones do not gain."""
_RESERVE = 2048
"""Bytes of shared memory left to memory barriers and alignment."""
_ACCESSES = (
    tile.LoadOp, tile.LoadViewOp, tile.StoreOp, tile.StoreViewOp, tile.AtomicRMWOp, tile.AtomicCASOp,
    gpu.CopyOp, gpu.TmaCopyOp, gpu.TmaStoreOp,
)  # fmt: skip


@dataclass(frozen=True)
class StoreBoxes(Pass):
    """See the module docstring."""

    name: ClassVar[str] = "store-boxes"
    requires: ClassVar[tuple[str, ...]] = ("assign-layouts", "raise-access")

    def apply(self, module: ModuleOp, target: Any) -> None:
        if getattr(target, "name", "") != "sm_90a":
            return
        for function in module.body.block.ops:
            if isinstance(function, FuncOp) and function.body.blocks and blocks_of(function) == 1:
                known = Divisibility()
                for op in list(function.walk()):
                    if isinstance(op, tile.StoreViewOp):
                        plan = _plan(op, function, known, target)
                        if plan is not None:
                            _replace(op, plan, function)


@dataclass(frozen=True)
class _Plan:
    """How a store becomes one of a box: the tile before it changed its layout, where it goes."""

    convert: gpu.ConvertOp
    dim: int
    box: Box


def _plan(op: tile.StoreViewOp, function: FuncOp, known: Divisibility, target: Any) -> _Plan | None:
    convert, dim = op.value.owner, contiguous_dim(op)
    if not isinstance(convert, gpu.ConvertOp) or len(list(convert.result.uses)) != 1:
        return None
    shape, size = tile.shape_of(op.value), tile.element_bytes(tile.element_of(op.value))
    if op.mask is not None or op.cache is not None or op.eviction is not None:
        return None
    if dim is None or len(shape) != 2 or size not in _SIZES or not _alone(op, function):
        return None
    shared = SharedLayout(*shape, size, dim, widest_span(shape[dim], size))
    box = box_of(op, known, shared)
    if box is None:
        return None
    limit = getattr(target, "shared_bytes", 0) or 48 << 10
    room = live_bytes(function, op) + -(-shared.bytes // ALIGNMENT) * ALIGNMENT + _RESERVE
    if repeats(op, function):  # the buffer stays in use while other tiles change their layouts
        room += exchanged(op, function, convert)
    return _Plan(convert, dim, box) if room <= limit else None


def _alone(op: tile.StoreViewOp, function: FuncOp) -> bool:
    """Whether nothing else in the kernel may access the argument that a store goes to."""
    root = root_of(op.base)
    if root is None:
        return False
    for other in function.walk():
        if isinstance(other, _ACCESSES) and other is not op:
            pointer = other.base if hasattr(other, "base") else other.pointer  # type: ignore[union-attr]
            if root_of(pointer) in (None, root):
                return False
    return True


def _first_after(buffers: list[SSAValue], op: Operation, function: FuncOp) -> Operation:
    """Where buffers can be given back: behind their last use and the wait for products that read them,
    so that what is between there and `op` (tiles of an epilogue that change their layout) has room.
    """
    block = function.body.block
    users = {outermost_in(block, use.operation) for buffer in buffers for use in buffer.uses}
    end = outermost_in(block, op)
    place = end
    current = end.prev_op
    while current is not None and current not in users:
        if not isinstance(current, gpu.WgmmaWaitOp):
            place = current
            current = current.prev_op
            continue
        break
    return place


def _replace(op: tile.StoreViewOp, plan: _Plan, function: FuncOp) -> None:
    dead = dead_buffers(function, op)
    held = plan.convert.source.type
    span = widest_span(
        tile.shape_of(op.value)[plan.dim], tile.element_bytes(tile.element_of(op.value))
    )
    buffer = allocate(held, plan.dim, span, function)
    if dead:
        behind = _first_after(dead, op, function)
        insert_before(gpu.ReleaseOp.create(operands=dead), behind)
    if repeats(op, function):  # of the iteration before
        written = gpu.TmaStoreWaitOp.create(
            operands=[buffer], properties={"written": UnitAttr()}, location=op.location
        )
        insert_before(written, op)
    slot = arith.ConstantOp(IntegerAttr(0, i32))
    place = gpu.LocalStoreOp.create(
        operands=[plan.convert.source, buffer, slot.result], location=op.location
    )
    elect = gpu.ElectOp.create(result_types=[i1])
    for new in (gpu.BarrierOp.create(), slot, place, gpu.BarrierOp.create(), elect):
        insert_before(new, op)
    shape, corner = plan.box.shape(start_of(function.body.block)), plan.box.place(op)
    store = gpu.TmaStoreOp.build(
        operands=[plan.box.root, *shape, corner, buffer, slot.result],
        properties={"guarded": plan.box.guarded},
    )
    store.location = op.location
    inside = Block([store, scf.YieldOp.create()])
    branch = scf.IfOp.create(
        operands=[elect.result], regions=[Region(inside), Region(Block([scf.YieldOp.create()]))]
    )
    insert_before(branch, op)
    insert_before(gpu.TmaStoreWaitOp.create(operands=[buffer]), end_of(function.body.block))
    erase(op)
    erase(plan.convert)
