"""Check that offsets of pointers do not wrap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.errors import NumericalFault
from tilewright.interpreter.memory import AccessContext

WRAPPING = {"arith.addi": "+", "arith.subi": "-", "arith.muli": "*"}
_EXACT = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}
#: operations that pass an integer on
MOVING = frozenset((
    "tile.splat", "tile.broadcast", "tile.expand_dims", "tile.reshape", "tile.trans", "tile.hint",
    "tile.select", "arith.extsi",
))  # fmt: skip


def wrapped(
    context: AccessContext, name: str, operands: Sequence[Any], kind: Any, result: Any
) -> NumericalFault | None:
    """The fault of a sum, difference or product that does not fit its signed type, if any."""
    symbol = WRAPPING[name]
    a, b = (np.asarray(v) for v in operands)
    function = {"+": np.add, "-": np.subtract, "*": np.multiply}[symbol]
    near = function(a.astype(np.float64), b.astype(np.float64))
    limit = 2.0 ** (kind.scalar.primitive_bitwidth - 1)
    for row in np.argwhere(np.abs(near) >= limit * (1 - 1e-9)):
        at = tuple(int(i) for i in row)
        x, y = (int(np.broadcast_to(v, near.shape)[at]) for v in (a, b))
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


class WrappedOffsets:
    """Follows wrapped integers through sums, products and moves until they offset a pointer.

    Other arithmetic may wrap on purpose (hashes, random numbers).
    """

    def __init__(self, context: AccessContext) -> None:
        self.context = context
        self._known: dict[int, tuple[Any, NumericalFault]] = {}

    def new_program(self) -> None:
        """Forget the values of the preceding program."""
        self._known.clear()

    def look(
        self, name: str, operands: Sequence[Any], kinds: Any, results: Any, signed: bool
    ) -> None:
        """Follow one operation, whose integers are `signed`. Raises NumericalFault at an offset."""
        if name != "tile.addptr" and name not in WRAPPING and name not in MOVING:
            return
        fault = next((self._known[id(v)][1] for v in operands if id(v) in self._known), None)
        if name == "tile.addptr":
            if fault is not None:
                raise fault
            return
        if fault is None and signed and name in WRAPPING and kinds[0].is_int():
            fault = wrapped(self.context, name, operands, kinds[0], results[0])
        if fault is not None:
            self._known[id(results[0])] = results[0], fault
