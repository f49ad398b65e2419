"""`reuse-output-buffer`: keep a tile that waits for its normalization in the output instead of in scratch.

A softmax computes `e = exp(x - max)`, sums it, and stores `e / sum`. The tile `e` crosses the reduction,
so it must live in memory; the place where the result will go is memory that the program is about to
touch anyway. Parking it there saves a pass over as much scratch (10 to 30 % of a long row's time).

Before:
    %e, %sum = cpu.fusion_group { ... math.exp ; tile.reduce ; cpu.yield %e, %sum }
    cpu.fusion_group { %d = arith.divf %e, ... ; tile.store_view %y, ..., %d }

After:
    %sum = cpu.fusion_group { ... math.exp ; tile.store_view %y, ..., %e ; tile.reduce ; cpu.yield %sum }
    cpu.fusion_group { %e = tile.load_view %y, ... ; %d = arith.divf %e, ... ; tile.store_view %y, ..., %d }

Legal because the second group overwrites every lane that is parked and needs each at its own lane
only, nothing touches memory between the two groups, and no other operation of the second group reads
memory that the parked lanes may overlap. Whether the first group's own loads overlap the output is
compared at run time, like any store.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import DenseArrayBase, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import cpu, tile
from tilewright.ir.types import position_of
from tilewright.ir.walk import closure, operations_between
from tilewright.passes.analysis.aliasing import has_distinct_lanes
from tilewright.passes.analysis.edit import (
    backward_slice,
    block_of,
    end_of,
    erase,
    insert_before,
    rebuild,
    start_of,
)
from tilewright.passes.base import FunctionPass
from tilewright.passes.cpu.analysis.classify import CONTROL, WRITES, is_elementwise
from tilewright.passes.cpu.analysis.hazards import (
    UNKNOWN,
    accesses_within,
    is_bounded,
    relation,
)
from tilewright.targets import TargetInfo


@dataclass(frozen=True)
class ReuseOutputBuffer(FunctionPass):
    requires: ClassVar[tuple[str, ...]] = ("form-fusion-groups",)

    def run(self, function: FuncOp, target: TargetInfo) -> None:
        for block in list(function.walk_blocks()):
            _park_in_block(block)


def _park_in_block(block: Block) -> None:
    groups = [op for op in block.ops if isinstance(op, cpu.FusionGroupOp)]
    for first, second in itertools.pairwise(groups):
        if first.parent is block and second.parent is block:
            _park(first, second)


def _park(first: cpu.FusionGroupOp, second: cpu.FusionGroupOp) -> None:
    store = _only_store(second)
    if store is None or not _quiet_between(first, second) or _loads(second):
        return
    if first.extents != second.extents or not has_distinct_lanes(store):
        return
    if any(isinstance(op, WRITES) for op in first.body.block.walk()) or _races(first, store):
        return
    for result in first.results:
        made = end_of(first.body.block).operands[position_of(result)]
        if isinstance(made.owner, tile.ReduceOp):
            continue
        if result.type == store.value.type and _flows_to_own_lanes(result, store):
            if _hoist(store, first):
                _rewrite(first, second, result, store)
            return


def _only_store(group: cpu.FusionGroupOp) -> tile.StoreViewOp | None:
    """The one write of a group, when it is a structured store of the group's whole space."""
    writes = [op for op in group.body.block.walk() if isinstance(op, WRITES)]
    if len(writes) != 1 or not isinstance(writes[0], tile.StoreViewOp):
        return None
    store = writes[0]
    plain = is_bounded(store) and store.mask is None and store.parent is group.body.block
    return store if plain and tile.shape_of(store.value) == group.extents else None


def _loads(group: cpu.FusionGroupOp) -> bool:
    return any(isinstance(op, tile.Load) for op in group.body.block.walk())


def _quiet_between(first: cpu.FusionGroupOp, second: cpu.FusionGroupOp) -> bool:
    """Whether only scalar arithmetic stands between two groups of one block."""
    return second.parent is first.parent and not any(
        op.regions or isinstance(op, (tile.Load, *WRITES, *CONTROL, cpu.DotOp))
        for op in operations_between(first, second)
    )


def _flows_to_own_lanes(value: SSAValue, store: tile.StoreViewOp) -> bool:
    """Whether every lane of `value` is only used, in the group of `store`, at that same lane.

    Lanes that the store's limits cut off are not parked, so nothing but the store may need them.
    """

    def users(current: SSAValue) -> list[Operation]:
        found = [use.operation for use in current.uses if use.operation is not store]
        return [op for op in found if store.limits or not isinstance(op, tile.ReduceOp)]

    return bool(value.uses) and all(
        op.parent is store.parent and is_elementwise(op)
        for current in closure([value], lambda v: [r for op in users(v) for r in op.results])
        for op in users(current)
    )


def _races(group: cpu.FusionGroupOp, store: tile.StoreViewOp) -> bool:
    """Whether a load of `group` might read what earlier chunks have parked, unknown to any guard."""
    return any(
        relation(load, store, load.parent is not group.body.block) == UNKNOWN
        for load in accesses_within(group)
    )


def _hoist(store: tile.StoreViewOp, before: cpu.FusionGroupOp) -> bool:
    """Move the scalars of the store's address and limits above `before`; False if one cannot."""
    needed = backward_slice(
        block_of(before),
        [v for v in store.operands if v is not store.value],
        lambda op: op is not before and not op.regions and not isinstance(op, tile.Load),
        stop=lambda op: op.is_before_in_block(before),
    )
    if needed is None:
        return False
    for op in needed[0]:
        insert_before(op, before)
    return True


def _rewrite(
    first: cpu.FusionGroupOp, second: cpu.FusionGroupOp, result: SSAValue, store: tile.StoreViewOp
) -> None:
    index = position_of(result)
    end = end_of(first.body.block)
    parked = store.clone()
    position = list(parked.operands).index(store.value)
    parked.operands[position] = end.operands[index]
    first.body.block.insert_op_before(parked, end)

    segments = [1, len(store.strides), 0, 0, 0, len(store.limits), 0, 0]
    properties = {
        "kinds": store.kinds,
        "limited": store.limited,
        "operandSegmentSizes": DenseArrayBase.from_list(i32, segments),
    }
    load = tile.LoadViewOp.create(
        operands=[store.base, *store.strides, *store.limits],
        result_types=[result.type],
        properties=properties,
        location=store.location,
    )
    body = second.body.block
    body.insert_op_before(load, start_of(body))
    result.replace_all_uses_with(load.result)

    kept = [i for i in range(len(first.results)) if i != index]
    end.operands = [end.operands[i] for i in kept]
    new = rebuild(first, (), [first.results[i].type for i in kept])
    for i, fresh in zip(kept, new.results, strict=True):
        first.results[i].replace_all_uses_with(fresh)
    erase(first)
