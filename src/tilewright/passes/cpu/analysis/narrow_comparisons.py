"""Compare integers in the type that they were extended from.

Inductor converts positions to 64 bits before it compares them with bounds (of paddings, parts that are concatenated, slices that
are written). Where the bound fits in the narrower type, the comparison there is the same, with half as many vectors.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from tilewright.dialects import tile
from tilewright.passes.analysis.edit import erase
from tilewright.passes.analysis.effects import erase_dead
from tilewright.passes.analysis.emit import Emitter, uniform_constant

_SIGNED = ("eq", "ne", "slt", "sle", "sgt", "sge")


def narrow_comparisons(function: FuncOp) -> None:
    """Rewrite comparisons of sign-extended tiles with constants and with each other."""
    changed = False
    for op in list(function.walk()):
        if not isinstance(op, tile.CmpIOp) or op.predicate.data not in _SIGNED:
            continue
        pair = _narrowed(op.lhs, op.rhs, op)
        if pair is None and (swapped := _narrowed(op.rhs, op.lhs, op)) is not None:
            pair = swapped[1], swapped[0]
        if pair is None:
            continue
        narrow = tile.CmpIOp.create(
            operands=pair, result_types=[op.result.type], properties=op.properties
        )
        result = Emitter(op).insert(narrow)
        result.name_hint = op.result.name_hint
        op.result.replace_all_uses_with(result)
        erase(op)
        changed = True
    if changed:
        erase_dead(function.body.block)


def _narrowed(wide: SSAValue, other: SSAValue, op: tile.CmpIOp) -> tuple[SSAValue, SSAValue] | None:
    """What a tile was extended from, and what it is compared with in that type; None if there is no such."""
    extension = wide.owner
    if not isinstance(extension, arith.ExtSIOp) or not tile.is_tile(wide):
        return None
    source = extension.input
    kind = tile.element_of(source)
    assert isinstance(kind, IntegerType)
    width, number = kind.width.data, uniform_constant(other)
    if isinstance(number, int):
        if width == 1 or not -(1 << width - 1) <= number < 1 << width - 1:
            return None
        emitter = Emitter(op)
        return source, emitter.splat(emitter.constant(number, kind), tile.shape_of(source))
    if isinstance(other.owner, arith.ExtSIOp) and other.owner.input.type == source.type:
        return source, other.owner.input
    return None
