"""`lower-dot`: decide how each `tile.dot` runs: its micro-kernel, element types and buffer layouts.

Before:
    %r = tile.dot %a, %b, %c, "ieee" : tensor<64x32xf16>, tensor<32x64xf16>, tensor<64x64xf32> ...

After (without AMX):
    %a32 = arith.extf %a ; %b32 = arith.extf %b
    %r = cpu.dot %a32, %b32, %c plan "fma 64x64x32 f32,f32,f32 ..."

The conversions are ordinary element-wise operations: `form-fusion-groups` fuses them into the loops
that pack the operands. Products and sums are done in the plan's types, which hold every product of
the user's types exactly or in single precision; `input_precision` never lowers it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    BFloat16Type,
    FixedBitwidthType,
    Float16Type,
    IntegerType,
    ModuleOp,
    StringAttr,
    bf16,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue

from tilewright.dialects import cpu, tile
from tilewright.passes.analysis.edit import replace_op
from tilewright.passes.analysis.emit import Emitter
from tilewright.passes.base import Pass
from tilewright.passes.cpu.dot_plan import DotPlan, plan_dot, simpler_plan
from tilewright.targets import TargetInfo

_TYPES: dict[str, Attribute] = {
    "f16": f16, "bf16": bf16, "f32": f32, "f64": f64, "i8": i8, "i16": i16, "i32": i32, "i64": i64,
}  # fmt: skip


@dataclass(frozen=True)
class LowerDot(Pass):
    register_tile: bool = True
    """Keep several rows and vectors of accumulators in registers; else one vector of one row."""
    unroll: bool = True
    """Several steps of the inner loop in a trip."""
    full_width_vectors: bool = True
    """Vectors of the machine's full width; else of 128 bits."""

    def apply(self, module: ModuleOp, target: TargetInfo) -> None:
        for op in list(module.walk()):
            if isinstance(op, tile.DotOp):
                _lower(op, target, self._simplified)

    def _simplified(self, plan: DotPlan) -> DotPlan:
        """`plan` without what the options leave out; matrix units work on their own tiles."""
        if plan.uses_amx or (self.register_tile and self.unroll and self.full_width_vectors):
            return plan
        return simpler_plan(plan, self.register_tile, self.unroll, self.full_width_vectors)


def _lower(op: tile.DotOp, target: TargetInfo, simplified: Callable[[DotPlan], DotPlan]) -> None:
    m, k = tile.shape_of(op.lhs)[-2:]
    n = tile.shape_of(op.rhs)[-1]
    names = [str(tile.element_of(v)) for v in (op.lhs, op.rhs, op.acc)]
    plan = simplified(plan_dot(m, n, k, names[0], names[1], names[2], target))
    operands = [
        _converted(value, _TYPES[kind], op)
        for value, kind in (
            (op.lhs, plan.a_type),
            (op.rhs, plan.b_type),
            (op.acc, plan.acc_type),
        )
    ]
    dot = Emitter(op).make(cpu.DotOp, operands, operands[2].type, plan=StringAttr(str(plan)))
    result = _converted(dot, tile.element_of(op.result), op)
    replace_op(op, [result])


def _converted(value: SSAValue, element: Attribute, before: Operation) -> SSAValue:
    """`value` with elements of another type, converted before an operation."""
    source = tile.element_of(value)
    if source == element:
        return value
    if isinstance(source, Float16Type | BFloat16Type) and isinstance(
        element, Float16Type | BFloat16Type
    ):
        value, source = _converted(value, f32, before), f32
    result = tile.with_shape(element, tile.shape_of(value))
    return Emitter(before).make(_conversion(source, element), [value], result)


def _conversion(source: Attribute, element: Attribute) -> type[Operation]:
    wider = _bits(element) > _bits(source)
    if isinstance(source, IntegerType):
        return arith.ExtSIOp if wider else arith.TruncIOp
    return arith.ExtFOp if wider else arith.TruncFOp


def _bits(kind: Attribute) -> int:
    if isinstance(kind, FixedBitwidthType):
        return kind.bitwidth
    raise TypeError(f"no number: {kind}")
