"""Sums that a Python loop keeps in a name, as sums in the element that they are stored to.

    s = 0.0                                     C[i, j] = 0.0
    for k in range(K):                          for k in range(K):
        s += A[i, k] * B[k, j]        →             C[i, j] += A[i, k] * B[k, j]
    C[i, j] = s

and without the first line on the right where the last on the left is `C[i, j] += s`.
"""

from __future__ import annotations

import ast
import copy
from typing import Any


def rewrite_scalar_accumulators(body: list[ast.stmt], function: ast.AST) -> list[ast.stmt]:
    """`body`, with such sums in their elements, at any depth; what does not fit stays as it is."""
    found: list[ast.stmt] = []
    rest = list(body)
    while rest:
        replaced = _replaced(rest[:3], function)
        if replaced is not None:
            found += replaced
            rest = rest[3:]
            continue
        statement = rest.pop(0)
        if isinstance(statement, ast.For):
            statement.body = rewrite_scalar_accumulators(statement.body, function)
        found.append(statement)
    return found


def _replaced(statements: list[ast.stmt], function: ast.AST) -> list[ast.stmt] | None:
    """Three statements that begin, add up and store a sum, as a loop over the element."""
    if len(statements) != 3:
        return None
    first, loop, last = statements
    if (
        not isinstance(first, ast.Assign)
        or not isinstance(loop, ast.For)
        or len(first.targets) != 1
    ):
        return None
    name, zero = first.targets[0], first.value
    if not isinstance(name, ast.Name) or getattr(zero, "value", None) != 0:
        return None
    adds = isinstance(last, ast.AugAssign) and isinstance(last.op, ast.Add)
    if not adds and not (isinstance(last, ast.Assign) and len(last.targets) == 1):
        return None
    assigned: Any = last
    target: Any = assigned.targets[0] if isinstance(last, ast.Assign) else assigned.target
    value: Any = assigned.value
    if not isinstance(target, ast.Subscript) or getattr(value, "id", None) != name.id:
        return None
    if _uses(function, name.id) != _uses(loop, name.id) + 2 or _names(target) & _indices(loop):
        return None  # the sum is used elsewhere, or the element is another one inside of the loop
    inner: Any = _Replace(name.id, target).visit(loop)
    if adds:
        return [inner]
    start = ast.Assign([copy.deepcopy(target)], zero)
    return [ast.copy_location(start, last), inner]


def _uses(tree: ast.AST, name: str) -> int:
    return sum(isinstance(node, ast.Name) and node.id == name for node in ast.walk(tree))


def _names(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _indices(loop: ast.For) -> set[str]:
    """Names that a loop, and those inside of it, give values to."""
    loops = [node for node in ast.walk(loop) if isinstance(node, ast.For)]
    return {name for each in loops for name in _names(each.target)}


class _Replace(ast.NodeTransformer):
    """Puts an element where a name stands."""

    def __init__(self, name: str, element: ast.Subscript) -> None:
        self.name, self.element = name, element

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """The element for the name, in its place."""
        if node.id != self.name:
            return node
        element = copy.deepcopy(self.element)
        element.ctx = node.ctx
        return ast.copy_location(element, node)
