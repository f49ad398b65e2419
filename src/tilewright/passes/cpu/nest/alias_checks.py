"""Comparing the byte ranges of accesses at run time (aliasing rules, docs/gpu.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import i64
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import cpu, tile
from tilewright.dialects.tile import element_bytes
from tilewright.passes.analysis.aliasing import has_distinct_lanes, same_addresses, same_scalar
from tilewright.passes.analysis.emit import constant_int
from tilewright.passes.cpu.analysis.classify import WRITES
from tilewright.passes.cpu.analysis.hazards import (
    DISJOINT,
    SAME,
    UNKNOWN,
    accesses_within,
    moved_loads,
    relation,
)
from tilewright.passes.cpu.nest.emit import Emitter, Index


@dataclass(frozen=True)
class Hazard:
    """An earlier access and a later store whose order of lanes matters if they overlap."""

    access: tile.View
    store: tile.View
    same_is_safe: bool
    """Whether they may touch the same addresses element-wise: not so for a load that one lane does
    for another, nor when lanes share an address."""


def hazards(group: cpu.FusionGroupOp) -> list[Hazard]:
    """What has to be compared before the chunks of a group may run one after another."""
    members = list(group.body.block.ops)
    moved = moved_loads(group) if any(isinstance(op, WRITES) for op in members) else set()
    found: list[Hazard] = []
    for j, later in enumerate(members):
        for store in accesses_within(later):
            if not isinstance(store, WRITES):
                continue
            distinct = has_distinct_lanes(store)
            for earlier in members[:j]:
                for access in accesses_within(earlier):
                    kind = relation(access, store, access is not earlier)
                    own_lanes = access not in moved and distinct is not False
                    settled = kind == SAME and own_lanes and distinct is True
                    if kind not in (UNKNOWN, DISJOINT) and not settled:
                        found.append(Hazard(access, store, own_lanes))  # type: ignore[arg-type]
    return found


def ordered_accesses(group: cpu.FusionGroupOp) -> list[Operation]:
    """Accesses of a group whose chunks may touch each other's memory: what a store may alias, and it."""
    members = list(group.body.block.ops)
    if not any(isinstance(op, WRITES) for op in members):
        return []
    accesses = [(op, member) for member in members for op in accesses_within(member)]
    found: dict[Operation, None] = {}
    for j, (store, _) in enumerate(accesses):
        if isinstance(store, WRITES):
            for access, member in accesses[:j]:
                if relation(access, store, access is not member) not in (UNKNOWN, DISJOINT):
                    found.update({access: None, store: None})
    return [op for op, _ in accesses if op in found]


def safe_condition(emit: Emitter, pairs: list[Hazard]) -> SSAValue:
    """Scalar i1: every pair is disjoint, or lane-wise at the same addresses where that is safe."""
    ranges: dict[tile.View, tuple[Index, Index, SSAValue]] = {}
    lanes: dict[tile.View, bool | SSAValue] = {}
    safe: bool | SSAValue = True
    for hazard in pairs:
        access, store = hazard.access, hazard.store
        same: bool | SSAValue = False
        if hazard.same_is_safe and _comparable(access, store):
            if store not in lanes:
                lanes[store] = _distinct_lanes(emit, store)
            same = lanes[store]
        if same is not False and same_addresses(access, store):
            safe = emit.both(safe, same)  # with lanes that share an address they overlap
            continue
        for each in (access, store):
            if each not in ranges:
                ranges[each] = _byte_range(emit, each)
        (low_a, high_a, base_a), (low_b, high_b, base_b) = ranges[access], ranges[store]
        disjoint = emit.either(
            emit.compare("sle", high_a, low_b), emit.compare("sle", high_b, low_a)
        )
        disjoint = emit.either(disjoint, _rows_alternate(emit, access, store, base_a, base_b))
        disjoint = emit.either(disjoint, _elements_alternate(emit, access, store, base_a, base_b))
        if same is not False:
            same = emit.both(same, emit.compare("eq", base_a, base_b))
            for x, y in zip(access.strides, store.strides, strict=True):
                if not same_scalar(x, y):
                    same = emit.both(same, emit.compare("eq", x, y))
        safe = emit.both(safe, emit.either(disjoint, same))
    return emit.condition(safe)


def _rows_alternate(
    emit: Emitter, access: tile.View, store: tile.View, base_a: SSAValue, base_b: SSAValue
) -> bool | SSAValue:
    """Whether rows of one access lie between those of the other: halves of a last dimension, stored one by one.

    Rows of C bytes, S bytes apart in both, do not overlap if the bases differ by at least C and at most S - C modulo S.
    """
    shape = tile.shape_of(tile.accessed(access))
    dims = [d for d, extent in enumerate(shape) if extent > 1]
    strides = [constant_int(access.strides[d]) for d in dims]
    if len(dims) != 2 or strides[1] != 1 or not _comparable(access, store):
        return False
    if [constant_int(store.strides[d]) for d in dims] != strides:
        return False
    size = element_bytes(_element(access))
    row, step = shape[dims[1]] * size, (strides[0] or 0) * size
    return _alternate(emit, row, step, base_a, base_b)


def _elements_alternate(
    emit: Emitter, access: tile.View, store: tile.View, base_a: SSAValue, base_b: SSAValue
) -> bool | SSAValue:
    """Whether elements of one access lie between those of the other: all strides have a common divisor above 1."""
    sizes = {element_bytes(_element(each)) for each in (access, store)}
    strides: list[int | None] = []
    for each in (access, store):
        extents = tile.shape_of(tile.accessed(each))
        strides += [constant_int(s) for s, n in zip(each.strides, extents, strict=True) if n > 1]
    if len(sizes) > 1 or None in strides:
        return False
    size = sizes.pop()
    return _alternate(emit, size, math.gcd(*(s or 0 for s in strides)) * size, base_a, base_b)


def _alternate(
    emit: Emitter, row: int, step: int, base_a: SSAValue, base_b: SSAValue
) -> bool | SSAValue:
    """Whether the bases differ by at least `row` and at most `step - row` modulo `step`, in bytes."""
    if step < 2 * row:
        return False
    between = emit.binary(arith.SubiOp, base_b, base_a)
    within = emit.binary(arith.RemSIOp, between, emit.constant(step, i64))
    beyond = emit.select(emit.less(within, 0), emit.plus(within, step), within)
    return emit.both(emit.at_least(beyond, row), emit.compare("sle", beyond, step - row))


def _comparable(access: tile.View, store: tile.View) -> bool:
    """Whether equal bases and strides mean equal addresses, element-wise."""
    shapes = [tile.shape_of(tile.accessed(each)) for each in (access, store)]
    sizes = [element_bytes(_element(each)) for each in (access, store)]
    return shapes[0] == shapes[1] and sizes[0] == sizes[1]


def _distinct_lanes(emit: Emitter, access: tile.View) -> bool | SSAValue:
    """Whether no two live lanes of a strided access share an address: each stride is beyond the reach
    of the smaller ones, taken in the order of the dimensions or in the reverse one."""
    known = has_distinct_lanes(access)
    if known is not None:
        return known
    limits = tile.view_limits(access)
    steps: list[tuple[Index, Index]] = []
    for d, extent in enumerate(tile.shape_of(tile.accessed(access))):
        if extent == 1:
            continue
        last = _last_lane(emit, extent, limits.get(d))
        number = constant_int(access.strides[d])
        stride: Index = access.strides[d] if number is None else abs(number)
        if number is None:
            stride = emit.largest(stride, emit.minus(0, stride))
        steps.append((stride, last))
    distinct: bool | SSAValue = False
    for order in (steps[::-1], steps)[: len(steps)]:
        reach: Index = 0
        grows: bool | SSAValue = True
        for stride, last in order:
            grows = emit.both(grows, emit.at_least(stride, emit.plus(reach, 1)))
            reach = emit.plus(reach, emit.times(stride, last))
        distinct = emit.either(distinct, grows)
    return distinct


def _last_lane(emit: Emitter, extent: int, limit: SSAValue | None) -> Index:
    """The last live lane along a dimension."""
    return extent - 1 if limit is None else emit.minus(emit.smallest(limit, extent), 1)


def _element(access: tile.View) -> Any:
    kind: Any = access.base.type
    return kind.pointee


def _byte_range(emit: Emitter, access: tile.View) -> tuple[Index, Index, SSAValue]:
    """Lowest address, one past the highest, and the base address of a strided access, in bytes."""
    size = element_bytes(_element(access))
    shape = tile.shape_of(tile.accessed(access))
    limits = tile.view_limits(access)
    low: Index = 0
    high: Index = 1
    for d, extent in enumerate(shape):
        last = _last_lane(emit, extent, limits.get(d))
        known = constant_int(access.strides[d])
        stride: Index = access.strides[d] if known is None else known
        reach = emit.times(last, stride)
        if isinstance(stride, int) and stride >= 0:
            high = emit.plus(high, reach)
        elif isinstance(stride, int):
            low = emit.plus(low, reach)
        else:
            high = emit.plus(high, emit.largest(reach, 0))
            low = emit.plus(low, emit.smallest(reach, 0))
    base = emit.make(tile.PtrToIntOp, [access.base], i64)
    return (
        emit.plus(base, emit.times(low, size)),
        emit.plus(base, emit.times(high, size)),
        base,
    )
