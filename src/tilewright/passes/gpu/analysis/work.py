"""How much code operations on tiles become, roughly."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from xdsl.ir import Operation

from tilewright.dialects import tile
from tilewright.passes.analysis.effects import is_lane_wise

_MANY = {
    "arith.divf": 4, "arith.divsi": 20, "arith.divui": 20, "arith.remsi": 20, "arith.remui": 20,
    "math.sin": 40, "math.cos": 40, "math.tan": 60, "math.powf": 60, "math.erf": 20,
    "tile.libm": 40, "tile.remf": 20, "tile.gate": 7,
}  # fmt: skip
"""Operations that take many instructions an element."""


def instructions_of_an_element(ops: Iterable[Operation]) -> int:
    """About how many instructions one element of the tiles takes that `ops` compute lane by lane."""
    return sum(_MANY.get(op.name, 1) for op in ops if is_on_tiles(op))


def instructions(ops: Iterable[Operation], threads: int) -> int:
    """About how many instructions a thread's code has for what `ops` compute lane by lane."""
    total = 0
    for op in ops:
        if is_on_tiles(op):
            elements = prod(tile.shape_of(op.results[0]))
            total += -(-elements // threads) * _MANY.get(op.name, 1)
    return total


def is_on_tiles(op: Operation) -> bool:
    """Whether an operation makes a tile lane by lane."""
    return bool(op.results) and is_lane_wise(op) and tile.is_tile(op.results[0])
