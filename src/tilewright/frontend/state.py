"""What the parts of the front end share."""

from __future__ import annotations

import ast
from typing import Any

from xdsl.ir import SSAValue

from tilewright.frontend.frame import Frame
from tilewright.frontend.ir_builder import IRBuilder
from tilewright.language.kernel_function import KernelFunction
from tilewright.semantics.values import TensorValue


class BuilderState:
    """State of one compilation; the mixins of `KernelBuilder` derive from it."""

    frame: Frame
    frames: list[Frame]
    builder: IRBuilder
    semantics: Any
    debug: bool
    globals_read: dict[tuple[KernelFunction, str], Any]
    callees: dict[KernelFunction, None]
    copied: int
    unused: ast.expr | None = None
    """The expression of the statement being compiled, whose value nobody uses."""

    def visit(self, node: ast.expr) -> Any:
        """The value of an expression."""
        raise NotImplementedError

    def condition(self, node: ast.expr, what: str) -> bool | SSAValue:
        """The truth of an expression: a bool when known, else a scalar i1."""
        raise NotImplementedError

    def run(self, statements: list[ast.stmt]) -> None:
        raise NotImplementedError

    def tensor(self, handle: SSAValue, kind: Any) -> TensorValue:
        """A value of language type `kind` for `handle`."""
        return TensorValue(handle, kind, self.semantics)
