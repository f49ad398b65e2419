"""`select-mma`: choose the instruction for each `tile.dot`.

Writes the attribute `gpu.mma` on every dot: the name of a tensor-core instruction, or `"fma"` where
none fits (single precision asked for as `ieee`, integers wider than 8 bits, tiles smaller than the
instruction). Operands that an architecture's tensor cores do not take are converted first: 8-bit
floats become fp16 before sm_89.

Single precision without tensor cores reads its operands from shared memory too (`fma.f32`) where the
tile is large. On sm_90a warpgroups multiply (`wgmma`) what is at least 64 rows: 16-bit floats into fp32 (fp16 also
into fp16), 8-bit floats of both kinds, tf32, 8-bit integers.

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
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import tile
from tilewright.layouts.fragments import INSTRUCTIONS, WgmmaInstruction, choose_warpgroup_grid
from tilewright.passes.analysis.edit import insert_before
from tilewright.passes.base import Pass
from tilewright.passes.gpu.analysis.num_ctas import num_ctas_of

ATTRIBUTE = "gpu.mma"
SHARED_FMA = "fma.f32"
"""Single precision without tensor cores, operands in shared memory."""
_BY_ELEMENT = {
    ("f16", "f32"): "m16n8k16.f16",
    ("f16", "f16"): "m16n8k16.f16",
    ("bf16", "f32"): "m16n8k16.bf16",
    ("i8", "i32"): "m16n8k32.s8",
    ("f64", "f64"): "m8n8k4.f64",
}


@dataclass(frozen=True)
class SelectMma(Pass):
    """See the module docstring."""

    name: ClassVar[str] = "select-mma"
    relevant_ops: ClassVar[tuple[str, ...]] = ("tile.dot",)
    fallback_options: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "promote-shared": {"wgmma": False}
    }
    wgmma: bool = True
    """Choose products that read shared memory: `wgmma` where the target has it, `fma.f32`."""

    def apply(self, module: ModuleOp, target: Any) -> None:
        for op in list(module.walk()):
            if isinstance(op, tile.DotOp):
                name = _choose_wgmma(op, target) if self.wgmma else None
                if name is None:
                    _narrow_to_half(op, target)
                    name = _choose(op)
                if name == "fma" and self.wgmma and _is_large_single(op):
                    name = SHARED_FMA
                op.attributes[ATTRIBUTE] = StringAttr(name)


def instruction_of(op: tile.DotOp) -> str:
    """What `select-mma` chose for a dot ("fma" when it did not run)."""
    chosen = op.attributes.get(ATTRIBUTE)
    return chosen.data if isinstance(chosen, StringAttr) else "fma"


def _narrow_to_half(op: tile.DotOp, target: Any) -> None:
    """8-bit floats as fp16 (exact) where `mma.sync` does not take them: before sm_89, with fp16 sums,
    or in tiles smaller than its instruction that fp16's covers."""
    kinds = [str(tile.element_of(v)) for v in (op.lhs, op.rhs)]
    if not all(k.startswith("f8") for k in kinds):
        return
    capability = int("".join(c for c in target.name if c.isdigit()) or 0)
    if capability < 89 or tile.element_of(op.acc) == f16:
        for i, value in ((0, op.lhs), (1, op.rhs)):
            op.operands[i] = _extended(value, op)


def _extended(value: SSAValue, before: tile.DotOp) -> SSAValue:
    kind = tile.with_shape(f16, tile.shape_of(value))
    cast = arith.ExtFOp.create(operands=[value], result_types=[kind], location=before.location)
    insert_before(cast, before)
    return cast.results[0]


def is_wgmma(op: tile.DotOp) -> bool:
    """Whether a dot is for warpgroups."""
    return instruction_of(op).startswith("wgmma")


def reads_shared(op: tile.DotOp) -> bool:
    """Whether a dot has its operands in shared memory: `wgmma`, and multiply-add of large tiles."""
    return is_wgmma(op) or instruction_of(op) == SHARED_FMA


def _choose_wgmma(op: tile.DotOp, target: Any) -> str | None:
    """`wgmma`, where the tile is large enough to be shared out to warpgroups."""
    instruction = _group_instruction(op)
    if target.name != "sm_90a" or instruction is None or num_ctas_of(op) > 1:
        return None
    if len(tile.shape_of(op.lhs)) != 2:
        return None
    (m, k), n = tile.shape_of(op.lhs), tile.shape_of(op.rhs)[1]
    groups = choose_warpgroup_grid(m, n, warps_around(op))
    fits = groups is not None and k % instruction.k == 0 and n >= 16 and groups.width(n) >= 8
    return str(instruction) if fits else None


def _is_large_single(op: tile.DotOp) -> bool:
    """Whether each thread gets a block of single-precision sums worth reading ahead for."""
    kinds = {tile.element_of(v) for v in (op.lhs, op.rhs, op.acc)}
    if kinds != {f32} or len(tile.shape_of(op.lhs)) != 2 or num_ctas_of(op) > 1:
        return False
    (m, k), n = tile.shape_of(op.lhs), tile.shape_of(op.rhs)[1]
    return min(m, n) >= 16 and k >= 8 and m * n >= 4 * 32 * warps_around(op)


_SHORT = {"f8E4M3FN": "e4m3", "f8E5M2": "e5m2", "i8": "s8", "f32": "tf32"}
_GROUPS = {
    ("f16", "f32"): 16, ("f16", "f16"): 16, ("bf16", "f32"): 16, ("tf32", "f32"): 8,
    ("s8", "i32"): 32, ("f8", "f32"): 32, ("f8", "f16"): 32,
}  # fmt: skip
"""Elements of k that `wgmma` takes at a time, by the types of operands and sums."""


def _group_instruction(op: tile.DotOp) -> WgmmaInstruction | None:
    """The kind of `wgmma` for a dot's types (PTX ISA, "wgmma.mma_async")."""
    kinds = [str(tile.element_of(v)) for v in (op.lhs, op.rhs)]
    left, right = (_SHORT.get(k, k) for k in kinds)
    both_f8 = all(k.startswith("f8") for k in kinds)
    if not both_f8 and left != right:
        return None
    if left == "tf32" and op.input_precision.data != "tf32":
        return None
    k = _GROUPS.get(("f8" if both_f8 else left, str(tile.element_of(op.acc))))
    return WgmmaInstruction(k, left, right) if k is not None else None


def warps_around(op: Operation) -> int:
    """Warps of the program that a dot is in (the attribute `gpu.num_warps`; 4 without it)."""
    above = op.parent_op()
    while above is not None and "gpu.num_warps" not in above.attributes:
        above = above.parent_op()
    given = above.attributes["gpu.num_warps"] if above is not None else None
    return given.value.data if isinstance(given, IntegerAttr) else 4


def _choose(op: tile.DotOp) -> str:
    left, right = str(tile.element_of(op.lhs)), str(tile.element_of(op.rhs))
    acc = str(tile.element_of(op.acc))
    name = _BY_ELEMENT.get((left, acc)) if left == right else None
    if left.startswith("f8") and right.startswith("f8") and acc == "f32":
        kinds = dict.fromkeys((_SHORT[left], _SHORT[right]))
        name = ".".join(("m16n8k32", *kinds))
    if (
        left == right == "f32"
        and tile.element_of(op.acc) == f32
        and op.input_precision.data == "tf32"
    ):
        name = "m16n8k8.tf32"
    if name is None:
        return "fma"
    instruction = INSTRUCTIONS[name]
    extents = (*tile.shape_of(op.lhs)[-2:], tile.shape_of(op.rhs)[-1])
    m, k, n = (e & -e for e in extents)  # instructions tile the power of two in each
    fits = m >= instruction.m and n >= instruction.n and k >= instruction.k
    return name if fits else "fma"
