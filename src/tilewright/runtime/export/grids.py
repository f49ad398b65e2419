"""Grids as expressions over a kernel's arguments: `"cdiv(n, BLOCK)"`, for Python, C and host code.

Integers, names, `+ - *`, `//` and `%` by positive constants, `cdiv(a, b)`, `min` and `max`. All
arithmetic is in 64 bits; arguments are taken to be what they count, so not negative.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.errors import LaunchError

_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "/", ast.Mod: "%",
}  # fmt: skip


@dataclass(frozen=True)
class Number:
    """A constant."""

    value: int


@dataclass(frozen=True)
class Name:
    """The value of an integer argument."""

    name: str


@dataclass(frozen=True)
class Operation:
    """`+ - * / %`, `min` or `max` of two."""

    kind: str
    left: Node
    right: Node


Node = Number | Name | Operation


def parse_grid(
    extents: Sequence[str | int], constants: Mapping[str, object], integers: Sequence[str]
) -> tuple[Node, ...]:
    """The extents of a grid, constants folded.

    Args:
        extents: one to three expressions, x first.
        constants: names that stand for integers known now (constexprs).
        integers: names of integer arguments.

    Raises LaunchError for anything else.
    """
    if not 1 <= len(extents) <= 3:
        raise LaunchError(f"a grid has one to three extents, not {len(extents)}")
    return tuple(_parse(str(text), constants, integers) for text in extents)


def _parse(text: str, constants: Mapping[str, object], integers: Sequence[str]) -> Node:
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        raise LaunchError(
            f"'{text}' is not a valid grid extent", help='write "cdiv(n, 1024)"'
        ) from None

    def visit(node: ast.expr) -> Node:
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return Number(node.value)
        if isinstance(node, ast.Name):
            return name(node.id)
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return fold(_OPERATORS[type(node.op)], visit(node.left), visit(node.right), text)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 2:
            a, b = map(visit, node.args)
            if node.func.id == "cdiv":
                above = fold("-", fold("+", a, b, text), Number(1), text)
                return fold("/", above, b, text)
            if node.func.id in ("min", "max"):
                return fold(node.func.id, a, b, text)
        raise LaunchError(
            f"'{ast.unparse(node)}' is not allowed in a grid",
            help="a grid consists of integers, argument names, + - * // %, cdiv, min and max",
        )

    def name(found: str) -> Node:
        value = constants.get(found)
        if isinstance(value, int):
            return Number(int(value))
        if found in integers:
            return Name(found)
        raise LaunchError(
            f"the grid names '{found}', which is not an integer argument of the kernel",
            help=f"it has {', '.join([*integers, *(n for n, v in constants.items() if isinstance(v, int))])}",
        )

    return visit(tree)


def fold(kind: str, left: Node, right: Node, text: str = "") -> Node:
    """`left kind right`, computed if both are constants. Raises LaunchError for a bad divisor."""
    if kind in "/%" and not (isinstance(right, Number) and right.value > 0):
        raise LaunchError(f"'{text}' divides by something other than a positive constant")
    result = Operation(kind, left, right)
    if isinstance(left, Number) and isinstance(right, Number):
        return Number(value_of(result, {}))
    return result


def value_of(node: Node, arguments: Mapping[str, int]) -> int:
    """The extent for given arguments."""
    if isinstance(node, Number):
        return node.value
    if isinstance(node, Name):
        return arguments[node.name]
    a, b = value_of(node.left, arguments), value_of(node.right, arguments)
    if node.kind in "/%":
        return a // b if node.kind == "/" else a % b
    kinds = {"+": a + b, "-": a - b, "*": a * b, "min": min(a, b), "max": max(a, b)}
    return kinds[node.kind]


def c_text(node: Node) -> str:
    """The extent as a C expression of type int64_t."""
    if isinstance(node, Number):
        return f"INT64_C({node.value})"
    if isinstance(node, Name):
        return f"(int64_t){node.name}"
    a, b = c_text(node.left), c_text(node.right)
    if node.kind in ("min", "max"):
        return f"({a} {'<' if node.kind == 'min' else '>'} {b} ? {a} : {b})"
    return f"({a} {node.kind} {b})"


def formula(node: Node) -> str:
    """The extent for people."""
    if isinstance(node, Number):
        return str(node.value)
    if isinstance(node, Name):
        return node.name
    a, b = formula(node.left), formula(node.right)
    return f"{node.kind}({a}, {b})" if len(node.kind) > 1 else f"({a} {node.kind} {b})"
