"""`select-mma`: choose the instruction for each `tile.dot`.

Writes the attribute `gpu.mma` on every dot: the name of a tensor-core instruction, or `"fma"` where
none fits (single precision asked for as `ieee`, integers wider than 8 bits, tiles smaller than the
instruction). Which there are the target's table says (`TargetInfo.mma`). Operands that its tensor cores do not
take are converted first: 8-bit floats become fp16. Dots of 8 rows, half of what `mma.sync` has, are computed as the
transposed product of the transposed operands, whose 8 columns it takes.

Single precision without tensor cores reads its operands from shared memory too (`fma.f32`) where the
tile has an element for each thread. Where the target has `wgmma`, warpgroups multiply what is at least 64 rows: 16-bit floats into fp32 (fp16 also
into fp16), 8-bit floats of both kinds, tf32, 8-bit integers.

    Change:
          func.func @k(%a: tensor<16x16xf16>, %b: tensor<16x16xf16>, %c: tensor<16x16xf32>) {
        -   %d = tile.dot %a, %b, %c, "tf32" : tensor<16x16xf16>, tensor<16x16xf16>, tensor<16x16xf32> to tensor<16x16xf32>
        +   %d = tile.dot %a, %b, %c, "tf32" {gpu.mma = "m16n8k16.f16"} : tensor<16x16xf16>, tensor<16x16xf16>, tensor<16x16xf32> to tensor<16x16xf32>
            func.return
          }

Switched off, every dot is `"fma"`. With `promote-shared` off, `wgmma` (whose operands are in shared
memory) is not chosen, and `mma.sync` takes over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, StringAttr, f16, f32, i64
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import tile
from tilewright.ir.walk import closure
from tilewright.layouts.fragments import choose_warpgroup_grid
from tilewright.passes.analysis.edit import replace_op, with_operands
from tilewright.passes.analysis.effects import is_pure_elementwise
from tilewright.passes.analysis.emit import Emitter
from tilewright.passes.base import Pass
from tilewright.passes.fold_transpose import FoldTranspose
from tilewright.passes.gpu.analysis.accesses import contiguous_dim
from tilewright.passes.gpu.analysis.num_ctas import num_ctas_of, warps_of
from tilewright.targets import MmaInstruction, TargetInfo
from tilewright.targets.instructions import MMA_SYNC, PAIRS, WGMMA

ATTRIBUTE = "gpu.mma"
SHARED_FMA = "fma.f32"
"""Single precision without tensor cores, operands in shared memory."""
_SWAPPED = DenseArrayBase.from_list(i64, [1, 0])


@dataclass(frozen=True)
class SelectMma(Pass):
    relevant_ops = ("tile.dot",)
    fallback_options = {"promote-shared": {"wgmma": False}}
    wgmma: bool = True
    """Choose dots that read shared memory: `wgmma` where the target has it, `fma.f32`."""

    def apply(self, module: ModuleOp, target: TargetInfo) -> None:
        _transpose_dots(module, target)
        for op in list(module.walk()):
            if isinstance(op, tile.DotOp):
                name = _choose_wgmma(op, target) if self.wgmma else None
                if name is None:
                    _narrow_to_half(op, target)
                    name = _choose(op, target)
                if name == "fma" and self.wgmma and _is_single_of_all_threads(op):
                    name = SHARED_FMA
                op.attributes[ATTRIBUTE] = StringAttr(name)


def instruction_of(op: tile.DotOp) -> str:
    """What `select-mma` chose for a dot ("fma" when it did not run)."""
    chosen = op.attributes.get(ATTRIBUTE)
    return chosen.data if isinstance(chosen, StringAttr) else "fma"


def _narrow_to_half(op: tile.DotOp, target: TargetInfo) -> None:
    """8-bit floats as fp16 (exact) where `mma.sync` does not take them: on older chips, and with fp16
    accumulators."""
    kinds = [str(tile.element_of(v)) for v in (op.lhs, op.rhs)]
    if not all(k.startswith("f8") for k in kinds):
        return
    if _row_of(op, target, MMA_SYNC) is None:
        for i, value in ((0, op.lhs), (1, op.rhs)):
            kind = tile.with_shape(f16, tile.shape_of(value))
            op.operands[i] = Emitter(op).make(arith.ExtFOp, [value], kind)


def is_wgmma(op: tile.DotOp) -> bool:
    """Whether a dot is for warpgroups."""
    return instruction_of(op).startswith("wgmma")


def reads_shared(op: tile.DotOp) -> bool:
    """Whether a dot has its operands in shared memory: `wgmma`, and multiply-add of large tiles."""
    return is_wgmma(op) or instruction_of(op) == SHARED_FMA


def _choose_wgmma(op: tile.DotOp, target: TargetInfo) -> str | None:
    """`wgmma`, where the tile is large enough to be shared out to warpgroups."""
    row = _row_of(op, target, WGMMA)
    if row is None or num_ctas_of(op) > 1:
        return None
    if len(tile.shape_of(op.lhs)) != 2:
        return None
    (m, k), n = tile.shape_of(op.lhs), tile.shape_of(op.rhs)[1]
    groups = choose_warpgroup_grid(m, n, warps_of(op))
    fits = groups is not None and k % row.k == 0 and n >= 16 and groups.width(n) >= 8
    return row.name if fits else None


def _is_single_of_all_threads(op: tile.DotOp) -> bool:
    """Whether each thread has accumulators in single precision, whose operands are worth reading ahead."""
    kinds = {tile.element_of(v) for v in (op.lhs, op.rhs, op.acc)}
    if kinds != {f32} or len(tile.shape_of(op.lhs)) != 2 or num_ctas_of(op) > 1:
        return False
    (m, k), n = tile.shape_of(op.lhs), tile.shape_of(op.rhs)[1]
    return min(m, n) >= 16 and k >= 8 and m * n >= 32 * warps_of(op)


def _row_of(op: tile.DotOp, target: TargetInfo, unit: str) -> MmaInstruction | None:
    """The instruction of a unit for a dot's types; None where the target has none."""
    types = [str(tile.element_of(v)) for v in (op.lhs, op.rhs, op.acc)]
    if types[0] == "f32" and op.input_precision.data != "tf32":
        return None
    return next((row for row in target.mma_unit(unit) if row.takes(*types)), None)


def _choose(op: tile.DotOp, target: TargetInfo) -> str:
    row = _row_of(op, target, MMA_SYNC)
    if row is None:
        return "fma"
    extents = (*tile.shape_of(op.lhs)[-2:], tile.shape_of(op.rhs)[-1])
    m, k, n = (e & -e for e in extents)  # instructions tile the power of two in each
    if m < row.m or n < row.n or k < row.k:
        return "fma"
    pairs = row.name + PAIRS
    has_pairs = any(other.name == pairs for other in target.mma_unit(MMA_SYNC))
    return pairs if has_pairs and not _reads_lines(op) else row.name


# ---- transposed products ----


def _transpose_dots(module: ModuleOp, target: TargetInfo) -> None:
    """Compute dots with too few rows for `mma.sync` as the transposed products of their operands, transposed."""
    dots = [
        op for op in module.walk() if isinstance(op, tile.DotOp) and _fits_transposed(op, target)
    ]
    transposed: dict[SSAValue, SSAValue] = {}
    for op in dots:
        e = Emitter(op)
        lhs, rhs, acc = (_transposed(v, transposed) for v in (op.rhs, op.lhs, op.acc))
        dot = with_operands(op, [lhs, rhs, acc], [acc.type])
        e.insert_op(dot)
        back = e.make(tile.TransOp, [dot.results[0]], op.result.type, order=_SWAPPED)
        replace_op(op, [back])
    if dots:
        FoldTranspose().apply(module, target)


def _fits_transposed(op: tile.DotOp, target: TargetInfo) -> bool:
    """Whether only the transposed product has the rows of an instruction of `mma.sync`."""
    row = _row_of(op, target, MMA_SYNC)
    if row is None or len(tile.shape_of(op.lhs)) != 2 or num_ctas_of(op) > 1:
        return False
    kinds = [str(tile.element_of(v)) for v in (op.rhs, op.lhs, op.acc)]
    other = next((r for r in target.mma_unit(MMA_SYNC) if r.takes(*kinds)), None)
    extents = *tile.shape_of(op.lhs), tile.shape_of(op.rhs)[1]
    m, k, n = (e & -e for e in extents)
    return m < row.m and other is not None and (m >= other.n and n >= other.m and k >= other.k)


def _transposed(value: SSAValue, transposed: dict[SSAValue, SSAValue]) -> SSAValue:
    """A matrix transposed, once, where it is defined."""
    owner = value.owner
    if isinstance(owner, tile.TransOp):
        return owner.source
    if value not in transposed:
        rows, columns = tile.shape_of(value)
        kind = tile.with_shape(tile.element_of(value), (columns, rows))
        behind = owner.next_op if isinstance(owner, Operation) else owner.first_op
        transposed[value] = Emitter(cast(Operation, behind)).make(
            tile.TransOp, [value], kind, order=_SWAPPED
        )
    return transposed[value]


def _reads_lines(op: tile.DotOp) -> bool:
    """Whether `ldmatrix` gives operands of 32 bits, or what they are computed from element by element, as they lie in
    memory, contiguous along k, and none is made of sums or of elements of 16 bits, of which lanes hold pairs of
    neighbors."""
    sources = [(v, d) for operand, d in ((op.lhs, 1), (op.rhs, 0)) for v in _sources(operand)]
    if any(isinstance(v.owner, tile.DotOp) or tile.element_bytes(v) == 2 for v, _ in sources):
        return False
    return any(
        isinstance(v.owner, tile.LoadViewOp) and contiguous_dim(v.owner) == d for v, d in sources
    )


def _sources(value: SSAValue) -> Iterator[SSAValue]:
    """A tile, and those that element-wise operations make it of."""

    def tiles(value: SSAValue) -> list[SSAValue]:
        if not isinstance(value.owner, Operation) or not is_pure_elementwise(value.owner):
            return []
        return [v for v in value.owner.operands if tile.is_tile(v)]

    return closure([value], tiles)
