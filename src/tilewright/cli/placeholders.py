"""Stand-ins for packages that are not installed, while a file is loaded to look at its kernels.

A file with kernels often imports torch, for its host code. To print such a kernel's IR torch is not
needed, so a missing package becomes a `Placeholder`: every attribute and every call gives another.
Programs that are run (`tilewright run`) get none.
"""

from __future__ import annotations

import importlib.machinery
import sys
import types
from collections.abc import Callable
from typing import Any, cast


class Placeholder(types.ModuleType):
    """Something that stands for a missing package and all that is in it."""

    __path__ = []  # a package

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        # a kernel may ask which build of torch there is: no GPU build
        value = None if self.__name__ == "torch.version" else Placeholder(f"{self.__name__}.{name}")
        setattr(self, name, value)
        return value

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and isinstance(args[0], types.FunctionType) and not kwargs:
            return args[0]  # used as a decorator
        return Placeholder(f"{self.__name__}()")

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return (object,)  # used as a base class

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def __repr__(self) -> str:
        return f"<placeholder for {self.__name__}>"


class _Finder:
    """Last on `sys.meta_path`: serves the packages in `names`."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] not in self.names:
            return None
        return importlib.machinery.ModuleSpec(name, cast(Any, self), is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return Placeholder(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        return None


def import_with_placeholders(load: Callable[[], None]) -> list[str]:
    """Call `load`, again with placeholders if a package that it needs is missing.

    A file that can do without a package (`try: import …`) is left to. Gives the names of what was
    replaced, and says so on the error stream; they are gone from `sys.modules` afterwards.
    """
    finder = _Finder()
    sys.meta_path.append(finder)
    try:
        while True:
            try:
                load()
                break
            except ModuleNotFoundError as error:
                top = error.name or ""
                own = top in sys.stdlib_module_names or top in ("tilewright", "triton")
                if not top or "." in top or own or top in finder.names:
                    raise
                finder.names.append(top)
    finally:
        sys.meta_path.remove(finder)
        for name in [n for n, m in sys.modules.items() if isinstance(m, Placeholder)]:
            del sys.modules[name]
    if finder.names:
        names = ", ".join(finder.names)
        print(f"note: not installed, replaced by placeholders: {names}", file=sys.stderr)
    return finder.names
