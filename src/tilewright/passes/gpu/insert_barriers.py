"""`insert-barriers`: insert CTA barriers between accesses of a program that may conflict.

The threads of a program run on their own; an element that one thread writes and another reads needs a
barrier in between. This pass follows the accesses of a program in order and puts a `gpu.barrier`
before one that may conflict with an earlier one: same kernel argument (or an unknown one), one of the
two a write, and not element-wise the same address in the same layout.

    Change:
        - func.func @k(%p: !tile.ptr<f32>, %one: i64) {
        + func.func @k(%p: !tile.ptr<f32>, %one: i64) attributes {gpu.barriers_inserted} {
            %q = tile.addptr %p, %one : !tile.ptr<f32>, i64 to !tile.ptr<f32>
            %x = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
        +   gpu.barrier
            tile.store_view %x, %q ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
            func.return
          }

Two arguments are assumed not to alias, or to be the same array: a kernel whose arguments overlap in
other ways has no defined order on a GPU, as in Triton. Relies on `assign-layouts`. Guarantees: the
function's attribute `gpu.barriers_inserted`. Switched off, code generation puts a barrier before every access.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from xdsl.dialects import scf
from xdsl.dialects.builtin import UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.layouts import Layout
from tilewright.passes.analysis.aliasing import (
    base_arguments,
    has_distinct_lanes,
    is_selected_argument,
    same_addresses,
)
from tilewright.passes.analysis.disjoint_accesses import are_disjoint
from tilewright.passes.analysis.edit import insert_before
from tilewright.passes.analysis.effects import defined_inside, is_pure
from tilewright.passes.base import FunctionPass
from tilewright.targets import TargetInfo

ORDERED = "gpu.barriers_inserted"
"""On a function: its barriers are where they are needed (code generation adds none)."""
_READS = (tile.Load, gpu.AsyncCopyOp)

ACCESSES = (*_READS, tile.Store, tile.Atomic)


class InsertBarriers(FunctionPass):
    def run(self, function: FuncOp, target: TargetInfo) -> None:
        _walk(function.body.block, [])
        function.attributes[ORDERED] = UnitAttr()


@dataclass(frozen=True)
class _Access:
    op: Operation
    roots: frozenset[SSAValue] | None
    """The kernel arguments one of which it accesses; None if they are not known."""
    around: frozenset[Operation] = frozenset()
    """Loops around it that have gone round since."""

    @classmethod
    def of(cls, op: Operation) -> _Access:
        return cls(op, base_arguments(tile.pointer_of(op)))


def _walk(block: Block, open_: list[_Access]) -> list[_Access]:
    """Insert barriers in `block`; `open_`: accesses since the last barrier. Returns those at its end."""
    for op in list(block.ops):
        if is_pure(op):
            continue
        if isinstance(op, scf.ForOp | scf.WhileOp):
            if _loop_conflicts(open_, op):  # once, and not in each iteration
                insert_before(gpu.BarrierOp.create(location=op.location), op)
                open_ = []
            before = open_
            for again in (False, True):  # what the end of an iteration leaves to the next
                if again:
                    open_ = [_as_earlier_iteration(access, op) for access in open_]
                for region in op.regions:
                    open_ = _walk(region.block, open_)
            if isinstance(op, scf.ForOp):  # it may have no iteration
                open_ = list(dict.fromkeys([*before, *open_]))
        elif isinstance(op, scf.IfOp):
            ends = [_walk(r.block, list(open_)) for r in op.regions if r.blocks]
            merged = [o for end in ends for o in end]
            open_ = list(dict.fromkeys(merged if len(ends) == 2 else [*open_, *merged]))
        elif isinstance(op, gpu.BarrierOp | tile.BarrierOp):
            open_ = []
        elif isinstance(op, ACCESSES):
            access, reads = _Access.of(op), isinstance(op, _READS)
            others = [a for a in open_ if not reads or not isinstance(a.op, _READS)]
            if any(_conflict(earlier, access) for earlier in others):
                insert_before(gpu.BarrierOp.create(location=op.location), op)
                open_ = []
            open_ = [*open_, access]
    return open_


def _loop_conflicts(open_: list[_Access], loop: scf.ForOp | scf.WhileOp) -> bool:
    """Whether accesses of a loop may conflict with accesses before it."""
    if not open_:
        return False
    accesses = (_Access.of(op) for op in loop.walk() if isinstance(op, ACCESSES))
    return any(_conflict(earlier, access) for access in accesses for earlier in open_)


def _as_earlier_iteration(access: _Access, loop: Operation) -> _Access:
    """The access as one of an earlier iteration, if it is inside `loop`."""
    inside = loop.is_ancestor(access.op)
    return replace(access, around=access.around | {loop}) if inside else access


def _conflict(earlier: _Access, later: _Access) -> bool:
    """Whether two accesses may touch one address from different threads, in a way that matters."""
    first, second, around = earlier.op, later.op, list(earlier.around)
    if isinstance(first, _READS) and isinstance(second, _READS):
        return False
    if (
        isinstance(first, tile.Atomic)
        and isinstance(second, tile.Atomic)
        and _commute(first, second)
    ):
        return False
    if _releases(second) and not isinstance(first, tile.Atomic):
        return True
    roots, others = earlier.roots, later.roots
    if roots is not None and others is not None and roots.isdisjoint(others):
        return False
    if not around:
        return not (_same_threads(first, second) or are_disjoint(first, second))
    common = [loop for loop in around if loop.is_ancestor(second)]
    if not common:
        return not are_disjoint(first, second)
    loop = next(a for a in common if all(a.is_ancestor(other) for other in common))
    if all(_repeats_addresses(second, loop) for loop in common) and _same_threads(first, second):
        return False
    return not (isinstance(loop, scf.ForOp) and are_disjoint(first, second, loop))


def _commute(first: Any, second: Any) -> bool:
    """Whether the order of two atomic operations by different threads cannot be told: thread 0 does those
    on scalars, in order; of others, one kind of update whose old values nothing uses."""
    if not tile.is_tile(first.pointer) and not tile.is_tile(second.pointer):
        return True
    updates = isinstance(first, tile.AtomicRMWOp) and isinstance(second, tile.AtomicRMWOp)
    return (
        updates
        and first.kind == second.kind
        and first.kind.data != "xchg"
        and not (first.result.uses or second.result.uses)
    )


def _releases(op: Operation) -> bool:
    """Whether thread 0 tells other programs that what all threads did before is done (a lock's release)."""
    return (
        isinstance(op, tile.Atomic)
        and not tile.is_tile(op.pointer)
        and op.sem.data in ("release", "acq_rel")
    )


def _same_threads(first: Operation, second: Operation) -> bool:
    """Whether threads access the same elements in both operations: same addresses in the same layout, and no two lanes
    (of different threads, perhaps) at one address.

    Where several warps hold an element the first writes it, and all read it: those are not its own. (Lanes of
    a warp run together.)
    """
    if isinstance(first, gpu.AsyncCopyOp) or isinstance(second, gpu.AsyncCopyOp):
        return False
    if not same_addresses(first, second) or not has_distinct_lanes(second, trust_strides=True):
        return False
    layout = gpu.layout_of(tile.accessed(first))
    if layout != gpu.layout_of(tile.accessed(second)):
        return False
    reads = isinstance(first, _READS) or isinstance(second, _READS)
    return layout is None or not (reads and _spans_warps(layout))


def _repeats_addresses(op: Operation, loop: Operation) -> bool:
    """Whether a structured access has the same addresses in all iterations of `loop`, or the same in each of several
    arguments among which it chooses."""
    if not isinstance(op, tile.View):
        return False
    pointer = op.base
    while defined_inside(pointer, loop) and isinstance(pointer.owner, tile.AddPtrOp):
        if defined_inside(pointer.owner.offset, loop):
            return False
        pointer = pointer.owner.pointer
    if defined_inside(pointer, loop) and not is_selected_argument(pointer):
        return False
    others = [*op.strides, *op.starts, *op.sizes, *op.indices]
    return not any(defined_inside(v, loop) for v in others)


def _spans_warps(layout: Layout) -> bool:
    return bool(layout.replicated("warps")) or layout.same_in_groups
