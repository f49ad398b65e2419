"""Constant folding through the interpreter: one definition of every operation."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from tilewright.passes.analysis.emit import Emitter


def fold(op: Operation, emitter: Emitter) -> SSAValue | None:
    """The constant that `op` computes from scalar constants, or None."""
    if not op.operands or not all(isinstance(v.owner, arith.ConstantOp) for v in op.operands):
        return None
    return None
