"""`triton.backends.backends` and the drivers that torch makes active, one for CPUs and one for NVIDIA GPUs."""

from __future__ import annotations

import functools
import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tilewright.integrations import triton_driver
from tilewright.integrations.triton_driver import ActiveDriver, GPUTarget


class CpuDriver(ActiveDriver):
    """The driver while a kernel for the CPU is compiled."""

    def get_current_target(self) -> GPUTarget:
        """`GPUTarget("cpu", <CPU name>, 1)`, also where there is a GPU."""
        return triton_driver.cpu_target()

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: Any = None) -> int:
        return 0


class NvidiaDriver(ActiveDriver):
    """The driver while a kernel for a GPU is compiled."""

    @staticmethod
    def is_active() -> bool:
        """Whether torch has a GPU. The CUDA driver cannot be asked: compile workers are forked from a process that has
        initialized it."""
        torch = sys.modules.get("torch")
        return torch is not None and torch.cuda.is_available()


@dataclass(frozen=True)
class CompilerOptions:
    """What `parse_options` gives: torch looks at `__dict__` and at these names."""

    num_warps: int = 4
    num_stages: int = 3
    num_ctas: int = 1
    debug: bool = False
    enable_fp_fusion: bool = True
    supported_fp8_dtypes: tuple[str, ...] = ("fp8e4nv", "fp8e5")
    extern_libs: tuple[tuple[str, str], ...] = ()
    backend_name: str = ""
    sanitize_overflow: bool = False


class TargetCompiler:
    """`make_backend(target)`: torch asks it for a hash and for options."""

    def __init__(self, target: GPUTarget) -> None:
        self.target = target

    def hash(self) -> str:
        """Changes with the machine and with the tools that make code."""
        from tilewright.backends import registry
        from tilewright.runtime.compiler import tool_versions

        machine = registry.machine("cpu") if self.target.backend == "cpu" else None
        described = f"{self.target}" if machine is None else machine.key
        return "|".join((described, *tool_versions()))

    def parse_options(self, options: Any) -> CompilerOptions:
        """Options with the given ones; unknown ones are left out."""
        known: dict[str, Any] = {
            n: v for n, v in dict(options).items() if n in CompilerOptions.__annotations__
        }
        known.setdefault("backend_name", self.target.backend)
        return CompilerOptions(**known)


def make_backend(target: GPUTarget) -> TargetCompiler:
    """The compiler for `target`."""
    return TargetCompiler(target)


@functools.cache
def triton_key() -> str:
    """A text that changes with tilewright's compiler, and with what this folder changes of the code torch writes."""
    from tilewright.integrations.triton_names import VERSION
    from tilewright.runtime.compiler import own_content

    written = hashlib.sha256()
    for file in sorted(Path(__file__).parent.glob("*.py")):
        written.update(file.read_bytes())
    return f"{VERSION}-{own_content()}-{written.hexdigest()}"


#: Triton's name of a back end -> (device, what torch finds under that name)
BACKENDS: dict[str, tuple[str, Any]] = {
    "cpu": ("cpu", SimpleNamespace(driver=CpuDriver, compiler=TargetCompiler)),
    "nvidia": ("cuda", SimpleNamespace(driver=NvidiaDriver, compiler=TargetCompiler)),
}

#: `triton.backends.backends`, changed by `state`
backends: dict[str, Any] = {}
