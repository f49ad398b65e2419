"""The origin of NaNs and infinities: the first operation that made one of finite numbers.

Such a lane is reported when the kernel writes it to memory. Lanes that a mask or `tl.where` keeps
from being written may hold anything, and so do correct kernels' rows beyond the end of an array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tilewright.errors import NumericalFault, SourceLocation
from tilewright.interpreter.memory import AccessContext
from tilewright.interpreter.pointers import PointerValue
from tilewright.interpreter.undefined import MarkedLanes, Performed, enabled_lanes, followed

_WRITES = {"tile.store": "tl.store", "tile.atomic_rmw": "the atomic"}


class _Site(NamedTuple):
    """An operation that made numbers that are not finite: its inputs, its result, and where."""

    name: str
    inputs: list[np.ndarray]
    result: np.ndarray
    bad: np.ndarray
    location: SourceLocation | None


class NonfiniteLanes(MarkedLanes):
    """Follows such lanes through one launch; see `look`."""

    def __init__(self, context: AccessContext) -> None:
        super().__init__(context)
        self._sites: list[_Site | None] = [None]

    def new_program(self) -> None:
        """Forget the values of the preceding program."""
        super().new_program()
        del self._sites[1:]

    def look(self, done: Performed) -> None:
        """Follow one operation. Raises NumericalFault where such a lane is written."""
        name, _, kinds, operands, results = done
        sites = [self.of(v) for v in operands]
        if name in _WRITES:
            self._write(name, operands, sites[1])
            return
        if name == "tile.load" and sites[2] is not None:
            self.mark(results[0], np.where(enabled_lanes(*operands[:2]), 0, sites[2]))
        if name.startswith("tile.load"):
            return
        passed: Sequence[Any] = [None] * len(results)
        if any(s is not None for s in sites):
            passed = followed(done, sites)
        for result, kind, lanes in zip(results, kinds, passed, strict=False):
            if isinstance(result, PointerValue) or not kind.is_floating():
                continue
            if lanes is None or not lanes.any():
                lanes = self._begun(name, operands, result)
            if lanes is not None:
                self.mark(result, np.where(_bad(result), lanes, 0))

    def look_along(self, name: str, operands: Sequence[Any], results: Sequence[Any]) -> None:
        """Follow a reduction or scan."""
        found = [s for s in map(self.of, operands) if s is not None]
        whole = max((int(s.max()) for s in found), default=0)
        for result in results:
            if np.asarray(result).dtype.kind in "iub":
                continue
            lanes = np.int32(whole) if whole else self._begun(name, operands, result)
            if lanes is not None:
                self.mark(result, np.where(_bad(result), lanes, 0))

    def _begun(self, name: str, operands: Sequence[Any], result: Any) -> np.ndarray | None:
        """A new site where `result` has lanes that are not finite and all operands are."""
        bad = _bad(result)
        if not bad.any():
            return None
        inputs = [np.asarray(v) for v in operands if not isinstance(v, PointerValue | None)]
        floats = [_bad(v) for v in inputs if v.dtype.kind not in "iub"]
        if not floats:
            return None
        for given in floats:  # what is not finite from the start is not the kernel's doing
            bad = bad & ~(given if given.shape in ((), bad.shape) else given.any())
        if not bad.any():
            return None
        result = np.asarray(result).astype(np.float64)
        self._sites.append(_Site(name, inputs, result, bad, self.context.location))
        return np.where(bad, len(self._sites) - 1, 0).astype(np.int32)

    def _write(self, name: str, operands: Sequence[Any], sites: np.ndarray | None) -> None:
        if sites is None:
            return
        written = np.where(enabled_lanes(operands[0], operands[2]), sites, 0)
        if not written.any():
            return
        lane = tuple(int(i) for i in np.argwhere(written)[0])
        site = self._sites[int(written[lane])]
        if site is None:
            return
        at = lane
        if len(at) != site.bad.ndim or not np.all(np.less(at, site.bad.shape)) or not site.bad[at]:
            at = tuple(int(i) for i in np.argwhere(site.bad)[0])
        raise NumericalFault(
            f"the first {'NaN' if np.isnan(site.result[at]) else 'infinity'}: {site.name} of"
            f" {', '.join(_shown(v, at) for v in site.inputs)} in program {self.context.program}"
            + (f", lane {list(at)} ({int(site.bad.sum())} lanes in all)" if at else "")
            + f"; {_WRITES[name]} at {self.context.location} writes what comes of it",
            help="the operands are finite; look for 0/0, log of 0, or values too large for the type",
            location=site.location,
        )


def _bad(value: Any) -> np.ndarray:
    return ~np.isfinite(np.asarray(value).astype(np.float64))


def _shown(array: np.ndarray, at: tuple[int, ...]) -> str:
    return str(array[at] if array.ndim == len(at) else array[()] if not array.ndim else "…")
