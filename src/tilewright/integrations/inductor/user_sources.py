"""The source of users' kernels, which torch writes out again with what their modules import.

torch imports the names that come from modules called `triton…`, and writes the types of annotated constants with the modules they
are defined in. Here both are tilewright's, so that names are imported by this module, and `tl` gives the type.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

from tilewright.compile_time import constexpr
from tilewright.integrations.inductor.replacements import Replacement
from tilewright.runtime.jit import JITFunction

#: modules whose names kernels use, and what generated code calls them
_SEARCHED = {
    "tilewright.language": "triton.language",
    "tilewright.language.extra.libdevice": "triton.language.extra.libdevice",
}


def _with_imports(_: Any, original: Any) -> Any:
    """`user_defined_triton_kernel_transitive_closure_source_code` with the imports of our names."""
    annotation = f": {constexpr.__module__}.{constexpr.__name__} = "

    @functools.wraps(original)
    def source(kernel: Any, *rest: Any) -> str:
        text = original(kernel, *rest).replace(annotation, ": tl.constexpr = ")
        return "\n".join((text.rstrip("\n"), *imports(kernel), ""))

    return source


def imports(kernel: JITFunction) -> list[str]:
    """Statements that define, as the kernel's module does, the names of tilewright's that it uses, and the kernels it calls."""
    found: dict[str, str] = {}
    for name, value in _globals(kernel.fn, set()):
        statement = _import(name, value) if name != "tl" else None
        if statement is not None:
            found[name] = statement
    return list(found.values())


def _globals(function: FunctionType, seen: set[Any]) -> Iterator[tuple[str, Any]]:
    """Names and values of the globals that a function and the kernels called by it use."""
    seen.add(function)
    for name in function.__code__.co_names:
        if name not in function.__globals__:
            continue
        value = function.__globals__[name]
        yield name, value
        if isinstance(value, JITFunction) and value.fn not in seen:
            yield from _globals(value.fn, seen)


def _import(name: str, value: Any) -> str | None:
    """The statement that binds `name` to `value`, where it is tilewright's or a part of it; otherwise None."""
    if isinstance(value, ModuleType):
        known = _SEARCHED.get(value.__name__)
        return None if known is None else f"import {known} as {name}"
    if isinstance(value, (JITFunction, constexpr, int, float, str, type(None))):
        return None  # torch writes these out
    for module, known in _SEARCHED.items():
        for own, each in vars(sys.modules.get(module, ModuleType(module))).items():
            if each is value:
                return f"from {known} import {own} as {name}"
    return None


REPLACEMENTS = (
    Replacement(
        "torch._inductor.codegen.wrapper",
        "user_defined_triton_kernel_transitive_closure_source_code",
        _with_imports,
    ),
)
