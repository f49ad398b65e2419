"""Which devices' kernels are ours, and what `install` changes in torch and in the environment."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
import threading
import warnings

from tilewright import config
from tilewright.errors import IntegrationError
from tilewright.integrations import triton
from tilewright.integrations.inductor import (
    choices,
    corrections,
    features,
    flex,
    matmul,
    names,
    settings,
    tiling,
    torch_caches,
    user_kernels,
    user_sources,
    workers,
)
from tilewright.integrations.inductor.drivers import BACKENDS, backends

#: versions of torch that the tests run or whose names were read: from, before
_FIRST, _BEYOND = (2, 11), (2, 14)
_VARIABLE = "TILEWRIGHT_INDUCTOR"
#: its value for compile workers of graphs that asked for tilewright
NAMES_ONLY = "names"

_CHANGING = (
    choices, corrections, features, matmul, tiling, user_kernels, user_sources, workers,
)  # fmt: skip
_REPLACEMENTS = tuple(each for module in _CHANGING for each in module.REPLACEMENTS)
_lock = threading.RLock()
_devices: frozenset[str] = frozenset()
_served = False
"""Whether torch finds our names because of `serve`, whatever the devices."""
_own_drop_in = False
"""Whether `import triton` means tilewright only because of `install` here."""


def devices() -> frozenset[str]:
    """ "cpu", "cuda": whose kernels are ours."""
    return _devices


def install_asked(asked: str) -> None:
    """Install as TILEWRIGHT_INDUCTOR says: "1" or "all", "cpu", "cuda". `import torch` works in any case: failures are
    warnings."""
    device = asked.lower()
    try:
        if device == NAMES_ONLY:
            serve()
        else:
            install(device if device in ("cpu", "cuda") else "all")
    except IntegrationError as error:
        warnings.warn(f"{_VARIABLE}={asked}: {error}", RuntimeWarning, stacklevel=2)


def install(device: str) -> None:
    """See the package's `install`."""
    if device not in ("cpu", "cuda", "all"):
        raise IntegrationError(
            f"there is no device {device!r} to install for", help='give "cpu", "cuda" or "all"'
        )
    wanted = frozenset(("cpu", "cuda") if device == "all" else (device,))
    with _lock:
        serve_names()
        _apply(_devices | wanted)


def serve() -> None:
    """Let graphs be compiled with tilewright that ask for it; what Inductor does by itself stays."""
    global _served
    with _lock:
        serve_names()
        _served = True
        _apply(_devices)


def serve_names() -> None:
    """Let torch import tilewright as Triton, for no device yet. Raises IntegrationError."""
    global _own_drop_in
    if triton.is_installed() and names.is_served():
        return
    _check_torch()
    triton.reject_real_triton("tilewright.integrations.inductor.install()")
    _own_drop_in = not triton.is_installed()
    triton.install()
    triton.show_to_torch(names.tables())
    try:
        torch_caches.forget()
    except BaseException:
        _hide_names()
        raise


def uninstall() -> None:
    """See the package's `uninstall`."""
    global _served
    _served = False
    restore(frozenset())


def restore(wanted: frozenset[str]) -> None:
    """Make exactly `wanted` the devices."""
    with _lock:
        _apply(wanted)
        if not wanted and not _served and names.is_served():
            _hide_names()
            torch_caches.forget(strict=False)


def _hide_names() -> None:
    triton.hide_from_torch()
    if _own_drop_in:
        triton.uninstall()


def _apply(wanted: frozenset[str]) -> None:
    global _devices
    _devices = wanted
    backends.clear()
    backends.update((n, found) for n, (d, found) in BACKENDS.items() if _served or d in wanted)
    if wanted:
        settings.apply("cpu" in wanted)
    else:
        settings.take_back()
    for each in _REPLACEMENTS:
        (each.install if wanted or _served else each.uninstall)()
    (flex.install if wanted or _served else flex.uninstall)()
    value = "all" if len(wanted) == 2 else "".join(wanted)
    config.set_variable(_VARIABLE, value or (NAMES_ONLY if _served else None))


def _check_torch() -> None:
    """Raise IntegrationError unless there is a torch that the names were made for."""
    torch = sys.modules.get("torch")
    if torch is None and importlib.util.find_spec("torch") is None:
        raise IntegrationError(
            "torch is not installed, and Inductor is a part of it", help="pip install torch"
        )
    text = getattr(torch, "__version__", None) or importlib.metadata.version("torch")
    version = tuple(int(part) for part in str(text).split("+")[0].split(".")[:2])
    if not _FIRST <= version < _BEYOND:
        low, high = ".".join(map(str, _FIRST)), ".".join(map(str, (_BEYOND[0], _BEYOND[1] - 1)))
        raise IntegrationError(
            f"torch {text} is not among the versions that tilewright's Inductor integration knows",
            help=f"it knows torch {low} to {high}",
        )
