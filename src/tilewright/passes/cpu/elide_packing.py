"""`elide-packing`: let dots read operands where they stand in memory, if they stand there as the micro-kernel wants them.

A dot's operands are packed into scratch buffers of the program. Where the programs of a matmul share panels
that were packed before (`MatmulConfig.prepack`), the load of a tile finds the very order that packing
would make, and the copy is for nothing. Any load qualifies whose elements lie so, whoever wrote them.

Before:
    %a = tile.load_view %p, %c128, %c1 : tensor<64x128xf32>
    %b = tile.load_view %q, ... : tensor<128x2x32xf32>      [strides 32, 4096, 1]
    %c = tile.reshape %b : tensor<128x64xf32>
    %r = cpu.dot %a, %c, %acc plan "fma 64x64x128 ... row:128[64x128] panel:32[128x64] ..."

After:
    %a = cpu.prepacked %p layout "row:128[64x128]@" : tensor<64x128xf32>
    %c = cpu.prepacked %q layout "panel:32[128x64]@" : tensor<128x64xf32>
    %r = cpu.dot %a, %c, %acc plan "fma 64x64x128 ... row:128[64x128]@ panel:32[128x64]@ ..."

Relies on `lower-dot`, whose plan says which orders the kernel takes: rows of A one after the other, panels of B
of a register tile's width, with as many rows interleaved as an instruction takes. Legal where nothing is masked,
the load is the dot's alone, and nothing writes memory between them. fp16 on matrix units is cut in halves, which
is a copy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import cpu, tile
from tilewright.ir.walk import operations_between
from tilewright.passes.analysis.edit import erase
from tilewright.passes.analysis.effects import is_pure
from tilewright.passes.analysis.emit import Emitter, constant_int
from tilewright.passes.base import Pass
from tilewright.passes.cpu.dot_plan import (
    GROUP,
    BufferLayout,
    DotPlan,
    MicroTile,
    is_fused,
    tile_of_width,
)
from tilewright.targets import TargetInfo

Digits = list[tuple[int, int]]
"""(extent, stride) of the digits of an element's number, most significant first."""


@dataclass(frozen=True)
class ElidePacking(Pass):
    requires: ClassVar[tuple[str, ...]] = ("raise-access", "lower-dot")

    def apply(self, module: ModuleOp, target: TargetInfo) -> None:
        for op in list(module.walk()):
            if isinstance(op, cpu.DotOp):
                _read(op, target)


def _read(dot: cpu.DotOp, target: TargetInfo) -> None:
    plan = DotPlan.parse(dot.plan.data)
    if plan.kind == "amx_fp16" or len(tile.shape_of(dot.result)) != 2:
        return
    rows = BufferLayout("row", plan.m, plan.k, plan.k, in_place=True)
    layouts: dict[int, BufferLayout] = {}
    if _matches_packed_layout(dot.lhs, rows, dot):
        layouts[0] = rows
        plan = replace(plan, a_layout=rows, fetch_a=(0, 0))
    for tile_ in _register_tiles(plan, target):
        panels = BufferLayout(
            "panel", plan.k, plan.n, tile_.columns, group=GROUP[plan.kind], in_place=True
        )
        if _matches_packed_layout(dot.rhs, panels, dot):
            layouts[1] = panels
            sums = BufferLayout.panel(plan.m, plan.n, tile_.columns)
            plan = replace(plan, micro=tile_, b_layout=panels, acc_layout=sums, fetch_b=(0, 0))
            break
    for index, layout in layouts.items():
        _replace(dot, index, layout)
    if layouts:
        dot.properties["plan"] = StringAttr(str(plan))


def _register_tiles(plan: DotPlan, target: TargetInfo) -> list[MicroTile]:
    """The plan's register tile, and others for panels of another width; panels hold whole ones only."""
    if plan.k % GROUP[plan.kind]:
        return []
    if plan.uses_amx:
        return [plan.micro]
    fused = is_fused(plan.kind, plan.acc_type, target)
    registers = target.vector_registers
    others = [
        tile_of_width(
            plan.micro, vectors * plan.micro.lanes, plan.m, target.vector_bits, registers, fused
        )
        for vectors in (1, 2, 3, 4)
    ]
    found = [plan.micro, *(t for t in others if t is not None)]
    return [t for t in found if plan.n % t.columns == 0]


def _loaded(value: SSAValue) -> tuple[tile.LoadViewOp | None, list[Operation]]:
    """The load that a dot's operand is, looking through reshapes; and all of them, the load last."""
    chain: list[Operation] = []
    while isinstance(op := value.owner, tile.ReshapeOp) and value.has_one_use():
        chain.append(op)
        value = op.source
    if isinstance(op, tile.LoadViewOp) and value.has_one_use():
        return op, [*chain, op]
    return None, []


def _matches_packed_layout(value: SSAValue, layout: BufferLayout, dot: cpu.DotOp) -> bool:
    """Whether a dot's operand is a load of exactly this layout, with no write up to the dot."""
    load, _ = _loaded(value)
    if load is None or load.parent is not dot.parent or load.limits or load.mask is not None:
        return False
    if any(kind != "strided" for kind in tile.view_kinds(load)):
        return False
    strides = [constant_int(stride) for stride in load.strides]
    digits: Digits = []
    for extent, stride in zip(tile.shape_of(load.result), strides, strict=True):
        if extent > 1:
            if stride is None:
                return False
            digits.append((extent, stride))
    return _joined(digits) == _joined(_digits(layout)) and _quiet(load, dot)


def _digits(layout: BufferLayout) -> Digits:
    """Row and column of a layout's element as digits with their strides."""
    if layout.kind == "row":
        return [(layout.rows, layout.width), (layout.columns, 1)]
    group, width = layout.group, layout.width
    return [
        (layout.rows // group, width * group), (group, 1), (layout.columns // width, layout.rows * width),
        (width, group),
    ]  # fmt: skip


def _joined(digits: Digits) -> Digits:
    """Neighboring digits that count on where the other ends, as one; none of extent 1."""
    found: Digits = []
    for extent, stride in digits:
        if extent == 1:
            continue
        if found and found[-1][1] == extent * stride:
            found[-1] = (found[-1][0] * extent, stride)
        else:
            found.append((extent, stride))
    return found


def _quiet(load: Operation, dot: Operation) -> bool:
    """Whether only loads and arithmetic stand between the load and the dot."""
    harmless = (tile.Load, cpu.DotOp, cpu.PrepackedOp)
    return load.parent is dot.parent and not any(
        op.regions or not (is_pure(op) or isinstance(op, harmless))
        for op in operations_between(load, dot)
    )


def _replace(dot: cpu.DotOp, index: int, layout: BufferLayout) -> None:
    old = dot.operands[index]
    load, chain = _loaded(old)
    assert load is not None
    text = StringAttr(str(layout))
    value = Emitter(load).make(cpu.PrepackedOp, [load.base], old.type, layout=text)
    value.name_hint = load.result.name_hint
    dot.operands[index] = value
    for op in chain:
        erase(op)
