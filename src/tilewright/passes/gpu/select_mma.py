"""`select-mma`: choose the instruction for each `tile.dot`.

Writes the attribute `gpu.mma` on every dot: the name of a tensor-core instruction, or `"fma"` where
none fits (single precision asked for as `ieee`, integers wider than 8 bits, tiles smaller than the
instruction). Operands that an architecture's tensor cores do not take are converted first: 8-bit
floats become fp16 before sm_89.

    Before:
        func.func @k(%a: tensor<16x16xf16>, %b: tensor<16x16xf16>, %c: tensor<16x16xf32>) {
          %d = tile.dot %a, %b, %c, "tf32" : tensor<16x16xf16>, tensor<16x16xf16>, tensor<16x16xf32> to tensor<16x16xf32>
          func.return
        }
    After:
        func.func @k(%a: tensor<16x16xf16>, %b: tensor<16x16xf16>, %c: tensor<16x16xf32>) {
          %d = tile.dot %a, %b, %c, "tf32" {gpu.mma = "m16n8k16.f16"} : tensor<16x16xf16>, tensor<16x16xf16>, tensor<16x16xf32> to tensor<16x16xf32>
          func.return
        }

Switched off, every dot is `"fma"`. With `promote-shared` off, `wgmma` (whose operands are in shared
memory) is not chosen, and `mma.sync` takes over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr, f16, f32
from xdsl.ir import SSAValue

from tilewright.dialects import tile
from tilewright.layouts.fragments import INSTRUCTIONS, arrange_groups
from tilewright.passes.analysis.edit import insert_before
from tilewright.passes.base import Pass
from tilewright.passes.gpu.analysis.blocks import blocks_of

ATTRIBUTE = "gpu.mma"
_BY_ELEMENT = {
    ("f16", "f32"): "m16n8k16.f16",
    ("f16", "f16"): "m16n8k16.f16",
    ("bf16", "f32"): "m16n8k16.bf16",
    ("i8", "i32"): "m16n8k32.s8",
    ("f8E4M3FN", "f32"): "m16n8k32.e4m3",
    ("f8E5M2", "f32"): "m16n8k32.e5m2",
    ("f64", "f64"): "m8n8k4.f64",
}


@dataclass(frozen=True)
class SelectMma(Pass):
    """See the module docstring."""

    name: ClassVar[str] = "select-mma"
    without: ClassVar[Mapping[str, Mapping[str, Any]]] = {"promote-shared": {"wgmma": False}}
    wgmma: bool = True
    """Let warp groups multiply from shared memory where the target can."""

    def apply(self, module: ModuleOp, target: Any) -> None:
        for op in list(module.walk()):
            if isinstance(op, tile.DotOp):
                _narrow_to_half(op, target)
                name = (_choose_wgmma(op, target) if self.wgmma else None) or _choose(op)
                op.attributes[ATTRIBUTE] = StringAttr(name)


def instruction_of(op: tile.DotOp) -> str:
    """What `select-mma` chose for a dot ("fma" when it did not run)."""
    chosen = op.attributes.get(ATTRIBUTE)
    return chosen.data if isinstance(chosen, StringAttr) else "fma"


def _narrow_to_half(op: tile.DotOp, target: Any) -> None:
    """8-bit floats as fp16 (exact) where tensor cores do not take them, or not mixed."""
    kinds = [str(tile.element_of(v)) for v in (op.lhs, op.rhs)]
    capability = int("".join(c for c in target.name if c.isdigit()) or 0)
    if all(k.startswith("f8") for k in kinds) and not (capability >= 89 and kinds[0] == kinds[1]):
        for i, value in ((0, op.lhs), (1, op.rhs)):
            op.operands[i] = _extended(value, op)


def _extended(value: SSAValue, before: tile.DotOp) -> SSAValue:
    kind = tile.with_shape(f16, tile.shape_of(value))
    cast = arith.ExtFOp.create(operands=[value], result_types=[kind], location=before.location)
    insert_before(cast, before)
    return cast.results[0]


def is_wgmma(op: tile.DotOp) -> bool:
    """Whether a dot is for warp groups, with its operands in shared memory."""
    return instruction_of(op).startswith("wgmma")


def _choose_wgmma(op: tile.DotOp, target: Any) -> str | None:
    """`wgmma` for 16-bit floats into fp32: both operands may be contiguous along any dimension."""
    element = str(tile.element_of(op.lhs))
    same = element == str(tile.element_of(op.rhs)) and tile.element_of(op.acc) == f32
    if not (target.name == "sm_90a" and element in ("f16", "bf16") and same):
        return None
    if len(tile.shape_of(op.lhs)) != 2 or blocks_of(op) > 1:
        return None
    (m, k), n = tile.shape_of(op.lhs), tile.shape_of(op.rhs)[1]
    groups = arrange_groups(m, n, _warps(op))
    fits = groups is not None and k >= 16 and n >= 16 and groups.width(n) >= 8
    return f"wgmma.k16.{element}" if fits else None


def _warps(op: tile.DotOp) -> int:
    above = op.parent_op()
    while above is not None and "gpu.warps" not in above.attributes:
        above = above.parent_op()
    given = above.attributes["gpu.warps"] if above is not None else None
    return given.value.data if isinstance(given, IntegerAttr) else 4


def _choose(op: tile.DotOp) -> str:
    left, right = str(tile.element_of(op.lhs)), str(tile.element_of(op.rhs))
    acc = str(tile.element_of(op.acc))
    name = _BY_ELEMENT.get((left, acc)) if left == right else None
    if left == right == "f32" and tile.element_of(op.acc) == f32 and op.precision.data == "tf32":
        name = "m16n8k8.tf32"
    if name is None:
        return "fma"
    instruction = INSTRUCTIONS[name]
    *_, m, k = tile.shape_of(op.lhs)
    n = tile.shape_of(op.rhs)[-1]
    fits = m >= instruction.m and n >= instruction.n and k >= instruction.k
    return name if fits else "fma"
