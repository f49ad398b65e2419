"""Strips of tiles: addresses, legality of interleaving accesses, combination of partial reductions, caching."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import tile
from tilewright.ir.walk import closure, sources
from tilewright.passes.analysis.aliasing import base_argument, has_distinct_lanes, same_addresses
from tilewright.passes.analysis.disjoint_accesses import are_disjoint
from tilewright.passes.analysis.edit import Mapping, end_of, with_operands
from tilewright.passes.analysis.effects import is_pure
from tilewright.passes.analysis.emit import Emitter

KEPT = "gpu.cache_in_shared"
"""Attribute of a strip's load: index of the original load; the strip's index as offset and factor of the
enclosing loop's counter; number of cached strips. Loads with equal attributes load the same elements."""
EXCHANGES = 8 << 10
"""Bytes of shared memory reserved for reductions, which are double-buffered."""
_MIN_WARPS_PER_SM = 16
"""Warps per SM that must fit besides the cached strips."""
_WARPS = 64
"""Warps of an SM, if nothing is kept."""
_OF_L2 = 256 << 10
"""Bytes that the programs of an SM find again in the L2 cache (of 380 KB each, on an H200)."""


@dataclass(frozen=True)
class CachePlan:
    """Loads of which the first `count` chunks may be kept from loop to loop."""

    loads: tuple[Operation, ...] = ()
    count: int = 0


def is_program_variant(load: Operation) -> bool:
    """Whether programs may load different elements; otherwise L2 serves all programs."""
    owners = (value.owner for value in closure(load.operands, sources))
    return any(
        owner.regions or not is_pure(owner) or isinstance(owner, tile.ProgramIdOp)
        for owner in owners
        if isinstance(owner, Operation)
    )


def plan_cache(
    loads: Sequence[Operation], rows: int, chunk: int, warps: int, shared: int
) -> CachePlan:
    """Plan as many cached strips of `loads` as leave shared memory for enough warps per SM; none if those are
    few, or if L2 holds the rows of all resident programs.

    `benchmarks/gpu_pass_ablation.py` measures softmaxes with cached and reloaded strips: reloading is as fast if L2
    holds the rows (65,536 columns in half precision, 32 warps).

    Args:
        loads: loads of tiles with `rows` rows that several loops need.
        chunk: rows per strip.
        warps: warps per program.
        shared: bytes of shared memory per SM.
    """
    tiles = [op.results[0] for op in loads]
    small = all(len(tile.shape_of(v)) <= 2 for v in tiles)
    if not tiles or not small or any(isinstance(tile.element_of(v), tile.PtrType) for v in tiles):
        return CachePlan()
    sizes = [tile.element_bytes(v) for v in tiles]
    bytes_ = [
        chunk * prod(tile.shape_of(v)[1:]) * size for v, size in zip(tiles, sizes, strict=True)
    ]
    if sum(bytes_) * (rows // chunk) * max(1, _WARPS // warps) <= _OF_L2:
        return CachePlan()
    free = EXCHANGES
    if len(set(sizes)) > 1:  # threads hold them in different ways, one of which changes
        free = max(free, max(bytes_) + max(bytes_) // 4)
    programs = -(-_MIN_WARPS_PER_SM // warps)
    count = min(rows // chunk, (shared // programs - free) // sum(bytes_))
    return CachePlan(tuple(loads), count) if count * 4 >= rows // chunk else CachePlan()


def move_to_row(e: Emitter, view: Any, start: SSAValue) -> None:
    """Let a structured access begin at row `start`."""
    base = view.base
    if tile.view_kinds(view)[0] == "strided":
        offset = e.mul(start, view.strides[0])
        base = e.insert(tile.AddPtrOp(operands=[base, offset], result_types=[base.type]))
    first = 1 + sum(len(v) for v in (view.strides, view.starts, view.sizes, view.indices))
    operands = list(view.operands)
    operands[0] = base
    for i, (dimension, limit) in enumerate(tile.view_limits(view).items(), first):
        operands[i] = e.sub(limit, start) if dimension == 0 else limit
    view.operands = operands


def combined(e: Emitter, op: tile.ReduceOp, values: list[SSAValue]) -> list[SSAValue]:
    """The combine region of a reduction, for tiles element-wise."""
    shape = tile.shape_of(values[0])
    block = op.combine.block
    mapping: Mapping = dict(zip(block.args, values, strict=True))

    def spread(value: SSAValue) -> SSAValue:
        if value not in mapping:
            mapping[value] = e.splat(value, shape)
        return mapping[value]

    for inner in block.ops:
        if inner is end_of(block):
            return [spread(v) for v in inner.operands]
        if isinstance(inner, arith.ConstantOp):
            copy = inner.clone()
            mapping[inner.result] = e.splat(e.insert(copy), shape)
            continue
        types = [tile.with_shape(tile.element_of(r), shape) for r in inner.results]
        copy = with_operands(inner, [spread(v) for v in inner.operands], types)
        e.insert_op(copy)
        mapping.update(zip(inner.results, copy.results, strict=True))
    return []


def cannot_clobber(load: Operation, store: tile.Store) -> bool:
    """Whether no element that `load` reads can be clobbered by the store."""
    roots = base_argument(tile.pointer_of(load)), base_argument(tile.pointer_of(store))
    if None in roots:
        return False
    if roots[0] is roots[1]:
        return are_disjoint(load, store)
    # two arguments may be elementwise equal, but not where all programs read and one writes
    return not tile.is_tile(store.value) or (
        is_program_variant(store) and not is_program_variant(load)
    )


def may_interleave(first: Operation, second: Operation) -> bool:
    """Whether two accesses, one of them a store, may be interleaved chunk by chunk."""
    roots = base_argument(tile.pointer_of(first)), base_argument(tile.pointer_of(second))
    if None in roots:
        return False
    if roots[0] is not roots[1]:
        return True  # disjoint, or element-wise the same
    same = same_addresses(first, second) and has_distinct_lanes(second, trust_strides=True) is True
    return same or are_disjoint(first, second)
