"""Values that a loop carries from one iteration to the next: their types, and what changes them."""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import SSAValue

from tilewright import dtypes
from tilewright.frontend.values import NUMBERS, Leaf, same_value, widened
from tilewright.semantics.promotion import literal_type
from tilewright.semantics.values import TensorValue, describe, type_text


@dataclass
class Carried:
    """One carried name: its value before the loop, as tensors, and as the body sees it."""

    name: str
    before: Any
    initial: Any
    inside: Any = None


#: a carried tensor before the loop, as the body sees it, and its handle at the end of the body
Kept = tuple[TensorValue, TensorValue, SSAValue]


def needed_change(inside: Any, end: Any) -> Any:
    """The `_Restart` template that makes `inside` fit what the body makes of it; None: nothing."""
    if isinstance(inside, TensorValue):
        if not isinstance(end, TensorValue):
            return None
        kind = widened(inside.type, end.type)
        return Leaf(kind) if kind is not None and kind != inside.type else None
    if isinstance(inside, NUMBERS):  # in a tuple: numbers by themselves are tensors here
        changes = isinstance(end, (TensorValue, *NUMBERS)) and not same_value(inside, end)
        return Leaf(literal_type(inside)) if changes else None
    if not isinstance(inside, tuple | list) or type(inside) is not type(end):
        return None
    if len(inside) != len(end):
        return None
    parts = tuple(needed_change(a, b) for a, b in zip(inside, end, strict=True))
    return parts if any(part is not None for part in parts) else None


def last_assignment(loop: ast.stmt, name: str) -> ast.stmt:
    """The last statement of a loop that assigns `name`, for error messages; else the loop."""
    return _last_assignments(loop).get(name, loop)


@functools.lru_cache(maxsize=16)
def _last_assignments(loop: ast.AST) -> dict[str, ast.stmt]:
    """The last statement that assigns each name."""
    found: dict[str, ast.stmt] = {}
    for node in ast.walk(loop):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for name in {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}:
                if name not in found or node.lineno > found[name].lineno:
                    found[name] = node
    return found


def tensor_triples(initial: Any, inside: Any, end: Any) -> list[tuple[Any, Any, Any]]:
    if isinstance(inside, TensorValue):
        return [(initial, inside, end)]
    if isinstance(inside, tuple | list):
        triples = zip(initial, inside, end, strict=True)
        return [pair for triple in triples for pair in tensor_triples(*triple)]
    return []


def tl_name(kind: Any) -> str:
    return f"tl.{kind.array_name}" if isinstance(kind, dtypes.dtype) else type_text(kind)


def kind_text(value: Any) -> str:
    if isinstance(value, TensorValue):
        return type_text(value.type)
    return describe(value)


def hint_attributes(hints: dict[str, Any]) -> dict[str, Any]:
    known = {k: v for k, v in hints.items() if isinstance(v, int) and v is not False}
    return {f"tile.{key}": IntegerAttr(int(value), i32) for key, value in known.items()}
