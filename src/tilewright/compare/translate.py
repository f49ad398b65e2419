"""tilewright's kernel of a Triton kernel: the same Python function, with tilewright's names in its globals.

The functions, modules and constants of Triton that a kernel names become tilewright's of the same name, jit functions
that it calls are translated in turn, and everything else stays the same object. Nothing is imported again, so a kernel
that was defined in a function, or whose globals have changed since, is replayed as it was.
"""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

from tilewright.errors import LaunchError
from tilewright.integrations.triton_jit import default_dot_precision
from tilewright.runtime.descriptors import TensorDescriptor
from tilewright.runtime.host_functions import constexpr_function
from tilewright.runtime.jit import JITFunction


class Translator:
    """Translates the kernels of one process; a function is translated once."""

    def __init__(self) -> None:
        self._functions: dict[int, JITFunction] = {}
        self._plain_functions: dict[int, types.FunctionType] = {}
        self._packages: set[str] = set()  # of kernels: functions of other packages stay as they are
        self._modules: dict[str, Any] = {}
        self._views: dict[str, Any] = {}
        self._kept: list[Any] = []

    def kernel(self, kernel: Any) -> JITFunction:
        """tilewright's kernel of Triton's (a JITFunction, or an InterpretedFunction)."""
        found = self._functions.get(id(kernel.fn))
        if found is not None:
            return found
        source: types.FunctionType = kernel.fn
        self._packages.add(source.__module__.partition(".")[0])
        made, fill = self._copy(source)
        made.__annotations__ = {n: self.value(a) for n, a in source.__annotations__.items()}
        made.__defaults__ = self.value(source.__defaults__)
        result = JITFunction(
            made,
            do_not_specialize=getattr(kernel, "do_not_specialize", None),
            do_not_specialize_on_alignment=getattr(kernel, "do_not_specialize_on_alignment", None),
            noinline=bool(getattr(kernel, "noinline", False)),
        )
        result.dot_precision = default_dot_precision()
        self._functions[id(source)] = result
        self._kept.append(kernel)
        fill()
        return result

    def _copy(self, source: types.FunctionType) -> tuple[types.FunctionType, Callable[[], bool]]:
        """A copy of a function with globals and closure of its own, and what translates these into it.

        The second is called once the copy is remembered, for functions that name themselves; it
        says whether any value became another.
        """
        scope: dict[str, Any] = {"__builtins__": source.__globals__.get("__builtins__"), "__name__": source.__module__}  # fmt: skip
        cells = tuple(types.CellType() for _ in source.__closure__ or ())
        made = types.FunctionType(
            source.__code__, scope, source.__name__, source.__defaults__, cells or None
        )
        made.__kwdefaults__, made.__qualname__ = source.__kwdefaults__, source.__qualname__
        made.__module__, made.__doc__ = source.__module__, source.__doc__

        def fill() -> bool:
            changed = False
            for name in set(_names(source.__code__)) & source.__globals__.keys():
                scope[name] = self.value(source.__globals__[name])
                changed |= scope[name] is not source.__globals__[name]
            for cell, original in zip(cells, source.__closure__ or (), strict=True):
                cell.cell_contents = self.value(original.cell_contents)
                changed |= cell.cell_contents is not original.cell_contents
            return changed

        return made, fill

    def _plain(self, source: types.FunctionType) -> types.FunctionType:
        """A function that runs at compile time, with tilewright's names if it uses any of Triton's."""
        if id(source) not in self._plain_functions:
            made, fill = self._copy(source)
            self._plain_functions[id(source)] = made
            self._kept.append(source)
            if not fill():
                self._plain_functions[id(source)] = source
        return self._plain_functions[id(source)]

    def value(self, value: Any) -> Any:
        """tilewright's object for one of Triton's; others stay."""
        if isinstance(value, types.ModuleType):
            return self._module(value)
        if type(value) is tuple or type(value) is list:
            return type(value)(self.value(item) for item in value)
        if isinstance(value, str | int | float | None):
            return value
        home = getattr(value, "__module__", None) or ""
        name = getattr(value, "__name__", None)
        if isinstance(value, types.FunctionType) and not _is_triton(home):
            return self._plain(value) if home.partition(".")[0] in self._packages else value
        if _is_kernel(value):
            return self._decorated(value)
        if isinstance(name, str) and _is_triton(home):
            return self._named(home, name)
        return self._instance(value) if _is_triton(type(value).__module__) else value

    def _decorated(self, value: Any) -> Any:
        """A jit function or a function of compile time."""
        if _is_triton(value.fn.__module__):
            return self._named(value.fn.__module__, value.fn.__name__)
        if type(value).__name__ == "ConstexprFunction":
            return constexpr_function(self._plain(value.fn))
        return self.kernel(value)

    def _instance(self, value: Any) -> Any:
        """A data type, constexpr or tensor argument of Triton's as tilewright's."""
        kind = type(value).__name__
        if kind == "dtype":
            return self._named("triton.language", _dtype_name(value))
        if kind == "pointer_type":
            return self._named("triton.language", "pointer_type")(self.value(value.element_ty))
        if kind == "constexpr":
            return self._named("triton.language", "constexpr")(self.value(value.value))
        if kind == "TensorWrapper":
            from tilewright.runtime.tensor_wrapper import reinterpret

            return reinterpret(value.base, self.value(value.dtype))
        if kind == "TensorDescriptor":
            shape = (list(value.shape), list(value.strides), list(value.block_shape))
            return TensorDescriptor(value.base, *shape, getattr(value, "padding", None) or "zero")
        return value

    def _named(self, module: str, name: str) -> Any:
        """The object of this name in tilewright's module for one of Triton's, or in its language module."""
        for place in dict.fromkeys((module, "triton.language", "triton")):
            with_name = self._counterpart(place)
            if with_name is not None and hasattr(with_name, name):
                return getattr(with_name, name)
        raise LaunchError(f"tilewright has no counterpart of {module}.{name}")

    def _module(self, module: types.ModuleType) -> Any:
        """tilewright's module for one of Triton's; a view of another one that translates on access."""
        if _is_triton(module.__name__):
            found = self._counterpart(module.__name__)
            if found is None:
                raise LaunchError(f"tilewright has no counterpart of the module {module.__name__}")
            return found
        if module.__name__ not in self._views:
            holds = _holds_triton(module, set())
            self._views[module.__name__] = _TranslatedModule(module, self) if holds else module
        return self._views[module.__name__]

    def _counterpart(self, name: str) -> Any:
        if name not in self._modules:
            with drop_in():
                try:
                    self._modules[name] = importlib.import_module(name)
                except ImportError:
                    self._modules[name] = None
        return self._modules[name]


class _TranslatedModule(types.ModuleType):
    """A module of the program as a kernel sees it: attributes are translated when they are read."""

    def __init__(self, module: types.ModuleType, translator: Translator) -> None:
        super().__init__(module.__name__)
        self.__dict__["_source"], self.__dict__["_translator"] = module, translator

    def __getattr__(self, name: str) -> Any:
        return self.__dict__["_translator"].value(getattr(self.__dict__["_source"], name))


@contextmanager
def drop_in() -> Generator[None]:
    """Let `triton` mean tilewright meanwhile, in a process that has imported the real one."""
    from tilewright.integrations import triton

    if triton.is_installed():
        yield
        return
    kept = {name: sys.modules.pop(name) for name in [*sys.modules] if _is_triton(name)}
    triton.install()
    try:
        yield
    finally:
        triton.uninstall()
        sys.modules.update(kept)


def _names(code: types.CodeType) -> Iterator[str]:
    """Global names that code may read, functions inside it included."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _is_triton(module: str | None) -> bool:
    return module is not None and (module == "triton" or module.startswith("triton."))


def _is_kernel(value: Any) -> bool:
    """Whether `value` is a jit function of Triton's, or decorates one."""
    return _is_triton(type(value).__module__) and isinstance(
        getattr(value, "fn", None), types.FunctionType
    )


def _holds_triton(module: types.ModuleType, seen: set[str]) -> bool:
    """Whether a module, or one of the same package that it names, has names of Triton's or jit functions."""
    seen.add(module.__name__)
    package = module.__name__.partition(".")[0]
    for value in list(vars(module).values()):
        if not isinstance(value, types.ModuleType):
            homes = type(value).__module__, getattr(value, "__module__", None)
            if any(_is_triton(home) for home in homes if isinstance(home, str)):
                return True
            continue
        inside = value.__name__.partition(".")[0] == package and value.__name__ not in seen
        if _is_triton(value.__name__) or (inside and _holds_triton(value, seen)):
            return True
    return False


def _dtype_name(dtype: Any) -> str:
    """`float16` for Triton's fp16: the attribute of the language module."""
    language = sys.modules["triton.language"]
    for name in ("name", "__str__"):
        text = getattr(dtype, name, "")
        text = text() if callable(text) else text
        for attribute, value in vars(language).items():
            if type(value) is type(dtype) and value == dtype:
                return attribute
        if text:
            return str(text)
    return str(dtype)
