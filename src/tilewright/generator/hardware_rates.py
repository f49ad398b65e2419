"""Rates of machines that the analytical model of products reckons with.

GPU figures are per SM and clock cycle, from NVIDIA's architecture whitepapers (A100, GA102,
AD102, H100) and the tuning guides; bandwidths are what well-made kernels reach, about 0.85 of the
data sheets'. Clocks are those that a chip holds in bursts of load. What is not in data sheets (how well parts
overlap, beginnings and ends of programs) was fitted to 170 measured products on an H200 and is taken over for
the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tilewright.errors import UnsupportedTarget


class Machine(Protocol):
    """What of `backends.base.TargetInfo` the model depends on."""

    @property
    def name(self) -> str: ...
    @property
    def vector_bits(self) -> int: ...
    @property
    def cores(self) -> int: ...
    @property
    def l1_bytes(self) -> int: ...
    @property
    def l2_bytes(self) -> int: ...
    @property
    def shared_bytes(self) -> int: ...
    @property
    def max_registers(self) -> int: ...
    def has(self, *features: str) -> bool: ...


@dataclass(frozen=True)
class GpuRates:
    """What a chip does in a cycle of its clock, and between its memories."""

    clock_ghz: float
    tensor_clock_ghz: float
    """With tensor cores at work, which takes power from the clock."""
    tensor_macs: int
    """Multiply-adds of 16-bit elements per SM and cycle on tensor cores."""
    plain_macs: int
    """Single precision multiply-adds per SM and cycle without them."""
    double_macs: int
    """Double precision multiply-adds (on tensor cores where those take doubles)."""
    l2_bytes_per_cycle: float
    """From the second level cache to one SM, all of them reading (many read the same)."""
    dram_bytes_per_ns: float
    shared_bytes_per_cycle: int
    shared_total: int
    """Shared memory of an SM, of which programs on it share."""
    tensor_share: float
    """How much of the tensor cores' rate good code reaches: warp-group products nearly all of it."""
    launch_ns: float = 590.0
    """Between one launch and the next of a stream."""
    fill_ns: float = 1030.0
    """From a program's start to its first product: barriers, first copies."""
    store_bytes_per_cycle: float = 18.0
    """From registers of one SM to memory at the end of a program."""
    single_warpgroup_stall_cycles: float = 54.0
    """What a stage costs where no second group of warps covers the waiting of the first."""
    second_launch_ns: float = 950.0


_GPUS = {
    "sm_80": GpuRates(1.41, 1.35, 1024, 64, 64, 64.0, 1300.0, 128, 164 << 10, 0.85),
    "sm_86": GpuRates(1.80, 1.70, 512, 128, 2, 64.0, 800.0, 128, 100 << 10, 0.80),
    "sm_89": GpuRates(2.50, 2.30, 512, 128, 2, 64.0, 850.0, 128, 100 << 10, 0.80),
    "sm_90a": GpuRates(1.94, 1.75, 2048, 128, 128, 139.0, 4300.0, 128, 228 << 10, 1.0),
}
#: rate of an element type on tensor cores against 16-bit elements
_TENSOR_SHARES = {
    "fp16": 1.0, "bf16": 1.0, "tf32": 0.5, "i8": 2.0, "u8": 2.0, "fp8e4nv": 2.0, "fp8e5": 2.0,
}  # fmt: skip


#: bytes of the second level cache
L2_BYTES = {"sm_80": 40 << 20, "sm_86": 6 << 20, "sm_89": 72 << 20, "sm_90a": 50 << 20}
#: bytes of a line of the caches
LINE = 128
#: bytes a cycle that an SM gets of boxes whose rows begin inside of lines, at multiples of so many bytes:
#: each row is then on two lines. Measured on an H200
_INSIDE_LINES = {16: 32.0, 32: 41.0, 64: 50.0}


def from_l2(start: int, rates: GpuRates) -> float:
    """Bytes a cycle that an SM gets from L2 of boxes whose rows begin at multiples of so many bytes."""
    return min(rates.l2_bytes_per_cycle, _INSIDE_LINES.get(start, rates.l2_bytes_per_cycle))


def gpu_rates(target: Machine) -> GpuRates:
    """Rates of a GPU target. Raises UnsupportedTarget for one that is not known."""
    if target.name not in _GPUS:
        raise UnsupportedTarget(f"there are no figures for {target.name}")
    return _GPUS[target.name]


def tensor_macs(rates: GpuRates, target: Machine, element: str) -> float:
    """Multiply-adds per SM and cycle on tensor cores; 0 where they do not take `element`.

    `element`: "fp16", "bf16", "tf32", "fp8e4nv", "fp8e5", "i8", "u8".
    """
    if element.startswith("fp8") and target.name in ("sm_80", "sm_86"):
        return rates.tensor_macs * rates.tensor_share  # widened to fp16 on the way in
    return rates.tensor_macs * rates.tensor_share * _TENSOR_SHARES.get(element, 0.0)


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


def cpu_rates(target: Machine, element: str) -> CpuRates:
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
