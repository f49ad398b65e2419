"""`narrow-trip-counts`: count loops, and compute how often they run, in 32 bits where that is known to fit.

    Change:
          func.func @k(%p: !tile.ptr<i32>, %n: i32) {
        -   %size = arith.extsi %n : i32 to i64
        -   %more = arith.constant 511 : i64
        -   %block = arith.constant 512 : i64
        -   %zero = arith.constant 0 : i64
        -   %one = arith.constant 1 : i64
        -   %rounded = arith.addi %size, %more : i64
        -   %blocks = arith.divsi %rounded, %block : i64
        -   %trips = arith.maxsi %blocks, %zero : i64
        -   scf.for %k = %zero to %trips step %one : i64 {
        -     %i = arith.trunci %k : i64 to i32
        +   %zero = arith.constant 0 : i32
        +   %size = arith.maxsi %n, %zero : i32
        +   %more = arith.constant 511 : i32
        +   %rounded = arith.addi %size, %more : i32
        +   %nine = arith.constant 9 : i32
        +   %trips = arith.shrui %rounded, %nine : i32
        +   %none = arith.constant 0 : i32
        +   %one = arith.constant 1 : i32
        +   scf.for %i = %none to %trips step %one : i32 {
              tile.store %p, %i : !tile.ptr<i32>, i32
            }
            func.return
          }

`normalize-loops` counts in 64 bits, as a range of 32-bit integers may have up to 2^32 of them; `partition-loops` and
`batch-loads` divide such counts. A 64-bit sum takes two instructions on a GPU, a comparison with a selection four: a kernel whose loops
run once or twice takes longer for them than for its work. Facts about integers say that a count of blocks fits 32 bits.

Relies on nothing; runs after the passes that look at trip counts. Kernels that multiply, reduce or scan tiles in loops keep their
counters: an iteration takes longer than the count, and registers are scarce. Guarantees: the same iterations. Switched off, loops count in 64 bits.
"""

from __future__ import annotations

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import i32, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import gpu, tile
from tilewright.dialects.address_arithmetic import address_arithmetic
from tilewright.passes.analysis.edit import Mapping, replace_op, with_counter
from tilewright.passes.analysis.effects import erase_dead
from tilewright.passes.analysis.emit import Emitter, constant_int, is_normalized
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.base import FunctionPass
from tilewright.targets import TargetInfo

_LOW_BITS = (arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.AndIOp, arith.OrIOp)
"""Operations the low half of whose result depends on the low halves of their operands alone."""
_ORDERED = (arith.MinSIOp, arith.MaxSIOp)
_LIMIT = 1 << 31
_LONG = (
    tile.DotOp, gpu.WgmmaOp, tile.ReduceOp, tile.ScanOp, gpu.AsyncCopyOp, gpu.TmaLoadOp, gpu.BarrierOp,
)  # fmt: skip
"""Operations of loops that take long, next to which trip counts do not matter."""


class NarrowTripCounts(FunctionPass):
    relevant_ops = ("scf.for",)

    def run(self, function: FuncOp, target: TargetInfo) -> None:
        loops = [op for op in function.walk() if isinstance(op, scf.ForOp)]
        if not any(isinstance(op, _LONG) for loop in loops for op in loop.body.walk()):
            _Narrower(function, loops).run()
            erase_dead(function.body.block)


class _Narrower:
    """Halves of the scalar i64 values of a function, made where the values are defined."""

    def __init__(self, function: FuncOp, loops: list[scf.ForOp]) -> None:
        self.function, self.loops = function, loops
        self.facts = Facts(address_arithmetic(function))
        self.made: Mapping = {}

    def run(self) -> None:
        chosen = [loop for loop in self.loops if self._is_narrow(loop)]
        for loop in chosen:
            self._narrow(loop)
        for op in list(self.function.walk()) if chosen else []:
            if isinstance(op, arith.TruncIOp) and (op.input.type, op.result.type) == (i64, i32):
                low = self.low(op.input)
                if not isinstance(low.owner, arith.TruncIOp):
                    replace_op(op, [low])

    def _is_narrow(self, loop: scf.ForOp) -> bool:
        """Whether a loop counts from 0 in ones, in 64 bits where 32 do."""
        unknown = constant_int(loop.ub) is None
        return is_normalized(loop) and unknown and loop.ub.type == i64 and self._fits(loop.ub)

    def _narrow(self, loop: scf.ForOp) -> None:
        e, start = Emitter(loop), Emitter.at_start(loop.body.block, loop.location)
        bounds = e.constant(0, i32), self.low(loop.ub), e.constant(1, i32)
        with_counter(loop, bounds, lambda counter: start.resize(counter, i64))

    def _fits(self, *values: SSAValue) -> bool:
        facts = [self.facts.of(value) for value in values]
        return all(fact.smin >= -_LIMIT and fact.smax < _LIMIT for fact in facts)

    def low(self, value: SSAValue) -> SSAValue:
        """The low half of an i64."""
        if value not in self.made:
            self.made[value] = self._low(value)
        return self.made[value]

    def _low(self, value: SSAValue) -> SSAValue:
        op = value.owner
        if not isinstance(op, Operation):
            return Emitter.at_start(op, self.function.location).resize(value, i32)
        e, number = Emitter(op), constant_int(value)
        if number is not None:
            return e.constant(number, i32)
        if isinstance(op, arith.ExtSIOp | arith.ExtUIOp):
            return e.resize(op.input, i32, isinstance(op, arith.ExtSIOp))
        if isinstance(op, _LOW_BITS):
            return e.binary(type(op), *map(self.low, op.operands))
        if isinstance(op, _ORDERED) and (ordered := self._low_of_ordered(e, op)) is not None:
            return ordered
        if isinstance(op, arith.ShRUIOp):
            shift, fact = constant_int(op.rhs), self.facts.of(op.lhs)
            if shift is not None and shift < 32 and fact.smin >= 0 and fact.smax < _LIMIT:
                return e.binary(arith.ShRUIOp, self.low(op.lhs), e.constant(shift, i32))
        after = Emitter(op.next_op or op)
        return after.make(arith.TruncIOp, [value], i32)

    def _low_of_ordered(self, e: Emitter, op: arith.MinSIOp | arith.MaxSIOp) -> SSAValue | None:
        """A minimum or maximum of values that fit; without the operation where one of them is 0 and the other never below."""
        if isinstance(op, arith.MaxSIOp) and constant_int(op.rhs) == 0:
            if self.facts.of(op.lhs).smin >= 0 and self._fits(op.lhs):
                return self.low(op.lhs)
            blocks = self._blocks(e, op.lhs.owner)
            if blocks is not None:
                return blocks
        if not self._fits(*op.operands):
            return None
        return e.binary(type(op), *map(self.low, op.operands))

    def _blocks(self, e: Emitter, division: Operation | Block) -> SSAValue | None:
        """`max(0, (a + b) / c)` with `c` a power of two above `b`: a positive `a` plus `b` fits 32 bits without a sign."""
        if not isinstance(division, arith.DivSIOp):
            return None
        by, dividend, more = constant_int(division.rhs), division.lhs, 0
        if by is None or not 0 < by < _LIMIT or by & (by - 1):
            return None
        if isinstance(dividend.owner, arith.AddiOp):
            number = constant_int(dividend.owner.rhs)
            if number is not None and 0 <= number < by:
                dividend, more = dividend.owner.lhs, number
        if not self._fits(dividend):
            return None
        total = e.add(e.maximum(self.low(dividend), e.constant(0, i32)), e.constant(more, i32))
        return e.binary(arith.ShRUIOp, total, e.constant(by.bit_length() - 1, i32))
