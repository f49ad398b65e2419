"""`form-fusion-groups`: gather tile operations that can share one loop nest into `cpu.fusion_group` regions.

Tiles never become vectors wider than a few registers: a tile operation is a loop over chunks, and
operations over the same index space share that loop, so that a chunk stays in registers from its
load to its store. This pass decides what shares. In program order, an operation joins the open
group when its space is the group's, it does not need the result of a reduction of that same group,
and the memory rules of the aliasing rules, docs/gpu.md allow it. Virtual tiles (aranges,
masks, offsets) are cloned into each group that needs them; cheap reloads (`x.to(float32)` of a
loaded `x`) are done again rather than kept, when nothing was written in between.

Before:
    %x = tile.load_view ...            : tensor<1024xf32>
    %m = tile.reduce %x ...            : f32
    %s = tile.splat %m                    : tensor<1024xf32>
    %d = arith.subf %x, %s                : tensor<1024xf32>
    tile.store_view ..., %d

After:
    %m = cpu.fusion_group { load, reduce, cpu.yield %m }
    cpu.fusion_group { load again, splat, subf, store }

Relies on `raise-access` (structured accesses have ranges that can be compared) and on
`normalize-loops`. Guarantees: afterwards every tile operation is in a group, or is virtual, or is a
`cpu.dot`, or is control flow that carries tiles. Loops whose tile work is all element-wise become
members of groups: the chunk loop goes outside, and carried tiles stay in registers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, i1, i32, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region, SSAValue

from tilewright.dialects import cpu, tile
from tilewright.passes.analysis.edit import Mapping, erase, insert_before, used_in
from tilewright.passes.analysis.effects import defined_inside
from tilewright.passes.base import FunctionPass
from tilewright.passes.cpu.analysis.classify import (
    AXIS_OPS,
    CONTROL,
    REMAPS,
    WRITES,
    group_space,
    is_virtual,
    recompute_cost,
)
from tilewright.passes.cpu.analysis.hazards import (
    DISJOINT,
    UNKNOWN,
    accesses_within,
    relation,
    writes_memory,
)
from tilewright.passes.cpu.analysis.index_runs import mark_index_runs
from tilewright.passes.cpu.analysis.narrow_comparisons import narrow_comparisons
from tilewright.passes.cpu.analysis.space_order import gather_spaces
from tilewright.passes.cpu.analysis.uniform_quotients import divide_first_lanes
from tilewright.passes.cpu.analysis.uniform_values import narrow_uniform_values
from tilewright.targets import TargetInfo

_RECOMPUTE_LIMIT = 5


@dataclass(frozen=True)
class FormFusionGroups(FunctionPass):
    def run(self, function: FuncOp, target: TargetInfo) -> None:
        for op in list(function.walk()):
            if isinstance(op, tile.AssertOp) and tile.is_tile(op.condition):
                _assert_scalar(op)
        divide_first_lanes(function)
        mark_index_runs(function)
        narrow_comparisons(function)
        narrow_uniform_values(function)
        _form_in_block(function.body.block)


def _assert_scalar(op: tile.AssertOp) -> None:
    """A condition on a tile is a condition on the conjunction of its elements."""
    value = op.condition
    while tile.is_tile(value):
        shape = tile.shape_of(value)
        left = Block(arg_types=[i1, i1])
        both = arith.AndIOp.create(operands=list(left.args), result_types=[i1])
        left.add_op(both)
        left.add_op(tile.YieldOp.create(operands=[both.results[0]]))
        reduce = tile.ReduceOp.create(
            operands=[value],
            result_types=[tile.with_shape(i1, shape[:-1])],
            properties={"axis": IntegerAttr(len(shape) - 1, i32)},
            regions=[Region(left)],
            location=op.location,
        )
        insert_before(reduce, op)
        value = reduce.results[0]
    op.operands[0] = value


def _form_in_block(block: Block) -> None:
    gather_spaces(block, _acts)
    groups = _Partition(block).groups
    _Outliner(block, groups).run()
    for op in list(block.ops):
        if isinstance(op, CONTROL):
            for region in op.regions:
                for inner in region.blocks:
                    _form_in_block(inner)


@dataclass(eq=False)
class _Group:
    space: tuple[int, ...]
    epoch: int
    """How many writes the block had seen when the group began."""
    members: list[Operation] = field(default_factory=list)
    followers: list[Operation] = field(default_factory=list)
    """Scalar operations that need a result of the group."""
    tainted: set[SSAValue] = field(default_factory=set)
    """Values known only after the group's loops."""
    pinned: set[SSAValue] = field(default_factory=set)
    """Values known only at the lane the loops are at (they come from a loop or a branch)."""
    axis: int | None = None
    sequential: bool = False


class _Partition:
    """Splits one block's operations into groups, in program order."""

    def __init__(self, block: Block) -> None:
        self.groups: list[_Group] = []
        self.open: _Group | None = None
        self.epoch = 0
        for op in block.ops:
            self._visit(op)
        self._close()

    def _close(self) -> None:
        if self.open is not None:
            self.groups.append(self.open)
            if any(map(writes_memory, self.open.members)):
                self.epoch += 1
            self.open = None

    def _visit(self, op: Operation) -> None:
        if isinstance(op, (*CONTROL, cpu.DotOp)) and group_space(op) is None:
            self._close()
            self.epoch += any(isinstance(o, WRITES) for o in op.walk())
            return
        if is_virtual(op) and op.results and tile.is_tile(op.results[0]):
            if self.open is not None and any(
                v in self.open.tainted or (isinstance(op, REMAPS) and v in self.open.pinned)
                for v in op.operands
            ):
                self.open.tainted.update(op.results)
            return
        space = group_space(op) if tile.has_tiles(op) or isinstance(op, CONTROL) else None
        if space is None and tile.has_tiles(op):
            self._close()
            self.epoch += isinstance(op, WRITES)
        elif space is None:
            self._visit_scalar(op)
        else:
            self._join(op, space)

    def _visit_scalar(self, op: Operation) -> None:
        if self.open is None:
            self.epoch += isinstance(op, WRITES)
            return
        if isinstance(op, (*WRITES, tile.PrintOp, tile.AssertOp, tile.BarrierOp)) or (
            isinstance(op, tile.Load) and any(map(writes_memory, self.open.members))
        ):
            self._close()
            self.epoch += isinstance(op, WRITES)
        elif any(v in self.open.tainted for v in op.operands):
            self.open.followers.append(op)
            self.open.tainted.update(op.results)

    def _join(self, op: Operation, space: tuple[int, ...]) -> None:
        if self.open is not None and not self._fits(self.open, op, space):
            self._close()
        if self.open is None:
            self.open = _Group(space, self.epoch)
        group = self.open
        group.members.append(op)
        if isinstance(op, CONTROL) or any(v in group.pinned for v in op.operands):
            group.pinned.update(op.results)
        if isinstance(op, AXIS_OPS):
            group.axis = op.axis.value.data
            group.tainted.update(op.results)
            group.sequential |= isinstance(op, tile.ScanOp)
        if isinstance(op, tile.Atomic):
            group.tainted.update(op.results)

    def _fits(self, group: _Group, op: Operation, space: tuple[int, ...]) -> bool:
        if space != group.space or any(v in group.tainted for v in used_in(op)):
            return False
        if isinstance(op, AXIS_OPS):
            alone = group.axis is None or (
                group.axis == op.axis.value.data and not group.sequential
            )
            if not alone or (isinstance(op, tile.ScanOp) and group.axis is not None):
                return False
        if any(isinstance(v.owner, Operation) and _needs_buffer(op, v) and v.owner in group.members
               for v in op.operands):  # fmt: skip
            return False
        for own in accesses_within(op):
            # scalars that wait for the group come after all of it
            if isinstance(own, WRITES) and not all(
                relation(load, own, nested=True) == DISJOINT
                for follower in group.followers
                for load in accesses_within(follower)
            ):
                return False
            for member in group.members:
                for other in accesses_within(member):
                    if not _may_share(other, own, member is not other or op is not own):
                        return False
        return True


def _needs_buffer(op: Operation, operand: SSAValue) -> bool:
    """Whether `op` reads its tile operand at other indices than its own."""
    return (isinstance(op, tile.JoinOp) or tile.moves_lanes(op)) and not (
        isinstance(op, tile.GatherOp) and operand is op.index
    )


def _acts(op: Operation) -> bool:
    """Whether an operation does more than make its results."""
    acts = (*WRITES, tile.PrintOp, tile.AssertOp, tile.BarrierOp)
    return any(
        isinstance(o, acts) or (isinstance(o, tile.LoadOp) and o.volatile) for o in op.walk()
    )


def _may_share(first: Operation, second: Operation, nested: bool) -> bool:
    """Whether an access may follow `first` in the same chunk loop."""
    if not isinstance(second, WRITES):
        return not isinstance(first, WRITES)  # the ordered variant of a group stores last
    return relation(first, second, nested) != UNKNOWN


def _may_race(load: Operation, group: _Group) -> bool:
    """Whether `load`, done chunk by chunk in `group`, might see what its earlier chunks wrote."""
    return any(
        relation(load, own, member is not own) == UNKNOWN
        for member in group.members
        for own in accesses_within(member)
        if isinstance(own, WRITES)
    )


class _Outliner:
    """Moves the members of each group into a `cpu.fusion_group` operation."""

    def __init__(self, block: Block, groups: list[_Group]) -> None:
        self.block = block
        self.groups = groups
        self.home = {op: group for group in groups for op in group.members}
        self.first_write: Operation | None = None
        """The first member of the group being outlined that writes memory."""
        self.own: set[Operation] = set()
        """What is in that group and depends on its members."""

    def run(self) -> None:
        for group in self.groups:
            self._outline(group)
        _drop_dead(self.block)

    # A value of an earlier group is recomputed when that is cheap and its loads are still valid.
    def _recomputable(self, value: SSAValue, group: _Group, budget: int = _RECOMPUTE_LIMIT) -> int:
        """Cost of recomputing `value` in `group`; more than the limit when it must be kept."""
        op = value.owner
        if isinstance(op, Block) or not tile.is_tile(value):
            return 0
        if isinstance(op, REMAPS):
            return self._recomputable(op.operands[0], group, budget)
        if is_virtual(op):
            return 0
        home = self.home.get(op)
        if home is None or home is group:
            return 0
        if op.regions or any(v in home.tainted for v in op.results):
            return budget + 1
        if isinstance(op, tile.Load) and (home.epoch != group.epoch or _may_race(op, group)):
            return budget + 1
        cost = recompute_cost(op)
        for operand in op.operands:
            if cost > budget:
                break
            cost += self._recomputable(operand, group, budget)
        return cost

    def _outline(self, group: _Group) -> None:
        mapping: Mapping = {}
        exports = self._exports(group)
        op = cpu.FusionGroupOp.create(
            result_types=[v.type for v in exports],
            properties={"iteration_space": DenseArrayBase.from_list(i64, list(group.space))},
            regions=[Region(Block())],
        )
        op.location = group.members[0].location
        self.block.insert_op_after(op, group.members[-1])
        # scalars that stood between the members but need a result of the group come after it
        previous: Operation = op
        for follower in group.followers:
            if follower.is_before_in_block(op):
                follower.detach()
                self.block.insert_op_after(follower, previous)
                previous = follower
        body = op.body.block
        self.first_write, self.own = None, set(group.members)
        for member in group.members:
            self._provide(member, group, body, mapping)
            member.detach()
            body.add_op(member)
            _remap_operands(member, mapping)
            if self.first_write is None and writes_memory(member):
                self.first_write = member
        body.add_op(cpu.YieldOp.create(operands=list(exports)))
        for value, result in zip(exports, op.results, strict=True):
            result.name_hint = value.name_hint
            value.replace_uses_with_if(result, lambda use, op=op: not op.is_ancestor(use.operation))

    def _provide(self, member: Operation, group: _Group, body: Block, mapping: Mapping) -> None:
        """Clone what `member` needs from outside: virtual tiles and cheap recomputations."""
        for value in used_in(member):
            if not defined_inside(value, member):
                self._clone(value, group, body, mapping)

    def _clone(self, value: SSAValue, group: _Group, body: Block, mapping: Mapping) -> None:
        op = value.owner
        if value in mapping or not tile.is_tile(value) or isinstance(op, Block):
            return
        if self.home.get(op) is group or isinstance(op, cpu.FusionGroupOp):
            return
        if not is_virtual(op) and not self._recompute_here(value, group):
            return
        for operand in op.operands:
            self._clone(operand, group, body, mapping)
        copy = op.clone()
        _remap_operands(copy, mapping)
        if any(v.owner in self.own for v in copy.operands):
            self.own.add(copy)
            body.add_op(copy)
        elif self.first_write is not None:  # a load that is done again must not see the group's own
            body.insert_op_before(copy, self.first_write)
        else:
            body.add_op(copy)
        self.home[copy] = group  # a later group may recompute a member that uses it
        mapping.update(zip(op.results, copy.results, strict=True))

    def _recompute_here(self, value: SSAValue, group: _Group) -> bool:
        if not tile.is_tile(value):
            return False
        home = self.home.get(value.owner) if isinstance(value.owner, Operation) else None
        return (
            home is not None
            and home is not group
            and self._recomputable(value, group) <= _RECOMPUTE_LIMIT
        )

    def _exports(self, group: _Group) -> list[SSAValue]:
        """Results of members that someone outside the group needs and does not recompute."""
        return [
            value
            for member in group.members
            for value in member.results
            if any(self._needs(use.operation, value, group, set()) for use in value.uses)
        ]

    def _needs(self, user: Operation, value: SSAValue, group: _Group, seen: set[Any]) -> bool:
        """Whether `user`, directly or through values that are recomputed, needs `value` kept."""
        if user in seen:
            return False
        seen.add(user)
        top: Operation = user
        while top.parent is not self.block and (above := top.parent_op()) is not None:
            if isinstance(above, cpu.FusionGroupOp):
                return True
            top = above
        home = self.home.get(top)
        if home is group:
            return False
        if home is None and top is user and is_virtual(user) and user.results:
            return any(
                self._needs(use.operation, value, group, seen)
                for result in user.results
                for use in result.uses
            )
        return home is None or not self._recompute_here(value, home)


def _remap_operands(op: Operation, mapping: Mapping) -> None:
    for nested in op.walk():
        for i, operand in enumerate(nested.operands):
            if operand in mapping:
                nested.operands[i] = mapping[operand]


def _drop_dead(block: Block) -> None:
    """Remove virtual tiles that every user has its own copy of, and groups recomputed elsewhere."""
    for op in reversed(list(block.ops)):
        if any(r.uses for r in op.results):
            continue
        if (op.results and is_virtual(op)) or (isinstance(op, cpu.FusionGroupOp) and not _acts(op)):
            erase(op)
