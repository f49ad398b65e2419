"""Lower reductions: in a thread, then across its lanes, then across warps.

Lanes exchange by shuffles (PTX ISA, `shfl.sync`), warps through shared memory. Any combine region
works; the order of combination is not fixed. Integers of all lanes are reduced by one `redux.sync`, booleans of any
lanes by one `vote.sync`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from llvmlite import ir
from xdsl.dialects import arith
from xdsl.dialects.builtin import f32, i1
from xdsl.ir import Attribute, Block, SSAValue

from tilewright.backends.llvm.casts import to_f32
from tilewright.backends.llvm.types import I32, Value, as_vector, elements
from tilewright.backends.nvidia.lower import KernelCodegen, arg_reductions, cluster
from tilewright.backends.nvidia.lower.cluster_exchange import is_for_all
from tilewright.backends.nvidia.lower.packed_floats import combine_comparisons, combine_in_pairs
from tilewright.backends.nvidia.lower.scratch_tiles import (
    SharedTile,
    allocate_scratch,
    element_pointer,
    peek,
    poke,
)
from tilewright.backends.nvidia.lower.vector_access import register, storage
from tilewright.backends.nvidia.threads import shuffle_word
from tilewright.dialects import gpu, tile
from tilewright.layouts import Layout
from tilewright.layouts.layout import Vector
from tilewright.passes.gpu.defer_lane_sums import IN_PARTS

Group = list[Value]
"""One value of each operand of a reduction."""


def shuffle(gen: KernelCodegen, value: Value, element: Attribute, mode: str, lane: Value) -> Value:
    """A register of another lane: `mode` "bfly" (lane xor), "up" (minus), "down" (plus) or "idx"."""
    b = gen.builder
    bits = storage(gen, value, element)
    width = bits.type.width
    if width == 64:
        halves = elements(b, b.bitcast(bits, ir.VectorType(I32, 2)))
        moved = as_vector(b, [shuffle_word(b, half, mode, lane) for half in halves])
        return register(gen, b.bitcast(moved, ir.IntType(64)), element)
    moved = shuffle_word(b, b.zext(bits, I32) if width < 32 else bits, mode, lane)
    return register(gen, b.trunc(moved, bits.type) if width < 32 else moved, element)


def along(vectors: tuple[Vector, ...], axis: int) -> tuple[int, ...]:
    """Index bits that move along `axis`."""
    return tuple(bit for bit, vector in enumerate(vectors) if vector[axis])


# ---- reductions ----------------------------------------------------------------------------------------


def lower_reduce(gen: KernelCodegen, op: tile.ReduceOp) -> None:
    _Reduction(gen, op).emit()


class _Reduction:
    """Emits one reduction; a `Group` has its parts of one element of the result."""

    def __init__(self, gen: KernelCodegen, op: tile.ReduceOp) -> None:
        self.gen, self.op, self.block = gen, op, op.combine.block
        self.axis, self.layout = op.axis.value.data, gen.layout(op.inputs[0])
        self.elements = [tile.element_of(v) for v in op.inputs]

    def emit(self) -> None:
        gen, op, layout, axis = self.gen, self.op, self.layout, self.axis
        found = in_thread(gen, op, layout, [gen.parts(v) for v in op.inputs])
        groups, bits = list(found.values()), along(layout.lanes, axis)
        if IN_PARTS not in op.attributes:
            groups = self._all_over_lanes(groups, bits)
        # register offsets of the result, in order of first appearance
        offsets = list(dict.fromkeys(o[:axis] + o[axis + 1 :] for o in layout.register_offsets))
        if op in gen.cluster_exchanges:
            groups = self._across_cluster(groups)
        elif along(layout.warps, axis) or layout.group_dim == axis:
            groups = self._across_warps(groups, offsets)
        found = dict(zip(offsets, groups, strict=True))
        for i, result in enumerate(op.results):
            if tile.is_tile(result):
                target = gen.layout(result)
                gen.bind(result, [found[o][i] for o in target.register_offsets])
            else:
                gen.bind(result, [groups[0][i]])

    def _all_over_lanes(self, groups: list[Group], bits: tuple[int, ...]) -> list[Group]:
        """Combine the values of the lanes that differ in these bits of their index, of several results; all get all results.

        In each step a lane sends those that the other keeps, and in the end each gets the results of the others: 32
        shuffles for 16 results of a warp instead of 80, each combined in the same order.
        """
        steps = 0
        while steps < len(bits) and len(groups) % (2 << steps) == 0:
            steps += 1
        alone = self._has_instruction(groups[0], bits) or not _commutes(self.block)
        if alone or len(bits) < _MANY_LANE_BITS or steps < _MIN_SCATTER_STEPS:
            return [self._over_lanes(group, bits) for group in groups]
        b, first, mine = self.gen.builder, len(bits) - steps, groups
        for bit in reversed(bits[first:]):
            half, is_upper = len(mine) // 2, self._is_upper_lane(bit)
            pairs = list(zip(mine[:half], mine[half:], strict=True))
            mine = []
            for low, high in pairs:
                kept = [b.select(is_upper, y, x) for x, y in zip(low, high, strict=True)]
                sent = [b.select(is_upper, x, y) for x, y in zip(low, high, strict=True)]
                mine.append(self._combined_with(kept, sent, bit))
        mine = [self._over_lanes(group, bits[:first]) for group in mine]
        return self._gathered(mine, len(groups), bits[first:])

    def _gathered(self, groups: list[Group], count: int, bits: tuple[int, ...]) -> list[Group]:
        """All `count` results, of which the lanes that differ in `bits` have `groups` each: the upper half those with
        the last bit."""
        b = self.gen.builder
        first = b.and_(self.gen.threads.lane, 31 & ~sum(1 << bit for bit in bits))
        found: list[Group] = []
        for number in range(count):
            owner = sum(1 << bit for i, bit in enumerate(bits) if number // len(groups) >> i & 1)
            source = b.or_(first, owner)
            parts = zip(groups[number % len(groups)], self.elements, strict=True)
            found.append([shuffle(self.gen, value, kind, "idx", source) for value, kind in parts])
        return found

    def _is_upper_lane(self, bit: int) -> Value:
        """Whether a bit of the lane's index is 1."""
        b = self.gen.builder
        return b.icmp_unsigned("!=", b.and_(self.gen.threads.lane, 1 << bit), 0)

    def _has_instruction(self, group: Group, bits: tuple[int, ...]) -> bool:
        """Whether one instruction combines the values of lanes: `vote.sync` or `redux.sync`."""
        name = combination(self.block)
        if len(group) != 1 or name is None or not bits:
            return False
        if not isinstance(group[0].type, ir.IntType):
            return False
        if group[0].type.width == 1:
            return name in _VOTES
        fits = group[0].type.width <= _WORD_BITS and len(bits) == _LANE_BITS
        return fits and name in _WHOLE_WARP

    def _over_lanes(self, group: Group, bits: tuple[int, ...]) -> Group:
        """Combine the values of the lanes that differ in these bits of their index; all get the result."""
        gen, name = self.gen, combination(self.block)
        if name is not None and self._has_instruction(group, bits):
            if group[0].type.width == 1:
                return [_vote(gen, group[0], name, bits)]
            return [_reduce_whole_warp(gen, group[0], name)]
        order = arg_reductions.order_of(self.block) if len(bits) == _LANE_BITS else None
        if order is not None:
            return arg_reductions.reduce_warp(gen, self.block, group, order)
        for bit in reversed(bits):
            group = self._combined_with(group, group, bit)
        return group

    def _combined_with(self, group: Group, sent: Group, bit: int) -> Group:
        """Butterfly step: combine with what the lane whose index differs in one bit sends; where both send what they
        have, both get bitwise equal results.

        The results count as one value, so both lanes must compute them identically: the lower lane's operand comes
        first unless the combination is commutative, and no multiplication of the own operand fuses with the addition.
        """
        gen, b, lane = self.gen, self.gen.builder, ir.Constant(I32, 1 << bit)
        others = [
            shuffle(gen, v, e, "bfly", lane) for v, e in zip(sent, self.elements, strict=True)
        ]
        if _commutes(self.block):
            fused, gen.math.fp_fusion = gen.math.fp_fusion, False
            group = gen.region(self.block, group + others)
            gen.math.fp_fusion = fused
            return group
        is_upper = self._is_upper_lane(bit)
        pairs = list(zip(group, others, strict=True))
        group = [b.select(is_upper, other, mine) for mine, other in pairs]
        others = [b.select(is_upper, mine, other) for mine, other in pairs]
        return gen.region(self.block, group + others)

    def _adjacent_lanes(self, groups: list[Group], lanes: int) -> Group:
        """Combine the groups of a power-of-two number of adjacent lanes; all get the result."""
        group = _tree(self.gen, self.block, groups)
        return self._over_lanes(group, tuple(range(lanes.bit_length() - 1)))

    def _across_warps(self, groups: list[Group], offsets: list[Vector]) -> list[Group]:
        """Each warp leaves its part in shared memory; every thread combines the parts it needs."""
        gen, layout, axis = self.gen, self.layout, self.axis
        bits = along(layout.warps, axis)
        shared_out = layout.group_dim == axis
        parts = (layout.groups if shared_out else 1) << len(bits)
        target = layout.drop(axis)
        shape = (parts, max(1, prod(target.shape)))
        everywhere = gen.blocks > 1 and is_for_all(layout, axis)
        tiles = allocate_scratch(gen, [(element, shape) for element in self.elements], everywhere)
        part = compact(gen, bits)
        if shared_out:
            first = gen.builder.shl(gen.threads.group_of(layout), len(bits))
            part = gen.builder.or_(part, first)
        places = [flat_place(gen, target, offset) for offset in offsets]
        for place, group in zip(places, groups, strict=True):
            for where, value in zip(tiles, group, strict=True):
                (_poke_everywhere if everywhere else poke)(gen, where, part, place, value)
        gen.barrier()
        power = parts & (parts - 1) == 0
        if power and (parts <= 32 or everywhere) and not any(any(v) for v in target.lanes):
            return [self._lanes_combine(tiles, place, parts) for place in places]

        def combined(place: Value) -> Group:
            at = [ir.Constant(I32, p) for p in range(parts)]
            several = [[peek(gen, where, p, place) for where in tiles] for p in at]
            return _tree(gen, self.block, several)

        bits = _dividing_lanes(target, len(places))
        if bits and parts >= _MANY_PARTS and sum(1 for _ in self.block.ops) > _FEW_OPERATIONS:
            return self._divided_over_lanes(combined, places, bits)
        return [combined(place) for place in places]

    def _lanes_combine(self, tiles: list[SharedTile], place: Value, parts: int) -> Group:
        """The partial results of one element for all lanes: a lane loads one or several and combines them by shuffles."""
        gen, b, step = self.gen, self.gen.builder, min(parts, 32)
        mine = b.and_(gen.threads.lane, step - 1)
        several = [
            [peek(gen, where, b.add(mine, first), place) for where in tiles]
            for first in range(0, parts, step)
        ]
        return self._adjacent_lanes(several, step)

    def _divided_over_lanes(
        self, combined: Callable[[Value], Group], places: list[Value], bits: tuple[int, ...]
    ) -> list[Group]:
        """The results at `places`, each combined by one of the lanes that differ in `bits` and need all of them."""
        b, mine = self.gen.builder, list(places)
        for bit in reversed(bits):  # the upper half of what is left, or the lower one
            half, is_upper = len(mine) // 2, self._is_upper_lane(bit)
            mine = [b.select(is_upper, mine[half + i], mine[i]) for i in range(half)]
        return self._gathered([combined(place) for place in mine], len(places), bits)

    def _across_cluster(self, groups: list[Group]) -> list[Group]:
        """Each warp sends its part to all CTAs; every warp combines all parts, a lane one or several."""
        part = compact(self.gen, along(self.layout.warps, self.axis))
        received = self.gen.cluster_exchanges.exchange(self.op, part, groups)
        step = min(32, 1 << len(self.layout.warps))
        return [self._adjacent_lanes(parts, step) for parts in received]


def in_thread(
    gen: KernelCodegen, op: tile.ReduceOp, layout: Layout, inputs: list[list[Value]]
) -> dict[Vector, Group]:
    """Combine the registers of a thread that go to one element of the result, as a tree."""
    axis = op.axis.value.data
    members: dict[Vector, list[Group]] = {}
    for r in sorted(set(layout.register_of.values())):
        offset = layout.register_offsets[r]
        members.setdefault(offset[:axis] + offset[axis + 1 :], []).append([p[r] for p in inputs])
    narrow = _narrow_input(gen, op, layout) if len(inputs) == 1 else None
    if narrow is not None:
        pairs = {where: _in_pairs(gen, op, narrow, layout, where) for where in members}
        members = {where: pairs[where] or groups for where, groups in members.items()}
    if len(inputs) == 1 and tile.element_of(op.inputs[0]) == i1:
        name = combination(op.combine.block) or ""
        members = {
            where: [[v] for v in combine_comparisons(gen, name, [v for (v,) in groups])]
            for where, groups in members.items()
        }
    return {where: _tree(gen, op.combine.block, groups) for where, groups in members.items()}


def _narrow_input(gen: KernelCodegen, op: tile.ReduceOp, layout: Layout) -> SSAValue | None:
    """The 16-bit floats whose maximum or minimum a reduction takes in single precision, which has the same order."""
    owner = op.inputs[0].owner
    if not isinstance(owner, arith.ExtFOp) or combination(op.combine.block) not in _SELECTIONS:
        return None
    is_single = tile.element_of(owner.result) == f32
    return owner.input if is_single and gen.layout(owner.input) == layout else None


def _in_pairs(
    gen: KernelCodegen, op: tile.ReduceOp, narrow: SSAValue, layout: Layout, where: Vector
) -> list[Group]:
    """The two elements to which a thread combines those of one row, pair by pair; none where it has no pairs."""
    axis, parts = op.axis.value.data, gen.parts(narrow)
    offsets = layout.register_offsets
    mine = [
        parts[r]
        for r in sorted(set(layout.register_of.values()))
        if offsets[r][:axis] + offsets[r][axis + 1 :] == where
    ]
    kind = tile.element_of(narrow)
    found = combine_in_pairs(gen, combination(op.combine.block) or "", mine, kind)
    return [[to_f32(gen.builder, value, kind)] for value in found or ()]


def _tree(gen: KernelCodegen, block: Block, groups: list[Group]) -> Group:
    while len(groups) > 1:
        paired = [
            gen.region(block, groups[i] + groups[i + 1]) for i in range(0, len(groups) - 1, 2)
        ]
        groups = paired + groups[len(groups) // 2 * 2 :]
    return groups[0]


def _vote(gen: KernelCodegen, value: Value, name: str, bits: tuple[int, ...]) -> Value:
    """The conjunction, disjunction or parity of the lanes that differ in these bits of their index."""
    b = gen.builder
    votes = arg_reductions.ballot(gen, value)
    if len(bits) < _LANE_BITS:
        lanes = sum(1 << lane for lane in range(32) if not lane & ~sum(1 << bit for bit in bits))
        first = b.and_(gen.threads.lane, ~sum(1 << bit for bit in bits) & 31)
        members = b.shl(lanes, first)
        rest = b.not_(members)
        votes = b.or_(votes, rest) if name == "arith.andi" else b.and_(votes, members)
    if name == "arith.andi":
        return b.icmp_unsigned("==", votes, -1)
    if name == "arith.xori":
        return b.trunc(b.ctpop(votes), value.type)
    return b.icmp_unsigned("!=", votes, 0)


def _reduce_whole_warp(gen: KernelCodegen, value: Value, name: str) -> Value:
    b, width = gen.builder, value.type.width
    extend = b.sext if name in ("arith.maxsi", "arith.minsi") else b.zext
    word = extend(value, I32) if width < _WORD_BITS else value
    result = arg_reductions.redux(gen, _WHOLE_WARP[name], word)
    return b.trunc(result, value.type) if width < _WORD_BITS else result


_COMMUTATIVE = frozenset(
    f"arith.{name}"
    for name in (
        "addf", "mulf", "maximumf", "minimumf", "maxnumf", "minnumf", "addi", "muli", "andi", "ori",
        "xori", "maxsi", "minsi", "maxui", "minui",
    )
)  # fmt: skip


_MANY_LANE_BITS, _MIN_SCATTER_STEPS = 4, 3
"""Bits of the lane's index and halvings of the number of results from which on lanes divide the results: 16 shuffles for 8
results in 16 lanes instead of 32. In 8 lanes 15 instead of 24 are left, and of fewer results the last may be computed when the
first are stored: neither is worth the registers of all results at once (128 and 167 in fla's `parallel_nsa_kernel_topk`)."""
_WORD_BITS, _LANE_BITS = 32, 5
_SELECTIONS = frozenset(("arith.maximumf", "arith.minimumf", "arith.maxnumf", "arith.minnumf"))
_VOTES = frozenset(("arith.andi", "arith.ori", "arith.xori"))
_WHOLE_WARP = {
    "arith.addi": "add", "arith.maxsi": "max", "arith.minsi": "min", "arith.maxui": "umax",
    "arith.minui": "umin", "arith.andi": "and", "arith.ori": "or", "arith.xori": "xor",
}  # fmt: skip
"""Combinations of i32 that `redux.sync` has (PTX ISA; sm_80 and later)."""


def combination(block: Block) -> str | None:
    """The name of the commutative operation that combines the values of a reduction; None if it is not a single one."""
    first = block.first_op
    return first.name if len(block.args) == 2 and first and _commutes(block) else None


def _commutes(block: Block) -> bool:
    """Whether each result is one commutative operation of the two parts of one operand."""
    count = len(block.args) // 2
    *ops, end = block.ops
    return (
        len(ops) == count
        and all(op.name in _COMMUTATIVE for op in ops)
        and all(
            {*op.operands} == {block.args[i], block.args[count + i]} for i, op in enumerate(ops)
        )
        and [*end.operands] == [op.results[0] for op in ops]
    )


_MANY_PARTS, _FEW_OPERATIONS = 4, 4
"""Parts of a result, and operations of a combination, from which on lanes divide the work: shuffles of the results cost
less (argmax of 64 columns in 8 warps, NVIDIA H100: 39.5 and 33.4 µs)."""


def _dividing_lanes(target: Layout, results: int) -> tuple[int, ...]:
    """Bits of the lane's index along which lanes have the same results, as many as divide their number."""
    bits = tuple(bit for bit, vector in enumerate(target.lanes) if not any(vector))
    while results % (1 << len(bits)):
        bits = bits[:-1]
    return bits


def compact(gen: KernelCodegen, bits: tuple[int, ...]) -> Value:
    """The given bits of the warp index as a number."""
    b = gen.builder
    total: Value = ir.Constant(I32, 0)
    for i, bit in enumerate(bits):
        one = b.and_(b.lshr(gen.threads.index, 5 + bit), 1)
        total = b.or_(total, b.shl(one, i))
    return total


def flat_place(gen: KernelCodegen, target: Layout, offset: Vector) -> Value:
    """Row-major index of a result's element, an i32."""
    b = gen.builder
    flat: Value = ir.Constant(I32, 0)
    for d, extent in enumerate(target.shape):
        thread = gen.threads.coordinate(target, d)
        at = gen.threads.with_offset(b, target, thread, offset, d)
        flat = b.add(b.mul(flat, extent), at)
    return flat


def _poke_everywhere(
    gen: KernelCodegen, where: SharedTile, row: Value, column: Value, value: Value
) -> None:
    """`poke` in the shared memory of every CTA of the program."""
    bits = storage(gen, value, where.element)
    slot = element_pointer(gen, where, [row, column])
    cluster.for_each_cta(gen, slot, lambda to: gen.builder.store(bits, to, align=where.size))


# ---- partial accumulators in the lanes of a row -----------------------------------------------------------


def lower_split(gen: KernelCodegen, op: gpu.SplitOverLanesOp) -> None:
    b = gen.builder
    others = b.and_(gen.threads.lane, op.lanes.value.data)
    first = b.icmp_unsigned("==", others, 0)
    parts = gen.parts(op.source)
    gen.bind(op.result, [b.select(first, v, ir.Constant(v.type, -0.0)) for v in parts])


def lower_sum(gen: KernelCodegen, op: gpu.SumOverLanesOp) -> None:
    """A butterfly, so that all lanes get the same bits."""
    b, element = gen.builder, tile.element_of(op.source)
    values = gen.parts(op.source)
    for bit in reversed(range(_LANE_BITS)):
        if op.lanes.value.data >> bit & 1:
            distance = ir.Constant(I32, 1 << bit)
            values = [b.fadd(v, shuffle(gen, v, element, "bfly", distance)) for v in values]
    gen.bind(op.result, values)
