"""Let `import triton` and `import triton.language as tl` mean tilewright.

    from tilewright.integrations import triton
    triton.install()
    import my_kernels            # a module with `import triton`

`install()` puts a finder on `sys.meta_path` that serves `triton` and its
submodules: the language and the test tools are aliases of tilewright's modules, the rest are thin
modules that export tilewright's objects under Triton's names (`triton_names`). torch must not mistake this for the
Triton that its compiler drives, so the name stays hidden from torch's modules (`hidden_modules`).
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Mapping
from typing import Any

from tilewright import dtypes
from tilewright.errors import IntegrationError
from tilewright.integrations import hidden_modules, triton_names
from tilewright.language import target_info

_MARK = "__tilewright_drop_in__"


class _NamesModule(types.ModuleType):
    """A module whose attributes are resolved on first access."""

    def __init__(self, name: str, table: triton_names.Names) -> None:
        super().__init__(name, f"tilewright under the name {name}")
        names = table.names()
        self.__file__ = __file__  # programs look for tools and headers beside it
        self.__dict__["_lookup"] = table.lookup
        self.__dict__["_objects"] = table.objects
        self.__dict__["_names"] = tuple(names)
        self.__dict__["__all__"] = [n for n in names if not n.startswith("_")]

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__") and attribute != "__version__":
            raise AttributeError(attribute)
        value = self.__dict__["_lookup"](attribute)
        self.__dict__[attribute] = value
        return value

    def __setattr__(self, attribute: str, value: Any) -> None:
        """As in Triton, importing a submodule does not replace an object of the same name."""
        submodule = isinstance(value, types.ModuleType) and attribute in self.__dict__["_objects"]
        if not (submodule and value.__name__ == f"{self.__name__}.{attribute}"):
            super().__setattr__(attribute, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.__dict__["_names"]})


class _NamesLoader:
    """Makes a module of Triton's names for tilewright's objects."""

    def __init__(self, table: triton_names.Names) -> None:
        self.table = table

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _NamesModule(spec.name, self.table)

    def exec_module(self, module: types.ModuleType) -> None:
        module.__dict__[_MARK] = True


class _AliasLoader:
    """Load an existing tilewright module under another name, without modifying it."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.kept: Any = None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = importlib.import_module(self.target)
        self.kept = module.__spec__
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        module.__spec__ = self.kept


class _Finder:
    """Serves `triton` and its submodules."""

    def find_spec(
        self, name: str, path: Any = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != "triton" and not name.startswith("triton."):
            return None
        alias = triton_names.alias_of(name)
        if alias is not None:
            loader: Any = _AliasLoader(alias)
        else:
            table = triton_names.table_of(name)
            if table is None:
                raise ModuleNotFoundError(
                    f"No module named {name!r}: tilewright stands in for triton here and has "
                    "no such part",
                    name=name,
                )
            loader = _NamesLoader(table)
        # Packages all: an alias must not be searched on the disk under a second name.
        return importlib.machinery.ModuleSpec(name, loader, is_package=True)


_finder = _Finder()


def is_installed() -> bool:
    """Whether `import triton` currently resolves to tilewright."""
    return _finder in sys.meta_path


def install() -> types.ModuleType:
    """Make `triton` mean tilewright in this process, and return that module. Calling again is fine.

    torch may have been imported before or may be imported later; its own modules keep believing
    that there is no Triton, so `torch.compile` on the CPU goes on as before (and on a GPU it does
    not find a real Triton while this is installed).

    Raises:
        IntegrationError: the real Triton has been imported already.
    """
    if is_installed():
        return importlib.import_module("triton")
    reject_real_triton("tilewright.integrations.triton.install()")
    _forget_modules()
    sys.meta_path.insert(0, _finder)
    hidden_modules.hide()
    target_info.set_machine(_current_target)
    dtypes.language_module = "triton.language"
    try:
        for name in triton_names.EAGER:
            importlib.import_module(name)
    except BaseException:
        uninstall()
        raise
    return sys.modules["triton"]


def _current_target() -> Any:
    from tilewright.integrations.triton_driver import active

    return active.get_current_target()


def reject_real_triton(call: str) -> None:
    """Raise IntegrationError if the real Triton has been imported; `call` names the function called too late."""
    present = sys.modules.get("triton")
    if present is None or _MARK in vars(present):
        return
    where = getattr(present, "__file__", None) or "an unknown place"
    raise IntegrationError(
        f"triton is already imported, from {where}",
        help=f"call {call} before anything imports triton",
    )


def show_to_torch(tables: Mapping[str, triton_names.Names]) -> None:
    """Let torch import `triton` as well, with `tables` in it; `install` must have been called."""
    triton_names.overlay.update(tables)
    hidden_modules.show()
    target_info.set_machine(None)
    _forget_modules()


def hide_from_torch() -> None:
    """Undo `show_to_torch`."""
    triton_names.overlay.clear()
    _forget_modules()
    if is_installed():
        hidden_modules.hide()


def uninstall() -> None:
    """Remove the alias `triton`. Modules that have imported it keep their references."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    hidden_modules.show()
    dtypes.language_module = "tilewright.language"
    _forget_modules()


def _forget_modules() -> None:
    """Drop our modules (and failed imports, `None`) below the name `triton`."""
    for name in [n for n in sys.modules if n == "triton" or n.startswith("triton.")]:
        module = sys.modules[name]
        ours = module is None or _MARK in vars(module) or module.__name__.startswith("tilewright")
        if ours:
            del sys.modules[name]
