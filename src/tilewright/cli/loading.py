"""From `FILE.py:KERNEL` to a kernel: load the file with `triton` meaning tilewright, find the name."""

from __future__ import annotations

import functools
import importlib
import importlib.machinery
import importlib.util
import itertools
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tilewright.errors import LaunchError
from tilewright.integrations import triton
from tilewright.language.kernel_function import KernelFunction
from tilewright.runtime.interface import innermost
from tilewright.runtime.jit import JITFunction

_numbers = itertools.count(2)


class Placeholder(types.ModuleType):
    """Something that stands for a missing package and all that is in it, while a file is loaded to look at its kernels.

    A file with kernels often imports torch, for its host code. To print such a kernel's IR torch is not needed: every
    attribute and every call gives another placeholder. Programs that are run (`tilewright run`) get none.
    """

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


@dataclass(frozen=True)
class FoundKernel:
    """A kernel named on the command line: the named object and its underlying jit function."""

    module: types.ModuleType
    name: str
    decorated: Any
    """The object of that name in the file: a jit function, an autotuner or heuristics."""
    kernel: Any
    """The `JITFunction` itself."""


def use_as_triton() -> None:
    """Alias `import triton` to tilewright before a file is loaded."""
    triton.install()


def load_file(path: Path, placeholders: bool = True) -> types.ModuleType:
    """Import a Python file as a module, its folder on the path as if it were run.

    With `placeholders` a package that is not installed (torch, say) does not stop the file from
    being loaded: something inert stands in for it. Raises LaunchError if there is no such file.
    """
    if not path.is_file():
        raise LaunchError(f"there is no file {path}")
    use_as_triton()
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    name = path.stem if path.stem not in sys.modules else f"{path.stem}_{next(_numbers)}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise LaunchError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        if placeholders:
            import_with_placeholders(functools.partial(spec.loader.exec_module, module))
        else:
            spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def load_place(place: str, placeholders: bool = True) -> tuple[types.ModuleType, str]:
    """`FILE.py:NAME` or `package.module:NAME` as a module and a name ("" when none is given)."""
    where, colon, name = place.rpartition(":")
    if not colon or name.endswith(".py") or "/" in name or "\\" in name:
        where, name = place, ""
    path = Path(where)
    if path.suffix == ".py" or path.exists():
        return load_file(path, placeholders), name
    use_as_triton()
    try:
        return importlib.import_module(where), name
    except ModuleNotFoundError as error:
        raise LaunchError(
            f"there is no file and no module {where}: {error}", help="write FILE.py:KERNEL"
        ) from None


def kernels_in(module: types.ModuleType) -> dict[str, Any]:
    """Name → kernel, for kernels that the module itself defines."""
    found = {}
    for name, value in vars(module).items():
        inner = innermost(value)
        if isinstance(inner, KernelFunction) and inner.fn.__module__ == module.__name__:
            found[name] = value
    return found


def find_kernel(place: str, placeholders: bool = True) -> FoundKernel:
    """The kernel that `FILE.py:KERNEL` names; the name may be left out where a file has one.

    A plain function counts as a kernel too (a listing that lost its decorator). Raises LaunchError.
    """
    module, name = load_place(place, placeholders)
    kernels = kernels_in(module)
    if not name:
        if len(kernels) != 1:
            known = f"it has {', '.join(kernels)}" if kernels else "it defines none"
            raise LaunchError(f"which kernel of {place}? {known}", help="write FILE.py:KERNEL")
        name = next(iter(kernels))
    value: Any = module
    for part in name.split("."):
        value = getattr(value, part, None)
    kernel = innermost(value)
    if isinstance(kernel, types.FunctionType):
        kernel = value = JITFunction(kernel)
    if not isinstance(kernel, KernelFunction):
        known = f"its kernels are {', '.join(kernels)}" if kernels else "it defines no kernel"
        raise LaunchError(f"{place} is not a kernel", help=known)
    return FoundKernel(module, name, value, kernel)
