"""Emit operations at an insertion point, with constant folding of integers.

Index expressions are Python ints if constant and i64 values otherwise (`Index`), so loop nests over constant extents
contain no index arithmetic that a later pass must fold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from operator import add, mul, sub
from typing import Any, cast

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    UnknownLoc,
    i1,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tilewright.dialects import cpu, tile

Index = int | SSAValue


class Emitter:
    """Appends operations to the end of `block`; blocks are built in order."""

    def __init__(self, block: Block, location: Any = None, outer: Emitter | None = None) -> None:
        self.block = block
        self.location = location
        self.outer = outer
        self._constants: dict[tuple[float, bool, Attribute], SSAValue] = {}

    @contextmanager
    def located(self, op: Operation) -> Generator[None]:
        """Context manager: operations added inside get the source location of `op`, if it has one."""
        before = self.location
        if not isinstance(op.location, UnknownLoc):
            self.location = op.location
        try:
            yield
        finally:
            self.location = before

    def rewind(self, last: Operation | None) -> None:
        """Erase what was appended after `last`, an operation of the block or None."""
        while (op := self.block.last_op) is not last and op is not None:
            op.detach()
            op.erase(safe_erase=False)
        self._constants = {k: v for k, v in self._constants.items() if v.owner.parent is self.block}

    def inside(self, block: Block) -> Emitter:
        """Return an emitter for a nested block, in which constants of this block are visible."""
        return Emitter(block, self.location, self)

    def add(self, op: Operation) -> Any:
        """Append `op`; return its single result, or the operation if it has none or several."""
        if self.location is not None:
            op.location = self.location
        self.block.add_op(op)
        return op.results[0] if len(op.results) == 1 else op

    def make(
        self,
        kind: type[Operation],
        operands: Sequence[SSAValue] = (),
        result: Attribute | None = None,
        **properties: Attribute,
    ) -> Any:
        """Append an operation of class `kind`; return its result, or the operation if it has none."""
        types = [] if result is None else [result]
        return self.add(kind.create(operands=operands, result_types=types, properties=properties))

    # ---- constants and index arithmetic ----

    def value(self, index: Index) -> SSAValue:
        """An index as an i64 value."""
        if isinstance(index, SSAValue):
            return index
        return self.constant(index, i64)

    def constant(self, value: float, kind: Attribute) -> SSAValue:
        """Return a scalar constant; equal visible constants are reused."""
        key = (value, math.copysign(1.0, value) < 0, kind)  # 0.0 == -0.0
        scope: Emitter | None = self
        while scope is not None:
            if (found := scope._constants.get(key)) is not None:
                return found
            scope = scope.outer
        attr = (
            IntegerAttr(int(value), kind)
            if isinstance(kind, IntegerType)
            else FloatAttr(float(value), cast(AnyFloat, kind))
        )
        result = self.make(arith.ConstantOp, (), kind, value=attr)
        self._constants[key] = result
        return result

    def _folded(
        self, kind: type[Operation], fold: Callable[[int, int], int], a: Index, b: Index
    ) -> Index:
        """The operation `kind`, or what `fold` gives of two constants."""
        if isinstance(a, int) and isinstance(b, int):
            return fold(a, b)
        return self.binary(kind, self.value(a), self.value(b))

    def plus(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and a == 0:
            return b
        return a if isinstance(b, int) and b == 0 else self._folded(arith.AddiOp, add, a, b)

    def minus(self, a: Index, b: Index) -> Index:
        return a if isinstance(b, int) and b == 0 else self._folded(arith.SubiOp, sub, a, b)

    def times(self, a: Index, b: Index) -> Index:
        for x, y in ((a, b), (b, a)):
            if isinstance(x, int) and x in (0, 1):
                return y if x else 0
        return self._folded(arith.MuliOp, mul, a, b)

    def divide(self, a: Index, b: int) -> Index:
        """`a // b` for `a >= 0` and constant `b > 0`."""
        if isinstance(a, int):
            return a // b
        if b == 1:
            return a
        if b & (b - 1) == 0:
            return self.binary(arith.ShRUIOp, a, self.constant(b.bit_length() - 1, i64))
        return self.binary(arith.DivUIOp, a, self.constant(b, i64))

    def modulo(self, a: Index, b: int) -> Index:
        """`a % b` for `a >= 0` and constant `b > 0`."""
        if isinstance(a, int):
            return a % b
        if b == 1:
            return 0
        if b & (b - 1) == 0:
            return self.binary(arith.AndIOp, a, self.constant(b - 1, i64))
        return self.binary(arith.RemUIOp, a, self.constant(b, i64))

    def smallest(self, a: Index, b: Index) -> Index:
        return self._folded(arith.MinSIOp, min, a, b)

    def largest(self, a: Index, b: Index) -> Index:
        return self._folded(arith.MaxSIOp, max, a, b)

    def round_down(self, a: Index, multiple: int) -> Index:
        """`a` rounded down to a multiple of a power of two."""
        if isinstance(a, int):
            return a // multiple * multiple
        return self.binary(arith.AndIOp, a, self.constant(-multiple, i64))

    # ---- operations ----

    def binary(self, kind: type[Operation], a: SSAValue, b: SSAValue) -> SSAValue:
        return self.make(kind, [a, b], a.type)

    def less(self, a: Index, b: Index) -> bool | SSAValue:
        return self.compare("slt", a, b)

    def at_least(self, a: Index, b: Index) -> bool | SSAValue:
        return self.compare("sge", a, b)

    def compare(self, predicate: str, a: Index, b: Index) -> bool | SSAValue:
        if isinstance(a, int) and isinstance(b, int):
            return {"slt": a < b, "sle": a <= b, "sge": a >= b, "eq": a == b}[predicate]
        operands = [self.value(a), self.value(b)]
        return self.make(tile.CmpIOp, operands, i1, predicate=StringAttr(predicate))

    def both(self, a: bool | SSAValue, b: bool | SSAValue) -> bool | SSAValue:
        """Logical and of scalar conditions, either of which may be known."""
        if isinstance(a, bool):
            return b if a else False
        if isinstance(b, bool):
            return a if b else False
        return self.binary(arith.AndIOp, a, b)

    def either(self, a: bool | SSAValue, b: bool | SSAValue) -> bool | SSAValue:
        """Logical or of scalar conditions, either of which may be known."""
        if isinstance(a, bool):
            return True if a else b
        if isinstance(b, bool):
            return True if b else a
        return self.binary(arith.OrIOp, a, b)

    def condition(self, value: bool | SSAValue) -> SSAValue:
        return self.constant(int(value), i1) if isinstance(value, bool) else value

    def select(self, condition: bool | SSAValue, a: Index, b: Index) -> Index:
        if isinstance(condition, bool):
            return a if condition else b
        return self.make(tile.SelectOp, [condition, self.value(a), self.value(b)], i64)

    def splat(self, value: SSAValue, lanes: int) -> SSAValue:
        """`value` in every lane; vectors pass unchanged."""
        if lanes == 1 or cpu.lanes_of(value) > 1:
            return value
        return self.make(cpu.SplatOp, [value], cpu.vector_of(value.type, lanes))

    def truncated(self, index: Index, kind: Attribute) -> SSAValue:
        """A non-negative index as an integer of type `kind`."""
        if isinstance(index, int):
            return self.constant(index, kind)
        if kind == i64:
            return index
        return self.make(arith.TruncIOp, [index], kind)

    def address(self, pointer: SSAValue, offset: Index) -> SSAValue:
        """`pointer + offset` elements."""
        if isinstance(offset, int) and offset == 0:
            return pointer
        return self.make(tile.AddPtrOp, [pointer, self.value(offset)], pointer.type)

    # ---- control flow ----

    def loop(
        self, start: Index, end: Index, step: int, carried: list[SSAValue]
    ) -> tuple[Emitter, SSAValue, list[SSAValue], scf.ForOp]:
        """An `scf.for` over i64; returns an emitter for its body, the index, the carried values in
        the body, and the loop. The caller ends the body with `yield_values`."""
        body = Block(arg_types=[i64, *(v.type for v in carried)])
        op = scf.ForOp.create(
            operands=[self.value(start), self.value(end), self.value(step), *carried],
            result_types=[v.type for v in carried],
            regions=[Region(body)],
        )
        self.add(op)
        return self.inside(body), body.args[0], list(body.args[1:]), op

    def branch(
        self, condition: SSAValue, result_types: list[Attribute]
    ) -> tuple[Emitter, Emitter, scf.IfOp]:
        """An `scf.if` with both branches empty; the caller ends each with `yield_values`."""
        op = scf.IfOp.create(
            operands=[condition],
            result_types=result_types,
            regions=[Region(Block()), Region(Block())],
        )
        self.add(op)
        return self.inside(op.true_region.block), self.inside(op.false_region.block), op

    def yield_values(self, values: list[SSAValue]) -> None:
        self.block.add_op(scf.YieldOp.create(operands=values))
