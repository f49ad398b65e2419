"""Descriptions of NVIDIA GPUs, one entry of `CHIPS` each: the only chip-specific data in the compiler.

Limits are from the CUDA C++ programming guide, "Compute capabilities"; features from the "Target ISA notes" of the
PTX ISA. Rates are per SM and clock cycle, from NVIDIA's architecture whitepapers (A100, GA102, AD102, H100) and the
tuning guides. Bandwidths are achievable bandwidths, about 0.85 of the data sheet. Clocks are sustained in bursts of
load. Parameters that data sheets do not give (overlap, prologues, epilogues) were fitted to 170 matmuls measured on
an H200 and are reused for the other chips. The `mma.sync` rate of sm_100a is not published: the A100 rate per SM and
cycle is assumed. The rates of sm_120a are those of a GeForce RTX 5090, whose rate with fp32 accumulators is half the
rate with fp16 accumulators.
"""

from __future__ import annotations

from tilewright.errors import UnsupportedTarget
from tilewright.targets.info import Feature, GpuRates, SmLimits, TargetInfo
from tilewright.targets.instructions import MMA_SYNC_80, MMA_SYNC_89, WGMMA_90, MmaInstruction

TRIPLE = "nvptx64-nvidia-cuda"
MAX_REGISTERS_PER_THREAD = 255
DEFAULT = "sm_90a"
"""Default target on a machine without a GPU."""

_FLOATS = (("fp16", 1.0), ("bf16", 1.0), ("tf32", 0.5), ("i8", 2.0), ("u8", 2.0))
_WIDENED = (*_FLOATS, ("fp8e4nv", 1.0), ("fp8e5", 1.0))  # 8-bit floats are converted to fp16 first
_WITH_F8 = (*_FLOATS, ("fp8e4nv", 2.0), ("fp8e5", 2.0))
_GEFORCE_50 = (*_WITH_F8[:3], ("i8", 4.0), ("u8", 4.0), *_WITH_F8[5:])
_SM_90 = (
    Feature.TMA, Feature.STMATRIX, Feature.PROGRAMMATIC_LAUNCH, Feature.VECTOR_ATOMICS, Feature.FLOAT8_CONVERSIONS,
    Feature.BF16_COMPARISONS,
)  # fmt: skip


def _chip(
    capability: int,
    suffix: str = "",
    *,
    isa: str,
    cores: int,
    l2_bytes: int,
    sm: SmLimits,
    mma: tuple[MmaInstruction, ...],
    rates: GpuRates,
    features: tuple[Feature, ...] = (),
) -> TargetInfo:
    """Build a target. One CTA may use all shared memory of an SM except the reserved bytes."""
    name = f"sm_{capability}{suffix}"
    return TargetInfo(
        name, TRIPLE, name, features,
        vector_bits=128, vector_registers=MAX_REGISTERS_PER_THREAD, cores=cores, l2_bytes=l2_bytes,
        shared_bytes=sm.shared_bytes - sm.reserved_shared_bytes, max_registers=MAX_REGISTERS_PER_THREAD,
        family="nvidia", capability=capability, isa=isa, sm=sm, mma=mma, rates=rates,
    )  # fmt: skip


CHIPS = (
    _chip(  # A100
        80, isa="ptx80", cores=108, l2_bytes=40 << 20,
        sm=SmLimits(2048, 32, 164 << 10), mma=MMA_SYNC_80,
        rates=GpuRates(1.41, 1.35, 1024, 64, 64, 64.0, 1300.0, 0.85, element_rates=_WIDENED),
    ),
    _chip(  # A40, GeForce 30
        86, isa="ptx80", cores=84, l2_bytes=6 << 20,
        sm=SmLimits(1536, 16, 100 << 10), mma=MMA_SYNC_80,
        rates=GpuRates(
            1.80, 1.70, 512, 128, 2, 64.0, 800.0, 0.80, element_rates=_WIDENED, half_accumulator_rate=2.0
        ),
    ),
    _chip(  # L40, GeForce 40
        89, isa="ptx84", cores=128, l2_bytes=72 << 20,
        sm=SmLimits(1536, 24, 100 << 10), mma=(*MMA_SYNC_80, *MMA_SYNC_89),
        rates=GpuRates(2.50, 2.30, 512, 128, 2, 64.0, 850.0, 0.80, element_rates=_WITH_F8),
        features=(Feature.FLOAT8_CONVERSIONS, Feature.FLOAT8_MMA_SYNC),
    ),
    _chip(  # H100, H200
        90, "a", isa="ptx86", cores=132, l2_bytes=50 << 20,
        sm=SmLimits(2048, 32, 228 << 10), mma=(*WGMMA_90, *MMA_SYNC_80, *MMA_SYNC_89),
        rates=GpuRates(1.94, 1.75, 2048, 128, 128, 139.0, 3900.0, 1.0, element_rates=_WITH_F8),
        features=(*_SM_90, Feature.CLUSTERS, Feature.MULTICAST, Feature.REGISTER_REALLOCATION),
    ),
    _chip(  # B200, without tensor memory
        100, "a", isa="ptx86", cores=148, l2_bytes=126 << 20,
        sm=SmLimits(2048, 32, 228 << 10), mma=(*MMA_SYNC_80, *MMA_SYNC_89),
        rates=GpuRates(1.94, 1.75, 1024, 128, 64, 139.0, 6800.0, 0.85, element_rates=_WITH_F8),
        features=(*_SM_90, Feature.CLUSTERS, Feature.MULTICAST, Feature.REGISTER_REALLOCATION),
    ),
    _chip(  # RTX PRO Blackwell, GeForce 50: clusters of one CTA
        120, "a", isa="ptx87", cores=170, l2_bytes=96 << 20,
        sm=SmLimits(1536, 24, 100 << 10), mma=(*MMA_SYNC_80, *MMA_SYNC_89),
        rates=GpuRates(
            2.50, 2.40, 256, 128, 2, 64.0, 1520.0, 0.80, element_rates=_GEFORCE_50, half_accumulator_rate=2.0
        ),
        features=(*_SM_90, Feature.FLOAT8_MMA_SYNC, Feature.REGISTER_REALLOCATION),
    ),
)  # fmt: skip
"""All chips, older ones first."""
NAMES = tuple(chip.name for chip in CHIPS)
_BY_NAME = {chip.name: chip for chip in CHIPS}


def target_info(name: str) -> TargetInfo:
    """Return the target `name` ("sm_80" … "sm_90a"). The suffix may be omitted ("sm_90").

    Raises UnsupportedTarget for unknown names.
    """
    found = _BY_NAME.get(name) or _BY_NAME.get(f"{name}a")
    if found is None:
        raise UnsupportedTarget(f"no NVIDIA target {name!r}", help=f"there are {', '.join(NAMES)}")
    return found


def of_capability(capability: int) -> TargetInfo:
    """Return the most specific target that a device of a compute capability (10 · major + minor) runs.

    Code for a target with a suffix runs on devices of exactly that capability. Raises UnsupportedTarget if no
    target fits.
    """
    able = [
        chip
        for chip in CHIPS
        if chip.capability == capability
        or (chip.capability < capability and chip.name == f"sm_{chip.capability}")
    ]
    if not able:
        major, minor = divmod(capability, 10)
        raise UnsupportedTarget(
            f"no code for compute capability {major}.{minor}",
            help=f"the oldest is {CHIPS[0].capability / 10} (A100)",
        )
    return able[-1]
