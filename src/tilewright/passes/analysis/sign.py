"""Proofs that integers are not negative."""

from __future__ import annotations

from xdsl.dialects import arith, scf
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import tile
from tilewright.passes.analysis.emit import constant_int
from tilewright.passes.analysis.polynomial import Polynomial

_BOTH = (
    arith.AddiOp, arith.MuliOp, arith.MinSIOp, arith.MaxUIOp, arith.OrIOp, arith.XOrIOp,
)  # fmt: skip
_FIRST = (
    arith.DivSIOp, arith.DivUIOp, arith.RemSIOp, arith.ShRSIOp, arith.ShRUIOp, arith.ShLIOp,
    arith.ExtSIOp, arith.TruncIOp, tile.HintOp, tile.SplatOp, tile.BroadcastOp, tile.ExpandDimsOp,
)  # fmt: skip
_EITHER = (arith.MaxSIOp, arith.AndIOp, arith.MinUIOp)
_ALWAYS = (tile.ProgramIdOp, tile.NumProgramsOp, arith.ExtUIOp)


NONNEGATIVE = "tile.nonnegative"
"""Attribute of an operation whose integer result is known to be >= 0."""


def nonnegative(value: SSAValue, assumed: frozenset[SSAValue] = frozenset()) -> bool:
    """Whether the integer `value` (scalar, or every lane) is provably >= 0.

    Relies on two conventions of offset arithmetic: it does not wrap, and divisors are positive (a
    quotient is a block number). Function arguments may be negative. `assumed` holds the loop-carried
    values whose proof is under way: induction over iterations.
    """
    number = constant_int(value)
    if number is not None:
        return number >= 0
    if value in assumed:
        return True
    op = value.owner
    if isinstance(op, Block):
        return _block_argument(value, op, assumed)
    if isinstance(op, _ALWAYS) or NONNEGATIVE in op.attributes:
        return True
    if isinstance(op, _BOTH):
        return all(nonnegative(v, assumed) for v in op.operands)
    if isinstance(op, _FIRST):
        return nonnegative(op.operands[0], assumed)
    if isinstance(op, _EITHER):
        return any(nonnegative(v, assumed) for v in op.operands)
    if isinstance(op, arith.RemUIOp):
        return nonnegative(op.rhs, assumed)
    if isinstance(op, tile.ArangeOp):
        return op.start.value.data >= 0
    if isinstance(op, tile.SelectOp):
        return nonnegative(op.lhs, assumed) and nonnegative(op.rhs, assumed)
    if isinstance(op, (scf.ForOp, scf.IfOp)):
        return _region_result(value, op, assumed)
    return False


def _block_argument(value: SSAValue, block: Block, assumed: frozenset[SSAValue]) -> bool:
    loop = block.parent_op()
    if not isinstance(loop, scf.ForOp):
        return False
    position = block.args.index(value)  # type: ignore[arg-type]
    if position == 0:
        step = constant_int(loop.step)
        return step is not None and step > 0 and nonnegative(loop.lb, assumed)
    return _carried(loop, position - 1, assumed | {value})


def _carried(loop: scf.ForOp, position: int, assumed: frozenset[SSAValue]) -> bool:
    last = loop.body.block.last_op
    if last is None:
        return False
    return nonnegative(loop.iter_args[position], assumed) and nonnegative(
        last.operands[position], assumed
    )


def _region_result(value: SSAValue, op: Operation, assumed: frozenset[SSAValue]) -> bool:
    position = op.results.index(value)  # type: ignore[arg-type]
    if isinstance(op, scf.ForOp):
        return _carried(op, position, assumed | {op.body.block.args[position + 1]})
    ends = [region.block.last_op for region in op.regions if region.blocks]
    return len(ends) == 2 and all(
        end is not None and nonnegative(end.operands[position], assumed) for end in ends
    )


def nonnegative_sum(polynomial: Polynomial) -> bool:
    """Whether a polynomial is >= 0 because all its parts are."""
    return all(
        coefficient > 0
        and all(leaf.signed is False or nonnegative(leaf.value) for leaf in monomial)
        for monomial, coefficient in polynomial.terms
    )
