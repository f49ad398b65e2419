"""`share-exponentials`: compute `exp(a - m)` and `exp(b - m)`, where `m = max(a, b)`, with one exponential.

One of the two is `exp(0)`, the other is `exp(-|a - b|)`. An online softmax rescales its sum by the first and adds the second, each of
some 13 instructions a vector; the selects take six.

    Change:
          func.func @k(%a: vector<8xf32>, %b: vector<8xf32>) -> vector<8xf32> {
            %m = arith.maxnumf %a, %b : vector<8xf32>
        -   %x = arith.subf %a, %m : vector<8xf32>
        -   %p = math.exp %x : vector<8xf32>
        -   %y = arith.subf %b, %m : vector<8xf32>
        -   %q = math.exp %y : vector<8xf32>
        +   %d = arith.subf %a, %b : vector<8xf32>
        +   %far = math.absf %d : vector<8xf32>
        +   %minus = arith.negf %far : vector<8xf32>
        +   %e = math.exp %minus : vector<8xf32>
        +   %zero = arith.subf %m, %m : vector<8xf32>
        +   %number = arith.constant 1.000000e+00 : f32
        +   %unit = cpu.splat %number : f32 to vector<8xf32>
        +   %one = arith.addf %zero, %unit : vector<8xf32>
        +   %first = tile.cmpf "oeq", %a, %m : vector<8xf32>, vector<8xf32> to vector<8xi1>
        +   %p = tile.select %first, %one, %e : vector<8xi1>, vector<8xf32>, vector<8xf32> to vector<8xf32>
        +   %second = tile.cmpf "oeq", %b, %m : vector<8xf32>, vector<8xf32> to vector<8xi1>
        +   %q = tile.select %second, %one, %e : vector<8xi1>, vector<8xf32>, vector<8xf32> to vector<8xf32>
            %s = arith.addf %p, %q : vector<8xf32>
            func.return %s : vector<8xf32>
          }

Relies on: `vectorize`, and `peel-first-iteration`, which takes the branches away in which one of them may be.

Guarantees: the same values, bit by bit. `a - b` rounds as `b - a` does; `m - m` is NaN, and not 0, where `m` is not finite.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import Float32Type, Float64Type, StringAttr, VectorType, i1
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import cpu, tile
from tilewright.passes.analysis.effects import erase_dead
from tilewright.passes.analysis.emit import Emitter
from tilewright.passes.base import FunctionPass
from tilewright.passes.folding.arithmetic import filled
from tilewright.targets import TargetInfo

_EXPONENTIALS = (math.ExpOp, math.Exp2Op)


@dataclass(frozen=True)
class ShareExponentials(FunctionPass):
    relevant_ops: ClassVar[tuple[str, ...]] = ("arith.maxnumf",)

    def run(self, function: FuncOp, target: TargetInfo) -> None:
        largest = [op for op in function.walk() if isinstance(op, arith.MaxnumfOp)]
        shared = [_share(op) for op in largest if _is_vector(op.result)]
        if any(shared):
            erase_dead(function.body.block)


def _is_vector(value: SSAValue) -> bool:
    kind = value.type
    return isinstance(kind, VectorType) and isinstance(kind.element_type, Float32Type | Float64Type)


def _share(largest: arith.MaxnumfOp) -> bool:
    """Compute both exponentials of differences from `largest` with one, if there are two of them."""
    pairs = [_exponentials(operand, largest) for operand in largest.operands]
    kinds = {type(op) for found in pairs for op in found}
    if len(kinds) != 1 or not all(pairs) or largest.lhs is largest.rhs or largest.next_op is None:
        return False
    e, m = Emitter(largest.next_op), largest.result
    difference = e.insert(arith.SubfOp(largest.lhs, largest.rhs))
    far = e.insert(arith.NegfOp(e.insert(math.AbsFOp(difference))))
    exponential: Any = kinds.pop()
    less = e.insert(exponential(far))
    one = e.insert(arith.AddfOp(e.insert(arith.SubfOp(m, m)), filled(1.0, m, e)))
    lanes = cpu.vector_of(i1, cpu.lanes_of(m))
    for operand, found in zip(largest.operands, pairs, strict=True):
        is_largest = e.make(tile.CmpFOp, [operand, m], lanes, predicate=StringAttr("oeq"))
        value = e.make(tile.SelectOp, [is_largest, one, less], m.type)
        for op in found:
            op.results[0].replace_all_uses_with(value)
    return True


def _exponentials(operand: SSAValue, largest: arith.MaxnumfOp) -> list[Operation]:
    """The exponentials of `operand - largest`, in the block of `largest`."""
    differences = [
        use.operation
        for use in largest.result.uses
        if isinstance(use.operation, arith.SubfOp)
        and (use.operation.lhs, use.operation.rhs) == (operand, largest.result)
    ]
    return [
        use.operation
        for difference in differences
        for use in difference.result.uses
        if isinstance(use.operation, _EXPONENTIALS) and use.operation.parent is largest.parent
    ]
