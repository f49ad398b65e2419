"""Whether the lanes of an access have distinct addresses."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.passes.analysis.forms import LANE, Form


def have_distinct_lanes(form: Form, shape: Sequence[int]) -> bool:
    """Whether no two lanes of a tile of `shape` have one address; False where that is unknown.

    True for constant strides of which each exceeds the span of all smaller ones, as of a tile of an array.
    """
    strides: list[tuple[int, int]] = []
    for dim, extent in enumerate(shape):
        if extent == 1:
            continue
        atoms = form.terms.get(dim, {})
        stride = atoms[LANE].number if atoms.keys() == {LANE} else None
        if not stride:
            return False
        strides.append((abs(stride), extent))
    span = 0
    for stride, extent in sorted(strides):
        if stride <= span:
            return False
        span += stride * (extent - 1)
    return True
