"""`partition-loops`: peel iterations that need bounds checks from those that do not.

A loop over blocks of a row tests every access against the row's length, though only the last block can
reach beyond it. The test, and the value that lanes beyond it get, cost a tenth of the instructions. This
pass makes two loops of such a loop: one of the iterations in which nothing is out of bounds, whose
accesses have no limits, and one of the rest::

    for i in 0 … n:                          for i in 0 … k:
      x = load i  if within size - i * b  ->   x = load i
                                             for i in k … n:
                                               x = load i  if within size - i * b

with `k` from the limits: all that change with the loop's counter do so by a constant step, either all
downwards (the last iterations are cut) or all upwards (the first are; a loop that goes backwards).
A limit of arithmetic that may wrap is compared with where it would be in the last iteration: unless it gets
there without wrapping, all iterations test it.
Limits that stay the same in all iterations are left. Loops that do much for each test stay as they are,
and so do loops with loops, products, barriers or output in them. After `insert-barriers`, which sees the
loop as one, and before `batch-loads`.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, IntegerType, UnitAttr, i1, i32, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import tile
from tilewright.dialects.address_arithmetic import Promise, access_arithmetic
from tilewright.dialects.tile.claims import in_range
from tilewright.ir.types import width_of
from tilewright.passes.analysis.edit import NO_UNROLL, Mapping, end_of, replace, replace_op
from tilewright.passes.analysis.effects import defined_inside, is_pure
from tilewright.passes.analysis.emit import Emitter
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.analysis.symbolic import Symbolic
from tilewright.passes.base import FunctionPass
from tilewright.passes.gpu.analysis.registers import instructions_per_element
from tilewright.passes.gpu.batch_loads import is_simple
from tilewright.targets import TargetInfo

_AT_MOST = 48
"""Instructions for each test in a loop that is worth having twice."""


class PartitionLoops(FunctionPass):
    relevant_ops = ("scf.for",)

    def run(self, function: FuncOp, target: TargetInfo) -> None:
        for op in list(function.walk()):
            if isinstance(op, scf.ForOp) and is_simple(op) and _is_worth_it(op):
                limits = _limits(op)
                if limits:
                    _Splitter(op, limits).run()


def _is_worth_it(loop: scf.ForOp) -> bool:
    """Whether the tests are more than a small part of a loop, which is to be there twice."""
    views = [op for op in loop.body.walk() if isinstance(op, tile.View)]
    tests = sum(len(view.limits) for view in views)
    return instructions_per_element(loop.body.walk()) <= _AT_MOST * tests


@dataclass(frozen=True)
class _Limit:
    """A limit that changes by `step` in each iteration, and the extent of the tile it cuts."""

    value: SSAValue
    step: int
    extent: int
    range_checked: SSAValue | None = None
    """The narrower integer that it is an extension of, if that may wrap in the loop."""


def _limits(loop: scf.ForOp) -> list[_Limit]:
    """The limits that change with the counter, all in one direction; none if one cannot be foretold."""
    found = dict[tuple[SSAValue, int], _Limit]()
    for view in loop.body.walk():
        if not isinstance(view, tile.View):
            continue
        symbols = Symbolic(Facts(Promise(access_arithmetic(view).no_wrap)))
        for dim, limit in tile.view_limits(view).items():
            extent = tile.shape_of(tile.accessed(view))[dim]
            step, range_checked = symbols.step_per_iteration(symbols.of(limit), loop), None
            if step is None and isinstance(limit.owner, arith.ExtSIOp):
                range_checked = limit.owner.input
                modulo = Symbolic(symbols.facts, modulo=True)
                step = _narrowed(
                    modulo.step_per_iteration(modulo.of(range_checked), loop), range_checked
                )
            if step is None:
                return []
            if step:
                found[limit, extent] = _Limit(limit, step, extent, range_checked)
    if len({limit.step > 0 for limit in found.values()}) != 1:
        return []
    return list(found.values())


def _narrowed(step: int | None, value: SSAValue) -> int | None:
    """A change modulo the type of `value`, as a signed number."""
    if step is None or not isinstance(value.type, IntegerType):
        return None
    half = 1 << value.type.width.data - 1
    return (step + half) % (2 * half) - half


class _Splitter:
    def __init__(self, loop: scf.ForOp, limits: list[_Limit]) -> None:
        self.loop, self.limits = loop, limits
        self.body = loop.body.block
        self.gone = {limit.value for limit in limits}
        self.starts: list[tuple[_Limit, SSAValue]] = []
        """What each limit is in the first iteration."""

    def run(self) -> None:
        loop, e = self.loop, Emitter(self.loop)
        up = self.limits[0].step > 0
        counts = [count for limit in self.limits if (count := self._count(e, limit)) is not None]
        if len(counts) < len(self.limits):
            return
        first = counts[0]
        for count in counts[1:]:
            first = e.insert((arith.MaxSIOp if up else arith.MinSIOp)(first, count))
        trips = e.insert(arith.MaxSIOp(e.resize(loop.ub, i64), e.constant(0)))
        for limit in self.limits:
            if limit.range_checked is not None:
                reaches = self._reaches_end(e, limit, trips)
                first = e.select(reaches, first, trips if up else e.constant(0))
        first = e.insert(arith.MinSIOp(first, trips))
        rest = e.sub(trips, first)
        before, after = (e.resize(v, loop.lb.type) for v in (first, rest))
        values = self._copy(e, before, None, list(loop.iter_args), not up)
        values = self._copy(e, after, before, values, up)
        replace_op(loop, values)

    def _count(self, e: Emitter, limit: _Limit) -> SSAValue | None:
        """i64: iterations before those that the limit cuts, or (a limit that grows) that it cuts."""
        start = self._at_start(e, limit.value)
        if start is None:
            return None
        self.starts.append((limit, start))
        if limit.step < 0:  # limit - i * step >= extent
            room, step = e.sub(start, e.constant(limit.extent + limit.step)), -limit.step
        else:
            missing = e.sub(e.constant(limit.extent + limit.step - 1), start)
            room, step = missing, limit.step
        room = e.insert(arith.MaxSIOp(room, e.constant(0)))
        return e.insert(arith.DivUIOp(room, e.constant(step)))

    def _reaches_end(self, e: Emitter, limit: _Limit, trips: SSAValue) -> SSAValue:
        """i1: a range_checked limit is the same in all iterations with and without wrapping: its change is linear, so
        that it is enough to look at the last one."""
        start = self._at_start(e, limit.value)
        if start is None or limit.range_checked is None:
            raise ValueError("a limit that has no start")
        bits = width_of(limit.range_checked.type)
        last = e.add(start, e.mul(e.sub(trips, e.constant(1)), e.constant(limit.step)))
        narrow = e.resize(last, IntegerType(bits))
        same = e.compare("eq", e.resize(narrow, i64), last)
        few = e.compare("sle", trips, e.constant(1 << bits - 1))  # the product fits
        return e.binary(arith.AndIOp, same, few)

    def _at_start(self, e: Emitter, value: SSAValue) -> SSAValue | None:
        """A scalar as it is in the first iteration, before the loop; None: it needs carried values."""
        mapping: Mapping = {self.body.args[0]: self.loop.lb}

        def visit(wanted: SSAValue) -> bool:
            op = wanted.owner
            if wanted in mapping or not defined_inside(wanted, self.loop):
                return True
            if not isinstance(op, Operation) or not is_pure(op) or op.regions:
                return False
            if not all(visit(v) for v in op.operands):
                return False
            e.insert_op(op.clone(mapping))
            return True

        return mapping.get(value, value) if visit(value) else None

    def _copy(
        self,
        e: Emitter,
        trips: SSAValue,
        start: SSAValue | None,
        carried: list[SSAValue],
        inside: bool,
    ) -> list[SSAValue]:
        """A loop of `trips` iterations from `start` on; `inside`: nothing is out of bounds in them."""
        loop, body = self.loop, self.body
        narrow = None
        if start is not None and any(_narrows(op, body.args[0]) for op in body.ops):
            # part by part: who asks by how much an address advances sees the counter
            narrow = e.insert(arith.TruncIOp(start, i32))
        attributes = dict(loop.attributes)
        if not inside:
            attributes[NO_UNROLL] = UnitAttr()  # it seldom has more than one iteration
        if inside:
            self._claim(e, trips, start)
        made, inner = e.loop([loop.lb, trips, loop.step], carried, attributes, body.args)
        block = made.body.block
        mapping: Mapping = dict(zip(body.args, block.args, strict=True))
        if start is not None:
            mapping[body.args[0]] = inner.add(start, block.args[0])
        for op in body.ops:
            if narrow is not None and _narrows(op, body.args[0]):
                counter = inner.insert(arith.TruncIOp(block.args[0], i32))
                mapping[op.results[0]] = inner.add(narrow, counter)
            elif inside and isinstance(op, tile.CmpIOp) and self._holds(op):
                true = inner.insert(arith.ConstantOp(IntegerAttr(1, i1)))
                splat = tile.SplatOp.create(operands=[true], result_types=[op.result.type])
                mapping[op.result] = inner.insert(splat)
            elif op is not end_of(body):
                inner.clone(op, mapping)
        inner.anchor.operands = [mapping.get(v, v) for v in end_of(body).operands]
        if inside:
            self._unlimit(made, {mapping.get(v, v) for v in self.gone})
        return list(made.results)

    def _holds(self, op: tile.CmpIOp) -> bool:
        """Whether a comparison `start + lane < size` says what a limit `size - start` does: where that cuts no tile, it
        holds for all lanes, and its sum does not wrap."""
        total, size = op.lhs.owner, op.rhs.owner
        if op.predicate.data != "slt" or not isinstance(size, tile.SplatOp):
            return False
        if not isinstance(total, arith.AddiOp):
            return False
        ends = [v.owner for v in total.operands]
        start = next((v for v in ends if isinstance(v, tile.SplatOp)), None)
        lanes = next((v for v in ends if isinstance(v, tile.ArangeOp)), None)
        if start is None or lanes is None or lanes.start.value.data < 0:
            return False
        return any(
            limit.extent >= lanes.end.value.data
            and limit.range_checked is None
            and _is_difference(limit.value, size.source, start.source)
            for limit in self.limits
        )

    def _claim(self, e: Emitter, trips: SSAValue, first: SSAValue | None) -> None:
        """Write down that no limit cuts a tile in these iterations."""
        for limit, start in self.starts:
            operands = [start, trips, *([] if first is None else [first])]
            claim = in_range(PartitionLoops.name, operands, limit.extent, limit.step)
            e.insert_op(claim)

    @staticmethod
    def _unlimit(loop: scf.ForOp, gone: set[SSAValue]) -> None:
        """Take these limits away from the accesses of a loop."""
        for view in list(loop.body.walk()):
            if not isinstance(view, tile.View):
                continue
            kept = {d: v for d, v in tile.view_limits(view).items() if v not in gone}
            new = tile.with_limits(view, kept)
            replace(view, new, list(new.results))


def _is_difference(value: SSAValue, of: SSAValue, less: SSAValue) -> bool:
    """Whether a value is the exact difference of two narrower integers."""
    op = value.owner
    return isinstance(op, arith.SubiOp) and all(
        isinstance(wide.owner, arith.ExtSIOp) and wide.owner.input is narrow
        for wide, narrow in ((op.lhs, of), (op.rhs, less))
    )


def _narrows(op: Operation, counter: SSAValue) -> bool:
    """Whether an operation makes 32 bits of a loop's counter."""
    return isinstance(op, arith.TruncIOp) and op.input is counter and op.result.type == i32
