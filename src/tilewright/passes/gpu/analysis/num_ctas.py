"""Warps of a program (`num_warps`), and CTAs that they are distributed over (`num_ctas`)."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation

from tilewright.ir.walk import ancestors

WARPS = "gpu.num_warps"
BLOCKS = "gpu.num_ctas"
CTAS_PER_SM = "gpu.ctas_per_sm"
"""On a function: CTAs that are to share an SM, which limits the registers of a thread."""


def num_ctas_of(op: Operation) -> int:
    """CTAs of the program that `op` is in, or is: the attribute `gpu.num_ctas`, 1 without it.

    They have equal numbers of warps and form a cluster. They share no shared memory, so what needs operands
    there (`wgmma`, copies) is for programs of one CTA.
    """
    return number_around(op, BLOCKS, 1)


def warps_of(op: Operation) -> int:
    """Warps of the program that `op` is in, or is: the attribute `gpu.num_warps`, 4 without it."""
    return number_around(op, WARPS, 4)


def number_around(op: Operation, name: str, default: int) -> int:
    """The integer attribute `name` of an operation, or else of the nearest one around it that has it."""
    for above in (op, *ancestors(op)):
        given = above.attributes.get(name)
        if isinstance(given, IntegerAttr):
            return given.value.data
    return default
