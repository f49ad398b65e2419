"""Registry of backends by name. Backends are imported on first use."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from tilewright.backends.base import Artifact, Backend, Options
from tilewright.errors import UnsupportedTarget
from tilewright.targets import TargetInfo

#: target family → package below `tilewright.backends`
_PACKAGES = {"cpu": "tilewright.backends.cpu", "nvidia": "tilewright.backends.nvidia"}
_registered: dict[str, Backend] = {}


class LazyBackend:
    """A backend that is imported on demand. `target()` imports its `target` module only, so a cached kernel loads no
    passes."""

    def __init__(self, name: str, package: str) -> None:
        self.name = name
        self.package = package

    @property
    def backend(self) -> Any:
        """Import and return the backend."""
        return importlib.import_module(f"{self.package}.backend").backend

    def target(self) -> TargetInfo:
        return importlib.import_module(f"{self.package}.target").current_target()

    def named(self, name: str) -> TargetInfo:
        """Return a target of this family by name. Raises UnsupportedTarget if there is none."""
        info = getattr(importlib.import_module(f"{self.package}.target"), "target_info", None)
        return self.target() if info is None else info(name)

    def toolchain(self) -> str:
        """Return the identification of the external toolchain that generates machine code, a part of cache keys."""
        found = getattr(importlib.import_module(f"{self.package}.target"), "toolchain", None)
        return "" if found is None else found()

    def compile(self, module: Any, options: Options, target: TargetInfo, **more: Any) -> Artifact:
        return self.backend.compile(module, options, target, **more)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.backend, name)


def register(backend: Backend) -> None:
    """Register a backend; replaces a backend of the same name."""
    _registered[backend.name] = backend


def unregister(name: str) -> None:
    """Undo `register`."""
    _registered.pop(name, None)


def names() -> list[str]:
    """Return the names of the registered target families."""
    return sorted({*_PACKAGES, *_registered})


def _examples() -> list[str]:
    """Return example target names for error messages; family names where targets are not named."""
    found: list[str] = []
    for family in names():
        package = _PACKAGES.get(family)
        module = importlib.import_module(f"{package}.target") if package is not None else None
        found += getattr(module, "TARGETS", (family,))
    return found


def _family(name: str) -> str:
    return "nvidia" if name.startswith("sm_") or name == "cuda" else name.partition(":")[0]


def machine(name: str) -> TargetInfo:
    """Return the target `name`: a target of a family ("sm_90a", "cpu:x86-64-v3"), or the host's device
    ("cpu", "nvidia").

    Raises UnsupportedTarget if there is none.
    """
    if not isinstance(name, str):
        raise UnsupportedTarget(
            f"{name!r} is not a valid target", help=f"targets are {', '.join(_examples())}"
        )
    backend, family = get(name), _family(name)
    if name == family or name == "cuda" or not hasattr(backend, "named"):
        return backend.target()
    return backend.named(name)


def get(name: str) -> Any:
    """Return the backend of a target family ("cpu") or of one of its targets ("sm_90a").

    Raises UnsupportedTarget if there is none.
    """
    family = _family(name)
    if family in _registered:
        return _registered[family]
    if family not in _PACKAGES:
        raise UnsupportedTarget(
            f"no back end for {name!r}", help=f"targets are {', '.join(_examples())}"
        )
    return LazyBackend(family, _PACKAGES[family])
