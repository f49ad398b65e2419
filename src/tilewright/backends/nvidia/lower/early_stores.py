"""Emit each store as soon as it can be computed, in kernels that hold rows in registers.

A tile operation is emitted for all registers of a thread at a time: a program that stores what it computes from a row
computes all of it before the first store. `ptxas` keeps that order, as if no store could be issued earlier. All results
are then in registers at once, and DRAM has nothing to write meanwhile. Instructions without effects may pass stores: the
operands of each store are emitted depth first, right in front of it. A softmax of 262,144 bf16 columns (64 exponentials per
thread) needs 64 registers instead of 115, so that two CTAs of 512 threads share an SM. Loads stay where they are, and
kernels whose weights are loaded between stores have this order already (`read_only_loads`). Results do not change.
"""

from __future__ import annotations

from typing import Any

from llvmlite.ir.instructions import Instruction

from tilewright.backends.nvidia.lower import KernelCodegen
from tilewright.backends.nvidia.lower.instruction_order import depth_first, is_load, is_pure
from tilewright.backends.nvidia.lower.read_only_loads import is_store
from tilewright.passes.gpu.analysis.num_ctas import CTAS_PER_SM
from tilewright.passes.gpu.order_instructions import ORDER_INSTRUCTIONS


def store_early(gen: KernelCodegen) -> None:
    """Reorder what is between stores in a completely emitted kernel for which a pass has planned registers
    (`gpu.ctas_per_sm`)."""
    attributes = gen.source.attributes
    if gen.read_only or CTAS_PER_SM not in attributes or ORDER_INSTRUCTIONS not in attributes:
        return
    for block in gen.function.blocks:
        block.instructions[:] = [i for run in _runs(block) for i in _ordered(run)]


def _runs(block: Any) -> list[list[Instruction]]:
    """Split a block at loads and at instructions with effects other than stores."""
    found: list[list[Instruction]] = [[]]
    for instruction in block.instructions:
        if is_load(instruction) or not (is_store(instruction) or is_pure(instruction)):
            found += [[instruction], []]
        else:
            found[-1].append(instruction)
    return found


def _ordered(run: list[Instruction]) -> list[Instruction]:
    """Return a run with the operands of each store right in front of it, and the rest behind the last store."""
    ordered = depth_first(filter(is_store, run), set(run))
    return [*ordered, *(i for i in run if i not in ordered)]
