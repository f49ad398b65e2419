"""Comparing the byte ranges of accesses at run time (contract of execution, design §4a.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import i64
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import cpu, tile
from tilewright.dialects.tile import element_bytes
from tilewright.passes.cpu.analysis.classify import WRITES
from tilewright.passes.cpu.analysis.hazards import (
    APART,
    GUARD,
    UNKNOWN,
    accesses_within,
    constant_of,
    relation,
    same_scalar,
)
from tilewright.passes.cpu.analysis.lanes import moved_loads
from tilewright.passes.cpu.nest.emit import Emitter, Index

View = tile.LoadViewOp | tile.StoreViewOp


@dataclass(frozen=True)
class Hazard:
    """An earlier access and a later store whose order of lanes matters if they overlap."""

    access: View
    store: View
    same_is_safe: bool
    """Whether they may touch the same addresses lane by lane: not so for a load that one lane does
    for another, nor when lanes share an address."""


def hazards(group: cpu.GroupOp) -> list[Hazard]:
    """What has to be compared before the chunks of a group may run one after another."""
    members = list(group.body.block.ops)
    moved = moved_loads(group) if any(isinstance(op, WRITES) for op in members) else set()
    return [
        Hazard(access, store, own_lanes)  # type: ignore[arg-type]
        for j, later in enumerate(members)
        for store in accesses_within(later)
        if isinstance(store, WRITES)
        for earlier in members[:j]
        for access in accesses_within(earlier)
        if (found := relation(access, store, access is not earlier)) not in (UNKNOWN, APART)
        if not (own_lanes := access not in moved and not _repeats(store)) or found == GUARD
    ]


def _repeats(access: Operation) -> bool:
    """Whether several lanes of a structured access are known to have one address."""
    if not isinstance(access, tile.LoadViewOp | tile.StoreViewOp):
        return False
    strides = zip(access.strides, tile.shape_of(_accessed(access)), strict=True)
    return any(extent > 1 and constant_of(stride) == 0 for stride, extent in strides)


def _accessed(access: View) -> SSAValue:
    return access.result if isinstance(access, tile.LoadViewOp) else access.value


def safe_condition(emit: Emitter, pairs: list[Hazard]) -> SSAValue:
    """Scalar i1: every pair is disjoint, or lane-wise at the same addresses where that is safe."""
    ranges: dict[View, tuple[Index, Index, SSAValue]] = {}
    safe: bool | SSAValue = True
    for hazard in pairs:
        pair = (hazard.access, hazard.store)
        for access in pair:
            if access not in ranges:
                ranges[access] = _byte_range(emit, access)
        (low_a, high_a, base_a), (low_b, high_b, base_b) = (ranges[a] for a in pair)
        apart = emit.either(emit.compare("sle", high_a, low_b), emit.compare("sle", high_b, low_a))
        same: bool | SSAValue = False
        if hazard.same_is_safe:
            same = emit.compare("eq", base_a, base_b)
        if len(pair[0].strides) != len(pair[1].strides) or (
            element_bytes(_element(pair[0])) != element_bytes(_element(pair[1]))
        ):
            same = False
        elif hazard.same_is_safe:
            for x, y in zip(pair[0].strides, pair[1].strides, strict=True):
                if not same_scalar(x, y):
                    same = emit.both(same, emit.compare("eq", x, y))
        safe = emit.both(safe, emit.either(apart, same))
    return emit.condition(safe)


def _element(access: View) -> Any:
    kind: Any = access.base.type
    return kind.pointee


def _byte_range(emit: Emitter, access: View) -> tuple[Index, Index, SSAValue]:
    """Lowest address, one past the highest, and the base address of a strided access, in bytes."""
    size = element_bytes(_element(access))
    shape = tile.shape_of(_accessed(access))
    limits = tile.view_limits(access)
    low: Index = 0
    high: Index = 1
    for d, extent in enumerate(shape):
        last: Index = extent - 1
        if d in limits:
            last = emit.minus(emit.smallest(limits[d], extent), 1)
        known = constant_of(access.strides[d])
        stride: Index = access.strides[d] if known is None else known
        reach = emit.times(last, stride)
        if isinstance(stride, int) and stride >= 0:
            high = emit.plus(high, reach)
        elif isinstance(stride, int):
            low = emit.plus(low, reach)
        else:
            high = emit.plus(high, emit.largest(reach, 0))
            low = emit.plus(low, emit.smallest(reach, 0))
    base = emit.add(tile.PtrToIntOp.create(operands=[access.base], result_types=[i64]))
    return (
        emit.plus(base, emit.times(low, size)),
        emit.plus(base, emit.times(high, size)),
        base,
    )
