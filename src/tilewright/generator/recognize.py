"""From MLIR text to descriptions: the one door for `linalg` and for `affine` loops."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.func import FuncOp

from tilewright.errors import CompilationError
from tilewright.generator import affine_loops, linalg_contractions
from tilewright.generator.description import Description
from tilewright.generator.mlir_parser import read_mlir


def descriptions(text: str, name: str = "<mlir>") -> dict[str, Description]:
    """The contraction of each function in `text`, by name. Raises CompilationError with a place."""
    if not text.strip():
        raise CompilationError(f"{name} is empty")
    module = read_mlir(text, name)
    found = {
        op.sym_name.data: describe(op)
        for op in module.body.block.ops
        if isinstance(op, FuncOp) and op.body.blocks
    }
    if not found:
        raise CompilationError(f"{name} holds no function")
    return found


def describe(function: Any) -> Description:
    """The contraction of one function. Raises CompilationError at what does not belong to one."""
    if affine_loops.has_loops(function):
        return affine_loops.recognize(function)
    return linalg_contractions.recognize(function)
