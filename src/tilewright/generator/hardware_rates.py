"""Rates of machines that the cost model of matmuls reads: those of GPUs are in `targets`, CPUs' follow from their features."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.errors import UnsupportedTarget
from tilewright.targets import GpuRates, TargetInfo

#: bytes of a line of the caches
LINE = 128
#: bytes a cycle that an SM gets of boxes whose rows begin inside of lines, at multiples of so many bytes:
#: each row is then on two lines. Measured on an H200
_INSIDE_LINES = {16: 36.0, 32: 43.0, 64: 51.0}


def from_l2(start: int, rates: GpuRates) -> float:
    """Bytes a cycle that an SM gets from L2 of boxes whose rows begin at multiples of so many bytes."""
    return min(rates.l2_bytes_per_cycle, _INSIDE_LINES.get(start, rates.l2_bytes_per_cycle))


def gpu_rates(target: TargetInfo) -> GpuRates:
    """Rates of a GPU target. Raises UnsupportedTarget for one that has none."""
    if target.rates is None:
        raise UnsupportedTarget(f"there are no figures for {target.name}")
    return target.rates


def tensor_macs(rates: GpuRates, element: str) -> float:
    """Multiply-adds per SM and cycle on tensor cores; 0 where they do not take `element`.

    `element`: "fp16", "bf16", "tf32", "fp8e4nv", "fp8e5", "i8", "u8".
    """
    return rates.tensor_macs * rates.tensor_share * dict(rates.element_rates).get(element, 0.0)


@dataclass(frozen=True)
class CpuRates:
    """What one core does in a nanosecond."""

    macs_per_ns: float
    """Multiply-adds of the element type in registers."""
    pack_bytes_per_ns: float = 12.0
    """Packing operands for all programs: read, rearranged, written to memory and read again."""
    program_pack_bytes_per_ns: float = 40.0
    """A program packing a step's operands for itself, into its second level cache."""
    l1_pack_bytes_per_ns: float = 72.0
    """The same where the panels stay in the first."""
    cache_bytes_per_ns: float = 60.0
    """From and to the second level cache."""
    memory_bytes_per_ns: float = 8.0
    """From memory, all cores reading: a core's share."""
    register_bytes_per_ns: float = 160.0
    """From the second level cache to registers, in long runs."""
    wake_ns: float = 5_000.0
    """Starting a launch on several cores."""
    launch_ns: float = 1_500.0
    program_ns: float = 200.0
    """A program's beginning and end."""
    matrix_unit: bool = False
    """Products are made by a unit with tiles of its own (AMX)."""


#: assumed clock: what a server core holds with wide vectors
_CPU_GHZ = 3.0


def cpu_rates(target: TargetInfo, element: str) -> CpuRates:
    """Rates of a CPU target for an element type ("fp32", "fp64", "fp16", "bf16", "i8" …).

    Two vector multiply-adds a cycle; narrower elements are widened to 32 bits unless the machine has
    instructions for them.
    """
    bits = 64 if element in ("fp64", "i64") else 32
    lanes = target.vector_bits // bits
    tiles = 16.0 if target.has("amx-tile") and element in ("bf16", "i8", "u8") else 1.0
    pairs = 2.0 if element == "bf16" and target.has("avx512bf16") else 1.0
    fours = 4.0 if element in ("i8", "u8") and target.has("avx512vnni") else 1.0
    macs = 2 * lanes * _CPU_GHZ * max(tiles, pairs, fours)
    return CpuRates(macs, matrix_unit=tiles > 1)
