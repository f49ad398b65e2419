"""Tables of MMA instructions for the targets.

Shapes and types are those of the PTX ISA: "Matrix multiply-accumulate instructions" for `mma.sync`,
"Asynchronous warpgroup level matrix instructions" for `wgmma`. The register layouts of their operands are
derived from a row in `layouts/fragments.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

MMA_SYNC = "mma.sync"
"""Executed by one warp; operands and accumulator in registers."""
PAIRS = ".pairs"
"""Ends the name of an instruction in which lanes hold pairs of neighbors along k."""
WGMMA = "wgmma"
"""Executed by one warpgroup; B (and A) in shared memory; asynchronous."""


@dataclass(frozen=True)
class MmaInstruction:
    """One instruction for one combination of element types."""

    unit: str
    """`MMA_SYNC` or `WGMMA`."""
    name: str
    """Name in the IR (`select-mma`) for `mma.sync`; name of the type combination for `wgmma`."""
    lhs: str
    """Element type of A in the IR; "f32" means tf32."""
    rhs: str
    acc: str
    m: int
    n: int
    """Columns; for `wgmma` the maximum, in steps of 8."""
    k: int
    pack: int = 1
    """Consecutive elements of k that share a 32-bit register (1 where an element has one or two)."""
    adjacent: int = 1
    """Registers of a lane that hold neighbors along k. The MMAs of a sum come in any order: with 2, as many as an
    accumulator has, sums are operands of the next MMA as they are."""

    def takes(self, lhs: str, rhs: str, acc: str) -> bool:
        """Return whether the instruction supports these element types."""
        return (self.lhs, self.rhs, self.acc) == (lhs, rhs, acc)


_F8 = {"f8E4M3FN": "e4m3", "f8E5M2": "e5m2"}


def _warp(name: str, lhs: str, acc: str, shape: tuple[int, int, int], pack: int) -> MmaInstruction:
    return MmaInstruction(MMA_SYNC, name, lhs, lhs, acc, *shape, pack)


MMA_SYNC_80 = (
    _warp("m16n8k16.f16", "f16", "f32", (16, 8, 16), 2),
    _warp("m16n8k16.f16", "f16", "f16", (16, 8, 16), 2),
    _warp("m16n8k16.bf16", "bf16", "f32", (16, 8, 16), 2),
    _warp("m16n8k8.tf32", "f32", "f32", (16, 8, 8), 1),
    replace(_warp(f"m16n8k8.tf32{PAIRS}", "f32", "f32", (16, 8, 8), 1), adjacent=2),
    _warp("m16n8k32.s8", "i8", "i32", (16, 8, 32), 4),
    _warp("m8n8k4.f64", "f64", "f64", (8, 8, 4), 1),
)
"""`mma.sync` instructions from compute capability 8.0."""


def _f8_pairs() -> Iterable[tuple[str, str, str]]:
    """Yield the types of A and B, and their part of the instruction name."""
    for lhs, left in _F8.items():
        for rhs, right in _F8.items():
            yield lhs, rhs, left if lhs == rhs else f"{left}.{right}"


MMA_SYNC_89 = tuple(
    MmaInstruction(MMA_SYNC, f"m16n8k32.{kinds}", lhs, rhs, "f32", 16, 8, 32, 4)
    for lhs, rhs, kinds in _f8_pairs()
)
"""`mma.sync` instructions of 8-bit floats, from compute capability 8.9."""


def _group(kinds: str, lhs: str, rhs: str, acc: str, k: int) -> MmaInstruction:
    return MmaInstruction(WGMMA, f"wgmma.k{k}.{kinds}", lhs, rhs, acc, 64, 256, k, max(1, k // 8))


WGMMA_90 = (
    _group("f16", "f16", "f16", "f32", 16),
    _group("f16", "f16", "f16", "f16", 16),
    _group("bf16", "bf16", "bf16", "f32", 16),
    _group("tf32", "f32", "f32", "f32", 8),
    _group("s8", "i8", "i8", "i32", 32),
    *(
        _group(kinds, lhs, rhs, acc, 32)
        for lhs, rhs, kinds in _f8_pairs()
        for acc in ("f32", "f16")
    ),
)
"""`wgmma` instructions, sm_90a only."""
