"""Reductions and scans along an axis, and the checks that follow lanes through operations.

Shared by the interpreter of the IR and by eager mode, which differ in what a combine function is: a region or a Python
function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.interpreter.memory import AccessContext, Checks
from tilewright.interpreter.nonfinite import NonfiniteLanes
from tilewright.interpreter.undefined import Performed, UndefinedLanes

Combine = Callable[..., Sequence[Any]]
"""The values of two operands, the left ones first → the combined values."""


def along_axis(
    name: str, operands: Sequence[Any], axis: int, reverse: bool, combine: Combine
) -> list[Any]:
    """The results of `tile.reduce` or `tile.scan` (`name`). `combine` runs on whole slices at a time; if it branches on
    one (`if a > b:`), it runs lane by lane instead."""
    arrays = [np.moveaxis(np.asarray(v), axis, 0) for v in operands]
    if reverse:
        arrays = [a[::-1] for a in arrays]
    step = _reduced if name == "tile.reduce" else _scanned
    try:
        results = step(arrays, combine)
    except ValueError:  # the truth of an array
        results = step(arrays, _lane_by_lane(combine))
    if name == "tile.reduce":
        return [a[()] for a in results]
    return [np.moveaxis(a[::-1] if reverse else a, 0, axis) for a in results]


def _reduced(arrays: list[np.ndarray], combine: Combine) -> list[np.ndarray]:
    """Fold axis 0 with `combine`, neighbors first, keeping their order."""
    while (count := arrays[0].shape[0]) > 1:
        joined = _combined(
            combine, [a[0 : count - 1 : 2] for a in arrays], [a[1:count:2] for a in arrays]
        )
        if count % 2:
            joined = [np.concatenate([j, a[-1:]]) for j, a in zip(joined, arrays, strict=True)]
        arrays = joined
    return [a[0] for a in arrays]


def _scanned(arrays: list[np.ndarray], combine: Combine) -> list[np.ndarray]:
    """Inclusive scan along axis 0, in steps of 1, 2, 4, …"""
    count, distance = arrays[0].shape[0], 1
    while distance < count:
        joined = _combined(combine, [a[:-distance] for a in arrays], [a[distance:] for a in arrays])
        arrays = [np.concatenate([a[:distance], j]) for a, j in zip(arrays, joined, strict=True)]
        distance *= 2
    return arrays


def _combined(
    combine: Combine, left: list[np.ndarray], right: list[np.ndarray]
) -> list[np.ndarray]:
    results = combine(*left, *right)
    return [np.broadcast_to(np.asarray(r), a.shape) for r, a in zip(results, left, strict=True)]


def _lane_by_lane(combine: Combine) -> Combine:
    """`combine` of arrays, called with scalars."""

    def each(*values: np.ndarray) -> list[np.ndarray]:
        outs = [np.empty(v.shape, v.dtype) for v in values[: len(values) // 2]]
        for at in np.ndindex(*values[0].shape):
            for out, value in zip(outs, combine(*(v[at] for v in values)), strict=True):
                out[at] = value
        return outs

    return each


class FollowedLanes:
    """The checks that follow undefined and nonfinite lanes, as far as they are on."""

    def __init__(self, context: AccessContext, checks: Checks) -> None:
        self.undefined = UndefinedLanes(context) if checks.undefined else None
        self.nonfinite = NonfiniteLanes(context) if checks.nonfinite else None
        self._followed = [x for x in (self.undefined, self.nonfinite) if x is not None]

    def new_program(self) -> None:
        """Forget the values of the preceding program."""
        for followed in self._followed:
            followed.new_program()

    def look(self, done: Performed) -> None:
        """Follow one operation."""
        for followed in self._followed:
            followed.look(done)

    def look_along(
        self, name: str, operands: Sequence[Any], results: Sequence[Any], axis: int, reverse: bool
    ) -> None:
        """Follow a reduction or scan."""
        if self.undefined is not None:
            self.undefined.look_along(operands, results, axis, name == "tile.scan", reverse)
        if self.nonfinite is not None:
            self.nonfinite.look_along(name, operands, results)

    def decides(self, value: Any) -> Any:
        """`value`, which control flow depends on."""
        if self.undefined is not None:
            self.undefined.need(value, "a branch")
        return value
