"""`torch.library.wrap_triton` of our kernels gives the kernel itself.

torch's own function imports Triton to see what it was given, and does not find it while tilewright
stands in (`hidden_modules`). Our kernels are launched and never traced, so there is nothing to wrap.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from tilewright.integrations import after_import
from tilewright.runtime.interface import KernelInterface

#: where torch defines the function, and what takes it from there
_HOME = "torch._library.triton"
_USERS = (_HOME, "torch._library", "torch.library")
_NAMES = ("wrap_triton", "capture_triton")


def install() -> None:
    """Exchange the functions of a torch that is or will be imported. Calling again is fine."""
    if not is_installed():
        after_import.call_after_import(_HOME, _exchange)
    for module in _present():
        _exchange(module)


def is_installed() -> bool:
    """Whether a torch that is imported now gets our function."""
    return after_import.is_waiting(_HOME, _exchange)


def uninstall() -> None:
    """Give torch its own functions back."""
    after_import.forget(_HOME, _exchange)
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
