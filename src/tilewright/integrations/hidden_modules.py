"""Keep `triton` absent for torch while everybody else sees it.

torch asks in many places, at import and inside functions, whether `triton` can be imported, and
then reaches deep into it. Modules that answer to that name for kernel authors must not answer to
torch. An import statement calls `builtins.__import__` with the importer's globals, so one wrapper
there can tell the two apart, whenever either side was imported; a second one does the same for
`importlib.util.find_spec`. Both cost about 0.1 µs a call and are gone after `show`.

`torch.library.wrap_triton` imports Triton to see what it was given, and would not find it. Our kernels are launched and
never traced, so there is nothing to wrap: it gives the kernel itself.
"""

from __future__ import annotations

import builtins
import functools
import importlib.util
import sys
from collections.abc import Callable
from typing import Any

from tilewright.integrations import after_import
from tilewright.runtime.interface import KernelInterface

_NAME, _VIEWERS = "triton", ("torch", "functorch")
#: owner and name of a function that is wrapped now, our wrapper, the original
_wrapped: list[tuple[Any, str, Any, Any]] = []


def hide() -> None:
    """Make imports of `triton` fail inside torch's packages, of a torch that is or will be imported. Calling again is fine."""
    if _wrapped:
        return
    after_import.call_after_import(_HOME, _exchange)
    for module in _present():
        _exchange(module)
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
    after_import.forget(_HOME, _exchange)
    for module in _present():
        for name in _NAMES:
            original = getattr(getattr(module, name, None), "__tilewright_original__", None)
            if original is not None:
                setattr(module, name, original)


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


# ---- torch.library.wrap_triton ----------------------------------------------------------------------

#: where torch defines the function, and what takes it from there
_HOME = "torch._library.triton"
_USERS = (_HOME, "torch._library", "torch.library")
_NAMES = ("wrap_triton", "capture_triton")


def _present() -> list[Any]:
    return [sys.modules[name] for name in _USERS if name in sys.modules]


def _exchange(module: Any) -> None:
    for name in _NAMES:
        original = getattr(module, name, None)
        if original is not None and not hasattr(original, "__tilewright_original__"):
            setattr(module, name, _ours(original))


def _ours(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(original)
    def wrap_triton(triton_kernel: Any, /) -> Any:
        return (
            triton_kernel if isinstance(triton_kernel, KernelInterface) else original(triton_kernel)
        )

    vars(wrap_triton)["__tilewright_original__"] = original
    return wrap_triton
