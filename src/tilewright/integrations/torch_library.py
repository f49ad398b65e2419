"""`torch.library.wrap_triton` of our kernels gives the kernel itself.

torch's own function imports Triton to see what it was given, and does not find it while tilewright
stands in (`hidden_modules`). Our kernels are launched and never traced, so there is nothing to wrap.
"""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable
from typing import Any, cast

from tilewright.runtime.interface import KernelInterface

#: where torch defines the function, and what takes it from there
_HOME = "torch._library.triton"
_USERS = (_HOME, "torch._library", "torch.library")
_NAMES = ("wrap_triton", "capture_triton")


class _Loader:
    """torch's loader for `_HOME`, and then the exchange."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Any:
        return self.loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        self.loader.exec_module(module)
        _exchange(module)


class Finder:
    """Notices that `_HOME` is being imported."""

    def find_spec(
        self, name: str, path: Any = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != _HOME:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = cast(Any, _Loader(spec.loader))
        return spec


_finder = Finder()


def install() -> None:
    """Exchange the functions of a torch that is or will be imported. Calling again is fine."""
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    for module in _present():
        _exchange(module)


def uninstall() -> None:
    """Give torch its own functions back."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    for module in _present():
        for name in _NAMES:
            original = getattr(getattr(module, name, None), "__tilewright_original__", None)
            if original is not None:
                setattr(module, name, original)


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
