"""`prefetch-next-programs`: prefetch into L2 the rows of the programs that run next.

    Change:
          func.func @k(%p: !tile.ptr<f32>, %n: i64) attributes {gpu.num_warps = 64 : i32, gpu.num_ctas = 4 : i32, gpu.ctas_per_sm = 2 : i32} {
            %one = arith.constant 1 : i64
            %row = tile.program_id 0 : i32 : i32
            %wide = arith.extsi %row : i32 to i64
            %start = arith.muli %wide, %n : i64
            %at = tile.addptr %p, %start : !tile.ptr<f32>, i64 to !tile.ptr<f32>
        -   %x = tile.load_view %at ["strided"] strides(%one) limits(%n) {limited = array<i64: 0>} : !tile.ptr<f32> to tensor<65536xf32>
        +   %x = tile.load_view %at ["strided"] strides(%one) limits(%n) {limited = array<i64: 0>, eviction = "no_allocate"} : !tile.ptr<f32> to tensor<65536xf32>
        +   %ahead = arith.constant 66 : i32
        +   %programs = tile.num_programs 0 : i32 : i32
        +   %last = arith.subi %programs, %ahead : i32
        +   %exists = tile.cmpi "slt", %row, %last : i32, i32 to i1
        +   %sum = arith.addi %row, %ahead : i32
        +   %next_row = tile.select %exists, %sum, %row : i1, i32, i32 to i32
        +   %next_wide = arith.extsi %next_row : i32 to i64
        +   %next_start = arith.muli %next_wide, %n : i64
        +   %next = tile.addptr %p, %next_start : !tile.ptr<f32>, i64 to !tile.ptr<f32>
        +   %extent = arith.constant 65536 : i64
        +   %count = arith.minsi %extent, %n : i64
        +   gpu.prefetch %next, %count of 65536 : i64 if %exists : !tile.ptr<f32>
            %m = "tile.reduce"(%x) <{axis = 0 : i32}> ({
            ^bb0(%a: f32, %b: f32):
              %c = arith.maximumf %a, %b : f32
              tile.yield %c : f32
            }) : (tensor<65536xf32>) -> f32
            tile.store %p, %m : !tile.ptr<f32>, f32
            func.return
          }

Few programs that hold whole rows fit on an SM. Each loads its row, waits for reductions, stores, and ends; while all of an
SM do something else than load, DRAM idles. So a program that has issued the loads of a row begins to fetch into the L2
cache what the program will load that takes its place: as many programs further along axis 0 as are planned to be
resident at once (`programs_ahead`: another number). That program's loads then have the latency of L2.

A row: a structured load of one line of contiguous elements without a mask, in straight-line code before the first
reduction, whose address and limits are computed from arguments and program ids. Only in functions for which
`distribute-rows-over-cluster` has planned how many CTAs share an SM.

Cost model: until it is loaded a prefetched row must stay in L2, through which goes meanwhile what all resident programs
load and store. Where that is more than `l2_share` of the cache rows are evicted before their use, and the prefetch makes
a kernel slower. Programs of several rows, one CTA to an SM, gained nothing, nor do rows shorter than `min_bytes` need it
([ADR 23](../adr/0023-prefetches-into-l2-instead-of-persistent-programs.md)).

Legality: a prefetch changes no value, and L2 is coherent, so it does not matter whether another program still writes
there. Its addresses are those that the other program itself loads, unconditionally, under the same limits; that program
exists because its number is below that of the launch (else the own program's address is computed, and not used).

Loads of prefetched rows do not allocate lines in L1, unless they are repeated or their author has chosen a policy.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, StringAttr, i32, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.passes.analysis.aliasing import same_addresses
from tilewright.passes.analysis.edit import Mapping, backward_slice
from tilewright.passes.analysis.effects import is_pure
from tilewright.passes.analysis.emit import Emitter, constant_int
from tilewright.passes.base import FunctionPass
from tilewright.passes.gpu.analysis.num_ctas import CTAS_PER_SM, num_ctas_of
from tilewright.targets import Feature, TargetInfo

_AXIS = 0
"""Programs with consecutive numbers on this axis are launched one after another."""


@dataclass(frozen=True)
class _Row:
    """A load of a row, and the operations that compute its address and limits."""

    load: tile.LoadViewOp
    once: bool
    """Whether no other load of the program has its addresses."""
    slice: tuple[Operation, ...]
    dim: int
    """The dimension along which its elements are contiguous."""


@dataclass(frozen=True)
class PrefetchNextPrograms(FunctionPass):
    relevant_ops = ("tile.reduce",)
    requires = ("raise-access",)
    programs_ahead: int = 0
    """How many programs later one runs whose rows are prefetched; 0: as many as are resident at once."""
    min_bytes: int = 65536
    """The smallest row, in bytes."""
    l2_share: float = 0.4
    """The most that resident programs load and store, as a share of the L2 cache."""

    def run(self, function: FuncOp, target: TargetInfo) -> None:
        if not target.has(Feature.TMA):
            return
        planned = function.attributes.get(CTAS_PER_SM)
        if not isinstance(planned, IntegerAttr):
            return
        ctas_per_sm = planned.value.data
        resident = max(1, target.cores * ctas_per_sm // num_ctas_of(function))
        rows = [row for row in _rows(function) if tile.bytes_of(row.load.result) >= self.min_bytes]
        moved = sum(tile.bytes_of(row.load.result) for row in rows) + _stored_bytes(function)
        fits = resident * moved <= self.l2_share * target.l2_bytes
        if rows and fits and (ctas_per_sm > 1 or len(rows) == 1):
            _prefetch(rows, self.programs_ahead or resident)


def _rows(function: FuncOp) -> list[_Row]:
    """The loads of rows before the first reduction, each address once."""
    loads = [op for op in function.walk() if isinstance(op, tile.LoadViewOp)]
    found: list[_Row] = []
    for op in function.body.block.ops:
        if any(isinstance(inner, tile.ReduceOp) for inner in op.walk()):
            break
        row = _row(op, loads) if isinstance(op, tile.LoadViewOp) else None
        if row is None:
            continue
        if row.once or not any(same_addresses(row.load, other.load) for other in found):
            found.append(row)
    return found


def _row(load: tile.LoadViewOp, loads: list[tile.LoadViewOp]) -> _Row | None:
    """`load`, one of `loads`, as a row whose place in another program is known; None if it is something else."""
    long = [d for d, extent in enumerate(tile.shape_of(load.result)) if extent > 1]
    if load.mask is not None or len(long) != 1 or set(tile.view_kinds(load)) != {"strided"}:
        return None
    block = load.parent_block()
    if block is None or constant_int(load.strides[long[0]]) != 1:
        return None
    found = backward_slice(block, [load.base, *load.limits], is_pure)
    if found is None or not any(map(_is_program_id, found[0])):
        return None
    once = not any(same_addresses(load, other) for other in loads if other is not load)
    return _Row(load, once, tuple(found[0]), long[0])


def _is_program_id(op: Operation) -> bool:
    return isinstance(op, tile.ProgramIdOp) and op.axis.value.data == _AXIS


def _stored_bytes(function: FuncOp) -> int:
    """What a program stores, apart from single elements."""
    return sum(
        tile.bytes_of(op.value) for op in function.walk() if isinstance(op, tile.StoreViewOp)
    )


def _prefetch(rows: list[_Row], ahead: int) -> None:
    """Prefetch, after each load of a row, what the program loads there that is so many later."""
    mapping: Mapping = {}
    exists: SSAValue | None = None
    for row in rows:
        after = row.load.next_op
        if after is None:
            return
        e = Emitter(after, row.load.location)
        for op in row.slice:
            own = op.results[0]
            if own not in mapping and _is_program_id(op):
                distance = e.constant(ahead, i32)
                exists = exists or _exists(e, own, distance)
                mapping[own] = e.select(exists, e.binary(arith.AddiOp, own, distance), own)
            elif own not in mapping and any(v in mapping for v in op.operands):
                e.clone(op, mapping)
        if exists is not None:
            _prefetch_row(e, row, mapping, exists)


def _exists(e: Emitter, own: SSAValue, distance: SSAValue) -> SSAValue:
    """i1: whether the grid has a program that far behind this one; the sum of both may exceed 32 bits."""
    programs = e.make(tile.NumProgramsOp, (), i32, axis=IntegerAttr(_AXIS, i32))
    return e.compare("slt", own, e.binary(arith.SubiOp, programs, distance))


def _prefetch_row(e: Emitter, row: _Row, mapping: Mapping, exists: SSAValue) -> None:
    load = row.load
    extent = max(tile.shape_of(load.result))
    count = e.constant(extent)
    for dim, limit in tile.view_limits(load).items():
        there = mapping.get(limit, limit)
        if dim == row.dim:
            count = e.binary(arith.MinSIOp, count, there)
        else:
            exists = e.binary(arith.AndIOp, exists, e.compare("sgt", there, e.constant(0)))
    e.insert_op(
        gpu.PrefetchOp.create(
            operands=[mapping.get(load.base, load.base), count, exists],
            properties={"extent": IntegerAttr(extent, i64)},
        )
    )
    if row.once and load.cache is None and load.eviction is None:
        load.eviction = StringAttr("no_allocate")
