"""Find fusion groups whose lanes beyond a bound are uniform, so that one chunk of them is computed instead of all.

A kernel for rows of up to 4096 columns that processes a row of 256 has 3840 lanes whose loads are masked off. If
all values of these lanes are uniform (comparisons with the bound, `other`, and arithmetic on them), one chunk
represents all of them: stores have no effect, and a reduction multiplies the chunk's contribution by the number of
chunks. A tile in scratch has the same property for its readers.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith, scf
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import cpu, tile
from tilewright.dialects.address_arithmetic import Promise, access_arithmetic
from tilewright.ir.walk import ancestors, incoming
from tilewright.passes.analysis.aliasing import same_scalar
from tilewright.passes.analysis.edit import Mapping
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.cpu.analysis.classify import AXIS_OPS, is_elementwise
from tilewright.passes.cpu.nest import reductions

_COUNTED = ("arith.addf", "arith.addi")
_IDEMPOTENT = (
    "arith.maxnumf", "arith.minnumf", "arith.maximumf", "arith.minimumf", "arith.maxsi",
    "arith.minsi", "arith.maxui", "arith.minui", "arith.andi", "arith.ori",
)  # fmt: skip


@dataclass(frozen=True)
class DeadLanes:
    """Lanes from `bound` on (an i64 value known before the group) are uniform."""

    bound: SSAValue


class BufferBounds:
    """Bounds beyond which scratch buffers hold uniform lanes."""

    def __init__(self, function_block: Block) -> None:
        self._writers: dict[SSAValue, int] = {}
        self._bounds: Mapping = {}
        for op in function_block.walk():
            if isinstance(op, cpu.WriteOp | cpu.BufferDotOp | cpu.HistogramBuffersOp):
                target = op.operands[-1]  # an accumulator is the last operand as well
                self._writers[target] = self._writers.get(target, 0) + 1

    def get(self, buffer: SSAValue) -> SSAValue | None:
        return self._bounds.get(buffer)

    def record(self, group: cpu.FusionGroupOp, dead: DeadLanes) -> None:
        """Record the bound of the buffers whose only writer is `group`, trimmed at `dead`."""
        for op in group.body.block.ops:
            if isinstance(op, cpu.WriteOp) and self._writers[op.buffer] == 1:
                self._bounds[op.buffer] = dead.bound

    def may_trim(self, group: cpu.FusionGroupOp) -> bool:
        """Return whether the group is the only writer of each buffer that it writes."""
        return all(
            self._writers[op.buffer] == 1
            for op in group.body.block.ops
            if isinstance(op, cpu.WriteOp)
        )


def keeps_all_lanes(block: Block) -> set[cpu.FusionGroupOp]:
    """Return the groups that must not be trimmed because a reader of their buffers is not trimmed.

    A trimmed group writes one chunk of its dead lanes only, so its readers must be trimmed at the same bound.
    """
    kept: set[cpu.FusionGroupOp] = set()
    while True:
        bounds = BufferBounds(block)
        trimmed: set[cpu.FusionGroupOp] = set()
        writer: dict[SSAValue, cpu.FusionGroupOp] = {}
        for group in block.walk():
            if not isinstance(group, cpu.FusionGroupOp) or group in kept:
                continue
            dead = find_dead_lanes(group, bounds)
            if dead is not None:
                trimmed.add(group)
                bounds.record(group, dead)
                writer.update(
                    {op.buffer: group for op in group.body.block.ops if isinstance(op, cpu.WriteOp)}
                )
        more = {
            writer[buffer]
            for op in block.walk()
            for buffer in _buffers_read(op)
            if buffer in writer and _group_of(op) not in trimmed
        }
        if not more:
            return kept
        kept |= more


def _group_of(op: Operation) -> Operation | None:
    return next((o for o in ancestors(op) if isinstance(o, cpu.FusionGroupOp)), None)


def _buffers_read(op: Operation) -> list[SSAValue]:
    if isinstance(op, cpu.ReadOp):
        return [op.buffer]
    whole = isinstance(op, cpu.BufferDotOp | cpu.HistogramBuffersOp)
    return list(op.operands) if whole else []


def find_dead_lanes(group: cpu.FusionGroupOp, buffers: BufferBounds) -> DeadLanes | None:
    """Return the bound beyond which the lanes of a one-dimensional group are uniform, or None."""
    if len(group.extents) != 1 or not buffers.may_trim(group):
        return None
    facts = _facts_of(group)
    bound = _common_bound(group, buffers, facts)
    if bound is None:
        return None
    proof = _Proof(group, bound, buffers, facts)
    return DeadLanes(bound) if all(proof.root(op) for op in group.body.block.ops) else None


def _facts_of(group: cpu.FusionGroupOp) -> Facts:
    """Return facts about the scalars of a group, given that the addresses of its accesses do not wrap."""
    views = [op for op in group.body.block.walk() if isinstance(op, tile.View)]
    return Facts(Promise(frozenset().union(*(access_arithmetic(op).no_wrap for op in views))))


def _common_bound(group: cpu.FusionGroupOp, buffers: BufferBounds, facts: Facts) -> SSAValue | None:
    """Return the bound shared by all accesses and read buffers of the group, or None."""
    bound: SSAValue | None = None
    for op in group.body.block.walk():
        candidates: list[SSAValue | None] = []
        if isinstance(op, tile.View):
            candidates = [upper_bound(v, group, facts) for v in op.limits] or [None]
        elif isinstance(op, cpu.ReadOp):
            candidates = [buffers.get(op.buffer)]
        for candidate in candidates:
            if candidate is None or (bound is not None and not same_scalar(bound, candidate)):
                return None
            bound = candidate
    return bound


def upper_bound(limit: SSAValue, group: cpu.FusionGroupOp, facts: Facts) -> SSAValue | None:
    """Return an upper bound of `limit` that is defined outside the group, or None."""
    value = limit
    while group.is_ancestor(value.owner):
        op = value.owner
        if not isinstance(op, arith.SubiOp) or facts.may_wrap(op):
            return None
        if not facts.is_nonnegative(op.rhs):
            return None
        value = op.lhs
    return value


class _Proof:
    """Proves values uniform in the lanes from `bound` on."""

    def __init__(
        self, group: cpu.FusionGroupOp, bound: SSAValue, buffers: BufferBounds, facts: Facts
    ) -> None:
        self.group = group
        self.bound = bound
        self.buffers = buffers
        self.facts = facts
        self.known: dict[SSAValue, bool] = {}

    def root(self, op: Operation) -> bool:
        """Return whether the effect of an operation in dead lanes is uniform or none."""
        if isinstance(op, tile.StoreViewOp):
            return self._limited(op) and op.mask is None
        if isinstance(op, cpu.WriteOp):
            return not tile.is_tile(op.value) or self.uniform(op.value)
        if isinstance(op, AXIS_OPS):
            kind = reductions.simple_kind(op)
            counted = kind in (*_COUNTED, *_IDEMPOTENT) and isinstance(op, tile.ReduceOp)
            return counted and all(self.uniform(v) for v in op.inputs)
        if isinstance(op, tile.StoreOp | tile.Atomic | tile.PrintOp):
            return False
        if isinstance(op, scf.ForOp | scf.IfOp):
            return all(self.uniform(r) for r in op.results)
        return True

    def uniform(self, value: SSAValue) -> bool:
        if not tile.is_tile(value):
            return True
        if value not in self.known:
            self.known[value] = True  # induction hypothesis for loop-carried tiles
            self.known[value] = self._uniform(value)
        return self.known[value]

    def _uniform(self, value: SSAValue) -> bool:
        op, passed = value.owner, incoming(value)
        if isinstance(op, Block) and (passed is None or not self.group.is_ancestor(op)):
            return False
        if passed is not None:
            return all(map(self.uniform, passed))
        if isinstance(op, tile.LoadViewOp):
            return self._limited(op) and op.mask is None
        if isinstance(op, cpu.ReadOp):
            found = self.buffers.get(op.buffer)
            return found is not None and same_scalar(found, self.bound)
        if isinstance(op, tile.CmpIOp) and self._beyond(op):
            return True
        if isinstance(op, tile.SplatOp):
            return True
        return (
            isinstance(op, Operation)
            and is_elementwise(op)
            and all(self.uniform(v) for v in op.operands)
        )

    def _limited(self, op: tile.View) -> bool:
        """Return whether an access is masked off in dead lanes."""
        return any(
            (found := upper_bound(limit, self.group, self.facts)) is not None
            and same_scalar(found, self.bound)
            for limit in op.limits
        )

    def _beyond(self, op: tile.CmpIOp) -> bool:
        """Return whether `offset + arange < n` is false in all dead lanes, i.e. `n - offset <= bound`."""
        if op.predicate.data != "slt":
            return False
        n = _splatted(op.rhs)
        offsets = self._offsets(op.lhs)
        if n is None or offsets is None:
            return False
        if not all(self.facts.is_nonnegative(o) for o in offsets):
            return False
        bound = self.bound.owner
        if isinstance(bound, arith.ExtSIOp):
            return same_scalar(bound.input, n)
        return same_scalar(self.bound, n)

    def _offsets(self, value: SSAValue) -> list[SSAValue] | None:
        """Return the scalars that are added, without wrapping, to an arange from 0; None for other tiles."""
        op = value.owner
        if isinstance(op, tile.ArangeOp):
            return [] if op.start.value.data == 0 else None
        if isinstance(op, arith.AddiOp) and not self.facts.may_wrap(op):
            for base, added in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
                scalar = _splatted(added)
                rest = self._offsets(base)
                if scalar is not None and rest is not None:
                    return [*rest, scalar]
        return None


def _splatted(value: SSAValue) -> SSAValue | None:
    return value.owner.source if isinstance(value.owner, tile.SplatOp) else None
