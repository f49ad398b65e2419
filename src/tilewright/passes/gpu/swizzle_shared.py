"""`swizzle-shared`: choose swizzles of shared-memory buffers that avoid bank conflicts.

Lines of a tile are a multiple of 128 bytes apart more often than not, so the lines of one column are in
the same banks: `ldmatrix`, which reads 16 bytes of 8 lines at once, would take 8 passes. Two remedies:

- `swizzle`: lines are cut into panels of 128, 64 or 32 bytes, in which 16-byte chunks are exchanged by
  bits of the line's number. It costs no memory, and `wgmma` and the tensor memory accelerator do it too.
- `pad`: each line is followed by 16 bytes of nothing (arXiv 2108.13191, section 3.3). Buffers that `wgmma`
  reads cannot be padded and stay as they are.

    Change:
          func.func @k() {
        -   %a = gpu.local_alloc : !gpu.shared<tensor<64x32xf16>, "64x32x2 dim1 pad0", 1>
        -   %b = gpu.local_alloc : !gpu.shared<tensor<32x96xf16>, "32x96x2 dim1 pad0", 1>
        +   %a = gpu.local_alloc : !gpu.shared<tensor<64x32xf16>, "64x32x2 dim1 swizzle64", 1>
        +   %b = gpu.local_alloc : !gpu.shared<tensor<32x96xf16>, "32x96x2 dim1 swizzle64", 1>
            func.return
          }

Relies on `promote-shared`. Switched off (or `none`), lines follow each other as they are, and what
`wgmma` reads is in panels of 16 bytes, which its descriptors call no swizzle. Guarantees: only the
layouts of buffers change.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import SSAValue

from tilewright.dialects import gpu, tile
from tilewright.errors import PassError
from tilewright.layouts.fragments import parse_wgmma
from tilewright.layouts.shared import (
    LINEAR,
    SharedLayout,
    line_padding,
    padded_swizzle,
    widest_swizzle,
)
from tilewright.layouts.wgmma_partition import partition_wgmma
from tilewright.passes.base import Pass
from tilewright.passes.gpu.analysis.buffer_views import buffer_users, retype_views
from tilewright.passes.gpu.analysis.num_ctas import warps_of
from tilewright.passes.gpu.select_mma import SHARED_FMA
from tilewright.targets import TargetInfo

MODES = ("swizzle", "pad", "none")


@dataclass(frozen=True)
class SwizzleShared(Pass):
    requires = ("promote-shared",)
    mode: str = "swizzle"
    """`swizzle`, `pad` or `none`."""

    def apply(self, module: ModuleOp, target: TargetInfo) -> None:
        if self.mode not in MODES:
            raise PassError(
                f"swizzle-shared has no mode {self.mode!r}", help=f"there are {', '.join(MODES)}"
            )
        for op in module.walk():
            if isinstance(op, gpu.LocalAllocOp):
                kind: Any = op.result.type
                layout = self._arranged(gpu.shared_layout_of(op.result), op.result)
                op.result._type = gpu.SharedType(kind.tile, StringAttr(str(layout)), kind.stages)
                retype_views(op.result)

    def _arranged(self, layout: SharedLayout, buffer: SSAValue) -> SharedLayout:
        if self.mode == "swizzle":
            stretch = _stretch(buffer) or layout.contiguous_extent
            roomy = stretch == layout.contiguous_extent and _ends(buffer, layout.major_dim)
            span = (padded_swizzle if roomy else widest_swizzle)(stretch, layout.size)
            return replace(layout, swizzle_bytes=span, pad=0) if span else layout
        if self.mode == "pad" and layout.swizzle_bytes == LINEAR:
            return replace(layout, pad=line_padding(layout.contiguous_extent, layout.size))
        return layout


def _stretch(buffer: SSAValue) -> int:
    """Elements of a line that one warpgroup reads of `wgmma`'s right operand, which panels should not
    go beyond; 0 where there is no such bound."""
    found: list[int] = []
    for use in buffer.uses:
        op = use.operation
        if isinstance(op, gpu.MemdescTransOp):
            found.append(_stretch(op.result))
        if isinstance(op, gpu.WgmmaOp) and op.rhs is buffer and op.instruction.data != SHARED_FMA:
            m, n = tile.shape_of(op.result)
            partition = partition_wgmma(parse_wgmma(op.instruction.data), m, n, warps_of(op))
            if partition is None or partition.swap_ab:
                continue
            if gpu.shared_layout_of(buffer).major_dim == 1:
                found.append(n // partition.groups.columns)
    return min(filter(None, found), default=0)


def _ends(buffer: SSAValue, dim: int) -> bool:
    """Whether only `wgmma` and copies use a buffer, and what is copied comes from rows that go on after
    the tile, up to an end (a limit, as masks give): a panel may then bring more of them."""
    operations = buffer_users(buffer)
    copies = [op for op in operations if isinstance(op, gpu.AsyncCopyOp)]
    known = all(
        tile.view_kinds(copy)[dim] == "wrapped" or dim in tile.view_limits(copy) for copy in copies
    )
    return (
        bool(copies)
        and known
        and all(isinstance(o, gpu.AsyncCopyOp | gpu.WgmmaOp) for o in operations)
    )
