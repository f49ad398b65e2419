"""Call a function with another package's module as soon as it is imported."""

from __future__ import annotations

import importlib.machinery
import sys
from collections.abc import Callable
from typing import Any, cast

#: module name -> what to call with it
_waiting: dict[str, list[Callable[[Any], None]]] = {}


class _Loader:
    """A module's own loader, and then the calls."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Any:
        return self.loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        self.loader.exec_module(module)
        for call in list(_waiting.get(module.__name__, ())):
            call(module)


class _Watcher:
    """Notices that one of the modules is being imported."""

    def find_spec(
        self, name: str, path: Any = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in _waiting:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = cast(Any, _Loader(spec.loader))
        return spec


_watcher = _Watcher()


def call_after_import(name: str, call: Callable[[Any], None]) -> None:
    """`call(module)` now if the module is there, and after every import of it until `forget`."""
    _waiting.setdefault(name, []).append(call)
    if _watcher not in sys.meta_path:
        sys.meta_path.insert(0, _watcher)
    if name in sys.modules:
        call(sys.modules[name])


def forget(name: str, call: Callable[[Any], None]) -> None:
    """Undo `call_after_import`; what `call` did stays."""
    calls = _waiting.get(name, [])
    if call in calls:
        calls.remove(call)
    if not calls:
        _waiting.pop(name, None)
    if not _waiting and _watcher in sys.meta_path:
        sys.meta_path.remove(_watcher)


def is_waiting(name: str, call: Callable[[Any], None]) -> bool:
    """Whether `call_after_import(name, call)` is in force."""
    return call in _waiting.get(name, ())
