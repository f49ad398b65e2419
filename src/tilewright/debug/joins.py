"""Joins of a function's control flow, where numbers become scalars (`rewrite`)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import cast

from tilewright.language.liveness import FunctionAnalysis, exits_loop_or_function

_JOIN = "_tilewright_join"


def joined_names(
    tree: ast.FunctionDef, analysis: FunctionAnalysis
) -> dict[tuple[int, int], list[str]]:
    """By line and column of an `if`: the names it assigns that are read afterwards.

    Of an `if` that may leave the function or the loop early none: what follows is compiled once for each
    branch, with the branch's constants. Names that get one constant in both branches keep it.
    """
    found: dict[tuple[int, int], list[str]] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.If) or exits_loop_or_function([node]):
            continue
        after = analysis.after.get(node, frozenset())
        names = [
            name for name in analysis.assigned(node) if name in after and not _is_same(node, name)
        ]
        if names:
            found[node.lineno, node.col_offset] = names
    return found


def _is_same(node: ast.If, name: str) -> bool:
    """Whether both branches do nothing to `name` but to assign the same literal."""
    sides = [_assigned(branch, name) for branch in (node.body, node.orelse)]
    texts = {text for side in sides for text in side}
    return all(sides) and len(texts) == 1 and "" not in texts


def _assigned(statements: list[ast.stmt], name: str) -> list[str]:
    """The literals that `statements` assign to `name`; "" for anything else."""
    found: list[str] = []
    for statement in statements:
        for node in ast.walk(statement):
            if not (isinstance(node, ast.Name) and node.id == name):
                continue
            if not isinstance(node.ctx, ast.Store):
                continue
            match statement:
                case ast.Assign(targets=[target], value=ast.Constant() as value) if target is node:
                    found.append(ast.dump(value))
                case _:
                    found.append("")
    return found


def joins_results(tree: ast.FunctionDef) -> bool:
    """Whether a function returns values in several places, not the same literal everywhere."""
    values = [r.value for r in ast.walk(tree) if isinstance(r, ast.Return) and r.value is not None]
    same = len({ast.dump(v) for v in values}) == 1 and isinstance(values[0], ast.Constant)
    return len(values) > 1 and not same


def as_join(statement: ast.stmt) -> ast.stmt:
    """`statement`, marked as one that joins values of the statement in front of it."""
    setattr(statement, _JOIN, True)
    return statement


def place_joins(tree: ast.AST) -> None:
    """Give joins the line of the statement that follows, so that debuggers do not go back."""
    for block in _blocks(tree):
        for i, statement in enumerate(block):
            if hasattr(statement, _JOIN):
                later = (s for s in block[i + 1 :] if not hasattr(s, _JOIN))
                first = next(later, None)
                line = first.lineno if first is not None else _last_line(block[:i])
                for node in ast.walk(statement):
                    if "lineno" in node._attributes:
                        located = cast(ast.stmt, node)
                        located.lineno = located.end_lineno = line


def _last_line(statements: list[ast.stmt]) -> int:
    own = [s for s in statements if not hasattr(s, _JOIN)]
    return own[-1].end_lineno or own[-1].lineno


def _blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list):
                yield block
