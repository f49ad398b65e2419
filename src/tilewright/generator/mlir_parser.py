"""Parse MLIR text (`linalg`, `affine`, `tensor`, `memref`) with source locations, and recognize its contractions."""

from __future__ import annotations

import bisect
import functools
import linecache
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from tilewright.errors import CompilationError, SourceLocation
from tilewright.generator.description import Description
from tilewright.generator.linalg_contractions import recognize
from tilewright.generator.linalg_named_ops import linalg_dialect
from tilewright.ir.context import new_context
from tilewright.ir.location import location_attribute, location_of, source_location

_DIALECTS = {"affine": "Affine", "tensor": "Tensor"}
#: operations under the names that they had in MLIR's `std` dialect, in which arXiv 2108.13191 prints them
_STANDARD = {
    "func": "func.func", "return": "func.return", "constant": "arith.constant",
    "fpext": "arith.extf", "fptrunc": "arith.truncf", "sexti": "arith.extsi",
    "zexti": "arith.extui", "trunci": "arith.trunci", "sitofp": "arith.sitofp",
    "uitofp": "arith.uitofp", "addf": "arith.addf", "subf": "arith.subf", "mulf": "arith.mulf",
    "divf": "arith.divf", "negf": "arith.negf", "addi": "arith.addi", "subi": "arith.subi",
    "muli": "arith.muli",
}  # fmt: skip


class _Parser(Parser):
    """Gives every operation the place where its text starts, unless the text says `loc(…)`."""

    def __init__(self, context: Any, text: str, name: str, place: Callable[[int], Any]) -> None:
        super().__init__(context, text, name)
        self._place = place

    def _get_op_by_name(self, name: str) -> type[Operation]:
        found = self.ctx.get_optional_op(name, dialect_stack=self._parser_state.dialect_stack)
        return found or super()._get_op_by_name(_STANDARD.get(name, name))

    def parse_operation(self) -> Operation:
        start = self._current_token.span.start
        op = super().parse_operation()
        if source_location(op.location) is None:
            op.location = location_attribute(self._place(start))
        return op


def read_mlir(text: str, name: str = "<mlir>") -> ModuleOp:
    """The module that `text` holds. Raises CompilationError with line and column for bad text."""
    if name.startswith("<"):  # errors show lines of texts that are in no file, too
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    starts = [0, *(m.end() for m in re.finditer("\n", text))]

    def place(position: int) -> SourceLocation:
        line = bisect.bisect_right(starts, position)
        return SourceLocation(name, line, position - starts[line - 1])

    context = new_context()
    for dialect, attribute in _DIALECTS.items():
        module = f"xdsl.dialects.{dialect}"
        context.register_dialect(dialect, functools.partial(_dialect, module, attribute))
    context.register_dialect("linalg", linalg_dialect)
    try:
        module_op = _Parser(context, text, name, place).parse_module()
    except ParseError as error:
        message = str(error.msg).strip() or "this is not MLIR"
        start = error.span.start
        if (unknown := re.search(r"values used but not defined: \[(%\w+)", message)) is not None:
            used = re.search(re.escape(unknown[1]) + r"\b", text)
            start = start if used is None else used.start()
        raise CompilationError(message, location=place(start)) from None
    except VerifyException as error:
        raise CompilationError(f"the IR does not verify: {_last_line(error)}") from None
    for op in module_op.walk():
        try:
            if op is not module_op:
                op.verify(verify_nested_ops=False)
        except VerifyException as error:
            raise CompilationError(
                f"{op.name} does not verify: {_last_line(error)}", location=location_of(op)
            ) from None
    return module_op


def _dialect(module: str, attribute: str) -> Any:
    return getattr(import_module(module), attribute)


def _last_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(error).__name__


def descriptions(text: str, name: str = "<mlir>") -> dict[str, Description]:
    """The contraction of each function in `text`, by name. Raises CompilationError with a place."""
    if not text.strip():
        raise CompilationError(f"{name} is empty")
    module = read_mlir(text, name)
    found = {
        op.sym_name.data: recognize(op)
        for op in module.body.block.ops
        if isinstance(op, FuncOp) and op.body.blocks
    }
    if not found:
        raise CompilationError(f"{name} holds no function")
    return found
