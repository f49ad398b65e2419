"""Calls whose result a kernel that runs as Python drops, although it must be used."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from tilewright.errors import SourceLocation
from tilewright.language.builtin import unused_result_error
from tilewright.language.kernel_function import KernelFunction


def check_unused_results(function: KernelFunction) -> None:
    """Raise CompilationError for a statement of `function` that calls what `must_use_result` marks.

    Found from the syntax tree: a call by the name of a global or of an attribute of one.
    """
    names = function.globals
    for node in ast.walk(function.tree):
        if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
            continue
        called = node.value.func
        error = unused_result_error(_value_of(called, names), ast.unparse(called))
        if error is not None:
            error.location = SourceLocation(
                function.file,
                function.first_line + node.lineno - 1,
                node.col_offset + function.column_offset,
                (node.end_col_offset or 0) + function.column_offset,
                function.fn.__name__,
            )
            raise error


def _value_of(node: ast.expr, names: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Attribute):
        return getattr(_value_of(node.value, names), node.attr, None)
    return names.get(node.id) if isinstance(node, ast.Name) else None
