"""Keep a module name absent for some importers while everybody else sees it.

torch asks in many places, at import and inside functions, whether `triton` can be imported, and
then reaches deep into it. Modules that answer to that name for kernel authors must not answer to
torch. An import statement calls `builtins.__import__` with the importer's globals, so one wrapper
there can tell the two apart, whenever either side was imported; a second one does the same for
`importlib.util.find_spec`. Both cost about 0.1 µs a call and are gone after the last `show`.
"""

from __future__ import annotations

import builtins
import functools
import importlib.util
import sys
from typing import Any

#: hidden top-level module name -> packages that do not see it
_hidden: dict[str, tuple[str, ...]] = {}
_originals: dict[str, Any] = {}
_wrappers: dict[str, Any] = {}


def hide(name: str, viewers: tuple[str, ...]) -> None:
    """Make imports of `name` and its submodules fail inside the packages `viewers`."""
    _hidden[name] = viewers
    if "import" not in _originals:
        _install_import()
        _install_find_spec()


def show(name: str) -> None:
    """Undo `hide`. A wrapper that others wrapped meanwhile stays, and does nothing."""
    _hidden.pop(name, None)
    if _hidden or not _originals:
        return
    if builtins.__import__ is _wrappers["import"]:
        builtins.__import__ = _originals["import"]
    if importlib.util.find_spec is _wrappers["find_spec"]:
        importlib.util.find_spec = _originals["find_spec"]
    _originals.clear()
    _wrappers.clear()


def _is_hidden(name: str, importer: str) -> bool:
    viewers = _hidden.get(name.partition(".")[0])
    return viewers is not None and importer.partition(".")[0] in viewers


def _install_import() -> None:
    original = builtins.__import__

    @functools.wraps(original)
    def import_(
        name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> Any:
        if level == 0 and globals and _is_hidden(name, globals.get("__name__") or ""):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return original(name, globals, locals, fromlist, level)

    _originals["import"] = original
    _wrappers["import"] = import_
    builtins.__import__ = import_


def _install_find_spec() -> None:
    original = importlib.util.find_spec

    @functools.wraps(original)
    def find_spec(name: str, package: str | None = None) -> Any:
        if _hidden and _is_hidden(name, sys._getframe(1).f_globals.get("__name__") or ""):
            return None
        return original(name, package)

    _originals["find_spec"] = original
    _wrappers["find_spec"] = find_spec
    importlib.util.find_spec = find_spec
