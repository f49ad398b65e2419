"""`narrow-divisions`: divide in 32 bits, and without signs, where operands are known to fit.

    Change:
          func.func @k(%x: i32 {tile.nonnegative}, %d: i32 {tile.nonnegative}) -> i64 {
            %a = arith.extsi %x : i32 to i64
            %b = arith.extsi %d : i32 to i64
        +   %0 = arith.trunci %a : i64 to i32
        +   %1 = arith.trunci %b : i64 to i32
        -   %q = arith.divsi %a, %b : i64
        +   %2 = arith.divui %0, %1 : i32
        +   %q = arith.extui %2 : i32 to i64
            func.return %q : i64
          }

A GPU has no instruction for division: a signed one of 64 bits takes about 130 instructions, an unsigned one of 32 bits
15, and the quotient and remainder of the same operands share them. Indices are 64 bits wide by the language's rules or
by the author's caution; their facts say that they are not.

Relies on nothing. Guarantees: results are unchanged; a divisor of 0 gives another unspecified value. Switched off,
divisions stay as wide as they are written.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType, TensorType, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation

from tilewright.dialects.address_arithmetic import address_arithmetic
from tilewright.passes.analysis.edit import replace_op
from tilewright.passes.analysis.emit import Emitter
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.base import FunctionPass
from tilewright.targets import TargetInfo

_UNSIGNED: dict[type[Operation], type[Operation]] = {
    arith.DivSIOp: arith.DivUIOp,
    arith.RemSIOp: arith.RemUIOp,
    arith.DivUIOp: arith.DivUIOp,
    arith.RemUIOp: arith.RemUIOp,
}
_HALF = 1 << 32


class NarrowDivisions(FunctionPass):
    relevant_ops = (
        "arith.divsi", "arith.remsi", "arith.divui", "arith.remui",
    )  # fmt: skip

    def run(self, function: FuncOp, target: TargetInfo) -> None:
        divisions = [op for op in function.walk() if type(op) in _UNSIGNED]
        if divisions:
            facts = Facts(address_arithmetic(function))
            chosen = [(op, _narrower(op, facts)) for op in divisions]
            for op, form in chosen:
                if form is not None:
                    _replace(op, *form)


def _narrower(op: Operation, facts: Facts) -> tuple[type[Operation], bool] | None:
    """The operation that gives the same result for less, and whether in 32 bits; None where `op` is best."""
    a, b = (facts.of(value) for value in op.operands)
    if a.bits not in (32, 64):
        return None
    signed = type(op) is not _UNSIGNED[type(op)]
    positive = op in facts.promise.divisions
    if not signed or (a.smin >= 0 and (positive or b.smin >= 0)):
        most = b.smax if signed else b.umax
        narrow = a.bits == 64 and a.umax < _HALF and most < _HALF
        return (_UNSIGNED[type(op)], narrow) if signed or narrow else None
    least = -(1 << 31)
    fits = (
        a.bits == 64 and least < a.smin and a.smax < -least and least <= b.smin and b.smax < -least
    )
    return (type(op), True) if fits else None


def _replace(op: Operation, kind: type[Operation], narrow: bool) -> None:
    """Put another division in the place of `op`."""
    e, operands = Emitter(op), list(op.operands)
    if narrow:
        operands = [e.make(arith.TruncIOp, [v], _resized(v.type)) for v in operands]
    made = e.make(kind, operands, operands[0].type)
    if narrow:
        extension = arith.ExtUIOp if kind in (arith.DivUIOp, arith.RemUIOp) else arith.ExtSIOp
        made = e.make(extension, [made], op.results[0].type)
    replace_op(op, [made])


def _resized(kind: Attribute) -> Attribute:
    """The type with elements of 32 bits."""
    if isinstance(kind, IntegerType):
        return i32
    if not isinstance(kind, TensorType):
        raise TypeError(f"integers expected, got {kind}")
    return TensorType(i32, kind.shape, kind.encoding)
