"""Python's builtins as kernels mean them (`range`, `min` …), and numbers that are marked as compile-time constants."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Mapping
from typing import Any

from tilewright.debug.stepping import breakpoint_function
from tilewright.dtypes import constexpr, unwrap_constexpr
from tilewright.errors import KernelTypeError
from tilewright.language.builtin import active_semantics, unused_result_error
from tilewright.language.kernel_function import KernelFunction
from tilewright.language.types import RANGE_HINTS
from tilewright.semantics.core import PYTHON_BUILTINS
from tilewright.semantics.named import deferring
from tilewright.semantics.values import TensorValue


class _Constant:
    """Mixed into numbers and text: `.value`, and a tensor's methods (`n.to(tl.int64)`)."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name == "value":
            return self
        semantics = active_semantics.get()
        if semantics is None or name.startswith("_") or isinstance(self, str):
            raise AttributeError(f"'{type(self).__name__}' has no attribute '{name}'")
        return getattr(semantics.to_tensor(self), name)


#: subclasses have the names of Python's types, which its error texts show
_RICH: dict[type, Any] = {
    plain: type(plain.__name__, (_Constant, plain), {} if plain is str else deferring(plain))
    for plain in (int, float, str)
}


def constant(value: Any) -> Any:
    """A compile-time value as kernels get it: a plain one, numbers with `.value` as well.

    Bools and None stay as they are, so that `is` works.
    """
    value = unwrap_constexpr(value)
    rich = _RICH.get(type(value))
    if rich is not None:
        return rich(value)
    if type(value) is tuple:
        return tuple(map(constant, value))
    return value


def _is_tensor(value: Any) -> bool:
    return isinstance(value, TensorValue)


def _any_tensor(args: tuple[Any, ...]) -> bool:
    return any(_is_tensor(unwrap_constexpr(a)) for a in args)


def _or_language(function: Any, meaning: str) -> Any:
    def either(*args: Any, **keywords: Any) -> Any:
        semantics = active_semantics.get()
        if semantics is not None and _any_tensor(args):
            return getattr(semantics, meaning)(*args, **keywords)
        return function(*args, **keywords)

    either.__name__ = function.__name__
    setattr(either, "__wrapped__", function)  # noqa: B010
    return either


def _range(*bounds: Any, **hints: Any) -> Iterator[TensorValue]:
    """A loop at run time: its counter is a scalar tensor, as in compiled code. `hints`, those of
    `tl.range`, have no effect.
    """
    for name in hints:
        if name not in RANGE_HINTS:
            raise KernelTypeError(f"range has no keyword {name!r}")
    return active_semantics.get().counters(*bounds)


def _isinstance(value: Any, kinds: Any) -> bool:
    for kind in kinds if isinstance(kinds, tuple) else (kinds,):
        kind = getattr(kind, "__wrapped__", kind)
        if kind is constexpr:
            if not _is_tensor(value):
                return True
        elif isinstance(value, kind):
            return True
    return False


def _all_or_any(name: str, function: Any) -> Any:
    def fold(items: Any) -> Any:
        found = list(items)
        if not _any_tensor(tuple(found)):
            return function(found)
        semantics = active_semantics.get()
        value: Any = found[0]
        for item in found[1:]:
            value = getattr(semantics, name)(value, item)
        return value

    return fold


def python_names() -> dict[str, Any]:
    """`__builtins__` for kernels that run as Python. `print` stays Python's."""
    names = dict(vars(builtins))
    for function, meaning in PYTHON_BUILTINS.items():
        if function is not print:
            names[function.__name__] = _or_language(function, meaning)
    names["breakpoint"] = breakpoint_function()
    names["range"] = _range
    names["isinstance"] = _isinstance
    names["any"] = _all_or_any("logical_or", any)
    names["all"] = _all_or_any("logical_and", all)
    return names


def check_unused_results(function: KernelFunction) -> None:
    """Raise CompilationError for a statement of `function` that calls what `must_use_result` marks.

    Found from the syntax tree: a call by the name of a global or of an attribute of one.
    """
    names = function.globals
    for node in ast.walk(function.tree):
        if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
            continue
        called = node.value.func
        error = unused_result_error(_value_of(called, names), ast.unparse(called))
        if error is not None:
            error.location = function.location(node)
            raise error


def _value_of(node: ast.expr, names: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Attribute):
        return getattr(_value_of(node.value, names), node.attr, None)
    return names.get(node.id) if isinstance(node, ast.Name) else None
