"""The passes that every target runs first, in order."""

from __future__ import annotations

from tilewright.passes.base import Pass


def shared_passes() -> tuple[Pass, ...]:
    """Tile IR as the front end writes it -> tile IR with structured accesses."""
    from tilewright.passes.accumulate_dot import AccumulateDot
    from tilewright.passes.carry_offsets import CarryOffsets
    from tilewright.passes.cse import Cse
    from tilewright.passes.licm import Licm
    from tilewright.passes.normalize_loops import NormalizeLoops
    from tilewright.passes.raise_access import RaiseAccess

    return (
        NormalizeLoops(),  # first: nothing else knows lower bounds and steps
        Cse(),
        AccumulateDot(),
        CarryOffsets(),  # before raise-access: pointers advanced in loops become affine
        RaiseAccess(),
        Cse(),
        Licm(),
        Cse(),
    )
