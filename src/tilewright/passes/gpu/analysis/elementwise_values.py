"""Tiles of one shape that elementwise operations, branches and loops make of each other."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue

from tilewright.dialects import tile
from tilewright.ir.walk import closure
from tilewright.passes.analysis.effects import is_pure_elementwise


def _is_elementwise(op: Operation) -> bool:
    return is_pure_elementwise(op) or isinstance(op, tile.InlineAsmOp)


def operands_of(value: SSAValue) -> list[SSAValue]:
    """The operands of the shape of `value` that an elementwise operation makes it of."""
    owner = value.owner
    found = owner.operands if isinstance(owner, Operation) and _is_elementwise(owner) else ()
    return [v for v in found if tile.shape_of(v) == tile.shape_of(value)]


def results_of(value: SSAValue) -> list[SSAValue]:
    """The results of the shape of `value` that elementwise operations make of it."""
    users = [use.operation for use in value.uses if _is_elementwise(use.operation)]
    made = [result for user in users for result in user.results]
    return [v for v in made if tile.shape_of(v) == tile.shape_of(value)]


def users_of(value: SSAValue) -> Iterator[tuple[Operation, SSAValue]]:
    """The operations that use `value`, what elementwise operations make of it, or what branches and loops yield of
    that; and which of these values they use."""
    for made in closure([value], _results_and_yields):
        for use in made.uses:
            yield use.operation, made


def _results_and_yields(value: SSAValue) -> list[SSAValue]:
    yields = [use for use in value.uses if isinstance(use.operation, scf.YieldOp)]
    around = [(use.operation.parent_op(), use.index) for use in yields]
    ends = [op.results[i] for op, i in around if isinstance(op, scf.ForOp | scf.IfOp)]
    return results_of(value) + ends
