"""AMX, the tile matrix unit of newer x86 servers: configuring it, and the permission to use it.

Eight tile registers of 16 rows × 64 bytes; `tdpbf16ps` and `tdpbssd` add the product of two of them
to a third (Intel SDM volume 2, "AMX"). The register extents come from a 64-byte configuration, loaded
per thread. Linux hands out the large register state only to processes that ask for it
(Documentation/arch/x86/xstate.rst).
"""

from __future__ import annotations

from typing import Any

from tilewright.backends.cpu.lower.dot_loops import VOID, Builder
from tilewright.backends.llvm.types import call, constant_bytes
from tilewright.passes.cpu.dot_plan import GROUP, DotPlan

#: tile registers: up to 2 × 2 accumulators, two of the left and two of the right operand
ACCUMULATORS = (0, 1, 2, 3)
LEFT = (4, 5)
RIGHT = (6, 7)


def tile_configuration(plan: DotPlan) -> bytes:
    """The 64 bytes `ldtilecfg` wants for this plan: palette 1, then bytes per row and rows per register."""
    tile, group = plan.micro, GROUP[plan.kind]
    element = 1 if plan.kind == "amx_int8" else 2
    data = bytearray(64)
    data[0] = 1

    def extents(register: int, rows: int, row_bytes: int) -> None:
        data[16 + 2 * register] = row_bytes
        data[48 + register] = rows

    for register in ACCUMULATORS:
        extents(register, tile.rows, 4 * tile.lanes)
    for register in LEFT:
        extents(register, tile.rows, tile.unroll * element)
    for register in RIGHT:
        extents(register, tile.unroll // group, 4 * tile.lanes)
    return bytes(data)


def emit_amx_config(b: Builder, plan: DotPlan) -> None:
    """Load the tile configuration of `plan` on the running thread (clears the tile registers)."""
    data = tile_configuration(plan)
    name = f"amx_config_{plan.micro.rows}_{plan.micro.lanes}_{data[16 + 2 * LEFT[0]]}"
    table: Any = b.module.globals.get(name)
    if table is None:
        table = constant_bytes(b.module, name, data)
        table.align = 64
    call(b, "llvm.x86.ldtilecfg", VOID, table)


def emit_amx_release(b: Builder) -> None:
    """Give the tile registers back: a dirty state makes every thread switch save 8 KB."""
    call(b, "llvm.x86.tilerelease", VOID)
