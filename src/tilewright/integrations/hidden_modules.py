"""Keep `triton` absent for torch while everybody else sees it.

torch asks in many places, at import and inside functions, whether `triton` can be imported, and
then reaches deep into it. Modules that answer to that name for kernel authors must not answer to
torch. An import statement calls `builtins.__import__` with the importer's globals, so one wrapper
there can tell the two apart, whenever either side was imported; a second one does the same for
`importlib.util.find_spec`. Both cost about 0.1 µs a call and are gone after `show`.
"""

from __future__ import annotations

import builtins
import functools
import importlib.util
import sys
from collections.abc import Callable
from typing import Any

_NAME, _VIEWERS = "triton", ("torch", "functorch")
#: owner and name of a function that is wrapped now, our wrapper, the original
_wrapped: list[tuple[Any, str, Any, Any]] = []


def hide() -> None:
    """Make imports of `triton` and its submodules fail inside torch's packages. Calling again is fine."""
    if _wrapped:
        return
    wrappers: list[tuple[Any, str, Callable[[Any], Any]]] = [
        (builtins, "__import__", _import), (importlib.util, "find_spec", _find_spec),
    ]  # fmt: skip
    for owner, name, wrap in wrappers:
        original = getattr(owner, name)
        _wrapped.append((owner, name, wrap(original), original))
        setattr(*_wrapped[-1][:3])


def show() -> None:
    """Undo `hide`. A wrapper that others wrapped meanwhile stays, and does nothing."""
    for owner, name, wrapper, original in _wrapped:
        if getattr(owner, name) is wrapper:
            setattr(owner, name, original)
    _wrapped.clear()


def _is_hidden(name: str, importer: str) -> bool:
    hidden = bool(_wrapped) and name.partition(".")[0] == _NAME
    return hidden and importer.partition(".")[0] in _VIEWERS


def _import(original: Any) -> Any:
    @functools.wraps(original)
    def import_(
        name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> Any:
        if level == 0 and globals and _is_hidden(name, globals.get("__name__") or ""):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return original(name, globals, locals, fromlist, level)

    return import_


def _find_spec(original: Any) -> Any:
    @functools.wraps(original)
    def find_spec(name: str, package: str | None = None) -> Any:
        if _is_hidden(name, sys._getframe(1).f_globals.get("__name__") or ""):
            return None
        return original(name, package)

    return find_spec
