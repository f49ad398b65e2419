"""Proofs that integers are not negative."""

from __future__ import annotations

from xdsl.dialects import arith, scf
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import tile
from tilewright.passes.analysis.emit import constant_int
from tilewright.passes.analysis.polynomial import Polynomial
from tilewright.passes.analysis.symbolic import Symbolic

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


def nonnegative(value: SSAValue) -> bool:
    """Whether the integer `value` (scalar, or every lane) is provably >= 0.

    Relies on two conventions of offset arithmetic: it does not wrap, and divisors are positive (a
    quotient is a block number). Function arguments may be negative.
    """
    return _Proof().holds(value, frozenset())


Assumed = frozenset[SSAValue]
"""Loop-carried values whose proof is under way: induction over iterations."""


class _Proof:
    """One question; remembers its answers, because operands are shared."""

    def __init__(self) -> None:
        self.known: dict[tuple[SSAValue, Assumed], bool] = {}
        self.symbols = Symbolic()

    def holds(self, value: SSAValue, assumed: Assumed) -> bool:
        number = constant_int(value)
        if number is not None:
            return number >= 0
        if value in assumed:
            return True
        key = (value, assumed)
        if key not in self.known:
            self.known[key] = self._find(value, assumed)
        return self.known[key]

    def _find(self, value: SSAValue, assumed: Assumed) -> bool:
        op = value.owner
        if isinstance(op, Block):
            return self._block_argument(value, op, assumed)
        if isinstance(op, _ALWAYS) or NONNEGATIVE in op.attributes:
            return True
        if isinstance(op, tile.ArangeOp):
            return op.start.value.data >= 0
        if isinstance(op, _EITHER):
            return any(self.holds(v, assumed) for v in op.operands)
        if isinstance(op, (scf.ForOp, scf.IfOp)):
            return self._region_result(value, op, assumed)
        if isinstance(op, arith.AddiOp | arith.SubiOp) and self._counted(value, assumed):
            return True
        needed: tuple[SSAValue, ...] = ()
        if isinstance(op, _BOTH):
            needed = tuple(op.operands)
        elif isinstance(op, _FIRST):
            needed = (op.operands[0],)
        elif isinstance(op, arith.RemUIOp):
            needed = (op.rhs,)
        elif isinstance(op, tile.SelectOp):
            needed = (op.lhs, op.rhs)
        return bool(needed) and all(self.holds(v, assumed) for v in needed)

    def _counted(self, value: SSAValue, assumed: Assumed) -> bool:
        """A sum of parts that are: of a scalar carried by a loop, `start - step` to begin with, the next
        one is `start + trips * step`."""
        if tile.is_tile(value):
            return False
        terms = self.symbols.of(value).terms
        return all(
            coefficient > 0 and all(self._part(leaf.value, value, assumed) for leaf in monomial)
            for monomial, coefficient in terms
        )

    def _part(self, part: SSAValue, whole: SSAValue, assumed: Assumed) -> bool:
        return part is not whole and self.holds(part, assumed)

    def _block_argument(self, value: SSAValue, block: Block, assumed: Assumed) -> bool:
        loop = block.parent_op()
        if not isinstance(loop, scf.ForOp):
            return False
        position = block.args.index(value)  # type: ignore[arg-type]
        if position == 0:
            step = constant_int(loop.step)
            return step is not None and step > 0 and self.holds(loop.lb, assumed)
        return self._carried(loop, position - 1, assumed | {value})

    def _carried(self, loop: scf.ForOp, position: int, assumed: Assumed) -> bool:
        last = loop.body.block.last_op
        if last is None or not self.holds(loop.iter_args[position], assumed):
            return False
        return self.holds(last.operands[position], assumed)

    def _region_result(self, value: SSAValue, op: Operation, assumed: Assumed) -> bool:
        position = op.results.index(value)  # type: ignore[arg-type]
        if isinstance(op, scf.ForOp):
            argument = op.body.block.args[position + 1]
            return self._carried(op, position, assumed | {argument})
        ends = [region.block.last_op for region in op.regions if region.blocks]
        return len(ends) == 2 and all(
            end is not None and self.holds(end.operands[position], assumed) for end in ends
        )


def nonnegative_sum(polynomial: Polynomial) -> bool:
    """Whether a polynomial is >= 0 because all its parts are."""
    return all(
        coefficient > 0
        and all(leaf.signed is False or nonnegative(leaf.value) for leaf in monomial)
        for monomial, coefficient in polynomial.terms
    )
