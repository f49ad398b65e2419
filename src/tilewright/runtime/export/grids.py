"""Grids as expressions over a kernel's arguments: `"cdiv(n, BLOCK)"`, for Python, C and host code.

Integers, names, `+ - *`, `//` and `%` by positive constants, `cdiv(a, b)`, `min` and `max`. All
arithmetic is in 64 bits; arguments are taken to be what they count, so not negative.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence

from tilewright.errors import LaunchError

_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%",
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv,
    "%": operator.mod, "min": min, "max": max,
}  # fmt: skip


def parse_grid(
    extents: Sequence[str | int], constants: Mapping[str, object], integers: Mapping[str, str]
) -> tuple[str, ...]:
    """The extents of a grid as Python expressions of integers, names, `+ - * // %`, `min` and `max`, constants folded.

    Args:
        extents: one to three expressions, x first.
        constants: names that stand for integers known now (constexprs).
        integers: names of integer arguments, and what the results call them.

    Raises LaunchError for anything else.
    """
    if not 1 <= len(extents) <= 3:
        raise LaunchError(f"a grid has one to three extents, not {len(extents)}")
    return tuple(_parse(str(text), constants, integers) for text in extents)


def _parse(text: str, constants: Mapping[str, object], integers: Mapping[str, str]) -> str:
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        raise LaunchError(
            f"'{text}' is not a valid grid extent", help='write "cdiv(n, 1024)"'
        ) from None

    def visit(node: ast.expr) -> str:
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return str(node.value)
        if isinstance(node, ast.Name):
            return name(node.id)
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return fold(_OPERATORS[type(node.op)], visit(node.left), visit(node.right))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 2:
            a, b = map(visit, node.args)
            if node.func.id == "cdiv":
                return fold("//", fold("-", fold("+", a, b), "1"), b)
            if node.func.id in ("min", "max"):
                return fold(node.func.id, a, b)
        raise LaunchError(
            f"'{ast.unparse(node)}' is not allowed in a grid",
            help="a grid consists of integers, argument names, + - * // %, cdiv, min and max",
        )

    def name(found: str) -> str:
        value = constants.get(found)
        if isinstance(value, int):
            return str(int(value))
        if found in integers:
            return integers[found]
        raise LaunchError(
            f"the grid names '{found}', which is not an integer argument of the kernel",
            help=f"it has {', '.join([*integers, *(n for n, v in constants.items() if isinstance(v, int))])}",
        )

    def fold(kind: str, a: str, b: str) -> str:
        if kind in ("//", "%") and not (_is_number(b) and int(b) > 0):
            raise LaunchError(f"'{text}' divides by something other than a positive constant")
        if _is_number(a) and _is_number(b):
            return str(_FUNCTIONS[kind](int(a), int(b)))
        return f"{kind}({a}, {b})" if kind in ("min", "max") else f"({a} {kind} {b})"

    return visit(tree)


def _is_number(extent: str) -> bool:
    return extent.removeprefix("-").isdecimal()


def with_names(extent: str, names: Mapping[str, str]) -> str:
    """The expression with other names for its arguments."""
    return re.sub(r"\b[^\W\d]\w*\b(?!\()", lambda found: names[found[0]], extent)


def c_text(extent: str) -> str:
    """The extent as a C expression of type int64_t."""

    def visit(node: ast.AST) -> str:
        match node:
            case ast.BinOp(left, op, right):
                kind = _OPERATORS[type(op)].replace("//", "/")
                return f"({visit(left)} {kind} {visit(right)})"
            case ast.Call(ast.Name(kind), [left, right]):
                a, b = visit(left), visit(right)
                return f"({a} {'<' if kind == 'min' else '>'} {b} ? {a} : {b})"
            case ast.Name(name):
                return f"(int64_t){name}"
            case _:
                return f"INT64_C({ast.unparse(node)})"

    return visit(ast.parse(extent, mode="eval").body)
