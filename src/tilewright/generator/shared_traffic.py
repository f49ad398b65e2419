"""What products of warpgroups read of shared memory, by how their operands lie in memory."""

from __future__ import annotations

import functools

from tilewright.layouts.fragments import WgmmaInstruction
from tilewright.layouts.wgmma_partition import partition_wgmma
from tilewright.passes.gpu.analysis.registers import max_registers_per_thread

#: weight of what threads read and write to turn a tile: tf32, int8 and e4m3 at 4096 took 1.33, 1.27 and 1.25
#: times as long with a row-major B on an H200
_TURNING = 1.5


def read_by_groups(
    element: str, size: int, across: str, block_m: int, block_n: int, warps: int
) -> float:
    """Lines of 32 bytes that a tile's products take from shared memory for 32 bytes of K, with what it
    takes to have both operands along k.

    `across`: the operands ("a", "b", both or neither) that lie across k in memory; those of 16 bits
    (`size` 2) are multiplied as they lie.
    """
    extents = {"a": block_m, "b": block_n}
    through = through_registers(element, across, block_m, block_n, warps)
    turned = sum(2 * _TURNING * extents[x] for x in across if x != through and size != 2)
    if through:
        rows, columns = extents[through], block_m * block_n // extents[through]
        again = max(1, warps // 4 // (rows // 64))  # groups that share the columns out
        return rows // 64 * columns + rows * again + turned
    # narrow products wait for the left operand
    left = 64 * (max(2.0, 4.0 - block_n / 64) if block_n >= 64 else 2.0)
    return block_m // 64 * (left + max(16, block_n)) + turned


@functools.cache
def through_registers(element: str, across: str, block_m: int, block_n: int, warps: int) -> str:
    """The operand, "a" or "b", that passes through registers instead of being turned in shared memory
    (the pass `select-wgmma-rs`); "" for none."""
    if element != "tf32":
        return ""
    larger = "ab" if block_m >= block_n else "ba"
    for operand in larger if across == "ab" else across:
        instruction = WgmmaInstruction(8, "tf32", "tf32", operand)
        found = partition_wgmma(instruction, block_m, block_n, warps)
        if found is not None and found.k_steps_per_batch(max_registers_per_thread(warps)):
            return operand
    return ""
