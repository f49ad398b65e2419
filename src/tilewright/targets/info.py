"""`TargetInfo`: the machine description that passes, code generation and the cost model read."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import cached_property

from tilewright.targets.instructions import MmaInstruction


class Feature(StrEnum):
    """Optional capabilities of a GPU. CPU features are LLVM's feature names, e.g. "avx512f"."""

    TMA = "tma"
    """Tensor memory accelerator: `cp.async.bulk.tensor`, and mbarriers with transaction counts."""
    MULTICAST = "multicast"
    """TMA loads that write the shared memory of several CTAs of a cluster."""
    CLUSTERS = "clusters"
    """Clusters of more than one CTA, distributed shared memory."""
    STMATRIX = "stmatrix"
    REGISTER_REALLOCATION = "setmaxnreg"
    """Register reallocation between warpgroups (`setmaxnreg`)."""
    PROGRAMMATIC_LAUNCH = "griddepcontrol"
    """Programmatic dependent launch: a kernel may start before the preceding kernel has finished."""
    VECTOR_ATOMICS = "red.vector"
    """`red.add` of float vectors of up to 16 bytes, and of bf16."""
    BF16_COMPARISONS = "set.bf16x2"
    """Comparisons of two bf16 numbers at once."""
    FLOAT8_CONVERSIONS = "cvt.float8"
    """`cvt` to 8-bit floats."""
    FLOAT8_MMA_SYNC = "mma.sync.float8"
    """`mma.sync` of 8-bit floats in hardware. For other chips that have it in their ISA the assembler makes two of fp16, whose
    sum it adds to the accumulator by instructions of their own."""


@dataclass(frozen=True)
class SmLimits:
    """Per-SM resources for resident CTAs (CUDA C++ programming guide, "Compute capabilities")."""

    max_threads: int = 0
    max_ctas: int = 0
    shared_bytes: int = 0
    """Shared memory of all resident CTAs together."""
    reserved_shared_bytes: int = 1 << 10
    """Shared memory that the system reserves per CTA."""
    max_cluster: int = 8
    """Portable cluster size: CTAs per cluster that every chip with clusters supports."""


@dataclass(frozen=True)
class GpuRates:
    """Throughput and latency of a chip, for the cost model."""

    clock_ghz: float
    tensor_clock_ghz: float
    """Clock while the tensor cores are busy; lower because of the power limit."""
    tensor_macs: int
    """16-bit multiply-adds per SM and cycle on tensor cores."""
    plain_macs: int
    """Single precision multiply-adds per SM and cycle without tensor cores."""
    double_macs: int
    """Double precision multiply-adds per SM and cycle (on tensor cores where they support fp64)."""
    l2_bytes_per_cycle: float
    """L2 to one SM while all SMs read (many of them the same data)."""
    dram_bytes_per_ns: float
    tensor_share: float
    """Fraction of the tensor cores' peak that tuned code reaches; nearly 1 for `wgmma`."""
    shared_bytes_per_cycle: int = 128
    element_rates: tuple[tuple[str, float], ...] = ()
    """Tensor core rate per element type, relative to 16-bit elements. Types not listed are not supported."""
    half_accumulator_rate: float = 1.0
    """Rate with fp16 accumulators relative to fp32 accumulators."""
    launch_ns: float = 590.0
    """Time between consecutive launches in a stream."""
    fill_ns: float = 1030.0
    """Prologue: from the start of a program to its first MMA (barriers, first copies)."""
    store_bytes_per_cycle: float = 18.0
    """Epilogue: from registers of one SM to global memory."""
    single_warpgroup_stall_cycles: float = 54.0
    """Stall per pipeline stage when no second warpgroup hides the latency of the first."""
    second_launch_ns: float = 5000.0
    """Cost of the split-K reduction in addition to its memory traffic: a second launch with cold caches (1 µs in a
    CUDA graph whose kernels hit in L2)."""


@dataclass(frozen=True)
class TargetInfo:
    """Description of a machine for passes, code generation and the cost model."""

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
    """Threads per launch on a CPU, SMs of a GPU. Generated code depends on it in the distance of prefetches alone."""
    l1_bytes: int = 32 << 10
    l2_bytes: int = 1 << 20
    l3_bytes: int = 0
    """The last cache of a CPU, which its cores share; 0: unknown."""
    shared_bytes: int = 0
    """Maximum shared memory per CTA."""
    max_registers: int = 0
    """Maximum number of 32-bit registers per thread."""
    family: str = "cpu"
    """Backend that generates code for the target: "cpu" or "nvidia"."""
    capability: int = 0
    """Compute capability of an NVIDIA GPU, 10 · major + minor."""
    isa: str = ""
    """PTX version that is emitted, as an LLVM feature ("ptx86")."""
    sm: SmLimits = SmLimits()
    mma: tuple[MmaInstruction, ...] = ()
    """MMA instructions in order of preference."""
    rates: GpuRates | None = None
    """For the GPU cost model; None for CPUs, which have their own model."""

    def has(self, *features: str) -> bool:
        """Whether the machine has all of `features`."""
        return all(f in self.features for f in features)

    @property
    def is_gpu(self) -> bool:
        """Whether the target is a GPU."""
        return self.family != "cpu"

    def mma_unit(self, unit: str) -> tuple[MmaInstruction, ...]:
        """Return the MMA instructions of a unit ("mma.sync", "wgmma"), () if the target does not have it."""
        return tuple(row for row in self.mma if row.unit == unit)

    @cached_property
    def key(self) -> str:
        """Text for cache keys: every field that passes may read. Excludes `rates`, which affects choices that are in the
        keys themselves, and the `cores` of a CPU, which affect launches only; those of a GPU decide how far ahead rows are
        prefetched (`prefetch-next-programs`) and how many tensor maps a kernel encodes."""
        plain, tables = [], hashlib.blake2b(digest_size=8)
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name in ("sm", "mma"):
                tables.update(repr(value).encode())
            elif item.name != "rates" and (item.name != "cores" or self.is_gpu):
                plain.append(",".join(value) if isinstance(value, tuple) else str(value))
        return ":".join((*plain, tables.hexdigest()))


GENERIC = TargetInfo("cpu")
"""Placeholder for passes that do not depend on the target."""
