"""`emulate-fp32-dots`: emulate fp32 dots by several tensor-core dots of split operands.

`input_precision` "tf32x3" writes an operand as the sum of two parts of 11 bits, "bf16x3" of two and "bf16x6"
of three of 8 bits; the products of the larger parts are summed, small ones first. What is not finite meets
its like among the large parts; the small ones, where infinity minus infinity is no number, count as 0 then.

    Change:
          func.func @k(%a: tensor<16x16xf32>, %b: tensor<16x16xf32>, %c: tensor<16x16xf32>) {
        -   %d = tile.dot %a, %b, %c, "tf32x3" : tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32> to tensor<16x16xf32>
        +   %0 = tile.bitcast %a : tensor<16x16xf32> to tensor<16x16xi32>
        +   %1 = arith.constant -8192 : i32
        +   %2 = tile.splat %1 : i32 to tensor<16x16xi32>
        +   %3 = arith.andi %0, %2 : tensor<16x16xi32>
        +   %4 = tile.bitcast %3 : tensor<16x16xi32> to tensor<16x16xf32>
        +   %5 = arith.subf %a, %4 : tensor<16x16xf32>
        +   %6 = tile.bitcast %b : tensor<16x16xf32> to tensor<16x16xi32>
        +   %7 = arith.constant -8192 : i32
        +   %8 = tile.splat %7 : i32 to tensor<16x16xi32>
        +   %9 = arith.andi %6, %8 : tensor<16x16xi32>
        +   %10 = tile.bitcast %9 : tensor<16x16xi32> to tensor<16x16xf32>
        +   %11 = arith.subf %b, %10 : tensor<16x16xf32>
        +   %12 = arith.constant 0.000000e+00 : f32
        +   %13 = tile.splat %12 : f32 to tensor<16x16xf32>
        +   %14 = tile.dot %5, %10, %13, "tf32" : tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32> to tensor<16x16xf32>
        +   %15 = tile.dot %4, %11, %14, "tf32" : tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32> to tensor<16x16xf32>
        +   %16 = tile.cmpf "ord", %15, %15 : tensor<16x16xf32>, tensor<16x16xf32> to tensor<16x16xi1>
        +   %17 = tile.select %16, %15, %13 : tensor<16x16xi1>, tensor<16x16xf32>, tensor<16x16xf32> to tensor<16x16xf32>
        +   %18 = tile.dot %4, %10, %17, "tf32" : tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32> to tensor<16x16xf32>
        +   %d = arith.addf %c, %18 : tensor<16x16xf32>
            func.return
          }

Relies on nothing. Guarantees: no dot that tensor cores could multiply is left with such a precision; those
that are too small for them stay, and are multiplied in single precision. Switched off, all of them are.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp, StringAttr, bf16, f32, i1, i32
from xdsl.ir import SSAValue

from tilewright.dialects import tile
from tilewright.passes.analysis.edit import replace_op
from tilewright.passes.analysis.emit import Emitter
from tilewright.passes.base import Pass
from tilewright.targets import TargetInfo

_TF32_BITS = -(1 << 13)
"""The bits of single precision that tf32 has."""
#: parts of an operand, and the products that count (of which part of A, which part of B), small ones first
_PRODUCTS = {
    "tf32x3": (2, ((1, 0), (0, 1), (0, 0))),
    "bf16x3": (2, ((1, 0), (0, 1), (0, 0))),
    "bf16x6": (3, ((1, 1), (2, 0), (0, 2), (1, 0), (0, 1), (0, 0))),
}
_SMALLEST = (16, 8, 16)
"""Rows, columns and inner extent that tensor cores take."""


class EmulateFp32Dots(Pass):
    relevant_ops = ("tile.dot",)

    def apply(self, module: ModuleOp, target: TargetInfo) -> None:
        for op in list(module.walk()):
            if isinstance(op, tile.DotOp) and op.input_precision.data in _PRODUCTS and _fits(op):
                _split(op)


def _fits(op: tile.DotOp) -> bool:
    single = all(tile.element_of(v) == f32 for v in (op.lhs, op.rhs, op.acc))
    *_, m, k = tile.shape_of(op.lhs)
    extents = (m, tile.shape_of(op.rhs)[-1], k)
    return single and all(e >= s for e, s in zip(extents, _SMALLEST, strict=True))


def _split(op: tile.DotOp) -> None:
    kind, emit = op.input_precision.data, Emitter(op)
    count, products = _PRODUCTS[kind]
    parts_of = _tf32_parts if kind == "tf32x3" else _bf16_parts
    left, right = parts_of(emit, op.lhs, count), parts_of(emit, op.rhs, count)
    zeros = emit.splat(emit.float_constant(0.0, f32), tile.shape_of(op.result))
    total = zeros
    for i, j in products:
        if (i, j) == (0, 0):
            total = _numbers(emit, total, zeros)
        operands, precision = [left[i], right[j], total], StringAttr("tf32")
        total = emit.make(tile.DotOp, operands, op.result.type, input_precision=precision)
    total = emit.insert(arith.AddfOp(op.acc, total))
    replace_op(op, [total])


def _numbers(emit: Emitter, value: SSAValue, zeros: SSAValue) -> SSAValue:
    """0 where `value` is no number."""
    kind = tile.with_shape(i1, tile.shape_of(value))
    is_number = emit.make(tile.CmpFOp, [value, value], kind, predicate=StringAttr("ord"))
    return emit.make(tile.SelectOp, [is_number, value, zeros], value.type)


def _tf32_parts(emit: Emitter, value: SSAValue, count: int) -> list[SSAValue]:
    """The upper bits, and what is left (of which tensor cores read the upper bits)."""
    shape = tile.shape_of(value)
    kind = tile.with_shape(i32, shape)
    bits = emit.make(tile.BitcastOp, [value], kind)
    mask = emit.splat(emit.constant(_TF32_BITS, i32), shape)
    kept = emit.insert(arith.AndIOp(bits, mask))
    large = emit.make(tile.BitcastOp, [kept], value.type)
    return [large, emit.insert(arith.SubfOp(value, large))]


def _bf16_parts(emit: Emitter, value: SSAValue, count: int) -> list[SSAValue]:
    """`count` parts, each the rounded rest of those before."""
    parts: list[SSAValue] = []
    narrow = tile.with_shape(bf16, tile.shape_of(value))
    for i in range(count):
        parts.append(emit.insert(arith.TruncFOp(value, narrow)))
        if i + 1 < count:
            wide = emit.insert(arith.ExtFOp(parts[-1], value.type))
            value = emit.insert(arith.SubfOp(value, wide))
    return parts
