"""`TargetInfo`: everything that passes, code generation and the cost model know of a machine."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import cached_property

from tilewright.targets.instructions import MmaInstruction


class Feature(StrEnum):
    """What a GPU can do that not all can. CPU features are LLVM's names of them, "avx512f"."""

    TMA = "tma"
    """Tensor memory accelerator: `cp.async.bulk.tensor`, and mbarriers that count its bytes."""
    MULTICAST = "multicast"
    """TMA loads that arrive in several CTAs of a cluster."""
    CLUSTERS = "clusters"
    """Clusters of more than one CTA, distributed shared memory."""
    STMATRIX = "stmatrix"
    REGISTER_REALLOCATION = "setmaxnreg"
    """Warps hand registers to each other (`setmaxnreg`)."""
    PROGRAMMATIC_LAUNCH = "griddepcontrol"
    """A launch may begin before the one ahead of it has ended."""
    VECTOR_ATOMICS = "red.vector"
    """`red` adds vectors of floats of up to 16 bytes, and bf16."""
    FLOAT8_CONVERSIONS = "cvt.float8"
    """`cvt` rounds to 8-bit floats."""


@dataclass(frozen=True)
class SmLimits:
    """What an SM has for the CTAs on it (CUDA C++ programming guide, "Compute capabilities")."""

    max_threads: int = 0
    max_ctas: int = 0
    shared_bytes: int = 0
    """Shared memory of all CTAs together."""
    reserved_shared_bytes: int = 1 << 10
    """What the system takes of it for each CTA."""
    max_cluster: int = 8
    """CTAs of a cluster that every chip with clusters can place (the portable size)."""


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
    tensor_share: float
    """How much of the tensor cores' rate good code reaches: `wgmma` nearly all of it."""
    shared_bytes_per_cycle: int = 128
    element_rates: tuple[tuple[str, float], ...] = ()
    """Rate of an element type on tensor cores against 16-bit elements; one that is missing has none."""
    half_accumulator_rate: float = 1.0
    """Rate with fp16 accumulators against fp32."""
    launch_ns: float = 590.0
    """Between one launch and the next of a stream."""
    fill_ns: float = 1030.0
    """From a program's start to its first MMA: barriers, first copies."""
    store_bytes_per_cycle: float = 18.0
    """From registers of one SM to memory at the end of a program."""
    single_warpgroup_stall_cycles: float = 54.0
    """What a stage costs where no second warpgroup covers the waiting of the first."""
    second_launch_ns: float = 5000.0
    """What adding up the parts of K costs beside its memory traffic: a second launch, with cold caches (1 µs in a
    CUDA graph whose kernels find everything in L2)."""


@dataclass(frozen=True)
class TargetInfo:
    """Facts about a machine that passes, code generation and the cost model read."""

    name: str
    """"cpu" or "sm_90a"…: for people, tools and tables, never to be compared with."""
    triple: str = ""
    cpu: str = ""
    features: tuple[str, ...] = ()
    """CPU features present, e.g. "avx512f", without signs; members of `Feature` for GPUs."""
    vector_bits: int = 128
    """Width of the vector registers used."""
    vector_registers: int = 16
    cores: int = 1
    """Threads that launches use, SMs of a GPU; code is the same for any number."""
    l1_bytes: int = 32 << 10
    l2_bytes: int = 1 << 20
    shared_bytes: int = 0
    """Most shared memory that a program may ask for."""
    max_registers: int = 0
    """Most 32-bit registers of a thread."""
    family: str = "cpu"
    """The back end that makes code for it: "cpu", "nvidia"."""
    capability: int = 0
    """Compute capability of an NVIDIA GPU, 10 · major + minor."""
    isa: str = ""
    """Version of the virtual instruction set that is emitted, as LLVM names it ("ptx86")."""
    sm: SmLimits = SmLimits()
    mma: tuple[MmaInstruction, ...] = ()
    """Instructions that multiply matrices, the preferred ones first."""
    rates: GpuRates | None = None
    """For the cost model; None where it has others (CPUs)."""

    def has(self, *features: str) -> bool:
        """Whether the machine has all of `features`."""
        return all(f in self.features for f in features)

    @property
    def is_gpu(self) -> bool:
        """Whether it is no CPU."""
        return self.family != "cpu"

    def mma_unit(self, unit: str) -> tuple[MmaInstruction, ...]:
        """The instructions of a unit ("mma.sync", "wgmma"); () where the target does not have it."""
        return tuple(row for row in self.mma if row.unit == unit)

    @cached_property
    def key(self) -> str:
        """Text for cache keys: all that passes may read. `cores` is for launches only, `rates` for choices
        that are in the key of what they chose."""
        plain, tables = [], hashlib.blake2b(digest_size=8)
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name in ("sm", "mma"):
                tables.update(repr(value).encode())
            elif item.name not in ("cores", "rates"):
                plain.append(",".join(value) if isinstance(value, tuple) else str(value))
        return ":".join((*plain, tables.hexdigest()))


GENERIC = TargetInfo("cpu")
"""A machine of which nothing is known, for passes that ask nothing."""
