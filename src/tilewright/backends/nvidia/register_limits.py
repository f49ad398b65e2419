"""Re-run the assembler with a limit on registers (`.maxnreg`) where that makes a better kernel.

`ptxas` knows neither how many CTAs should share an SM nor how many loads should be in flight. Its output is inspected,
and where there are too few it is re-run with a limit, which it may fail to meet.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace
from functools import cached_property

from tilewright.backends.base import Options
from tilewright.backends.nvidia.assemble import Assembled, assemble
from tilewright.backends.nvidia.bytes_in_flight import bytes_in_flight, round_trips
from tilewright.backends.nvidia.occupancy import (
    ENOUGH_BYTES,
    CtaResources,
    most_registers,
    register_limit_for_occupancy,
    resident_ctas,
    spills_worth_occupancy,
)
from tilewright.backends.nvidia.ptx import waits_or_repeats, with_limit
from tilewright.errors import OutOfResources
from tilewright.passes.gpu.analysis.registers import UNIT, max_registers_per_thread
from tilewright.targets import TargetInfo

_FEW_BYTES = 32
"""Bytes that a thread loads, of which too few are in flight for another assembly to pay: two wide loads."""
_THREAD_BYTES = 128
"""Bytes in flight in each thread with which also a few CTAs come close to what an SM can load."""
_REGISTERS_PER_WORD = 2
"""Registers for 4 more bytes in flight: they, and what they wait for with others."""
_FREE_REGISTERS = 32
"""Registers that the assembler takes without a limit, too: with them an SM has as many threads as it can."""
_VERY_FEW = 4
"""The assembler has chosen to wait for each load where a thread has less than one byte in so many in flight: with a limit
it chooses again, and needs no more registers."""
_FEWEST_THREADS = 512
"""Threads on an SM that hide the latency of arithmetic."""
_MAX_CUT = 8
"""A limit takes no more than one register in so many from a kernel with MMAs: their accumulators stay."""
_SPILLS_OF_A_CTA = 16
"""Registers spilled by a thread of a kernel with MMAs that cost less than half as many CTAs again gain."""
_FEW_SPILLS = 4
"""Registers spilled by a thread that cost less than fewer CTAs on an SM."""
_FEW_TRIPS = 2
"""Round trips to memory that are not looked for fewer of: scalars or weights, then a row."""
_MIN_GAIN = 1.25
"""More bytes in flight, as a ratio, are worth another schedule."""


@dataclass(frozen=True)
class Made:
    """PTX and what the assembler made of it; `block` has the figures before assembly."""

    ptx: str
    assembled: Assembled
    block: CtaResources
    target: TargetInfo
    options: Options

    @property
    def resources(self) -> CtaResources:
        return replace(self.block, registers=self.assembled.registers)

    @property
    def ctas(self) -> int:
        """CTAs on an SM at once."""
        return resident_ctas(self.resources, self.target)

    @cached_property
    def thread_bytes(self) -> int:
        """Bytes that a thread has in flight."""
        return bytes_in_flight(self.assembled.cubin) if self.assembled.cubin else 0

    @cached_property
    def round_trips(self) -> int:
        """How often a thread waits for loads before it has issued the last of them."""
        return round_trips(self.assembled.cubin) if self.assembled.cubin else 0

    @property
    def sm_bytes(self) -> int:
        """Bytes that an SM has in flight."""
        return self.thread_bytes * self.block.threads * self.ctas

    def has_most_of(self, loaded_bytes: int) -> bool:
        """Whether a thread has so many of these bytes in flight that the others gain nothing or little."""
        return 10 * self.thread_bytes >= 7 * loaded_bytes

    def registers_for(self, thread_bytes: float) -> float:
        """About how many registers a thread needs to have so many bytes in flight."""
        more = max(0.0, thread_bytes - self.thread_bytes) / 4
        return self.assembled.registers + _REGISTERS_PER_WORD * more

    def registers_with_gain(self, ctas: int) -> float:
        """The same for so many more bytes in flight, with `ctas` on an SM, that it is worth another schedule."""
        return self.registers_for(_MIN_GAIN * self.thread_bytes * self.ctas / ctas)

    def limited(self, registers: int) -> Made:
        """The same with a limit on the registers of a thread; itself where the assembler cannot keep it.

        ptxas rejects a limit below the accumulators of asynchronous MMAs, which it cannot spill (C7602).
        """
        ptx = with_limit(self.ptx, registers)
        try:
            return replace(self, ptx=ptx, assembled=assemble(ptx, self.target, self.options))
        except OutOfResources:
            return self


def with_all_registers(made: Made) -> Made:
    """`made` with all registers, where the assembler has taken fewer and spilled.

    Where far more values are wanted than there are registers it gives up and takes 32 of 255. Very few spills cost less
    than fewer blocks on an SM.
    """
    found, most = made.assembled, max_registers_per_thread(-(-made.block.threads // 32))
    if not found.spills or found.registers >= most:
        return made
    other = made.limited(most)
    keeps = found.spills > _FEW_SPILLS or other.ctas >= made.ctas
    return other if other.assembled.spills < found.spills and keeps else made


def with_another_cta(made: Made) -> Made:
    """`made` with up to an eighth fewer registers, where half as many CTAs again then share an SM and few spill.

    For kernels with MMAs: each CTA waits for its own products, and computes its epilogue while others multiply. What spills
    are values of prologue and epilogue, since accumulators and operands are used in each iteration.
    """
    found, limit = made.assembled, None
    if (
        found.registers and made.ctas > 1
    ):  # a CTA that has its SM to itself gets variants with other schedules
        limit = register_limit_for_occupancy(made.resources, made.target)
    if limit is None or found.spills or limit * _MAX_CUT < found.registers * (_MAX_CUT - 1):
        return made
    other = made.limited(limit)
    return other if other.ctas > made.ctas and other.assembled.spills <= _SPILLS_OF_A_CTA else made


def limit_for_occupancy(made: Made, cluster: int, planned: int) -> Made:
    """`made` with a limit on registers, where that is better.

    A kernel that spills is given all registers (`with_all_registers`). And where with a few fewer more
    blocks share an SM, and nothing more goes to memory (or a little, where there was one block that waits at
    barriers or has loops), it is given fewer.
    """
    if (all_ := with_all_registers(made)) is not made:
        return all_
    found, block = made.assembled, made.resources
    for wanted in range(planned, 0, -1):
        limit = None
        if found.registers:
            limit = register_limit_for_occupancy(block, made.target, cluster, wanted)
        if limit is None:
            continue
        other = made.limited(limit)
        allowed = found.spills
        if planned > 1 or waits_or_repeats(made.ptx):
            allowed += spills_worth_occupancy(block, made.target, wanted)
        if 0 < other.assembled.registers <= limit and other.assembled.spills <= allowed:
            return other
        if made.ctas >= wanted:
            break
    return made


def limit_for_loads(made: Made, loaded_bytes: int) -> Made:
    """`made` with a limit on registers with which more loads are in flight, if there is one.

    Without a limit `ptxas` issues loads one or two at a time to keep the registers that its own heuristics allow.
    Under a limit it issues as many as fit, even if the limit is what it has taken before (measured: a maximum of 8 × 1024
    elements in 4 warps has 16 bytes in flight with the 96 registers of its choice, and 80 with a limit of 96).
    Tried are the registers that leave as many CTAs on an SM, then those that leave one less; and, because a grid may be
    smaller than an SM and its loads then wait one after another, those with which a thread has `_THREAD_BYTES` in flight
    and an SM no fewer. A kernel that spills although it has all registers has none for more loads: it is left as it is. With
    fewer it spills by those heuristics, as many as it likes: with more it spills no more and may load more.

    Args:
        loaded_bytes: what a thread loads without a side effect between, and could have in flight.
    """
    if made.ctas == 0 or loaded_bytes <= _FEW_BYTES or not made.thread_bytes:
        return made
    if made.assembled.spills and made.assembled.registers >= most_registers(made.block, 1):
        return made
    very_few = _VERY_FEW * made.thread_bytes <= loaded_bytes
    if not very_few and made.registers_with_gain(made.ctas) <= _FREE_REGISTERS:
        return made  # there were registers for more
    best, tried = made, dict[int, Made]()
    for ctas in (made.ctas, made.ctas - 1):
        # what exceeds enough bytes is no gain
        if ctas == 0 or best.has_most_of(loaded_bytes) or best.sm_bytes > ENOUGH_BYTES / _MIN_GAIN:
            break
        # one CTA fewer often has the same limit: each assembly takes as long as the first one
        limit = most_registers(made.block, ctas)
        if not very_few and limit < made.registers_with_gain(ctas):
            continue
        other = tried[limit] = tried.get(limit) or made.limited(limit)
        if other.assembled.spills > made.assembled.spills:
            if limit <= made.assembled.registers:
                continue
            return best  # with more registers it spills more: it loads more at once
        gains = other.sm_bytes >= _MIN_GAIN * best.sm_bytes
        if gains and other.ctas >= ctas:
            best = other
        elif best is made and limit >= other.registers_with_gain(other.ctas):
            return made  # registers were left: something else keeps loads from being issued
    return _for_few_ctas(best, min(loaded_bytes, _THREAD_BYTES), tried)


def limit_for_lone_ctas(made: Made, cluster: int) -> Made:
    """`made` with other registers, if a CTA of a cluster that has its SM to itself then loads in fewer round trips to memory.

    The SM loads nothing else meanwhile, nor while the cluster reduces and stores; the bytes in flight that suffice where CTAs
    take turns do not. More registers may be fewer round trips, if more loads fit, or more, if `ptxas` then computes from
    the first loads before it issues the others. NVIDIA H100, 131,072 fp32 columns in 8 CTAs: RMS norm, backward, with 85 registers
    four round trips and 2.73 TB/s, with 110 two and 2.99; layer norm, backward, with 104, 108 and 112 registers 2, 3 and 4
    round trips, 2.97, 2.87 and 2.55 TB/s.
    """
    if cluster == 1 or made.ctas != 1 or made.assembled.spills or not made.assembled.cubin:
        return made
    best, most = made, most_registers(made.block, 1)
    below = made.assembled.registers // UNIT * UNIT
    for limit in dict.fromkeys((below, most, (below + most) // 2 // UNIT * UNIT)):
        if best.round_trips <= _FEW_TRIPS:
            break
        other = made.limited(limit)
        if other.round_trips < best.round_trips and not other.assembled.spills:
            best = other
    return best


def _for_few_ctas(made: Made, wanted: int, tried: Container[int]) -> Made:
    """`made`, or the same with more registers and about `wanted` bytes in flight in each thread."""
    ctas = resident_ctas(
        replace(made.block, registers=int(made.registers_for(wanted))), made.target
    )
    limit = most_registers(made.block, max(1, ctas))
    threads = ctas * made.block.threads
    if made.has_most_of(wanted) or threads < _FEWEST_THREADS or limit in tried:
        return made
    if _MIN_GAIN * threads * wanted <= made.sm_bytes:  # `registers_for` often estimates too many
        return made  # an SM would have fewer in flight
    other = made.limited(limit)
    gains = other.thread_bytes >= _MIN_GAIN * made.thread_bytes
    keeps = other.sm_bytes >= made.sm_bytes and other.assembled.spills <= made.assembled.spills
    return other if gains and keeps else made
