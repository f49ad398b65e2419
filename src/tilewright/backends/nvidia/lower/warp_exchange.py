"""Lower conversions of layouts in loops through shared memory of each warp, without CTA barriers.

Where every warp holds the same elements before and after (`warp_shuffles`), a warp can write them to memory of its own and
read several per instruction. Example: 32 row statistics, one per lane, to the columns of MMA fragments: one store and four
loads of 64 bits instead of eight shuffles, whose source lanes are eight registers or as many instructions per iteration.
Each conversion has its own bytes, behind the mbarriers, as long as no fewer CTAs share an SM for it.
"""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from tilewright.backends.llvm.types import I8, Value
from tilewright.backends.nvidia.lower import KernelCodegen
from tilewright.backends.nvidia.lower.scratch_tiles import SharedAccess, SharedTile, runs_of
from tilewright.backends.nvidia.lower.warp_shuffles import plan_shuffles
from tilewright.dialects import gpu, tile
from tilewright.layouts import Layout
from tilewright.passes.gpu.analysis.shared_allocation import max_scratch_bytes

_LANE_BITS = 5
_WIDEST = 16
_WORD = 4
_SYNCHRONIZATIONS = 2
_SYNCHRONIZE = "bar.warp.sync -1;"


class WarpExchanges:
    """The conversions of a function that go through memory of each warp."""

    def __init__(self, gen: KernelCodegen, function: FuncOp) -> None:
        self._gen = gen
        self._starts: dict[Operation, int] = {}
        if gen.blocks > 1:
            return
        ops = [op for op in function.walk() if isinstance(op, gpu.ConvertLayoutOp)]
        found = [op for op in ops if _is_in_loop(op) and self._pays(op)]
        sizes = [gen.warps * _where(op).bytes for op in found]
        start = None
        if found:
            scratch, limit = max_scratch_bytes(function), gen.target.shared_bytes
            start = gen.shared.reserve_behind(sum(sizes), scratch, limit)
        for op, size in zip(found, sizes, strict=True):
            if start is not None:
                self._starts[op], start = start, start + size

    def _pays(self, op: gpu.ConvertLayoutOp) -> bool:
        """Whether stores and loads are fewer than shuffles."""
        source, target = self._gen.layout(op.source), self._gen.layout(op.result)
        where = _where(op)
        plan = plan_shuffles(source, target) if source.rank == 1 and where.size == _WORD else None
        if plan is None or not _each_lane_has_its_own(source):
            return False
        accesses = sum(len(runs_of(where, x, _WIDEST // where.size)) for x in (source, target))
        return accesses + _SYNCHRONIZATIONS < len(set(plan[1]))

    def convert(self, op: gpu.ConvertLayoutOp) -> bool:
        """Emit a conversion; False if it goes another way."""
        start = self._starts.get(op)
        if start is None:
            return False
        gen, where = self._gen, _where(op)
        gen.reserve(start + gen.warps * where.bytes)
        pointer = gen.threads.at_start(
            ("warp exchange", start), lambda b: self._own(b, start, where.bytes)
        )
        where = SharedTile(pointer, where.element, where.shape, 0, 0)
        if not _has_barrier(op):
            self._synchronize()  # lanes have read what the last iteration wrote
        SharedAccess(gen, where, gen.layout(op.source)).write(gen.parts(op.source))
        self._synchronize()
        gen.bind(op.result, SharedAccess(gen, where, gen.layout(op.result)).read())
        return True

    def _own(self, b: Value, start: int, size: int) -> Value:
        """The memory of the thread's warp."""
        warp = b.lshr(self._gen.threads.index, _LANE_BITS)
        place = b.add(b.mul(warp, size), start)
        return b.gep(self._gen.space(), [place], source_etype=I8)

    def _synchronize(self) -> None:
        self._gen.emit_convergent_asm(_SYNCHRONIZE)


def _where(op: gpu.ConvertLayoutOp) -> SharedTile:
    return SharedTile(None, tile.element_of(op.source), tile.shape_of(op.source), 0, 0)


def _is_in_loop(op: Operation) -> bool:
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, scf.ForOp | scf.WhileOp):
        parent = parent.parent_op()
    return parent is not None


def _has_barrier(op: Operation) -> bool:
    """Whether a barrier separates two executions of an operation of a loop's body."""
    block = op.parent_block()
    return block is not None and any(isinstance(o, gpu.BarrierOp) for o in block.ops)


def _each_lane_has_its_own(layout: Layout) -> bool:
    """Whether no two lanes hold the same element, which both would write."""
    return all(any(vector) for vector in layout.lanes)
