"""Two checks of arithmetic: the first NaN or infinity, and offsets that wrap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.errors import NumericalFault
from tilewright.interpreter.memory import AccessContext, Checks
from tilewright.interpreter.pointers import PointerValue

WRAPPING = {"arith.addi": "+", "arith.subi": "-", "arith.muli": "*"}
_EXACT = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}


class NumericChecks:
    """Looks at the results of operations, as far as `checks` asks for it."""

    def __init__(self, context: AccessContext, checks: Checks) -> None:
        self.context = context
        self.nonfinite, self.overflow = checks.nonfinite, checks.overflow

    @property
    def on(self) -> bool:
        return self.nonfinite or self.overflow

    def look(
        self, name: str, operands: Sequence[Any], kinds: Any, results: Any, signed: bool = True
    ) -> None:
        """Check one operation's results, of language types `kinds`.

        `signed`: whether its integers are meant as signed ones, which wrap by mistake only. Raises
        NumericalFault.
        """
        for kind, result in zip(kinds, results, strict=True):
            if isinstance(result, PointerValue):
                continue
            if self.nonfinite and kind.is_floating() and not name.startswith("tile.load"):
                self._look_finite(name, operands, result)
            if self.overflow and signed and name in WRAPPING and kind.is_int():
                self._look_wrapped(name, operands, kind, result)

    def _look_finite(self, name: str, operands: Sequence[Any], result: Any) -> None:
        wide = np.asarray(result).astype(np.float64)
        bad = ~np.isfinite(wide)
        if not bad.any():
            return
        given = [v for v in operands if v is not None and not isinstance(v, PointerValue)]
        inputs = [np.asarray(v) for v in given]
        floats = [v.astype(np.float64) for v in inputs if v.dtype.kind not in "iub"]
        if not floats or not all(np.isfinite(v).all() for v in floats):
            return
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        raise NumericalFault(
            f"the first {'NaN' if np.isnan(wide[at]) else 'infinity'}: {name} of"
            f" {', '.join(_shown(v, at) for v in inputs)} in program {self.context.program}"
            + (f", lane {list(at)} ({int(bad.sum())} lanes in all)" if at else ""),
            help="the operands are finite; look for 0/0, log of 0, or values too large for the type",
            location=self.context.location,
        )

    def _look_wrapped(self, name: str, operands: Sequence[Any], kind: Any, result: Any) -> None:
        symbol = WRAPPING[name]
        a, b = (np.asarray(v) for v in operands)
        function = {"+": np.add, "-": np.subtract, "*": np.multiply}[symbol]
        near = function(a.astype(np.float64), b.astype(np.float64))
        limit = 2.0 ** (kind.scalar.primitive_bitwidth - 1)
        suspects = np.argwhere(np.abs(near) >= limit * (1 - 1e-9))
        for row in suspects:
            at = tuple(int(i) for i in row)
            x, y = (int(np.broadcast_to(v, near.shape)[at]) for v in (a, b))
            exact = _EXACT[symbol](x, y)
            if -limit <= exact < limit:
                continue
            where = f", lane {list(at)}" if at else ""
            raise NumericalFault(
                f"{x} {symbol} {y} = {exact} does not fit {kind.scalar} and wrapped to"
                f" {int(np.asarray(result)[at])} in program {self.context.program}{where}",
                help="compute offsets in int64: convert one operand with .to(tl.int64)",
                location=self.context.location,
            )


def _shown(array: np.ndarray, at: tuple[int, ...]) -> str:
    return str(array[at] if array.ndim == len(at) else array[()] if not array.ndim else "…")
