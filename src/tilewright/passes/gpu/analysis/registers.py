"""Estimates of registers: those a thread has, those that tiles take; and of instructions per element."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from math import prod

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr, i1
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import tile
from tilewright.dialects.tile.layout_verification import layout_of
from tilewright.ir.walk import ancestors
from tilewright.passes.analysis.edit import end_of
from tilewright.passes.analysis.effects import has_effect, is_pure_elementwise

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


_MANY = {
    "arith.divf": 4, "arith.divsi": 20, "arith.divui": 20, "arith.remsi": 20, "arith.remui": 20,
    "math.sin": 40, "math.cos": 40, "math.tan": 60, "math.powf": 60, "math.erf": 20,
    "tile.libm": 40, "tile.remf": 20, "tile.mul_sigmoid": 7,
}  # fmt: skip
"""Operations that take many instructions an element."""
LOAD_CYCLES, _CYCLES_PER_INSTRUCTION = 800, 6
"""Latency of a load from DRAM, and of an instruction that waits for the one before it."""
_MACS_PER_CYCLE = 128
"""Multiply-adds of a warp by `mma.sync`: 16 x 8 x 16 in 16 cycles."""


def instructions_per_element(ops: Iterable[Operation]) -> int:
    """About how many instructions one element of the tiles takes that `ops` compute element-wise."""
    return sum(_MANY.get(op.name, 1) for op in ops if is_on_tiles(op))


def instructions(ops: Iterable[Operation], threads: int) -> int:
    """Estimated number of unrolled instructions per thread of the elementwise operations in `ops`."""
    total = 0
    for op in ops:
        if is_on_tiles(op):
            elements = prod(tile.shape_of(op.results[0]))
            total += -(-elements // threads) * _MANY.get(op.name, 1)
    return total


def iteration_cycles(ops: Sequence[Operation], warps: int) -> int:
    """Estimated cycles of a loop's body, at least 1: its operations run one after another."""
    steps = sum(map(is_on_tiles, ops)) * _CYCLES_PER_INSTRUCTION
    dots = [op for op in ops if isinstance(op, tile.DotOp)]
    macs = sum(prod(tile.shape_of(op.lhs)) * tile.shape_of(op.rhs)[-1] for op in dots)
    return max(1, steps, instructions(ops, 32 * warps)) + macs // (_MACS_PER_CYCLE * warps)


def peak_live_registers(ops: Iterable[Operation], threads: int) -> int:
    """Peak live 4-byte registers per thread, in program order, of tiles that `ops` load, carry or compute.
    Rematerializable values are excluded, and so are values whose only user can be scheduled next to them. A load
    counts from its first use, as ptxas sinks loads where registers run out, unless memory may change in between."""
    order = {op: i for i, op in enumerate(ops)}
    waits = [i for op, i in order.items() if op.regions]
    effects = [i for op, i in order.items() if has_effect(op)]
    change = [0] * (len(order) + 1)
    held: set[SSAValue] = set()

    def hold(value: SSAValue, start: int) -> None:
        if tile.is_tile(value) and tile.element_of(value) != i1:
            held.add(value)
            size = tile.element_bytes(value)
            words = -(-prod(tile.shape_of(value)) * size // (4 * threads))
            last = max((order.get(use.operation, len(order)) for use in value.uses), default=start)
            change[start] += words
            change[max(start, last)] -= words

    def first_use(load: Operation, start: int) -> int:
        users = [use.operation for use in load.results[0].uses]
        if any(isinstance(user, tile.ScanOp) for user in users):  # takes the whole tile at once
            return start
        first = min((order.get(user, start) for user in users), default=start)
        return start if any(start < i < first for i in effects) else first

    def is_used_at_once(value: SSAValue, start: int) -> bool:
        """Whether one operation alone uses it, and nothing keeps that from coming right after."""
        users = [use.operation for use in value.uses]
        end = order.get(users[0], len(order)) if len(users) == 1 else len(order)
        if end == len(order) or any(start < i < end for i in waits):
            return False
        loads = isinstance(value.owner, tile.Load)
        if isinstance(users[0], tile.ReduceOp):
            return not loads
        # a loaded value or its result takes the registers
        return is_pure_elementwise(users[0]) and not (
            loads and is_used_at_once(users[0].results[0], end)
        )

    for op, start in order.items():
        if isinstance(op, scf.ForOp):
            if end_of(op.body.block) in order:
                for arg, result in zip(op.body.block.args[1:], op.results, strict=True):
                    hold(arg, start)
                    hold(result, order[end_of(op.body.block)])
        elif isinstance(op, tile.Load) or (is_on_tiles(op) and any(v in held for v in op.operands)):
            if is_used_at_once(op.results[0], start):
                held.add(op.results[0])
            else:
                hold(op.results[0], first_use(op, start) if isinstance(op, tile.Load) else start)
    return max(itertools.accumulate(change))


def is_on_tiles(op: Operation) -> bool:
    """Whether an operation makes a tile element-wise."""
    return bool(op.results) and is_pure_elementwise(op) and tile.is_tile(op.results[0])
