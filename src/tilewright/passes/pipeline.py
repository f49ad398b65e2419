"""The passes that every target runs first, in order."""

from __future__ import annotations

import functools

from tilewright.passes.accumulate_dot import AccumulateDot
from tilewright.passes.base import Pass
from tilewright.passes.carry_offsets import CarryOffsets
from tilewright.passes.cse import Cse
from tilewright.passes.fold_reshape import FoldReshape
from tilewright.passes.fold_transpose import FoldTranspose
from tilewright.passes.licm import Licm
from tilewright.passes.normalize_loops import NormalizeLoops
from tilewright.passes.raise_access import RaiseAccess
from tilewright.passes.simplify import Simplify
from tilewright.passes.split_loop_bounds import SplitLoopBounds


@functools.cache
def shared_passes() -> tuple[Pass, ...]:
    """Tile IR as the front end writes it -> tile IR with structured accesses."""
    return (
        NormalizeLoops(),  # first: nothing else knows lower bounds and steps
        Simplify(),  # constants fold: analyses see literals
        Cse(),  # equal masks and offsets become one value
        SplitLoopBounds(),  # after cse, which makes equal conditions one; before others look at a loop's body
        AccumulateDot(),  # before raise-access, while `acc + dot(a, b)` is adjacent
        CarryOffsets(),  # before raise-access: pointers advanced in loops become affine
        RaiseAccess(),  # everything after it works on structured accesses
        FoldReshape(),  # after raise-access: shapes fold into views
        FoldTranspose(),  # likewise
        Simplify(),  # the address arithmetic that raise-access wrote
        Cse(),  # before licm: fewer operations to move
        Licm(),  # addresses leave loops
        Cse(),  # deduplicates operations hoisted out of different loops
    )
