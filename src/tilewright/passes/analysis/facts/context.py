"""Facts that hold inside of a loop only: its body runs if the lower bound is below the upper one.

`for k in range(0, cdiv(K, BLOCK))` runs only where `(K + BLOCK - 1) // BLOCK` is at least 1, hence only where
`K` is at least 1 and `K + BLOCK - 1` has not wrapped.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import arith, scf
from xdsl.ir import Operation, SSAValue

from tilewright.passes.analysis.emit import constant_int
from tilewright.passes.analysis.facts import transfer
from tilewright.passes.analysis.facts.lattice import Fact, constant, meet, signed_range, top

Known = Callable[[SSAValue], Fact]


def implied_by(loop: scf.ForOp, known: Known) -> dict[SSAValue, Fact]:
    """Facts of values defined before `loop` that hold in its body, where they say more than `known`."""
    step = constant_int(loop.step)
    if step is None or step <= 0:
        return {}
    upper = known(loop.ub)
    found: dict[SSAValue, Fact] = {}
    first = known(loop.lb).smin
    _refine(loop.ub, signed_range(upper.bits, first + 1, upper.smax), known, found)
    return found


def _refine(value: SSAValue, fact: Fact, known: Known, found: dict[SSAValue, Fact]) -> None:
    """Note that `fact` holds of a value, and what follows for the operands that it is computed from."""
    old = found.get(value) or known(value)
    new = meet(old, fact)
    if new == old or new.smin < old.smin or new.smax > old.smax:  # no news, or never the case
        return
    found[value] = new
    for operand, implied in (
        _backwards(value.owner, new, known) if isinstance(value.owner, Operation) else []
    ):
        _refine(operand, implied, known, found)


def _backwards(op: Operation, fact: Fact, known: Known) -> list[tuple[SSAValue, Fact]]:
    """Facts of the operands of `op` that follow from the one of its result."""
    bits = fact.bits
    most = top(bits).smax
    match op:
        case arith.ExtSIOp():
            narrow = known(op.input).bits
            return [(op.input, signed_range(narrow, fact.smin, fact.smax))]
        case arith.AddiOp() if (number := constant_int(op.rhs)) is not None:
            return [(op.lhs, transfer.sub(fact, constant(number, bits)))]
        case arith.SubiOp() if (number := constant_int(op.rhs)) is not None:
            return [(op.lhs, transfer.add(fact, constant(number, bits)))]
        case arith.MaxSIOp():
            pairs = ((op.lhs, op.rhs), (op.rhs, op.lhs))
            return [(x, fact) for x, y in pairs if known(y).smax < fact.smin]
        case arith.MinSIOp():
            return [(x, signed_range(bits, fact.smin, most)) for x in op.operands]
        case arith.DivSIOp() if (number := constant_int(op.rhs)) is not None:
            if number > 0 and fact.smin > 0:
                return [(op.lhs, signed_range(bits, fact.smin * number, most))]
    return []
