"""How many registers a value of a fusion group may take."""

from __future__ import annotations

from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import cpu, tile
from tilewright.passes.cpu.analysis.classify import AXIS_OPS, is_virtual

_MATH_TEMPORARIES = 3
"""Values that are live inside a polynomial besides its argument."""
_MATH_CONSTANTS = 9
"""Registers that hold coefficients around a loop with a polynomial in it."""


def registers_per_value(group: cpu.FusionGroupOp, available: int) -> int:
    """4, 2 or 1: the most registers a value may take without spilling."""
    block = group.body.block
    uses_math = any(op.name.startswith("math.") for op in block.walk())
    live = _most_live(block) + sum(len(op.inputs) for op in block.ops if isinstance(op, AXIS_OPS))
    room = available - (_MATH_CONSTANTS if uses_math else 2)
    for registers in (4, 2):
        if live * registers <= room:
            return registers
    return 1 if available < 32 else 2


def _most_live(block: Block) -> int:
    """The largest number of tile values that are live at one operation, nested blocks included."""
    ops = list(block.ops)
    last_use: dict[SSAValue, int] = {}
    for i, op in enumerate(ops):
        for nested in op.walk():
            for operand in nested.operands:
                last_use[operand] = i
    live = {a for a in block.args if tile.is_tile(a)}
    most = len(live)
    for i, op in enumerate(ops):
        inside = max((_most_live(b) for r in op.regions for b in r.blocks), default=0)
        if isinstance(op, AXIS_OPS):
            inside = 0
        extra = _MATH_TEMPORARIES if op.name.startswith("math.") else 0
        live |= {r for r in op.results if _in_registers(r, op)}
        most = max(most, len(live) + inside + extra)
        live = {v for v in live if last_use.get(v, -1) > i or v.owner is block}
    return most


def _in_registers(value: SSAValue, op: Operation) -> bool:
    return tile.is_tile(value) and not is_virtual(op)
