"""`normalize-loops`: normalize every `scf.for` to count from 0 by 1, to a trip count computed before it.

After this pass no other one has to think about lower bounds, negative steps, or steps known only at
run time, and the trip count is a value that can be looked at.

    Change:
          func.func @k(%p: !tile.ptr<i32>, %lb: i32) {
        -   %ub = arith.constant -1 : i32
            %step = arith.constant -2 : i32
        +   %lb64 = arith.extsi %lb : i32 to i64
        +   %ub64 = arith.constant -1 : i64
        +   %span = arith.subi %lb64, %ub64 : i64
        +   %one = arith.constant 1 : i64
        +   %more = arith.addi %span, %one : i64
        +   %two = arith.constant 2 : i64
        +   %trips = arith.divsi %more, %two : i64
        +   %zero = arith.constant 0 : i64
        +   %n = arith.maxsi %trips, %zero : i64
        -   scf.for %i = %lb to %ub step %step : i32 {
        +   scf.for %k = %zero to %n step %one : i64 {
        +     %narrow = arith.trunci %k : i64 to i32
        +     %far = arith.muli %narrow, %step : i32
        +     %i = arith.addi %lb, %far {tile.loop_index = array<i64: 0, 2147483647>} : i32
              tile.store %p, %i : !tile.ptr<i32>, i32
            }
            func.return
          }

Relies on: nothing; it runs first. Bounds of any integer width.

Guarantees: the same iterations in the same order, for all bounds (trip counts are computed in i64,
where 32-bit spans cannot overflow; 64-bit spans as unsigned). A step of zero is the author's fault:
the loop then runs an unspecified number of times. Loops that count 0, 1, 2 … already stay as they are.
The sum that computes the old counter is marked as a loop's index, with its range (`analysis.facts`). Carried values that never change become plain
values, and those that only compute themselves go.

Tried: keeping the counter in i32. A loop from -2^31 to 2^31-1 then needs a second form, and machine
code is no shorter.
"""

from __future__ import annotations

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import DenseArrayBase, IntegerType, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from tilewright.ir.types import defining_op
from tilewright.passes.analysis.edit import post_order, with_counter
from tilewright.passes.analysis.effects import erase_dead
from tilewright.passes.analysis.emit import Emitter, constant_int
from tilewright.passes.analysis.facts import LOOP_INDEX, Facts
from tilewright.passes.base import FunctionPass
from tilewright.passes.folding.control import prune_carried
from tilewright.targets import TargetInfo


class NormalizeLoops(FunctionPass):
    relevant_ops = ("scf.for",)

    def run(self, function: FuncOp, target: TargetInfo) -> None:
        for op in post_order(function):
            if isinstance(op, scf.ForOp):
                _normalize(prune_carried(op))
        erase_dead(function.body.block)


def _normalize(loop: scf.ForOp) -> None:
    lower, step = constant_int(loop.lb), constant_int(loop.step)
    kind = loop.lb.type
    if (lower == 0 and step == 1) or not isinstance(kind, IntegerType):
        return
    emitter = Emitter(loop)
    trips = _trip_count(loop, kind, emitter)
    # before the body changes: the bounds may depend on the loop's own results through an outer loop
    index_range = _index_range(loop, step)
    start = Emitter.at_start(loop.body.block, loop.location)

    def index(counter: SSAValue) -> SSAValue:
        value = start.add(loop.lb, start.mul(start.resize(counter, kind), loop.step))
        defining_op(value).attributes[LOOP_INDEX] = index_range
        return value

    with_counter(loop, (emitter.constant(0), trips, emitter.constant(1)), index)


def _index_range(loop: scf.ForOp, step: int | None) -> DenseArrayBase:
    """The lowest and highest value of a loop's index: the body does not run outside of the bounds."""
    facts = Facts()
    lower, upper = facts.of(loop.lb), facts.of(loop.ub)
    up, down = (lower.smin, upper.smax - 1), (upper.smin + 1, lower.smax)
    if step is None:
        low, high = min(lower.smin, down[0]), max(lower.smax, up[1])
    else:
        low, high = up if step > 0 else down
    return DenseArrayBase.from_list(i64, [low, max(low, high)])


def _trip_count(loop: scf.ForOp, kind: IntegerType, emitter: Emitter) -> SSAValue:
    """How often the body runs, an i64 >= 0."""
    lower, upper = emitter.resize(loop.lb, i64), emitter.resize(loop.ub, i64)
    step = constant_int(loop.step)
    if step is None:
        return _runtime_step(lower, upper, emitter.resize(loop.step, i64), emitter)
    first, last = (lower, upper) if step > 0 else (upper, lower)
    size = emitter.constant(abs(step))
    start, end = constant_int(first), constant_int(last)
    if start is not None and end is not None:
        count = -(-(end - start) // abs(step)) if step else 0
        return emitter.constant(max(0, count))
    span = emitter.sub(last, first)
    if kind.width.data > 32:
        return _count(span, emitter.compare("slt", first, last), size, emitter)
    if abs(step) != 1:
        rounded = emitter.add(span, emitter.constant(abs(step) - 1))
        span = emitter.binary(arith.DivSIOp, rounded, size)
    return emitter.maximum(span, emitter.constant(0))


def _runtime_step(lower: SSAValue, upper: SSAValue, step: SSAValue, emitter: Emitter) -> SSAValue:
    zero = emitter.constant(0)
    up = emitter.compare("sgt", step, zero)
    first, last = emitter.select(up, lower, upper), emitter.select(up, upper, lower)
    size = emitter.select(up, step, emitter.sub(zero, step))
    span = emitter.sub(last, first)
    return _count(span, emitter.compare("slt", first, last), size, emitter)


def _count(span: SSAValue, some: SSAValue, size: SSAValue, emitter: Emitter) -> SSAValue:
    """`ceil(span / size)` of an unsigned span that is at least 1 if `some`, else 0."""
    one = emitter.constant(1)
    full = emitter.binary(arith.DivUIOp, emitter.sub(span, one), size)
    return emitter.select(some, emitter.add(full, one), emitter.constant(0))
