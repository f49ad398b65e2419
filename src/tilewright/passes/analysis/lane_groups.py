"""Runs of neighboring elements of a tile: groups that are equal, or that count upwards by one.

`x // d` and `x % d` of a flat index have no affine form. Where `x` counts upwards from a multiple of g and `d` is a
multiple of g, `x // d` is equal in each aligned group of g elements, and `x % d` counts upwards in it: a gather through
such an index takes g neighbors at once, and the division is done once per group.

All statements are about aligned groups of g = 2^k elements along one dimension of a tile.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.passes.analysis.edit import end_of
from tilewright.passes.analysis.effects import is_pure_elementwise, is_volatile
from tilewright.passes.analysis.emit import constant_int, uniform_constant
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.analysis.facts.lattice import trailing_zeros
from tilewright.passes.analysis.facts.operations import width_of
from tilewright.passes.analysis.projection import source_dim


class Kind(Enum):
    """How the elements of each group relate."""

    EQUAL = "equal"
    COUNTING = "counting"
    """Element i is the first plus i (of pointers: plus i elements), without a carry into higher bits than the
    group's: the first is a multiple of g."""


class Group(NamedTuple):
    """The relation within each group, and what the first elements are multiples of."""

    kind: Kind
    zeros: int = 0
    """Every group's first element is a multiple of 2^zeros (an address: of 2^zeros bytes)."""


class LaneGroups:
    """Relations of the integers, pointers and masks of one function, found on demand."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._known: dict[tuple[SSAValue, int, int], Group | None] = {}

    def of(self, value: SSAValue, dim: int, size: int) -> Group | None:
        """The relation of a tile's elements within aligned groups of `size` along `dim`; None where it is unknown."""
        key = (value, dim, size)
        if key not in self._known:
            self._known[key] = None  # of a value that depends on itself nothing is known
            self._known[key] = self._find(value, dim, size)
        return self._known[key]

    def is_equal(self, value: SSAValue | None, dim: int, size: int) -> bool:
        """Whether the elements of each group are equal; of None (an absent mask) they are."""
        if value is None:
            return True
        found = self.of(value, dim, size)
        return found is not None and found.kind is Kind.EQUAL

    def equal_run(self, value: SSAValue | None, dim: int, most: int) -> int:
        """The largest power of two, up to `most`, of elements in groups that are equal."""
        size = 1 << _log2(most)
        while size > 1 and not self.is_equal(value, dim, size):
            size //= 2
        return size

    def counting_run(self, value: SSAValue, dim: int, most: int) -> int:
        """The largest power of two, up to `most`, of elements in groups that count upwards."""
        size = 1 << _log2(most)
        while size > 1 and getattr(self.of(value, dim, size), "kind", None) is not Kind.COUNTING:
            size //= 2
        return size

    def _find(self, value: SSAValue, dim: int, size: int) -> Group | None:
        op = value.owner
        if not tile.is_tile(value):
            return Group(Kind.EQUAL, self._zeros(value))
        loop = op.parent_op() if isinstance(op, Block) else op
        if isinstance(loop, scf.ForOp) and isinstance(value, BlockArgument | OpResult):
            return self._carried(loop, value, dim, size)
        if not isinstance(op, Operation):
            return None
        rule = _RULES.get(type(op))
        if rule is not None:
            found = rule(self, op, dim, size)
            if found is not None:
                return found
        if is_pure_elementwise(op) and all(self.is_equal(v, dim, size) for v in op.operands):
            return Group(Kind.EQUAL, self._zeros(value))
        return None

    def _carried(
        self, loop: scf.ForOp, value: BlockArgument | OpResult, dim: int, size: int
    ) -> Group | None:
        """What a loop carries is equal if it is before the loop, and an iteration keeps it so: a count of the elements
        that a mask has selected."""
        if isinstance(value, OpResult):
            return self.of(loop.body.block.args[value.index + 1], dim, size)
        position, before = value.index - 1, dict(self._known)
        self._known[value, dim, size] = Group(Kind.EQUAL)
        sources = loop.iter_args[position], end_of(loop.body.block).operands[position]
        if all(self.is_equal(source, dim, size) for source in sources):
            return Group(Kind.EQUAL)
        self._known = before  # without what followed from the assumption
        return None

    def _zeros(self, value: SSAValue) -> int:
        return self.facts.of(value).zeros if width_of(value) is not None else 0

    def pair(self, op: Operation, dim: int, size: int) -> tuple[Group, Group] | None:
        """The relations of two operands, or None if one of them is unknown."""
        a = self.of(op.operands[0], dim, size)
        b = self.of(op.operands[1], dim, size) if a is not None else None
        return (a, b) if a is not None and b is not None else None


def _log2(size: int) -> int:
    return size.bit_length() - 1


def _arange(groups: LaneGroups, op: tile.ArangeOp, dim: int, size: int) -> Group | None:
    zeros = min(trailing_zeros(op.start.value.data, 32), _log2(size))
    return Group(Kind.COUNTING, zeros) if zeros == _log2(size) else None


def _constant(groups: LaneGroups, op: arith.ConstantOp, dim: int, size: int) -> Group | None:
    held = op.value
    if isinstance(held, DenseIntOrFPElementsAttr) and held.is_splat():
        return Group(Kind.EQUAL, groups._zeros(op.result))
    return None


def _sum(groups: LaneGroups, op: Operation, dim: int, size: int) -> Group | None:
    """A counting value plus or minus an equal one that is a multiple of the group's size: no carries."""
    pair = groups.pair(op, dim, size)
    if pair is None:
        return None
    a, b = pair
    if isinstance(op, arith.AddiOp) and b.kind is Kind.COUNTING:
        a, b = b, a
    if a.kind is Kind.COUNTING and b.kind is Kind.EQUAL:
        zeros = min(a.zeros, b.zeros)
        return Group(Kind.COUNTING, zeros) if zeros >= _log2(size) else None
    return None


def _product(groups: LaneGroups, op: arith.MuliOp, dim: int, size: int) -> Group | None:
    """A counting value times one: what remains of a stride of 1 that launches fold."""
    for value, factor in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        if groups.facts.of(factor).constant == 1:
            return groups.of(value, dim, size)
    return None


def _quotient(groups: LaneGroups, op: Operation, dim: int, size: int) -> Group | None:
    """A counting dividend >= 0 and a divisor that is a multiple of the group's size."""
    if not _divides_groups(groups, op, dim, size):
        return None
    return Group(Kind.EQUAL, groups._zeros(op.results[0]))


def _remainder(groups: LaneGroups, op: Operation, dim: int, size: int) -> Group | None:
    if not _divides_groups(groups, op, dim, size):
        return None
    a, b = (groups.of(v, dim, size) for v in op.operands)
    return Group(Kind.COUNTING, min(a.zeros, b.zeros)) if a and b else None


def _divides_groups(groups: LaneGroups, op: Operation, dim: int, size: int) -> bool:
    """Whether a counting dividend is divided by an equal divisor in such a way that no group crosses a multiple of
    it. Signed division truncates towards zero, so that a negative dividend's group may have two quotients."""
    pair = groups.pair(op, dim, size)
    if pair is None or pair[0].kind is not Kind.COUNTING or pair[1].kind is not Kind.EQUAL:
        return False
    if min(pair[0].zeros, pair[1].zeros) < _log2(size):
        return False
    signed = isinstance(op, arith.DivSIOp | arith.RemSIOp)
    return not signed or groups.facts.is_nonnegative(op.operands[0])


def _shift_right(groups: LaneGroups, op: Operation, dim: int, size: int) -> Group | None:
    """A shift drops the bits in which the elements of a group differ."""
    a = groups.of(op.operands[0], dim, size)
    if a is None or a.kind is not Kind.COUNTING or a.zeros < _log2(size):
        return None
    amount = groups.facts.of(op.operands[1])
    if not _log2(size) <= amount.umin <= amount.umax < amount.bits:
        return None
    if not groups.is_equal(op.operands[1], dim, size):
        return None
    return Group(Kind.EQUAL, groups._zeros(op.results[0]))


def _bit_and(groups: LaneGroups, op: arith.AndIOp, dim: int, size: int) -> Group | None:
    """A mask keeps the bits in which the elements of a group differ, or drops them all."""
    for value, mask in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        number = groups.facts.of(mask).constant
        a = groups.of(value, dim, size)
        if number is None or a is None or a.kind is not Kind.COUNTING or a.zeros < _log2(size):
            continue
        if number % size == size - 1:
            return Group(Kind.COUNTING, _log2(size))
        if number % size == 0:
            return Group(Kind.EQUAL, groups._zeros(op.result))
    return None


def _extension(groups: LaneGroups, op: Operation, dim: int, size: int) -> Group | None:
    """The elements of a counting group differ in their lowest bits only, so that none crosses a sign or wraps.
    (Conversions of layouts are their operands.)"""
    return groups.of(op.operands[0], dim, size)


def _hint(groups: LaneGroups, op: tile.HintOp, dim: int, size: int) -> Group | None:
    """What is known of the value, or what the author promises of its runs: `max_contiguous` of a value that is a
    `multiple_of` at the start of each run, or `max_constancy`.

    Promises hold for groups of `MOST_PROMISED` elements at most: programs promise runs as long as a tile of `x % n`
    for an `n` that is a multiple of vectors, not of tiles.
    """
    found = groups.of(op.source, dim, size)
    if found is not None or size > MOST_PROMISED:
        return found
    promised = _promises(op, dim)
    if promised.get("max_constancy", 0) % size == 0 and "max_constancy" in promised:
        return Group(Kind.EQUAL)
    run, zeros = (
        promised.get("max_contiguous", 1),
        trailing_zeros(promised.get("multiple_of", 1), 32),
    )
    return Group(Kind.COUNTING, zeros) if run % size == 0 and zeros >= _log2(size) else None


MOST_PROMISED = 16
"""Largest group of which a promise is believed: multiples of 16 are what launches specialize on."""


def _promises(op: tile.HintOp, dim: int) -> dict[str, int]:
    """The numbers that consecutive hints about one value promise along `dim`, by kind."""
    found: dict[str, int] = {}
    value: SSAValue = op.result
    while isinstance(value.owner, tile.HintOp):
        hint = value.owner
        found.setdefault(hint.kind.data, tile.ints(hint.values)[dim])
        value = hint.source
    return found


def _comparison(groups: LaneGroups, op: tile.CmpIOp, dim: int, size: int) -> Group | None:
    """`x < d` or `x <= d - 1` where `x` is a multiple of the group's size at its start, and `d` one: all of a group,
    or none."""
    pair = groups.pair(op, dim, size)
    if pair is None or width_of(op.lhs) is None:
        return None
    (a, b), bound, predicate = pair, op.rhs, op.predicate.data[1:]
    if b.kind is Kind.COUNTING:
        a, b, bound, predicate = b, a, op.lhs, _SWAPPED.get(predicate, "")
    more = {"lt": 0, "ge": 0, "le": 1, "gt": 1}.get(predicate)
    if more is None or a.kind is not Kind.COUNTING or b.kind is not Kind.EQUAL:
        return None
    inside = a.zeros >= _log2(size) and _divides(size, bound, more, groups.facts)
    return Group(Kind.EQUAL) if inside else None


_SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}


def _divides(size: int, value: SSAValue, more: int, facts: Facts) -> bool:
    """Whether `value + more` is a multiple of `size`, a power of two."""
    op, number = value.owner, uniform_constant(value)
    if isinstance(number, int):
        return (number + more) % size == 0
    if (facts.divisor(value) | more) % size == 0:
        return True
    if isinstance(op, tile.SplatOp | tile.BroadcastOp | tile.ExpandDimsOp | gpu.ConvertLayoutOp):
        return _divides(size, op.operands[0], more, facts)
    if isinstance(op, arith.AddiOp | arith.SubiOp):
        added = uniform_constant(op.rhs)
        if isinstance(added, int):
            change = added if isinstance(op, arith.AddiOp) else -added
            return _divides(size, op.lhs, more + change, facts)
    return False


def _select(groups: LaneGroups, op: tile.SelectOp, dim: int, size: int) -> Group | None:
    if not groups.is_equal(op.condition, dim, size):
        return None
    a, b = groups.of(op.lhs, dim, size), groups.of(op.rhs, dim, size)
    if a is None or b is None or a.kind is not b.kind:
        return None
    return Group(a.kind, min(a.zeros, b.zeros))


def _address(groups: LaneGroups, op: tile.AddPtrOp, dim: int, size: int) -> Group | None:
    """Pointers count in elements; their zeros are those of the address in bytes."""
    pair = groups.pair(op, dim, size)
    if pair is None:
        return None
    base, offset = pair
    pointee: Any = tile.element_of(op.result)
    scale = trailing_zeros(tile.element_bytes(pointee.pointee), 64)
    zeros = min(
        base.zeros, 64 if groups.facts.of(op.offset).constant == 0 else offset.zeros + scale
    )
    if base.kind is Kind.EQUAL:
        return Group(offset.kind, zeros)
    return Group(Kind.COUNTING, zeros) if offset.kind is Kind.EQUAL else None


def _splat(groups: LaneGroups, op: tile.SplatOp, dim: int, size: int) -> Group | None:
    return Group(Kind.EQUAL, groups._zeros(op.source))


def _moved(groups: LaneGroups, op: Operation, dim: int, size: int) -> Group | None:
    source = source_dim(op, dim)
    return None if source is None else groups.of(op.operands[0], source, size)


def _broadcast(groups: LaneGroups, op: tile.BroadcastOp, dim: int, size: int) -> Group | None:
    if tile.shape_of(op.source)[dim] == 1:
        return Group(Kind.EQUAL, groups._zeros(op.source))
    return groups.of(op.source, dim, size)


def _load(groups: LaneGroups, op: tile.LoadOp, dim: int, size: int) -> Group | None:
    """One address per group, under one condition, gives one value."""
    operands = (op.pointer, op.mask, op.other)
    if is_volatile(op) or not all(groups.is_equal(v, dim, size) for v in operands):
        return None
    return Group(Kind.EQUAL, groups._zeros(op.result))


def _load_view(groups: LaneGroups, op: tile.LoadViewOp, dim: int, size: int) -> Group | None:
    """One index per group, or stride 0, along a dimension without a limit that cuts groups gives one value."""
    kinds, limit = tile.view_kinds(op), tile.view_limits(op).get(dim)
    if not all(groups.is_equal(v, dim, size) for v in (op.mask, op.other)):
        return None
    if limit is not None and groups.facts.divisor(limit) % size != 0:
        return None
    if kinds[dim] == "strided" and constant_int(op.strides[dim]) == 0:
        return Group(Kind.EQUAL, groups._zeros(op.result))
    if kinds[dim] != "indexed":
        return None
    index = op.indices[sum(kind == "indexed" for kind in kinds[:dim])]
    return Group(Kind.EQUAL, groups._zeros(op.result)) if groups.is_equal(index, 0, size) else None


_RULES: dict[type[Operation], Callable[[LaneGroups, Any, int, int], Group | None]] = {
    tile.ArangeOp: _arange,
    arith.ConstantOp: _constant,
    arith.AddiOp: _sum,
    arith.SubiOp: _sum,
    arith.MuliOp: _product,
    arith.DivSIOp: _quotient,
    arith.DivUIOp: _quotient,
    arith.RemSIOp: _remainder,
    arith.RemUIOp: _remainder,
    arith.ShRSIOp: _shift_right,
    arith.ShRUIOp: _shift_right,
    arith.AndIOp: _bit_and,
    arith.ExtSIOp: _extension,
    arith.ExtUIOp: _extension,
    arith.TruncIOp: _extension,
    tile.HintOp: _hint,
    gpu.ConvertLayoutOp: _extension,
    tile.CmpIOp: _comparison,
    tile.SelectOp: _select,
    tile.AddPtrOp: _address,
    tile.SplatOp: _splat,
    tile.ExpandDimsOp: _moved,
    tile.BroadcastOp: _broadcast,
    tile.TransOp: _moved,
    tile.LoadOp: _load,
    tile.LoadViewOp: _load_view,
}
