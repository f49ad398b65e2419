"""Occupancy: resident CTAs per SM, and the limit on registers with which one more would fit.

The assembler does not know of this when it spends registers: with 66 instead of 64 an SM has
registers for one CTA of 512 threads and not for two, and nothing runs while that one waits for memory or at
a barrier. (`.minnctapersm` says how many blocks there shall be, but then it spends all registers that
they leave, also where it needed fewer; it is for blocks that shared memory leaves alone.) So its output is
inspected, and where it exceeds the limit by a few registers it is re-run with the limit, which it may fail to meet.

Sources: CUDA C++ programming guide, "Compute capabilities"; registers are given out in units of 256
to each warp, and warps to four partitions one by one.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.passes.gpu.analysis.registers import (
    PARTITIONS,
    REGISTERS_PER_PARTITION,
    UNIT,
    max_registers_per_thread,
)
from tilewright.targets import TargetInfo

_LANES = 32
_SHARED_UNIT = 128
_MAX_REGISTER_CUT = 8
"""A limit takes no more than one register in so many."""
_MAX_REGISTER_CUT_IN_CLUSTERS = 5
"""The same where CTAs wait for each other in barriers of a cluster, and others have to fill the time."""

_MAX_REGISTER_CUT_OF_ONE = 3
"""The same where one CTA fits an SM, and nothing runs while that one waits."""
_SPILL_BYTES = 64 << 10
"""Bytes of spilled registers of two CTAs that stay in the L1 cache of their SM, next to what they load."""

_PLANNED_SPILL_BYTES = 96 << 10
"""The same of as many CTAs as a pass has planned for."""

ENOUGH_BYTES = 64 << 10
"""Bytes in flight on an SM that hide the latency of memory: 4.8 TB/s on 132 SMs, 1.2 µs under load, and as much again,
since not all CTAs load at the same time."""


@dataclass(frozen=True)
class CtaResources:
    """What a block asks of an SM: threads, registers of each, bytes of shared memory."""

    threads: int
    registers: int
    shared_bytes: int


def resident_ctas(block: CtaResources, target: TargetInfo) -> int:
    """CTAs that fit an SM of `target`; 0: not even one."""
    others = _without_registers(block, target)
    in_units = -(-max(1, block.registers) // UNIT) * UNIT
    return min(others, _warps(in_units) // _warps_of(block))


def register_limit_for_occupancy(
    block: CtaResources, target: TargetInfo, cluster: int = 1, planned: int = 1
) -> int | None:
    """The registers a thread with which half as many blocks again, or more, would be there at once.

    None where that takes more than one register in eight of them (in five, of a `cluster` of several; in three, where
    there is one block), or something else is in the way. Fewer blocks than were `planned` for are always too few.
    """
    now = resident_ctas(block, target)
    if not now:
        return None
    wanted = planned if now < planned else now + -(-now // 2)
    if wanted > _without_registers(block, target):
        return None
    limit = most_registers(block, wanted)
    if now < planned:
        return limit
    cut = _MAX_REGISTER_CUT_IN_CLUSTERS if cluster > 1 else _MAX_REGISTER_CUT
    cut = _MAX_REGISTER_CUT_OF_ONE if now == 1 else cut
    return limit if limit * cut >= block.registers * (cut - 1) else None


def most_registers(block: CtaResources, ctas: int) -> int:
    """The registers per thread with which so many CTAs fit an SM."""
    return max_registers_per_thread(ctas * _warps_of(block))


def spills_worth_occupancy(block: CtaResources, target: TargetInfo, planned: int = 1) -> int:
    """Registers a thread may spill for more blocks on an SM: a few, where the other choice is one block, or fewer than
    were planned for."""
    now = resident_ctas(block, target)
    if now != 1 and now >= planned:
        return 0
    if planned > 1:
        return _PLANNED_SPILL_BYTES // (planned * 4 * block.threads)
    return _SPILL_BYTES // (2 * 4 * block.threads)


def _warps_of(block: CtaResources) -> int:
    return -(-block.threads // _LANES)


def _warps(registers: int) -> int:
    """Warps whose threads have so many registers."""
    return PARTITIONS * (REGISTERS_PER_PARTITION // (_LANES * registers))


def _without_registers(block: CtaResources, target: TargetInfo) -> int:
    """CTAs that fit an SM by threads and shared memory."""
    sm = target.sm
    shared = -(-(block.shared_bytes + sm.reserved_shared_bytes) // _SHARED_UNIT) * _SHARED_UNIT
    return min(
        sm.max_ctas, sm.max_threads // (_LANES * _warps_of(block)), sm.shared_bytes // shared
    )
