"""Launch grids: what users write, as a tuple of one to three extents."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from tilewright.errors import LaunchError

_FORMS = "give one to three integers: kernel[(x, y)](...), kernel[n](...), or a function of them"


def grid_extents(grid: Any) -> tuple[int, ...]:
    """A grid as a tuple of one to three ints. An extent of 0 launches nothing.

    `grid` is a tuple, a list or one integer (constexprs too); further extents must be 1.
    Raises LaunchError for anything else.
    """
    items = grid if isinstance(grid, (tuple, list)) else (grid,)
    if len(items) > 3 and all(_extent(item, grid) == 1 for item in items[3:]):
        items = items[:3]
    if not 1 <= len(items) <= 3:
        raise LaunchError(f"the grid {grid!r} has {len(items)} dimensions", help=_FORMS)
    extents = tuple(_extent(item, grid) for item in items)
    total = math.prod(extents)
    if total >= 1 << 62 or max(extents) >= 1 << 31:
        raise LaunchError(
            f"the grid {grid!r} has {total} programs, which is too many",
            help="an extent has less than 2^31 programs, because tl.program_id is int32",
        )
    return extents


def _extent(item: Any, grid: Any) -> int:
    if isinstance(item, float):
        raise LaunchError(
            f"the grid {grid!r} holds {item!r}, which is a float",
            help="use integer division: tilewright.cdiv(n, BLOCK)",
        )
    try:
        extent = operator.index(item)
    except TypeError:
        raise LaunchError(
            f"the grid {grid!r} holds a {type(item).__name__}, not an integer", help=_FORMS
        ) from None
    if extent < 0:
        raise LaunchError(f"the grid {grid!r} holds the negative extent {extent}", help=_FORMS)
    return extent


def program_of(number: int, grid: Sequence[int]) -> tuple[int, int, int]:
    """The coordinates of a program, of which native code knows the number."""
    x, y, *_ = (*grid, 1, 1)
    return (number % x, number // x % y, number // (x * y))
