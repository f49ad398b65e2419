"""Analyses of a function before the front end walks it: liveness, assigned names, exits.

`scf.if` results and loop-carried values are exactly the names that are assigned inside and still
read afterwards (or read by the next iteration). Temporaries stay inside their region, so that a
name may have another type in each branch or iteration if it is dead afterwards.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

from tilewright.language.kernel_function import KernelFunction

Names = frozenset[str]
_NONE: Names = frozenset()
_SCOPES = frozenset((ast.Lambda, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
_WITHOUT_NAMES = frozenset(("ctx", "op", "ops", "attr"))
"""Fields that are operators, contexts and strings in all nodes that have them."""


def _collect(node: Any, reads: set[str], stores: list[str] | None) -> None:
    """Add the names that are read in `node`, and those assigned outside of function bodies and comprehension targets."""
    kind = node.__class__
    if kind is ast.Name:
        if node.ctx.__class__ is ast.Load:
            reads.add(node.id)
        elif stores is not None:
            stores.append(node.id)
        return
    if kind in _SCOPES:
        stores = None
    for name in _fields_of(kind):
        value = getattr(node, name, None)
        inside = None if name == "target" and kind is ast.comprehension else stores
        for child in value if isinstance(value, list) else (value,):
            if isinstance(child, ast.AST):
                _collect(child, reads, inside)


@functools.cache
def _fields_of(kind: type[ast.AST]) -> tuple[str, ...]:
    """Fields of a kind of node in which names may be read or assigned."""
    if kind is ast.Constant:
        return ()
    return tuple(name for name in kind._fields if name not in _WITHOUT_NAMES)


def _stores(node: ast.AST) -> list[str]:
    stores: list[str] = []
    _collect(node, set(), stores)
    return stores


def exits_loop_or_function(statements: Iterable[ast.stmt], in_loop: bool = True) -> bool:
    """Whether some path through `statements` may leave it by `return`, `break` or `continue`."""
    return _exits(statements, (ast.Return, ast.Break, ast.Continue) if in_loop else (ast.Return,))


def has_break(statements: Iterable[ast.stmt]) -> bool:
    """Whether a `break` or `return` in `statements` can end the loop whose body they are."""
    return _exits(statements, (ast.Return, ast.Break))


def _exits(statements: Iterable[ast.stmt], kinds: tuple[type[ast.stmt], ...]) -> bool:
    """Whether some path meets a statement of these kinds, or a `return` in an inner loop."""
    for s in statements:
        if isinstance(s, kinds):
            return True
        if isinstance(s, ast.If | ast.With):
            if _exits(s.body, kinds) or _exits(getattr(s, "orelse", []), kinds):
                return True
        elif isinstance(s, ast.For | ast.While) and _exits(s.body, (ast.Return,)):
            return True
    return False


def is_constexpr_annotation(node: ast.AnnAssign) -> bool:
    """Whether it is `name: tl.constexpr = …`."""
    return ast.unparse(node.annotation).rpartition(".")[2] == "constexpr"


def has_call(node: ast.expr) -> bool:
    """Whether evaluating `node` calls anything, and so may touch memory."""
    return any(isinstance(n, ast.Call) for n in ast.walk(node))


class FunctionAnalysis:
    """Liveness of one function.

    `after[s]`: names that may be read after the `if`, `for` or `while` statement `s`;
    `head[s]`: names that may be read when an iteration of loop `s` starts (or after the loop);
    `locals`: every name that the function assigns.
    """

    def __init__(self, tree: ast.FunctionDef) -> None:
        self.after: dict[ast.stmt, Names] = {}
        self.head: dict[ast.stmt, Names] = {}
        self._assigned: dict[ast.stmt, tuple[str, ...]] = {}
        self._read: dict[ast.AST, Names] = {}
        self.locals: Names = frozenset(name for s in tree.body for name in self.assigned(s))
        self._block(tree.body, _NONE, _NONE, _NONE)

    def assigned(self, statement: ast.stmt) -> tuple[str, ...]:
        """Names that `statement` assigns anywhere inside, in order of first appearance."""
        found = self._assigned.get(statement)
        if found is None:
            found = self._assigned[statement] = tuple(dict.fromkeys(_stores(statement)))
        return found

    def _reads(self, *nodes: ast.AST | None) -> Names:
        for node in nodes:
            if node is not None and node not in self._read:
                reads: set[str] = set()
                _collect(node, reads, None)
                self._read[node] = frozenset(reads)
        return _NONE.union(*(self._read[node] for node in nodes if node is not None))

    def _block(self, body: list[ast.stmt], out: Names, broken: Names, again: Names) -> Names:
        for s in reversed(body):
            out = self._statement(s, out, broken, again)
        return out

    def _statement(self, s: ast.stmt, out: Names, broken: Names, again: Names) -> Names:
        match s:
            case ast.Return():
                return self._reads(s.value)
            case ast.Break():
                return broken
            case ast.Continue():
                return again
            case ast.If():
                self.after[s] = out
                then = self._block(s.body, out, broken, again)
                return self._reads(s.test) | then | self._block(s.orelse, out, broken, again)
            case ast.For() | ast.While():
                return self._loop(s, out)
            case ast.With():
                inner = self._block(s.body, out, broken, again)
                return inner | self._reads(*(item.context_expr for item in s.items))
            case ast.Assign():
                return self._store(s.targets, out) | self._reads(s.value, *s.targets)
            case ast.AnnAssign():
                kept = self._store([s.target], out) if s.value is not None else out
                return kept | self._reads(s.value)
            case ast.AugAssign():
                read = self._reads(s.value, s.target)
                return out | read | ({s.target.id} if isinstance(s.target, ast.Name) else _NONE)
            case _:
                return out | self._reads(s)

    def _loop(self, s: ast.For | ast.While, out: Names) -> Names:
        self.after[s] = out
        test = self._reads(s.test) if isinstance(s, ast.While) else _NONE
        kill = frozenset(_stores(s.target)) if isinstance(s, ast.For) else _NONE
        after = self._block(s.orelse, out, _NONE, _NONE) if s.orelse else out
        head = after | test
        for _ in range(2):
            head = head | (self._block(s.body, head, out, head) - kill)
        self.head[s] = head
        return head | (self._reads(s.iter) if isinstance(s, ast.For) else _NONE)

    def _store(self, targets: list[ast.expr], out: Names) -> Names:
        return out.difference(*map(_stores, targets))


_ANALYSES: WeakKeyDictionary[KernelFunction, tuple[ast.FunctionDef, FunctionAnalysis]] = (
    WeakKeyDictionary()
)


def analysis_of(fn: KernelFunction) -> FunctionAnalysis:
    """The analysis of `fn`'s body, made once."""
    found = _ANALYSES.get(fn)
    if found is None or found[0] is not fn.tree:
        found = _ANALYSES[fn] = (fn.tree, FunctionAnalysis(fn.tree))
    return found[1]
