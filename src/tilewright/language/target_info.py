"""Compilation target (`tl.target_info`): compile-time functions for kernels and host code."""

from __future__ import annotations

import platform
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class GPUTarget:
    """A compilation target: `backend` ("cpu", "cuda"), `arch` (a CPU name, 90), `warp_size`."""

    backend: str
    arch: Any
    warp_size: int


#: target of the kernel being compiled in this thread; None in host code and interpreted kernels
compiled_for: ContextVar[GPUTarget | None] = ContextVar("compiled_for", default=None)

#: `num_warps` of the launch that the kernel of this thread is being compiled for; None: not for a GPU
warps_of_launch: ContextVar[int | None] = ContextVar("warps_of_launch", default=None)

_machine: Callable[[], GPUTarget] | None = None
"""Installed function that returns the target for host code, or None."""


def set_machine(ask: Callable[[], GPUTarget] | None) -> None:
    """Let `ask` answer host code; None: it means the CPU."""
    global _machine
    _machine = ask


def current_target() -> GPUTarget:
    """The target of the kernel being compiled; in host code, the machine's."""
    target = compiled_for.get()
    if target is not None:
        return target
    return _machine() if _machine is not None else GPUTarget("cpu", platform.machine(), 1)


def is_cuda() -> bool:
    """Whether it is an NVIDIA GPU."""
    return current_target().backend == "cuda"


def is_cpu() -> bool:
    """Whether it is a CPU."""
    return current_target().backend == "cpu"


def is_hip() -> bool:
    """Whether it is an AMD GPU."""
    return current_target().backend == "hip"


def cuda_capability_geq(major: int, minor: int = 0) -> bool:
    """Whether it is an NVIDIA GPU of compute capability `major`.`minor` or later."""
    target = current_target()
    return target.backend == "cuda" and int(target.arch) >= 10 * int(major) + int(minor)


def is_hip_cdna3() -> bool:
    """Whether it is an AMD GPU of the CDNA 3 generation."""
    return is_hip() and current_target().arch == "gfx942"


def is_hip_cdna4() -> bool:
    """Whether it is an AMD GPU of the CDNA 4 generation."""
    return is_hip() and current_target().arch == "gfx950"


def is_hip_gfx1250() -> bool:
    """Whether it is an AMD GPU gfx1250."""
    return is_hip() and str(current_target().arch).startswith("gfx1250")
