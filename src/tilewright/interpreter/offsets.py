"""The check `overflow`: of address arithmetic in IR, and of integers on their way to a pointer in eager mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects import arith

from tilewright.dialects import tile
from tilewright.dialects.address_arithmetic import MOVING
from tilewright.errors import NumericalFault
from tilewright.interpreter.memory import AccessContext
from tilewright.interpreter.undefined import MarkedLanes, Performed

WRAPPING = {"arith.addi": "+", "arith.subi": "-", "arith.muli": "*", "arith.shli": "<<"}
_EXACT = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__, "<<": int.__lshift__}
_DIVIDING = {"arith.divsi": "//", "arith.remsi": "%"}
_PASSING = frozenset(
    op.name for op in (*MOVING, tile.SelectOp, arith.RemSIOp, arith.MinSIOp, arith.MaxSIOp)
)
"""Operations whose result has wrapped if an operand has."""


def wrapped(
    context: AccessContext, name: str, operands: Sequence[Any], kind: Any, result: Any
) -> NumericalFault | None:
    """The fault of a sum, difference or product that does not fit its signed type, if any."""
    symbol = WRAPPING[name]
    a, b = (np.asarray(v) for v in operands)
    function = {"+": np.add, "-": np.subtract, "*": np.multiply, "<<": _shifted}[symbol]
    near = function(a.astype(np.float64), b.astype(np.float64))
    limit = 2.0 ** (kind.scalar.primitive_bitwidth - 1)
    for row in np.argwhere(np.abs(near) >= limit * (1 - 1e-9)):
        at = tuple(int(i) for i in row)
        x, y = (int(np.broadcast_to(v, near.shape)[at]) for v in (a, b))
        if symbol == "<<" and not 0 <= y < kind.scalar.primitive_bitwidth:
            continue  # unspecified anyway
        exact = _EXACT[symbol](x, y)
        if -limit <= exact < limit:
            continue
        where = f", lane {list(at)}" if at else ""
        return NumericalFault(
            f"{x} {symbol} {y} = {exact} does not fit {kind.scalar} and wrapped to"
            f" {int(np.asarray(result)[at])} in program {context.program}{where}",
            help="compute offsets in int64: convert one operand with .to(tl.int64)",
            location=context.location,
        )
    return None


def _shifted(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a * np.exp2(np.clip(b, 0, 64))


def divided(context: AccessContext, name: str, operands: Sequence[Any]) -> NumericalFault | None:
    """The fault of a signed division or remainder whose divisor is not positive, if any."""
    a, b = np.broadcast_arrays(*(np.asarray(v) for v in operands))
    bad = np.argwhere(b <= 0)
    if not len(bad):
        return None
    at = tuple(int(i) for i in bad[0])
    where = f", lane {list(at)}" if at else ""
    return NumericalFault(
        f"{int(a[at])} {_DIVIDING[name]} {int(b[at])} forms an address, with a divisor that is not"
        f" positive, in program {context.program}{where}",
        help="divide by a positive number, or launch only the programs that have work",
        location=context.location,
    )


class WrappedOffsets(MarkedLanes):
    """Follows wrapped integers through sums, products and moves until they offset a pointer.

    Other arithmetic may wrap on purpose (hashes, random numbers).
    """

    def look(self, done: Performed) -> None:
        """Follow one operation. Raises NumericalFault at an offset."""
        name, _, kinds, operands, results = done
        if name != "tile.addptr" and name not in WRAPPING and name not in _PASSING:
            return
        fault = next((self._known[id(v)][1] for v in operands if id(v) in self._known), None)
        if name == "tile.addptr":
            if fault is not None:
                raise fault
            return
        signed = name in WRAPPING and kinds[0].is_int() and not kinds[0].scalar.is_int_unsigned()
        if fault is None and signed:
            fault = wrapped(self.context, name, operands, kinds[0], results[0])
        if fault is not None:
            self._known[id(results[0])] = results[0], fault
