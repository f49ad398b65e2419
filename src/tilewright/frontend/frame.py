"""State of a compilation (`BuilderState`) and of each function in it (`Frame`): names, source location, globals read."""

from __future__ import annotations

import ast
import builtins
import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any, cast

from xdsl.ir import SSAValue

from tilewright import dtypes
from tilewright.errors import KernelNameError, SourceLocation, UnsupportedSyntax
from tilewright.frontend.ir_builder import IRBuilder
from tilewright.frontend.values import map_tensors
from tilewright.language.kernel_function import KernelFunction
from tilewright.language.liveness import FunctionAnalysis, analysis_of
from tilewright.semantics.values import TensorValue

#: Names that hold control flow during compilation; no Python identifier can clash with them.
BREAK = "$break"
RETURNED = "$returned"
RESULT = "$result"

_PLAIN = (int, float, bool, str, bytes, type(None), dtypes.dtype, dtypes.pointer_type)


@dataclass(frozen=True, eq=False)
class Undefined:
    """Value of a name that is assigned elsewhere but not on this path; reading it raises."""

    message: str
    help: str = ""

    def raise_(self) -> None:
        raise KernelNameError(self.message, help=self.help)


class Frame:
    """A call of `fn` being compiled.

    `env` maps names to values: a `TensorValue`, a tuple or list of values, or any other Python object, which
    is known at compile time. `node` is the AST node being compiled. `stopped` says that the path
    being compiled has left its statement list by `return`, `break` or `continue`.
    """

    def __init__(self, fn: KernelFunction, caller: SourceLocation | None) -> None:
        self.fn = fn
        self.tree = fn.tree
        self.analysis: FunctionAnalysis = analysis_of(fn)
        self.env: dict[str, Any] = {}
        self.arguments: dict[str, Any] = {}
        self.locations: dict[tuple[int, int], Any] = {}
        self.caller = caller
        self.node: ast.AST = self.tree
        self.loop: frozenset[str] | None = None
        self.stopped = False
        self._nonlocals = _closure(fn)

    def positioned(self) -> ast.expr | ast.stmt:
        """The current node, or the function's if that one has no position."""
        return cast(ast.expr, self.node) if hasattr(self.node, "lineno") else self.tree

    def location(self, node: ast.AST | None = None) -> SourceLocation:
        """Location of `node` (default: the current one) in the file."""
        return self.fn.location(node if hasattr(node, "lineno") else self.positioned(), self.caller)

    def is_global(self, name: str) -> bool:
        return name not in self.env and name not in self.analysis.locals

    def look_up_global(self, name: str) -> Any:
        """The closure, module or builtin value called `name`. Raises KernelNameError."""
        for scope in (self._nonlocals, self.fn.fn.__globals__):
            if name in scope:
                return scope[name]
        if hasattr(builtins, name):
            return getattr(builtins, name)
        raise KernelNameError(f"name '{name}' is not defined", help=self._similar(name))

    def _similar(self, name: str) -> str:
        known = [*self.env, *self.analysis.locals, *self.fn.fn.__globals__]
        close = difflib.get_close_matches(name, [k for k in known if k.isidentifier()], 1)
        if close:
            return f"did you mean '{close[0]}'?"
        return (
            "define it in the kernel, pass it as an argument, or import it in the kernel's module"
        )


def _closure(fn: KernelFunction) -> dict[str, Any]:
    cells = zip(fn.fn.__code__.co_freevars, fn.fn.__closure__ or (), strict=False)
    found = {}
    for name, cell in cells:
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not yet assigned in the enclosing function
            continue
    return found


def is_plain(value: Any) -> bool:
    """Whether a global of this value can be part of a cache key: numbers, text, types, tuples."""
    if isinstance(value, tuple):
        return all(is_plain(item) for item in value)
    return isinstance(value, (*_PLAIN, dtypes.constexpr))


def check_global(name: str, value: Any) -> None:
    """Reject globals that would be compiled in silently although they change: arrays, containers."""
    if isinstance(value, ModuleType | type) or callable(value) or is_plain(value):
        return
    if isinstance(value, list | dict | set):
        raise UnsupportedSyntax(
            f"global '{name}' is a {type(value).__name__}, which may change after compilation",
            help="make it a tuple, or pass what the kernel needs as a tl.constexpr argument",
        )
    if hasattr(value, "__array__") or hasattr(value, "data_ptr"):
        raise UnsupportedSyntax(
            f"global '{name}' is an array ({type(value).__name__})",
            help="pass it to the kernel as an argument",
        )


def index_name(loop: ast.For) -> str:
    """The name of a loop's index. Requires: the target is a name."""
    return cast(ast.Name, loop.target).id


class BuilderState:
    """State of one compilation; the mixins of `KernelBuilder` derive from it."""

    frame: Frame
    frames: list[Frame]
    builder: IRBuilder
    semantics: Any
    debug: bool
    globals_read: dict[tuple[KernelFunction, str], Any]
    callees: dict[KernelFunction, None]
    copied: int
    unused: ast.expr | None = None
    """The expression of the statement being compiled, whose value is unused."""

    # methods of later mixins that earlier ones call
    visit: Callable[[ast.expr], Any]
    statement: Callable[[ast.stmt, list[ast.stmt]], None]
    assign: Callable[[ast.expr, Any], None]
    call: Callable[[Any, list[Any], dict[str, Any], ast.AST], Any]
    condition: Callable[[ast.expr, str], bool | SSAValue]
    loop_items: Callable[[ast.expr], Any]

    def tensor(self, handle: SSAValue, kind: Any) -> TensorValue:
        """A value of language type `kind` for `handle`."""
        return TensorValue(handle, kind, self.semantics)

    def with_handles(self, value: Any, handles: Iterator[SSAValue]) -> Any:
        """`value` with the next of `handles` for each tensor in it."""
        return map_tensors(lambda old: self.tensor(next(handles), old.type), value)
