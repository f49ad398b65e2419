"""`narrow-dot-operands`: multiply fp16 and bf16 operands as they are where a dot takes them widened to fp32.

Products of 16-bit floats are exact in fp32, and tensor cores add them up in fp32 for every input type: the result of
`tl.dot(a.to(tl.float32), b.to(tl.float32))` is that of `tl.dot(a, b)`, at twice the rate of tf32 and from half the registers
and shared memory. A dot in `ieee` precision, which does not run on tensor cores, stays.

    Change:
          func.func @k(%a: tensor<16x16xbf16>, %b: tensor<16x16xbf16>, %c: tensor<16x16xf32>) -> tensor<16x16xf32> {
        -   %0 = arith.extf %a : tensor<16x16xbf16> to tensor<16x16xf32>
        -   %1 = arith.extf %b : tensor<16x16xbf16> to tensor<16x16xf32>
        -   %2 = tile.trans %1, [1, 0] : tensor<16x16xf32> to tensor<16x16xf32>
        -   %d = tile.dot %0, %2, %c, "tf32" : tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32> to tensor<16x16xf32>
        +   %0 = tile.trans %b, [1, 0] : tensor<16x16xbf16> to tensor<16x16xbf16>
        +   %d = tile.dot %a, %0, %c, "tf32" : tensor<16x16xbf16>, tensor<16x16xbf16>, tensor<16x16xf32> to tensor<16x16xf32>
            func.return %d : tensor<16x16xf32>
          }

Requires: nothing. Operands of two different 16-bit types stay, as does an inner extent below 16, which 16-bit instructions
do not take.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import BFloat16Type, Float16Type, ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import tile
from tilewright.passes.analysis.edit import insert_before, with_operands
from tilewright.passes.analysis.effects import erase_dead
from tilewright.passes.analysis.emit import Emitter, uniform_constant
from tilewright.passes.base import Pass
from tilewright.targets import TargetInfo

_RESHAPING = (tile.ExpandDimsOp, tile.BroadcastOp, tile.TransOp, tile.ReshapeOp, tile.HintOp)
_SMALLEST_K = 16
"""Inner extent of the instructions for 16-bit floats (PTX ISA, `mma`)."""


class NarrowDotOperands(Pass):
    relevant_ops = ("tile.dot",)
    idempotent = True

    def apply(self, module: ModuleOp, target: TargetInfo) -> None:
        narrowed = [op for op in list(module.walk()) if isinstance(op, tile.DotOp) and _narrow(op)]
        if narrowed:
            erase_dead(module.body.block)


def _narrow(op: tile.DotOp) -> bool:
    """Give a dot its operands before they were widened, if both were and from one type."""
    kind = _widened_from(op.lhs)
    k = tile.shape_of(op.lhs)[-1]
    if kind is None or kind != _widened_from(op.rhs) or (k & -k) < _SMALLEST_K:
        return False
    if op.input_precision.data == "ieee":
        return False
    for i in (0, 1):
        op.operands[i] = _before_widening(op.operands[i], kind, op)
    return True


def _source(op: Operation | Block) -> SSAValue | None:
    """The operand whose elements `op` passes on as they are: under other coordinates, or with zeros in between."""
    if isinstance(op, _RESHAPING):
        return op.operands[0]
    if isinstance(op, tile.SelectOp):
        for kept, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            if uniform_constant(other) == 0:
                return kept
    return None


def _widened_from(value: SSAValue) -> BFloat16Type | Float16Type | None:
    """The 16-bit type that a tile of fp32 was converted from, perhaps before it was masked or its shape changed."""
    op = value.owner
    while (source := _source(op)) is not None:
        op = source.owner
    if not isinstance(op, arith.ExtFOp):
        return None
    kind = tile.element_of(op.operands[0])
    return kind if isinstance(kind, BFloat16Type | Float16Type) else None


def _before_widening(
    value: SSAValue, kind: BFloat16Type | Float16Type, user: Operation
) -> SSAValue:
    """The tile whose conversion to fp32 is `value`. Requires `_widened_from(value) == kind`."""
    op = value.owner
    source = _source(op)
    if isinstance(op, Block) or source is None:
        return value if isinstance(op, Block) else op.operands[0]
    narrow = _before_widening(source, kind, user)
    if isinstance(op, tile.SelectOp):
        emit = Emitter(user, op.location)
        zeros = emit.splat(emit.float_constant(0.0, kind), tile.shape_of(value))
        operands = [op.condition, *(narrow if v is source else zeros for v in (op.lhs, op.rhs))]
    else:
        operands = [narrow]
    copy = with_operands(op, operands, [tile.with_shape(kind, tile.shape_of(value))])
    insert_before(copy, user)
    return copy.results[0]
