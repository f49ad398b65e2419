"""Powers of two that integers and addresses are known to be multiples of.

Arguments carry `tile.divisibility` (of the value, for pointers of the byte address); constants,
products, sums and loop counters follow. What is known decides how wide an access may be.
"""

from __future__ import annotations

from math import gcd

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, SSAValue

from tilewright.dialects import tile
from tilewright.passes.analysis.emit import constant_int

LIMIT = 1 << 16
"""Larger divisors are not told apart (0 is a multiple of everything)."""


class Divisibility:
    """Known power-of-two divisors of scalars, remembered by value."""

    def __init__(self) -> None:
        self._known: dict[SSAValue, int] = {}

    def of(self, value: SSAValue) -> int:
        """A power of two (at most `LIMIT`) that divides the integer, or the address in bytes."""
        if value not in self._known:
            self._known[value] = LIMIT  # induction for values carried by loops
            self._known[value] = self._find(value)
            if isinstance(value, BlockArgument):
                self._known[value] = self._find(value)
        return self._known[value]

    def _find(self, value: SSAValue) -> int:
        number = constant_int(value)
        if number is not None:
            return _power(number)
        op = value.owner
        if isinstance(op, Block):
            return self._argument(value, op)
        match op:
            case tile.AddPtrOp():
                kind = tile.element_of(value)
                size = tile.element_bytes(kind.pointee) if isinstance(kind, tile.PtrType) else 1
                return gcd(self.of(op.pointer), min(LIMIT, self.of(op.offset) * size))
            case arith.MuliOp():
                return min(LIMIT, self.of(op.lhs) * self.of(op.rhs))
            case (
                arith.AddiOp() | arith.SubiOp() | arith.MinSIOp() | arith.MaxSIOp() | arith.OrIOp()
            ):
                return gcd(self.of(op.lhs), self.of(op.rhs))
            case arith.AndIOp():
                return max(self.of(op.lhs), self.of(op.rhs))
            case arith.ExtSIOp() | arith.ExtUIOp() | arith.TruncIOp():
                return self.of(op.input)
            case arith.ShLIOp():
                shift = constant_int(op.rhs)
                return min(LIMIT, self.of(op.lhs) << min(shift, 16)) if shift is not None else 1
            case arith.RemSIOp() | arith.RemUIOp():
                return gcd(self.of(op.lhs), self.of(op.rhs))
            case arith.DivSIOp() | arith.DivUIOp():
                divisor = constant_int(op.rhs)
                if divisor is None or divisor <= 0:
                    return 1
                return max(1, self.of(op.lhs) // divisor) if _power(divisor) == divisor else 1
            case tile.SelectOp():
                return gcd(self.of(op.lhs), self.of(op.rhs))
            case tile.HintOp():
                return self._hint(op)
            case scf.IfOp():
                at = list(op.results).index(value)  # type: ignore[arg-type]
                ends = [r.block.last_op for r in op.regions if r.blocks]
                return gcd(*(self.of(e.operands[at]) for e in ends if e is not None))
            case scf.ForOp():
                at = list(op.results).index(value)  # type: ignore[arg-type]
                return self.of(op.body.block.args[at + 1])
        return 1

    def _hint(self, op: tile.HintOp) -> int:
        known = self.of(op.source)
        if op.kind.data != "multiple_of":
            return known
        return max(known, *(_power(int(v)) for v in op.values.get_values()))

    def _argument(self, value: SSAValue, block: Block) -> int:
        parent = block.parent_op()
        if not isinstance(value, BlockArgument):
            return 1
        if isinstance(parent, FuncOp):
            attributes = parent.arg_attrs.data[value.index].data if parent.arg_attrs else {}
            given = attributes.get("tile.divisibility")
            return _power(given.value.data) if isinstance(given, IntegerAttr) else 1
        if isinstance(parent, scf.ForOp):
            if value.index == 0:
                return gcd(self.of(parent.lb), self.of(parent.step))
            end = block.last_op
            init = self.of(parent.iter_args[value.index - 1])
            return init if end is None else gcd(init, self.of(end.operands[value.index - 1]))
        return 1


def _power(number: int) -> int:
    return min(LIMIT, number & -number) if number else LIMIT
