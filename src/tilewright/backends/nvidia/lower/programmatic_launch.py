"""Programmatic dependent launch: a program begins while the kernel before it ends (PTX ISA, `griddepcontrol`).

What stands before the first access to memory (barriers, tensor maps, where the tile is) is done while the last
programs of the kernel before are still busy; then the program waits until that kernel is over and what it wrote is
seen. Every thread of a kernel that is launched so waits, or a third kernel could start before the first is over. In
turn it lets the next kernel begin once its dots are done. A launch allows it by an attribute of its own, without which
both instructions do nothing. On an H200 MMAs of 1024 took 4.4 µs instead of 5.0.
"""

from __future__ import annotations

from xdsl.dialects import func
from xdsl.ir import Operation

from tilewright.backends.nvidia.lower import KernelCodegen
from tilewright.backends.nvidia.lower.device_maps import map_at
from tilewright.dialects import gpu, tile
from tilewright.passes.analysis.effects import is_pure
from tilewright.targets import Feature


class ProgrammaticLaunch:
    """Where a kernel waits for the one before it (`waits`: before this operation; None for kernels that do not), and
    where it lets the next begin (`lets`: after this one)."""

    def __init__(self, gen: KernelCodegen) -> None:
        self.waits: Operation | None = None
        self.lets: Operation | None = None
        whole = (
            gen.blocks == gen.cluster == 1
            and not gen.records_asserts
            and not gen.device_maps
            and gen.target.has(Feature.PROGRAMMATIC_LAUNCH)
        )
        if not whole:
            return
        block = gen.source.body.block
        self.waits = next((op for op in block.ops if not _untouching(op)), None)
        dots = [
            op
            for op in block.ops
            if any(isinstance(o, gpu.WgmmaOp | gpu.WgmmaWaitOp) for o in op.walk())
        ]
        if dots and self.waits is not None and not gen.producer_warps:
            self.lets = dots[-1]

    def __bool__(self) -> bool:
        return self.waits is not None


def _untouching(op: Operation) -> bool:
    """Whether an operation reads and writes no memory that others see (a user's assembly may, whatever it says)."""
    if isinstance(op, tile.InlineAsmOp):
        return False
    return is_pure(op) or isinstance(
        op, gpu.MbarrierInitOp | gpu.LocalAllocOp | tile.AssumeOp | tile.ClaimOp | func.ReturnOp
    )


def prefetch_tensor_maps(gen: KernelCodegen) -> None:
    """Have tensor maps at hand before they are needed; one thread's work."""
    for number in range(len(gen.maps.recipes)):
        gen.emit_convergent_asm("prefetch.tensormap [$0];", [map_at(gen, number)])
