"""What a kernel's code depends on besides its own text: jit functions, globals, constants.

Found from the Python AST alone, so that a key can be made without the front end: every global or
closure variable that the function names, followed along attributes (`torch.version.hip`), and the
same for each jit function or plain function found that way.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CellType, FunctionType, ModuleType
from typing import Any

from tilewright import dtypes
from tilewright.language.kernel_function import KernelFunction

_MISSING = object()
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


@dataclass(frozen=True)
class Guard:
    """A value that was read: `holder[path[0]].path[1]…` (or the cell `holder`) is still `value`."""

    holder: dict[str, Any] | CellType
    path: tuple[str, ...]
    value: Any

    def holds(self) -> bool:
        """Whether the value is still the same object."""
        return _read(self.holder, self.path) is self.value


@dataclass
class Dependencies:
    """`texts` make up a key; `guards` tell when it is out of date."""

    texts: list[str] = field(default_factory=list)
    guards: list[Guard] = field(default_factory=list)

    @property
    def digest(self) -> str:
        return hashlib.sha256("\0".join(self.texts).encode("utf-8", "surrogatepass")).hexdigest()

    def hold(self) -> bool:
        return all(guard.holds() for guard in self.guards)


def dependencies_of(fn: KernelFunction) -> Dependencies:
    """Everything the code of `fn` depends on. Raises OSError if a source is not to be had."""
    found = Dependencies()
    seen: set[int] = set()
    queue: list[Any] = [fn]
    while queue:
        function = queue.pop(0)
        if id(function) in seen:
            continue
        seen.add(id(function))
        queue += _visit(function, found)
    return found


def _visit(function: Any, found: Dependencies) -> list[Any]:
    """Add one function's text and values; gives the functions it names."""
    if isinstance(function, KernelFunction):
        tree, source, plain = function.tree, function.src, function.fn
        defaults = [repr_text(p.default) for p in function.params if p.has_default]
        notes = [p.annotation for p in function.params]
        found.texts += [plain.__qualname__, source, ";".join(defaults), ";".join(notes)]
        found.texts.append(f"noinline={function.noinline}")
    else:
        try:
            source = inspect.cleandoc(inspect.getsource(function))
            tree = ast.parse(source)
        except (OSError, SyntaxError, TypeError):
            code = function.__code__
            found.texts += [function.__qualname__, repr((code.co_code, code.co_names))]
            return []
        plain = function
        found.texts += [plain.__qualname__, source, repr_text(plain.__defaults__)]
    called = []
    for path in sorted(set(_paths(tree))):
        called += _value(plain, path, found)
    return called


def _value(plain: FunctionType, path: tuple[str, ...], found: Dependencies) -> list[Any]:
    holder = _holder(plain, path[0])
    if holder is None:
        return []
    value = _read(holder, path[:1])
    taken = 1
    while taken < len(path) and isinstance(value, ModuleType):
        if value.__name__.partition(".")[0] == "tilewright":
            return []  # the package's own content is part of every key
        value = getattr(value, path[taken], _MISSING)
        taken += 1
    if value is _MISSING or isinstance(value, ModuleType):
        return []
    module = getattr(value, "__module__", None) or ""
    if callable(value) and module.startswith(("tilewright.language", "builtins")):
        return []
    guard = Guard(holder, path[:taken], value)
    found.guards.append(guard)
    if isinstance(value, KernelFunction):
        return [value]
    if isinstance(value, FunctionType):
        return [] if module.startswith("tilewright.") else [value]
    inner = getattr(value, "fn", None)
    if isinstance(inner, (KernelFunction, FunctionType)) and not isinstance(value, type):
        return [inner]  # a decorated function
    for name in path[taken:]:
        step = getattr(value, name, _MISSING)
        if step is _MISSING:
            break
        value = step
    found.texts.append(f"{'.'.join(path)}={repr_text(value)}")
    return []


def _holder(plain: FunctionType, name: str) -> dict[str, Any] | CellType | None:
    if name in plain.__code__.co_freevars:
        return (plain.__closure__ or ())[plain.__code__.co_freevars.index(name)]
    if name in plain.__globals__:
        return plain.__globals__
    return None if hasattr(builtins, name) else plain.__globals__


def _read(holder: dict[str, Any] | CellType, path: tuple[str, ...]) -> Any:
    if isinstance(holder, dict):
        value = holder.get(path[0], _MISSING)
    else:
        try:
            value = holder.cell_contents
        except ValueError:
            value = _MISSING
    for name in path[1:]:
        value = getattr(value, name, _MISSING)
    return value


def _paths(tree: ast.AST) -> Iterator[tuple[str, ...]]:
    """Dotted names that are read in `tree` and that it does not bind itself, longest form each."""
    function = tree if isinstance(tree, ast.FunctionDef) else None
    nodes = [*tree.body, *_annotations(tree)] if function is not None else [tree]  # pyright: ignore
    bound, read = set[str](), list[tuple[str, ...]]()
    if function is not None:
        args = function.args
        bound |= {a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)}
    pending: list[ast.AST] = [*reversed(nodes)]
    while pending:
        node = pending.pop()
        names: list[str] = []
        while isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            pending += [*ast.iter_child_nodes(node)][::-1]
        elif isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        else:
            read.append((node.id, *reversed(names)))
    return (path for path in read if path[0] not in bound)


def _annotations(tree: ast.AST) -> list[ast.expr]:
    args = tree.args  # pyright: ignore
    every = (*args.posonlyargs, *args.args, *args.kwonlyargs)
    return [a.annotation for a in every if a.annotation is not None]


def repr_text(value: Any) -> str:
    """A text for any value, without addresses."""
    if isinstance(value, dtypes.constexpr):
        return f"constexpr({repr_text(value.value)})"
    if isinstance(value, tuple):
        return f"({','.join(map(repr_text, value))})"
    if isinstance(value, (KernelFunction, FunctionType)):
        return f"function {value.__module__}.{value.__qualname__}"  # pyright: ignore
    return f"{type(value).__name__}:{_ADDRESS.sub('', repr(value))}"
