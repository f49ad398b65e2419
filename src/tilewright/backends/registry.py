"""Which back ends there are, found by name; nothing of a back end is imported before it is used."""

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
    """A back end whose `target()` needs only its `target` module: a cached kernel loads no passes."""

    def __init__(self, name: str, package: str) -> None:
        self.name = name
        self.package = package

    @property
    def backend(self) -> Any:
        """The back end itself, imported now."""
        return importlib.import_module(f"{self.package}.backend").backend

    def target(self) -> TargetInfo:
        return importlib.import_module(f"{self.package}.target").current_target()

    def named(self, name: str) -> TargetInfo:
        """A target of this family by name. Raises UnsupportedTarget if there is none."""
        info = getattr(importlib.import_module(f"{self.package}.target"), "target_info", None)
        return self.target() if info is None else info(name)

    def toolchain(self) -> str:
        """What outside this package makes machine code: part of cache keys."""
        found = getattr(importlib.import_module(f"{self.package}.target"), "toolchain", None)
        return "" if found is None else found()

    def compile(self, module: Any, options: Options, target: TargetInfo, **more: Any) -> Artifact:
        return self.backend.compile(module, options, target, **more)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.backend, name)


def register(backend: Backend) -> None:
    """Add a back end, or replace the one of the same name."""
    _registered[backend.name] = backend


def unregister(name: str) -> None:
    """Undo `register`."""
    _registered.pop(name, None)


def names() -> list[str]:
    """The families that can be asked for."""
    return sorted({*_PACKAGES, *_registered})


def _examples() -> list[str]:
    """Names of targets, or of families whose targets have none."""
    found: list[str] = []
    for family in names():
        package = _PACKAGES.get(family)
        module = importlib.import_module(f"{package}.target") if package is not None else None
        found += getattr(module, "TARGETS", (family,))
    return found


def _family(name: str) -> str:
    return "nvidia" if name.startswith("sm_") or name == "cuda" else name.partition(":")[0]


def machine(name: str) -> TargetInfo:
    """The target called `name`: one of a family ("sm_90a", "cpu:x86-64-v3"), or the machine at hand
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
    """The back end of a target family ("cpu") or of one target of it ("sm_90a").

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
