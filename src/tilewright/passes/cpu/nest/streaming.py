"""Stores that bypass the caches, in launches that write and read more than the last cache holds.

An ordinary store first fetches its line. Where results will be evicted before anything reads them, a non-temporal
store saves that fetch and leaves the cache to others (measured for an addition of 2^21 fp32 on Zen 4: 1.8 times faster).
In cache it is slower, so the size of the launch decides at run time.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, i32, i64
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import cpu, tile
from tilewright.ir.walk import closure, sources
from tilewright.passes.analysis.aliasing import same_scalar
from tilewright.passes.analysis.emit import constant_int
from tilewright.passes.cpu.nest.emit import Emitter
from tilewright.targets import TargetInfo

LINE_BYTES = 64
_SHARE = 2
"""Launches that touch more than 1 / `_SHARE` of the last cache stream."""


def streaming_stores(
    group: cpu.FusionGroupOp, emit: Emitter, target: TargetInfo
) -> dict[Operation, SSAValue]:
    """Stores of `group` that may bypass the caches, each with an i1 that says at run time whether it should.

    Where it holds, the first element begins a cache line. Only groups that run once per program, of tiles with one
    dimension (others of extent 1), have any.
    """
    extents = group.extents
    flat = sum(extent > 1 for extent in extents) == 1
    if not target.l3_bytes or not flat or _is_repeated(group) or _reads_outputs(group):
        return {}
    accesses = [op for op in group.body.block.ops if isinstance(op, tile.View)]
    rows = [op for op in accesses if _is_row(op, extents)]
    stores = [op for op in rows if isinstance(op, tile.StoreViewOp) and op.mask is None]
    loads = [op for op in rows if isinstance(op, tile.LoadViewOp)]
    stores = [s for s in stores if not any(same_scalar(s.base, load.base) for load in loads)]
    touched = sum(tile.bytes_of(tile.accessed(op)) for op in rows if _is_of_program(op.base))
    if not stores or not touched:
        return {}
    least = target.l3_bytes // _SHARE // touched + 1
    large = emit.at_least(_programs(emit), least)
    return {store: emit.condition(emit.both(large, _begins_line(emit, store))) for store in stores}


def store_chunk(emit: Emitter, streams: SSAValue, plain: Operation) -> None:
    """Emit the vector store `plain`, non-temporal where `streams` holds."""
    yes, no, _ = emit.branch(streams, [])
    line = plain.clone()
    line.properties["alignment"] = IntegerAttr(LINE_BYTES, i64)
    line.properties["nontemporal"] = IntegerAttr(1, 1)
    yes.add(line)
    yes.yield_values([])
    no.add(plain)
    no.yield_values([])


def _is_repeated(group: cpu.FusionGroupOp) -> bool:
    """Whether the group is in a loop or branch."""
    parent = group.parent_op()
    return parent is None or parent.name != "func.func"


def _reads_outputs(group: cpu.FusionGroupOp) -> bool:
    """Whether the group reads buffers that lie in the kernel's outputs, whose lines are in cache already."""
    return any(
        isinstance(op, cpu.ReadOp) and isinstance(op.buffer.owner, cpu.BufferFromPtrOp)
        for op in group.body.block.walk()
    )


def _is_row(op: tile.View, extents: tuple[int, ...]) -> bool:
    """Whether an access covers the group's tile, contiguously."""
    shape = tile.shape_of(tile.accessed(op))
    if tuple(shape) != tuple(extents) or any(kind.data != "strided" for kind in op.kinds):
        return False
    (dim,) = (d for d, extent in enumerate(shape) if extent > 1)
    return constant_int(op.strides[dim]) == 1


def _is_of_program(value: SSAValue) -> bool:
    """Whether a scalar depends on the program's index."""
    return any(isinstance(v.owner, tile.ProgramIdOp) for v in closure([value], sources))


def _programs(emit: Emitter) -> SSAValue:
    """How many programs the launch has."""
    total: SSAValue | None = None
    for axis in range(3):
        count = emit.make(tile.NumProgramsOp, (), i32, axis=IntegerAttr(axis, i32))
        wide = emit.make(arith.ExtSIOp, [count], i64)
        total = wide if total is None else emit.binary(arith.MuliOp, total, wide)
    assert total is not None
    return total


def _begins_line(emit: Emitter, store: tile.StoreViewOp) -> bool | SSAValue:
    """Whether the first element is at a multiple of a cache line."""
    address = emit.make(tile.PtrToIntOp, [store.base], i64)
    within = emit.binary(arith.AndIOp, address, emit.constant(LINE_BYTES - 1, i64))
    return emit.compare("eq", within, 0)
