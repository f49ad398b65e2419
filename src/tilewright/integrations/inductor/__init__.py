"""torch.compile with tilewright instead of Triton, on CPUs (without a C++ compiler) and CUDA.

    from tilewright.integrations import inductor
    inductor.install()                       # or TILEWRIGHT_INDUCTOR=1 in the environment
    model = torch.compile(model)

`torch.compile(model, backend="tilewright")` does the same for one model; other models use their own
backend. torch is imported by the functions here, not by this module.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import Any

from tilewright.errors import IntegrationError

__all__ = ["IntegrationError", "install", "installed", "is_installed", "uninstall"]


def install(device: str = "all") -> None:
    """Make torch's Inductor generate and run its Triton kernels with tilewright in this process.

    Call it before the first `torch.compile`; torch may have been imported. Repeated calls are allowed and
    accumulate devices. Child processes that import torch, such as Inductor's
    compile workers, inherit the setting through TILEWRIGHT_INDUCTOR.

    Args:
        device: "cpu": graphs on the CPU, which Inductor otherwise turns into C++. "cuda": graphs on
            NVIDIA GPUs. "all": both.

    Raises:
        IntegrationError: torch is missing or of an unsupported version; the real Triton has been
            imported; or Inductor has been used already and has cached its backends.
    """
    from tilewright.integrations.inductor import state

    state.install(device)


def uninstall() -> None:
    """Undo `install`: Inductor generates C++ for CPUs again. Compiled graphs keep working.

    torch keeps the module objects that it has imported, so another Triton cannot be used in this process.
    """
    from tilewright.integrations.inductor import state

    state.uninstall()


def is_installed(device: str = "cpu") -> bool:
    """Whether Inductor's kernels for `device` are tilewright's."""
    from tilewright.integrations.inductor import state

    return device in state.devices()


@contextlib.contextmanager
def installed(device: str = "all") -> Generator[Any]:
    """`install(device)` until the end of the block; earlier installations remain."""
    from tilewright.integrations.inductor import state

    before = state.devices()
    state.install(device)
    try:
        yield
    finally:
        state.restore(before)
