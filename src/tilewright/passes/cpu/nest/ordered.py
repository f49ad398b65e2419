"""Split a fusion group with aliasing accesses into groups that compute all operands first and then store.

Semantics: all lanes of a store take effect before any lane of the next operation, and the operands of a store are
evaluated before its first lane is written. The chunks of one group would interleave stores and loads, so if the
accessed ranges may overlap the group is executed in three steps:

1. store operands with another iteration space than the group's (index tiles) are written to scratch;
2. the group runs without its stores; their other tile operands (value, mask, pointers) are written to scratch;
3. one group per store, in program order, reads its operands from scratch.

Virtual operands (`is_virtual_value`) need no memory and are recomputed in step 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tilewright.dialects import cpu, tile
from tilewright.passes.analysis.edit import Mapping, backward_slice, erase
from tilewright.passes.cpu.analysis.classify import is_virtual_value


@dataclass(frozen=True)
class OrderedGroups:
    """The groups that replace a group, in execution order. They are not inserted in a block."""

    indices: list[cpu.FusionGroupOp]
    """Groups that write store operands with other iteration spaces to scratch."""
    loads: cpu.FusionGroupOp
    """The group without its stores; it defines the group's results."""
    stores: list[cpu.FusionGroupOp]

    def erase(self) -> None:
        """Erase the groups after their loops are built."""
        for group in (*self.indices, self.loads, *self.stores):
            group.erase(safe_erase=False)


def split_stores(
    group: cpu.FusionGroupOp, scratch: Callable[[Attribute], SSAValue]
) -> OrderedGroups:
    """Split `group` into groups that execute its stores last.

    `scratch` allocates a buffer for a tile type. `group` itself is not changed.
    """
    loads = group.clone()
    stores: list[Any] = [op for op in loads.body.block.ops if isinstance(op, tile.Store)]
    kept: Mapping = {}
    indices: list[cpu.FusionGroupOp] = []
    for store in stores:
        for value in store.operands:
            if not tile.is_tile(value) or value in kept or is_virtual_value(value):
                continue
            kept[value] = scratch(value.type)
            if tile.shape_of(value) == group.extents:
                write = cpu.WriteOp.create(operands=[value, kept[value]])
                loads.body.block.insert_op_before(write, store)
            else:
                indices.append(_index_group(loads, value, kept[value]))
    last = [_store_group(loads, store, kept) for store in stores]
    for store in stores:
        erase(store)
    return OrderedGroups(indices, loads, last)


def _index_group(loads: cpu.FusionGroupOp, value: SSAValue, buffer: SSAValue) -> cpu.FusionGroupOp:
    """Return a group over the iteration space of `value` that writes it to `buffer`."""
    mapping: Mapping = {}
    body = Block([op.clone(mapping) for op in _needed_by([value], loads)])
    body.add_op(cpu.WriteOp.create(operands=[mapping.get(value, value), buffer]))
    return _group(body, tile.shape_of(value), loads)


def _store_group(loads: cpu.FusionGroupOp, store: Any, kept: Mapping) -> cpu.FusionGroupOp:
    """Return a group for one store that reads its operands from the buffers `kept`."""
    mapping: Mapping = {}
    reads: list[Operation] = []
    for value in dict.fromkeys(v for v in store.operands if v in kept):
        read = cpu.ReadOp.create(operands=[kept[value]], result_types=[value.type])
        reads.append(read)
        mapping[value] = read.result
    needed = _needed_by([v for v in store.operands if v not in kept], loads)
    copies = [op.clone(mapping) for op in (*needed, store)]
    return _group(Block([*reads, *copies]), loads.extents, loads)


def _needed_by(values: Iterable[SSAValue], group: cpu.FusionGroupOp) -> list[Operation]:
    """Return the backward slice of `values` in `group`."""
    found = backward_slice(group.body.block, values)
    return [] if found is None else found[0]


def _group(body: Block, space: tuple[int, ...], like: cpu.FusionGroupOp) -> cpu.FusionGroupOp:
    body.add_op(cpu.YieldOp.create())
    return cpu.FusionGroupOp.create(
        properties={
            **like.properties,
            "iteration_space": DenseArrayBase.from_list(i64, list(space)),
        },
        regions=[Region(body)],
        location=like.location,
    )
