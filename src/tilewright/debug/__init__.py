"""Kernels as plain Python, with checked memory: see `docs/debugging.md`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.debug.context import checks
    from tilewright.debug.eager import run_eager
    from tilewright.interpreter.known_arrays import forget_arrays, register_arrays
    from tilewright.interpreter.undefined import forget_unwritten, mark_unwritten

__all__ = [
    "checks", "forget_arrays", "forget_unwritten", "mark_unwritten", "register_arrays", "run_eager",
]  # fmt: skip

_HOMES = {
    "checks": "tilewright.debug.context",
    "run_eager": "tilewright.debug.eager",
    "register_arrays": "tilewright.interpreter.known_arrays",
    "forget_arrays": "tilewright.interpreter.known_arrays",
    "mark_unwritten": "tilewright.interpreter.undefined",
    "forget_unwritten": "tilewright.interpreter.undefined",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tilewright.debug' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOMES[name]), name)
