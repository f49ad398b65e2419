"""Inputs of the matmul cost model: rates of machines, candidate tiles of GPUs, and shared-memory traffic of `wgmma`.

Rates of GPUs are in `targets`; those of CPUs follow from their features.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from itertools import product

from tilewright.errors import UnsupportedTarget
from tilewright.layouts.fragments import WgmmaInstruction
from tilewright.layouts.wgmma_partition import partition_wgmma
from tilewright.passes.gpu.analysis.registers import max_registers_per_thread
from tilewright.targets import GpuRates, TargetInfo

#: bytes per cache line
LINE = 128
#: bytes per cycle and SM of TMA loads whose rows start inside a cache line, by row alignment in bytes: each row then
#: touches two lines. Fitted to matmuls with K = 4104 (H100)
_INSIDE_LINES = {16: 28.0, 32: 36.0, 64: 46.0}


def from_l2(start: int, rates: GpuRates) -> float:
    """L2 bandwidth of TMA loads in bytes per cycle and SM, by the alignment of rows in bytes."""
    return min(rates.l2_bytes_per_cycle, _INSIDE_LINES.get(start, rates.l2_bytes_per_cycle))


def gpu_rates(target: TargetInfo) -> GpuRates:
    """Rates of a GPU target. Raises UnsupportedTarget if they are unknown."""
    if target.rates is None:
        raise UnsupportedTarget(f"there are no figures for {target.name}")
    return target.rates


def tensor_macs(rates: GpuRates, element: str) -> float:
    """Multiply-adds per SM and cycle on tensor cores; 0 if they do not support `element`.

    `element`: "fp16", "bf16", "tf32", "fp8e4nv", "fp8e5", "i8", "u8".
    """
    return rates.tensor_macs * rates.tensor_share * dict(rates.element_rates).get(element, 0.0)


@dataclass(frozen=True)
class CpuRates:
    """Rates of one core, per nanosecond."""

    macs_per_ns: float
    """Multiply-adds of the element type in registers."""
    pack_bytes_per_ns: float = 12.0
    """Prepacking in bytes: read, reordered, written to memory and read again."""
    program_pack_bytes_per_ns: float = 40.0
    """Packing of a step's operands by each program, into L2, in bytes."""
    l1_pack_bytes_per_ns: float = 72.0
    """The same if the panels stay in L1."""
    cache_bytes_per_ns: float = 60.0
    """L2 bandwidth in bytes."""
    memory_bytes_per_ns: float = 8.0
    """DRAM bandwidth in bytes: one core's share while all cores read."""
    register_bytes_per_ns: float = 160.0
    """L2 to registers in bytes, in long runs."""
    wake_ns: float = 5_000.0
    """Launch overhead on several cores, in nanoseconds."""
    launch_ns: float = 1_500.0
    program_ns: float = 200.0
    """Prologue and epilogue of a program, in nanoseconds."""
    matrix_unit: bool = False
    """Whether a matrix unit with tile registers (AMX) multiplies."""


#: assumed clock of a server core with wide vectors
_CPU_GHZ = 3.0


def cpu_rates(target: TargetInfo, element: str) -> CpuRates:
    """Rates of a CPU target for an element type ("fp32", "fp64", "fp16", "bf16", "i8" …).

    Two vector FMAs per cycle; narrower elements are widened to 32 bits unless the machine has
    instructions for them.
    """
    bits = 64 if element in ("fp64", "i64") else 32
    lanes = target.vector_bits // bits
    tiles = 16.0 if target.has("amx-tile") and element in ("bf16", "i8", "u8") else 1.0
    pairs = 2.0 if element == "bf16" and target.has("avx512bf16") else 1.0
    fours = 4.0 if element in ("i8", "u8") and target.has("avx512vnni") else 1.0
    macs = 2 * lanes * _CPU_GHZ * max(tiles, pairs, fours)
    return CpuRates(macs, matrix_unit=tiles > 1)


#: tiles of `wgmma`
WARP_GROUP_TILES = (
    (128, 256, 8), (256, 128, 8), (192, 192, 12), (128, 192, 8), (192, 128, 12), (128, 128, 8),
    (192, 96, 12), (128, 96, 8), (64, 256, 4), (64, 192, 4), (128, 64, 8), (64, 128, 4), (64, 96, 4),
    (64, 64, 4), (128, 32, 8), (64, 32, 4), (128, 16, 8), (64, 16, 4), (64, 8, 4),
)  # fmt: skip
#: tiles of 16-bit elements, with the measured step time relative to the estimate (H200); those of 256 rows also of
#: K-major 8-bit elements
WIDE_TILES = {
    (192, 256, 12): 1.0, (256, 192, 8): 1.01, (192, 224, 12): 1.04, (128, 224, 8): 1.07,
    (256, 176, 8): 1.02, (256, 160, 8): 1.05,
}  # fmt: skip
#: the same with multicast: 4099 and 8191 x 6144 x 4104 took 317 and 621 µs in tiles of 192 x 256, 320 and 590 in 256 x 176,
#: 303 and 605 in 256 x 160, 338 and 587 in 128 x 256 (H100)
CLUSTER_TILES = {(192, 256): 1.1, (256, 176): 1.04}
#: tiles with 16-bit accumulators
HALF_TILES = ((256, 256, 8), (256, 192, 8))
_NARROW_TILES = (
    (32, 128, 4), (128, 32, 4), (32, 64, 4), (64, 32, 4), (32, 32, 4), (16, 128, 4), (128, 16, 4),
    (16, 64, 2), (64, 16, 2), (16, 32, 1), (32, 16, 1), (16, 16, 1),
)  # fmt: skip
#: tiles of FMAs, which keep the accumulator in registers
PLAIN_TILES = ((128, 128, 8), (128, 64, 8), (64, 128, 8), (64, 64, 4), *_NARROW_TILES)
#: tiles of `mma.sync`
WARP_TILES = ((128, 256, 8), (256, 128, 8), (128, 128, 4), (64, 256, 4), (256, 64, 4), *PLAIN_TILES)


#: rows and warps of tiles whose columns are chosen to fit n
_FITTED = ((64, 4), (128, 8), (192, 12), (256, 8))


def fitted_tiles(n: int, narrow: bool = False) -> list[tuple[int, int, int]]:
    """Tiles of which one to four cover n columns with a small remainder; `narrow`: also one of less than 64 columns."""
    found = []
    if narrow and n < 56:
        found += [(m, -(-n // 8) * 8, warps) for m, warps in _FITTED[:2]]
    for parts, unit in product(range(1, 5), (16, 8)):
        width = -(-n // (unit * parts)) * unit
        if 64 <= width <= 256:
            found += [(m, width, warps) for m, warps in _FITTED if m * width <= 256 * 192]
    return found


#: weight of a transpose's shared-memory reads and writes: tf32, int8 and e4m3 at 4096 took 1.33, 1.27 and 1.25 times as
#: long with a row-major B (H200)
_TRANSPOSE_COST = 1.5


def wgmma_shared_traffic(
    element: str, size: int, mn_major: str, block_m: int, block_n: int, warps: int
) -> float:
    """Shared-memory traffic of a tile's `wgmma`s in 32-byte rows per 32 bytes of K, including transposes to K-major.

    `mn_major`: the MN-major operands ("a", "b", both or neither). 16-bit operands (`size` 2) need no transpose.
    """
    extents = {"a": block_m, "b": block_n}
    in_registers = register_operand(element, mn_major, block_m, block_n, warps)
    transposed = sum(
        2 * _TRANSPOSE_COST * extents[x] for x in mn_major if x != in_registers and size != 2
    )
    if in_registers:
        rows, columns = extents[in_registers], block_m * block_n // extents[in_registers]
        again = max(1, warps // 4 // (rows // 64))  # groups that share the columns out
        return rows // 64 * columns + rows * again + transposed
    # narrow MMAs wait for the left operand
    left = 64 * (max(2.0, 4.0 - block_n / 64) if block_n >= 64 else 2.0)
    return block_m // 64 * (left + max(16, block_n)) + transposed


@functools.cache
def register_operand(element: str, mn_major: str, block_m: int, block_n: int, warps: int) -> str:
    """The MN-major operand, "a" or "b", that is read from registers (RS) instead of being transposed in shared memory
    (`select-wgmma-rs`); "" for none."""
    if element != "tf32":
        return ""
    larger = "ab" if block_m >= block_n else "ba"
    for operand in larger if mn_major == "ab" else mn_major:
        instruction = WgmmaInstruction(8, "tf32", "tf32", operand)
        found = partition_wgmma(instruction, block_m, block_n, warps)
        if found is not None and found.k_steps_per_batch(max_registers_per_thread(warps)):
            return operand
    return ""
