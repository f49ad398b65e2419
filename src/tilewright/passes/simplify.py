"""`simplify`: fold constants, apply algebraic identities and facts, and erase dead operations.

    Change:
          func.func @k(%p: tensor<64x!tile.ptr<f32>>, %n: i32) {
        -   %zero = arith.constant 0 : i32
        -   %three = arith.constant 3 : i32
        -   %four = arith.constant 4 : i32
        -   %seven = arith.addi %three, %four : i32
        +   %seven = arith.constant 7 : i32
            %off = tile.splat %seven : i32 to tensor<64xi32>
        -   %offs = tile.splat %zero : i32 to tensor<64xi32>
        -   %sum = arith.addi %off, %offs : tensor<64xi32>
        -   %same = tile.cmpi "eq", %n, %n : i32, i32 to i1
        -   scf.if %same {
        -     %q = tile.addptr %p, %sum : tensor<64x!tile.ptr<f32>>, tensor<64xi32> to tensor<64x!tile.ptr<f32>>
        -     %x = tile.load %q : tensor<64x!tile.ptr<f32>> to tensor<64xf32>
        -     tile.store %q, %x : tensor<64x!tile.ptr<f32>>, tensor<64xf32>
        -   }
        +   %q = tile.addptr %p, %off : tensor<64x!tile.ptr<f32>>, tensor<64xi32> to tensor<64x!tile.ptr<f32>>
        +   %x = tile.load %q : tensor<64x!tile.ptr<f32>> to tensor<64xf32>
        +   tile.store %q, %x : tensor<64x!tile.ptr<f32>>, tensor<64xf32>
            func.return
          }

Relies on: nothing. Can run anywhere, and runs again wherever a pass leaves things to tidy up.

Guarantees: bitwise the same results. Constants are folded only where the result is beyond dispute (see
`folding/constants.py`), so there stays one definition of every operation. Also: arithmetic on equal lanes is done once and splat;
compositions of splat, broadcast, expand_dims, reshape and trans collapse; a reduction over an axis of extent 1 is a reshape;
extensions and truncations in a row become one; comparisons and branches that facts decide (`analysis/facts`) and loops of no or
one iteration go; results and carried values that nothing needs go; dead operations go.

Tried: xDSL's own canonicaliser. It deletes a loop with a negative step, and folding an infinite float
raises in it.
"""

from __future__ import annotations

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import tile
from tilewright.passes.analysis.effects import erase_dead, is_terminator
from tilewright.passes.analysis.emit import Emitter
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.base import FunctionPass
from tilewright.passes.folding import arithmetic, shapes
from tilewright.passes.folding.arithmetic import fold
from tilewright.passes.folding.control import simplify_control
from tilewright.targets import TargetInfo

_RULES = {**arithmetic.RULES, **shapes.RULES}
_CONTROL = ("scf.if", "scf.for", "tile.assume", "tile.assert")
_ROUNDS = 16
"""Rewriting stops after this many sweeps; two or three are the rule."""


class Simplify(FunctionPass):
    def run(self, function: FuncOp, target: TargetInfo) -> None:
        erase_dead(function.body.block)
        for _ in range(_ROUNDS):
            if not _sweep(function):
                break
            erase_dead(function.body.block)


def _sweep(function: FuncOp) -> bool:
    """Try every operation once, in order. Returns whether anything changed."""
    changed, known = False, Facts()
    gone: set[Operation] = set()
    for op in list(function.walk()):
        if op in gone or op.parent is None:
            continue
        if op.name in _CONTROL:
            inside = list(op.walk())
            if simplify_control(op, known):
                changed = True
                gone.update(inner for inner in inside if not function.is_ancestor(inner))
            continue
        if len(op.results) != 1 or is_terminator(op):
            continue
        value = _decided(op, known) or _simpler(op)
        if value is not None and value is not op.results[0]:
            if value.name_hint is None:
                value.name_hint = op.results[0].name_hint
            op.results[0].replace_all_uses_with(value)
            op.parent.erase_op(op)
            changed = True
    return changed


def _decided(op: Operation, known: Facts) -> SSAValue | None:
    """A comparison that ranges decide, as a constant."""
    if not isinstance(op, tile.CmpIOp):
        return None
    fact = known.of(op.result)
    if fact.umin != fact.umax:
        return None
    return arithmetic.filled(fact.umin, op.result, Emitter(op))


def _simpler(op: Operation) -> SSAValue | None:
    emitter = Emitter(op)
    rule = _RULES.get(type(op))
    value = rule(op, emitter) if rule is not None else None
    if value is None:
        value = fold(op, emitter)
    return shapes.equal_lanes(op, emitter) if value is None else value
