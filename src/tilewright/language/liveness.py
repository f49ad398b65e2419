"""What the front end must know about a function before it walks it: liveness, assigned names, exits.

`scf.if` results and loop-carried values are exactly the names that are assigned inside and still
read afterwards (or read by the next iteration). Temporaries stay inside their region, so that a
name may have another type in each branch or iteration when nobody reads it later.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from weakref import WeakKeyDictionary

from tilewright.language.kernel_function import KernelFunction

Names = frozenset[str]
_NONE: Names = frozenset()
_SCOPES = (ast.Lambda, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _walk_here(node: ast.AST) -> Iterator[ast.AST]:
    """`node` and what is below it, without function bodies; comprehension targets are left out."""
    yield node
    if isinstance(node, _SCOPES):
        return
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.comprehension):
            yield from _walk_here(child.iter)
            for condition in child.ifs:
                yield from _walk_here(condition)
        else:
            yield from _walk_here(child)


def _reads(*nodes: ast.AST | None) -> Names:
    return frozenset(
        n.id
        for node in nodes
        if node is not None
        for n in ast.walk(node)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
    )


def _stores(node: ast.AST) -> list[str]:
    return [
        n.id
        for n in _walk_here(node)
        if isinstance(n, ast.Name) and isinstance(n.ctx, (ast.Store, ast.Del))
    ]


def exits_loop_or_function(statements: Iterable[ast.stmt], in_loop: bool = True) -> bool:
    """Whether some path through `statements` may leave it by `return`, `break` or `continue`."""
    for s in statements:
        if isinstance(s, ast.Return) or (in_loop and isinstance(s, (ast.Break, ast.Continue))):
            return True
        if isinstance(s, ast.If | ast.With):
            parts = [s.body, getattr(s, "orelse", [])]
            if any(exits_loop_or_function(part, in_loop) for part in parts):
                return True
        if isinstance(s, ast.For | ast.While) and exits_loop_or_function(s.body, False):
            return True
    return False


def is_constexpr_annotation(node: ast.AnnAssign) -> bool:
    """Whether it is `name: tl.constexpr = …`."""
    return ast.unparse(node.annotation).rpartition(".")[2] == "constexpr"


def has_call(node: ast.expr) -> bool:
    """Whether evaluating `node` calls anything, and so may touch memory."""
    return any(isinstance(n, ast.Call) for n in ast.walk(node))


def has_break(statements: Iterable[ast.stmt]) -> bool:
    """Whether a `break` or `return` in `statements` can end the loop whose body they are."""
    return any(
        isinstance(s, ast.Break | ast.Return)
        or (
            isinstance(s, ast.If | ast.With)
            and (has_break(s.body) or has_break(getattr(s, "orelse", [])))
        )
        or (isinstance(s, ast.For | ast.While) and exits_loop_or_function(s.body, False))
        for s in statements
    )


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
        self.locals: Names = frozenset(name for s in tree.body for name in _stores(s))
        self._block(tree.body, _NONE, _NONE, _NONE)

    def assigned(self, statement: ast.stmt) -> tuple[str, ...]:
        """Names that `statement` assigns anywhere inside, in order of first appearance."""
        found = self._assigned.get(statement)
        if found is None:
            found = self._assigned[statement] = tuple(dict.fromkeys(_stores(statement)))
        return found

    def _block(self, body: list[ast.stmt], out: Names, broken: Names, again: Names) -> Names:
        for s in reversed(body):
            out = self._statement(s, out, broken, again)
        return out

    def _statement(self, s: ast.stmt, out: Names, broken: Names, again: Names) -> Names:
        match s:
            case ast.Return():
                return _reads(s.value)
            case ast.Break():
                return broken
            case ast.Continue():
                return again
            case ast.If():
                self.after[s] = out
                then = self._block(s.body, out, broken, again)
                return _reads(s.test) | then | self._block(s.orelse, out, broken, again)
            case ast.For() | ast.While():
                return self._loop(s, out)
            case ast.With():
                inner = self._block(s.body, out, broken, again)
                return inner | _reads(*(item.context_expr for item in s.items))
            case ast.Assign():
                return self._store(s.targets, out) | _reads(s.value, *s.targets)
            case ast.AnnAssign():
                kept = self._store([s.target], out) if s.value is not None else out
                return kept | _reads(s.value)
            case ast.AugAssign():
                read = _reads(s.value, s.target)
                return out | read | ({s.target.id} if isinstance(s.target, ast.Name) else _NONE)
            case _:
                return out | _reads(s)

    def _loop(self, s: ast.For | ast.While, out: Names) -> Names:
        self.after[s] = out
        test = _reads(s.test) if isinstance(s, ast.While) else _NONE
        kill = frozenset(_stores(s.target)) if isinstance(s, ast.For) else _NONE
        after = self._block(s.orelse, out, _NONE, _NONE) if s.orelse else out
        head = after | test
        for _ in range(2):
            head = head | (self._block(s.body, head, out, head) - kill)
        self.head[s] = head
        return head | (_reads(s.iter) if isinstance(s, ast.For) else _NONE)

    def _store(self, targets: list[ast.expr], out: Names) -> Names:
        names = {
            n.id
            for target in targets
            for n in ast.walk(target)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        return out - names


_ANALYSES: WeakKeyDictionary[KernelFunction, tuple[ast.FunctionDef, FunctionAnalysis]] = (
    WeakKeyDictionary()
)


def analysis_of(fn: KernelFunction) -> FunctionAnalysis:
    """The analysis of `fn`'s body, made once."""
    found = _ANALYSES.get(fn)
    if found is None or found[0] is not fn.tree:
        found = _ANALYSES[fn] = (fn.tree, FunctionAnalysis(fn.tree))
    return found[1]
