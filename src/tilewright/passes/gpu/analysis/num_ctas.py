"""Number of CTAs that the warps of a program are distributed over (`num_ctas`)."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation

from tilewright.ir.walk import ancestors

BLOCKS = "gpu.num_ctas"
CTAS_PER_SM = "gpu.ctas_per_sm"
"""On a function: CTAs that are to share an SM, which limits the registers of a thread."""


def num_ctas_of(op: Operation) -> int:
    """CTAs of the program that `op` is in, or is: the attribute `gpu.num_ctas`, 1 without it.

    They have equal numbers of warps and form a cluster. They share no shared memory, so what needs operands
    there (`wgmma`, copies) is for programs of one CTA.
    """
    for above in (op, *ancestors(op)):
        given = above.attributes.get(BLOCKS)
        if isinstance(given, IntegerAttr):
            return given.value.data
    return 1
