"""How many registers the hardware has for each thread of a program."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import tile
from tilewright.dialects.tile.layout_verification import layout_of
from tilewright.ir.walk import ancestors

LIMIT = "gpu.max_registers"
"""On a function: the registers per thread that a launch allows (`maxnreg`)."""

MUST_FIT = "gpu.must_fit_registers"
"""On a module: code generation raises OutOfResources if values are certain to be spilled."""

PARTITIONS = 4
"""Partitions of an SM, each with its warps and its registers."""
REGISTERS_PER_PARTITION = 16 << 10
"""Registers of each."""
MAX_REGISTERS_PER_THREAD = 255
UNIT = 8
"""Registers of a thread come in multiples of this."""

PRODUCER_WARPS = 4
"""Warps of a producer that gives registers to the consumers: `setmaxnreg` is executed by whole warpgroups."""
_FEW_CONSUMER_WARPS = 8
_PRODUCER_REGISTERS, _FEWER_PRODUCER_REGISTERS, _MAX_CONSUMER_REGISTERS = 40, 32, 240


def registers_of(value: SSAValue) -> int:
    """Registers of 4 bytes that a thread holds of a tile, or of a scalar."""
    layout = layout_of(value)
    count = layout.registers_per_thread if layout is not None else 1
    return -(-count * tile.element_bytes(value) // 4)


def max_registers_per_thread(warps: int) -> int:
    """The most that a thread may have in a program of so many warps (CUDA C++ programming guide, "Compute
    capabilities"; the assembler has the same limit): warps are dealt out to four partitions one by one, so
    that 13 leave as few as 16 do.
    """
    in_a_part = -(-warps // PARTITIONS)
    return min(MAX_REGISTERS_PER_THREAD, REGISTERS_PER_PARTITION // (32 * in_a_part) // UNIT * UNIT)


def register_split(warps: int) -> tuple[int, int]:
    """Return the registers per thread of a producer warpgroup and of `warps` consumer warps. The consumers get the
    registers that the producer deallocates (`setmaxnreg`), as in CUTLASS."""
    entry = max_registers_per_thread(warps + PRODUCER_WARPS)
    producer = _PRODUCER_REGISTERS if warps <= _FEW_CONSUMER_WARPS else _FEWER_PRODUCER_REGISTERS
    rest = entry * (warps + PRODUCER_WARPS) - producer * PRODUCER_WARPS
    return producer, min(_MAX_CONSUMER_REGISTERS, rest // warps // UNIT * UNIT)


def registers_allowed(op: Operation, warps: int) -> int:
    """The same, or fewer where the function that `op` is in has a limit."""
    given = next(filter(None, (o.attributes.get(LIMIT) for o in ancestors(op))), None)
    most = max_registers_per_thread(warps)
    return min(most, given.value.data) if isinstance(given, IntegerAttr) else most
