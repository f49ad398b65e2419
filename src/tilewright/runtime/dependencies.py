"""Dependencies of a kernel's code besides its source: jit functions, globals, constants.

Found from the Python AST alone, so the key does not require the front end: every global or
closure variable that the function names, followed along attributes (`torch.version.hip`, `Settings.scale`), and
the same for each jit function found that way. Values and plain functions are read by `content`.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any

from tilewright import dtypes
from tilewright.language.kernel_function import KernelFunction
from tilewright.runtime.content import MISSING, PLAIN, Content, State


@dataclass(frozen=True)
class Guard:
    """A value that was read: `holder[path[0]].path[1]…` (or the cell `holder`) is still `value`.

    With `equal`, the attribute returns a new object each time, and equality is sufficient.
    """

    holder: dict[str, Any] | CellType
    path: tuple[str, ...]
    value: Any
    equal: bool = False

    def holds(self) -> bool:
        """Whether the value is still the same."""
        now = _read(self.holder, self.path)
        return now is self.value or (
            self.equal and type(now) is type(self.value) and now == self.value
        )


@dataclass
class Dependencies:
    """`texts` form a key; `guards` and `states` detect that it is outdated.

    `private`: a value is identified by its identity, so the key is valid in this process only. `functions`: the kernel
    functions whose source the code is made from, the kernel first.
    """

    texts: list[str] = field(default_factory=list)
    guards: list[Guard] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    private: bool = False
    functions: list[KernelFunction] = field(default_factory=list)

    @property
    def digest(self) -> str:
        return hashlib.sha256("\0".join(self.texts).encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def places(self) -> str:
        """Files and lines of the functions: compiled code names them in reports of faults and in line tables."""
        return ";".join(f"{function.file}:{function.first_line}" for function in self.functions)

    def states_hold(self) -> bool:
        """Whether every mutable object that was read still holds the same."""
        return all([state.holds() for state in self.states])

    def hold(self) -> bool:
        return all(guard.holds() for guard in self.guards) and self.states_hold()

    def add(self, other: Dependencies) -> None:
        """Add the dependencies of `other`."""
        self.texts += other.texts
        self.guards += other.guards
        self.states += other.states
        self.private |= other.private
        self.functions += other.functions


def dependencies_of(fn: KernelFunction) -> Dependencies:
    """Everything the code of `fn` depends on. Raises OSError if a source cannot be read."""
    return _follow(Content(), [fn])


def dependencies_of_value(value: Any) -> Dependencies:
    """Everything that code for the compile-time constant `value` depends on."""
    content = Content()
    label = content.text(value)
    found = _follow(content, [])
    found.texts.append(label)
    return found


def _follow(content: Content, queue: list[Any]) -> Dependencies:
    """Visit the functions in `queue`, those that `content` has met, and those that they name."""
    guards: list[Guard] = []
    seen: set[int] = set()
    kernels: list[KernelFunction] = []
    queue += content.functions
    content.functions = queue
    while queue:
        function = queue.pop(0)
        if id(function) in seen:
            continue
        seen.add(id(function))
        if isinstance(function, KernelFunction):
            kernels.append(function)
            _visit(function, content, guards)
        else:
            content.visit(function)
    return Dependencies(content.texts, guards, content.states, content.private, kernels)


def _visit(kernel: KernelFunction, content: Content, guards: list[Guard]) -> None:
    """Add one kernel's text, and the values that it names."""
    defaults = [content.text(p.default) for p in kernel.params if p.has_default]
    notes = [p.annotation for p in kernel.params]
    content.texts += [kernel.fn.__qualname__, kernel.src, ";".join(defaults), ";".join(notes)]
    content.texts.append(f"noinline={kernel.noinline}")
    for path in sorted(set(_paths(kernel.tree))):
        _value(kernel.fn, path, content, guards)


def _value(
    plain: FunctionType, path: tuple[str, ...], content: Content, guards: list[Guard]
) -> None:
    holder = _holder(plain, path[0])
    value = MISSING if holder is None else _read(holder, path[:1])
    if holder is None or value is MISSING:
        return
    taken, equal = 1, False
    while taken < len(path):
        if isinstance(value, ModuleType) and value.__name__.partition(".")[0] == "tilewright":
            break  # the package's own content is part of every key
        if isinstance(value, (KernelFunction, FunctionType)):
            break
        step, again = (_attribute(value, path[taken]) for _ in range(2))
        if isinstance(step, MethodType) or (step is not again and type(step) not in PLAIN):
            break  # a new object each time: depend on its components
        if step is MISSING:
            break
        value, equal = step, step is not again
        taken += 1
    if isinstance(value, ModuleType):
        content.texts.append(f"{'.'.join(path[:taken])}={value.__name__}")
        return
    module = getattr(value, "__module__", None) or ""
    if callable(value) and str(module).startswith(("tilewright.language", "builtins")):
        # its content is part of every key, but the name may stand for another function elsewhere or later
        name = getattr(value, "__qualname__", None) or content.text(value)
        guards.append(Guard(holder, path[:taken], value, equal))
        content.texts.append(f"{'.'.join(path[:taken])}={module}.{name}")
        return
    if isinstance(value, dtypes.constexpr):  # it may be given another value
        value, path, taken = value.value, (*path[:taken], "value"), taken + 1
    guards.append(Guard(holder, path[:taken], value, equal))
    inner = getattr(value, "fn", None) if str(module).startswith("tilewright.") else None
    if isinstance(inner, (KernelFunction, FunctionType)) and not isinstance(
        value, (type, KernelFunction)
    ):
        value = inner  # a decorated kernel
    content.texts.append(f"{'.'.join(path)}={content.text(value)}")


def _attribute(value: Any, name: str) -> Any:
    try:
        return getattr(value, name, MISSING)
    except Exception:  # a property of the user's
        return MISSING


def _holder(plain: FunctionType, name: str) -> dict[str, Any] | CellType | None:
    if name in plain.__code__.co_freevars:
        return (plain.__closure__ or ())[plain.__code__.co_freevars.index(name)]
    if name in plain.__globals__:
        return plain.__globals__
    return None if hasattr(builtins, name) else plain.__globals__


def _read(holder: dict[str, Any] | CellType, path: tuple[str, ...]) -> Any:
    if isinstance(holder, dict):
        value = holder.get(path[0], MISSING)
    else:
        try:
            value = holder.cell_contents
        except ValueError:
            value = MISSING
    for name in path[1:]:
        value = _attribute(value, name)
    return value


def _paths(tree: ast.AST) -> Iterator[tuple[str, ...]]:
    """Dotted names that are read in `tree` and that it does not bind itself, longest form each."""
    function = tree if isinstance(tree, ast.FunctionDef) else None
    nodes = [tree] if function is None else [*function.body, *_annotations(function)]
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
            # contexts and operators have no fields
            pending += [child for child in ast.iter_child_nodes(node) if child._fields][::-1]
        elif isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        else:
            read.append((node.id, *reversed(names)))
    return (path for path in read if path[0] not in bound)


def _annotations(tree: ast.FunctionDef) -> list[ast.expr]:
    args = tree.args
    every = (*args.posonlyargs, *args.args, *args.kwonlyargs)
    return [a.annotation for a in every if a.annotation is not None]


# ---- constants of a launch ---------------------------------------------------------------------------


_constants: dict[int, tuple[weakref.ref[Any], Dependencies, str]] = {}
"""Earlier constant objects by id: weak reference, dependencies, digest."""


def constant_digest(value: Any) -> str | None:
    """A digest of the content of an object, None where its content cannot be known."""
    known = _constants.get(id(value))
    if known is not None and known[0]() is value and known[1].hold():
        return known[2]
    found = dependencies_of_value(value)
    if found.private:
        return None
    digest = found.digest
    # bound here: a module may be torn down before its objects
    key, pop = id(value), _constants.pop
    try:
        reference = weakref.ref(value, lambda _: pop(key, None) and None)
    except TypeError:
        return digest
    _constants[key] = reference, found, digest
    return digest
