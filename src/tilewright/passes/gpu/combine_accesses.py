"""`combine-accesses`: load and store the fields of records by vectors.

    Change:
          func.func @k(%p: !tile.ptr<f32> {tile.divisibility = 16 : i32}) -> (tensor<32xf32, "32 r[] l[1 2 4 8 16] w[]">, tensor<32xf32, "32 r[] l[1 2 4 8 16] w[]">) {
            %four = arith.constant 4 : i64
            %one = arith.constant 1 : i64
            %q = tile.addptr %p, %one : !tile.ptr<f32>, i64 to !tile.ptr<f32>
        -   %x = tile.load_view %p ["strided"] strides(%four) {limited = array<i64>} : !tile.ptr<f32> to tensor<32xf32, "32 r[] l[1 2 4 8 16] w[]">
        -   %y = tile.load_view %q ["strided"] strides(%four) {limited = array<i64>} : !tile.ptr<f32> to tensor<32xf32, "32 r[] l[1 2 4 8 16] w[]">
        +   %unit = arith.constant 1 : i64
        +   %both = tile.load_view %p ["strided", "strided"] strides(%four, %unit) {limited = array<i64>} : !tile.ptr<f32> to tensor<32x2xf32, "32x2 r[0,1] l[1,0 2,0 4,0 8,0 16,0] w[]">
        +   %x, %y = tile.split %both : tensor<32x2xf32, "32x2 r[0,1] l[1,0 2,0 4,0 8,0 16,0] w[]"> to tensor<32xf32, "32 r[] l[1 2 4 8 16] w[]">, tensor<32xf32, "32 r[] l[1 2 4 8 16] w[]">
            func.return %x, %y : tensor<32xf32, "32 r[] l[1 2 4 8 16] w[]">, tensor<32xf32, "32 r[] l[1 2 4 8 16] w[]">
          }

An array of records (real and imaginary parts, the entries of small matrices, pairs to rotate) is accessed field by field:
each access has the record's size as its stride, and takes one field of a record per thread, in as many instructions and
sectors as all of them would take together. Accesses of fields side by side become one access of a tile with one more
dimension, contiguous, that each thread has in registers. Loads move to the first of a group, stores to the last.

A group: structured accesses of one block with the same strides, limits, layout and options, no mask, bases at distances of 1, 2, 3 …
elements of which the first is aligned like the strides. Between loads there are but loads and pure operations, between
stores but stores of the group and pure operations. The fields of different records do not overlap, because strides are multiples
of the group. Requires `assign-layouts`; runs before `vectorize-accesses`. Ensures: the same elements are accessed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, StringAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.dialects.address_arithmetic import address_arithmetic
from tilewright.layouts import Layout
from tilewright.passes.analysis.disjoint_accesses import is_strided, offset_of, root_of
from tilewright.passes.analysis.edit import erase, replace_op
from tilewright.passes.analysis.effects import is_pure, is_volatile
from tilewright.passes.analysis.emit import Emitter
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.analysis.symbolic import Symbolic
from tilewright.passes.base import FunctionPass
from tilewright.passes.gpu.analysis.accesses import WIDEST, contiguous_dim
from tilewright.targets import TargetInfo


@dataclass(frozen=True)
class CombineAccesses(FunctionPass):
    requires = ("assign-layouts",)
    max_bytes: int = WIDEST
    """Bytes of the fields that one access may take."""

    def run(self, function: FuncOp, target: TargetInfo) -> None:
        if sum(_is_field(op) for op in function.walk()) > 1:
            _Combiner(function, self.max_bytes).run(function)


def _is_field(op: Operation) -> bool:
    """Whether an access may be that of a field: strides but 1, in registers that are bits of the index."""
    return (
        isinstance(op, tile.View)
        and is_strided(op)
        and op.mask is None
        and contiguous_dim(op) is None
        and (layout := gpu.layout_of(tile.accessed(op))) is not None
        and layout.groups == 1
        and not layout.repeat
    )


@dataclass(frozen=True)
class _Field:
    """An access, and its offset in elements from the first one of its kind."""

    op: tile.View
    offset: int


class _Combiner:
    """Combines the accesses of one function."""

    def __init__(self, function: FuncOp, max_bytes: int) -> None:
        self.facts = Facts(address_arithmetic(function))
        self.symbols = Symbolic(self.facts)
        self.max_bytes = max_bytes

    def run(self, function: FuncOp) -> None:
        for block in list(function.walk_blocks()):
            for group in list(_groups(block)):
                for record in self._records(group):
                    for fields in self._vectors(record):
                        _combine_loads(fields) if fields[0].results else _combine_stores(fields)

    def _records(self, group: list[tile.View]) -> Iterator[list[_Field]]:
        """The accesses of a group that differ in constant offsets alone, and are those of fields of the same records."""
        records: dict[tuple[Any, ...], list[_Field]] = {}
        first: dict[tuple[Any, ...], tile.View] = {}
        for op in group:
            key = _kind(op)
            start = offset_of(first.setdefault(key, op).base, self.symbols)
            distance = (offset_of(op.base, self.symbols) - start).number
            if distance is not None:
                records.setdefault(key, []).append(_Field(op, distance))
        yield from (fields for fields in records.values() if len(fields) > 1)

    def _vectors(self, fields: list[_Field]) -> Iterator[list[tile.View]]:
        """The groups of fields that are accessed together, in order of their offsets."""
        at = {field.offset: field.op for field in fields}
        position = {field.op: i for i, field in enumerate(fields)}
        if len(at) < len(fields):  # the same field twice
            return
        for offset in sorted(at):
            count = self.max_bytes // tile.element_bytes(tile.accessed(fields[0].op))
            while count > 1 and offset in at:
                ops = [at[o] for o in range(offset, offset + count) if o in at]
                first = min(ops, key=lambda op: position[op])
                in_order = isinstance(first, tile.StoreViewOp) or first is ops[0]
                if len(ops) == count and in_order and self._is_aligned(ops[0], count):
                    yield ops
                    for each in range(offset, offset + count):
                        del at[each]
                count //= 2

    def _is_aligned(self, op: tile.View, count: int) -> bool:
        """Whether all records' vectors of `count` fields from that of `op` on are aligned, and none overlaps others."""
        size = tile.element_bytes(tile.accessed(op))
        strides = [self.facts.divisor(stride) % count == 0 for stride in op.strides]
        return all(strides) and self.facts.divisor(op.base) % (count * size) == 0


def _kind(op: tile.View) -> tuple[Any, ...]:
    """What accesses of fields of the same records have in common."""
    other = getattr(op, "other", None)
    return (
        root_of(op.base), tile.accessed(op).type, *op.strides, None, *op.limits, other,
        tuple(sorted((k, v) for k, v in op.properties.items())), tuple(sorted(_attributes(op).items())),
    )  # fmt: skip


def _groups(block: Block) -> Iterator[list[tile.View]]:
    """Loads, and stores, of a block between which nothing has an effect or observes one."""
    loads, stores = list[tile.View](), list[tile.View]()
    for op in block.ops:
        if is_pure(op) or isinstance(op, tile.AssumeOp):
            continue
        load = isinstance(op, tile.Load) and not is_volatile(op)
        if not (isinstance(op, tile.StoreViewOp) and _follows(op, stores)):
            yield stores
            stores = []
        if not load:
            yield loads
            loads = []
        if isinstance(op, tile.View) and _is_field(op):
            (loads if load else stores).append(op)
    yield loads
    yield stores


def _follows(op: tile.StoreViewOp, stores: list[tile.View]) -> bool:
    """Whether a store is one of the fields that the stores before it are of."""
    return not stores or (_is_field(op) and _kind(op) == _kind(stores[-1]))


def _wide_view(fields: list[tile.View], base: Emitter, last: list[SSAValue]) -> tuple[Any, ...]:
    """Operands and properties of an access of all fields, whose last dimension they are."""
    op = fields[0]
    places = [[op.base], [*op.strides, base.constant(1, i64)], [], [], [], op.limits, [], last]
    kinds = ArrayAttr([*op.kinds, StringAttr("strided")])
    return places, {**op.properties, "kinds": kinds}


def _attributes(op: tile.View) -> dict[str, Attribute]:
    """What holds for an access with one more dimension as well."""
    return {k: v for k, v in op.attributes.items() if k != tile.ROW_ALIGNMENT}


def _combine_loads(fields: list[tile.View]) -> None:
    """Replace the loads of fields by one, where the first of them is."""
    load = fields[0]
    emitter, layout = Emitter(load), _layout(load)
    other = getattr(load, "other", None)
    places, properties = _wide_view(fields, emitter, [] if other is None else [other])
    kind = gpu.laid_out(tile.element_of(tile.accessed(load)), _widened(layout, len(fields)))
    wide = tile.make_view(tile.LoadViewOp, places, properties, [kind])
    wide.attributes.update(_attributes(load))
    parts = _split(emitter.insert(wide), layout, len(fields), emitter)
    for op, part in zip(fields, parts, strict=True):
        replace_op(op, [part])


def _combine_stores(fields: list[tile.View]) -> None:
    """Replace the stores of fields by one, where the last of them is."""
    order = {op: i for i, op in enumerate(fields[0].parent.ops)} if fields[0].parent else {}
    emitter, layout = Emitter(max(fields, key=lambda op: order[op])), _layout(fields[0])
    value = _joined([tile.accessed(op) for op in fields], layout, emitter)
    places, properties = _wide_view(fields, emitter, [value])
    wide = tile.make_view(tile.StoreViewOp, places, properties)
    wide.attributes.update(_attributes(fields[0]))
    emitter.insert_op(wide)
    for op in fields:
        erase(op)


def _split(wide: SSAValue, layout: Layout, count: int, emitter: Emitter) -> list[SSAValue]:
    """The `count` tiles in `layout` of which `wide` is made along its last dimension."""
    if count == 1:
        return [wide]
    if count > 2:
        pairs = _widened(_widened(layout, count // 2), 2)
        wide = emitter.insert(_made(tile.ReshapeOp, [wide], pairs))
    half = gpu.laid_out(tile.element_of(wide), _widened(layout, count // 2))
    split = tile.SplitOp.create(operands=[wide], result_types=[half, half])
    emitter.insert_op(split)
    halves = [_split(half, layout, count // 2, emitter) for half in split.results]
    return [part for pair in zip(*halves, strict=True) for part in pair]


def _joined(parts: list[SSAValue], layout: Layout, emitter: Emitter) -> SSAValue:
    """Tiles in `layout` side by side along a new last dimension."""
    count = len(parts)
    if count == 1:
        return parts[0]
    halves = [_joined(parts[i::2], layout, emitter) for i in range(2)]
    pairs = _widened(_widened(layout, count // 2), 2)
    joined = emitter.insert(_made(tile.JoinOp, halves, pairs))
    if count == 2:
        return joined
    return emitter.insert(_made(tile.ReshapeOp, [joined], _widened(layout, count)))


def _made(kind: type[Operation], operands: list[SSAValue], layout: Layout) -> Operation:
    result: Attribute = gpu.laid_out(tile.element_of(operands[0]), layout)
    return kind.create(operands=operands, result_types=[result])


def _widened(layout: Layout, count: int) -> Layout:
    """A layout with one more dimension, whose `count` elements (1: without it) each thread has in registers."""
    if count == 1:
        return layout
    wide = layout.insert(layout.rank)
    bits = [(*(0,) * layout.rank, 1 << i) for i in range(count.bit_length() - 1)]
    return replace(wide, shape=(*layout.shape, count), registers=(*bits, *wide.registers))


def _layout(op: tile.View) -> Layout:
    layout = gpu.layout_of(tile.accessed(op))
    if layout is None:
        raise ValueError("an access without a layout")
    return layout
