"""Insert operations before another one, with simple constant folding."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import add, mul, sub
from typing import cast

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    StringAttr,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tilewright.dialects import cpu, tile
from tilewright.ir.types import integer_attribute, width_of

_SPREADING: frozenset[type] = frozenset(
    (tile.SplatOp, tile.BroadcastOp, tile.ExpandDimsOp, tile.ReshapeOp, tile.TransOp, cpu.SplatOp)
)  # fmt: skip


def constant_int(value: SSAValue) -> int | None:
    """Return the value of an integer `arith.constant` (signed; i1 as 0 or 1), or None."""
    owner = value.owner
    if type(owner) is arith.ConstantOp:
        held = owner.properties["value"]
        if type(held) is IntegerAttr:
            number = held.value.data
            return number & 1 if value.type == i1 else number
    return None


def is_normalized(loop: scf.ForOp) -> bool:
    """Whether a loop counts 0, 1, 2 …, as `normalize-loops` leaves them."""
    return constant_int(loop.lb) == 0 and constant_int(loop.step) == 1


def constant_float(value: SSAValue) -> float | None:
    """Return the value of a floating-point `arith.constant`, or None."""
    owner = value.owner
    if type(owner) is arith.ConstantOp:
        held = owner.properties["value"]
        if type(held) is FloatAttr:
            return held.value.data
    return None


def uniform_constant(value: SSAValue) -> int | float | None:
    """Return the value of a scalar constant or of a tile or vector splatted from one, or None."""
    while type(value.owner) in _SPREADING:
        value = cast(Operation, value.owner).operands[0]
    number = constant_int(value)
    return constant_float(value) if number is None else number


class Emitter:
    """Inserts operations before `anchor` (or at the start of a block) at the location of `anchor`."""

    def __init__(self, anchor: Operation, location: LocationAttr | None = None) -> None:
        self.anchor = anchor
        self.location = location or anchor.location
        self.made: dict[object, SSAValue] = {}
        """Cache of values already emitted here; the keys are chosen by the users of the emitter."""

    @staticmethod
    def at_start(block: Block, location: LocationAttr) -> Emitter:
        first = block.first_op
        if first is None:
            raise ValueError("a block without terminator")
        return Emitter(first, location)

    def insert(self, op: Operation) -> SSAValue:
        """Insert `op` before the anchor and return its first result (ops without results: `insert_op`)."""
        return self.insert_op(op).results[0]

    def insert_op(self, op: Operation) -> Operation:
        op.location = self.location
        block = self.anchor.parent
        if block is None:
            raise ValueError("the anchor is in no block")
        block.insert_op_before(op, self.anchor)
        return op

    def clone(self, op: Operation, mapping: dict[SSAValue, SSAValue]) -> Operation:
        """Insert a copy of `op` with the values of `mapping`, which then has its results; it keeps its location."""
        copy = self.insert_op(op.clone(mapping))
        copy.location = op.location
        return copy

    def clone_body(self, body: Block, mapping: dict[SSAValue, SSAValue]) -> list[SSAValue]:
        """Insert copies of a block's operations but the last; returns what the values become that the last passes on."""
        *ops, end = body.ops
        for op in ops:
            self.clone(op, mapping)
        return [mapping.get(v, v) for v in end.operands]

    def loop(
        self,
        bounds: Sequence[SSAValue],
        inits: Sequence[SSAValue],
        attributes: Mapping[str, Attribute] | None = None,
        named_like: Sequence[SSAValue] = (),
    ) -> tuple[scf.ForOp, Emitter]:
        """Insert an `scf.for` with an empty body. Returns it and an emitter at the end of the body, whose `scf.yield`
        gets its operands from the caller (`Emitter.anchor.operands`)."""
        end = scf.YieldOp.create(location=self.location)
        block = Block([end], arg_types=[bounds[0].type, *(v.type for v in inits)])
        for argument, old in zip(block.args, named_like, strict=False):
            argument.name_hint = old.name_hint
        op = scf.ForOp.create(
            operands=[*bounds, *inits],
            result_types=[v.type for v in inits],
            regions=[Region(block)],
            attributes=dict(attributes or {}),
        )
        self.insert_op(op)
        return op, Emitter(end)

    def make(
        self,
        kind: type[Operation],
        operands: Sequence[SSAValue],
        result: Attribute,
        **properties: Attribute,
    ) -> SSAValue:
        """Insert an operation of class `kind` before the anchor and return its result."""
        return self.insert(
            kind.create(operands=operands, result_types=[result], properties=properties)
        )

    # ---- scalars and tiles ---------------------------------------------------------------------

    def constant(self, number: int, kind: Attribute = i64) -> SSAValue:
        if not isinstance(kind, IntegerType):
            raise TypeError(f"integer type expected, got {kind}")
        value = integer_attribute(number, kind.width.data)
        return self.make(arith.ConstantOp, (), kind, value=value)

    def float_constant(self, number: float, kind: AnyFloat) -> SSAValue:
        return self.insert(arith.ConstantOp(FloatAttr(number, kind)))

    def splat(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        result = tile.with_shape(value.type, tuple(shape))
        return self.make(tile.SplatOp, [value], result) if shape else value

    def arange(self, extent: int) -> SSAValue:
        """`0 … extent-1` as `tensor<extent x i32>`."""
        bounds = {"start": integer_attribute(0, 32), "end": integer_attribute(extent, 32)}
        result = tile.with_shape(i32, (extent,))
        return self.make(tile.ArangeOp, (), result, **bounds)

    def binary(self, kind: type[Operation], lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """`kind` (an `arith` binary integer operation) of two values of one type."""
        return self.make(kind, [lhs, rhs], lhs.type)

    def _folded(
        self, kind: type[Operation], fold: Callable[[int, int], int], lhs: SSAValue, rhs: SSAValue
    ) -> SSAValue:
        """The operation `kind`, or what `fold` gives of two constants."""
        a, b = constant_int(lhs), constant_int(rhs)
        if a is None or b is None:
            return self.binary(kind, lhs, rhs)
        return self.constant(fold(a, b), lhs.type)

    def add(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        a, b = constant_int(lhs), constant_int(rhs)
        if a == 0 and b is None:
            return rhs
        return lhs if b == 0 and a is None else self._folded(arith.AddiOp, add, lhs, rhs)

    def sub(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        unchanged = constant_int(rhs) == 0 and constant_int(lhs) is None
        return lhs if unchanged else self._folded(arith.SubiOp, sub, lhs, rhs)

    def mul(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        a, b = constant_int(lhs), constant_int(rhs)
        if None in (a, b) and (a == 0 or b == 1):
            return lhs
        if None in (a, b) and (a == 1 or b == 0):
            return rhs
        return self._folded(arith.MuliOp, mul, lhs, rhs)

    def minimum(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """The smaller of two signed integers."""
        return lhs if lhs is rhs else self._folded(arith.MinSIOp, min, lhs, rhs)

    def maximum(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """The larger of two signed integers."""
        return self._folded(arith.MaxSIOp, max, lhs, rhs)

    def select(self, condition: SSAValue, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        return self.make(tile.SelectOp, [condition, lhs, rhs], lhs.type)

    def compare(self, predicate: str, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """`tile.cmpi` of two values of one type."""
        result = tile.with_shape(i1, tile.shape_of(lhs))
        return self.make(tile.CmpIOp, [lhs, rhs], result, predicate=StringAttr(predicate))

    def resize(self, value: SSAValue, kind: Attribute, signed: bool = True) -> SSAValue:
        """Extend or truncate an integer or integer tile to element type `kind`, or return it unchanged."""
        have = tile.element_of(value)
        if not isinstance(have, IntegerType) or have == kind:
            return value
        number = constant_int(value)
        if number is not None:
            if not signed:
                number %= 1 << have.width.data
            return self.constant(number, kind)
        result = tile.with_shape(kind, tile.shape_of(value))
        if have.width.data > width_of(kind):
            cast_op = arith.TruncIOp
        else:
            cast_op = arith.ExtSIOp if signed else arith.ExtUIOp
        return self.make(cast_op, [value], result)

    def advance(self, pointer: SSAValue, offset: SSAValue) -> SSAValue:
        """`tile.addptr`: both scalars or tiles of one shape."""
        if constant_int(offset) == 0:
            return pointer
        return self.make(tile.AddPtrOp, [pointer, offset], pointer.type)

    def broadcast(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        if tile.shape_of(value) == tuple(shape):
            return value
        result = tile.with_shape(tile.element_of(value), shape)
        return self.make(tile.BroadcastOp, [value], result)

    def reshape(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        if tile.shape_of(value) == tuple(shape):
            return value
        result = tile.with_shape(tile.element_of(value), shape)
        return self.make(tile.ReshapeOp, [value], result)
