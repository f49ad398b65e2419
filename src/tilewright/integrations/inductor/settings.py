"""The settings of Inductor that `install` changes: its back end for CPUs, and who compiles.

`torch._inductor.config` takes seconds to import, so they are set when something else imports it.
"""

from __future__ import annotations

import importlib.metadata
import sys
from typing import Any

from tilewright.integrations import after_import

_CONFIG = "torch._inductor.config"
_wanted: dict[str, Any] = {}


def apply(cpu: bool) -> None:
    """Set them for kernels on the CPU (or not), and for compile workers that can find us."""
    _wanted["cpu_backend"] = "triton" if cpu else "cpp"
    if not workers_find_us():
        _wanted["compile_threads"] = 1
    after_import.forget(_CONFIG, _set)
    after_import.call_after_import(_CONFIG, _set)


def take_back() -> None:
    """Set them as torch has them by itself."""
    after_import.forget(_CONFIG, _set)
    config = sys.modules.get(_CONFIG)
    if config is not None:
        for name in _wanted:
            _set_default(config, name, _before[name])
    _wanted.clear()
    _before.clear()


_before: dict[str, Any] = {}
"""What torch has by itself."""


def _set(config: Any) -> None:
    for name, value in _wanted.items():
        _before.setdefault(name, getattr(config, name))
        _set_default(config, name, value)


def _set_default(config: Any, name: str, value: Any) -> None:
    """Change a default: what a program assigns counts in the thread that does it, and before defaults."""
    entry = getattr(config, "_config", {}).get(name)
    if entry is None or not hasattr(entry, "default"):
        setattr(config, name, value)
        return
    entry.default = value
    dirty = getattr(config, "_hash_dirty_var", None)  # hashes of the settings are cached
    if dirty is not None:
        dirty.set(True)
        config._mark_get_dict_dirty(name)


def workers_find_us() -> bool:
    """Whether a process that imports torch runs our entry point, as Inductor's compile workers must."""
    found: Any = importlib.metadata.entry_points(group="torch.backends")
    return any(point.value.startswith("tilewright.") for point in found)
