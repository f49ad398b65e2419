"""Compile tile IR to an artifact, in this process or a worker; disassemble an artifact."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from tilewright.backends import registry
from tilewright.backends.base import Artifact, Options
from tilewright.errors import TilewrightError
from tilewright.targets import TargetInfo

if TYPE_CHECKING:
    from tilewright.runtime.workers import Workers


def compile_here(module: Any, options: Options, machine: TargetInfo) -> Artifact:
    """Compile a tile IR module (consumed). Errors carry the line that they are about, where one is known."""
    from tilewright.ir.location import internal_errors, location_at_fault

    try:
        with internal_errors("to compile the kernel", pass_errors=False):
            return registry.get(machine.name).compile(module, options, machine)
    except TilewrightError as error:
        if error.location is None:
            error.location = location_at_fault(error)
        raise


known_workers: Workers | None = None
"""Set by `workers.side_by_side`, and then kept."""


def active_workers() -> Workers | None:
    """The workers, while someone is inside `side_by_side` in this process."""
    workers = known_workers
    return workers if workers and workers.users and workers.owner == os.getpid() else None


def start_workers() -> None:
    """Let workers start, if there are to be any: something is not in the cache."""
    if (workers := active_workers()) is not None:
        workers.start()


def compile_module(module: Any, options: Options, machine: TargetInfo) -> Artifact:
    """`compile_here`, or the same by a worker while many kernels are being compiled."""
    workers = active_workers()
    if workers is None or not isinstance(registry.get(machine.name), registry.LazyBackend):
        return compile_here(module, options, machine)
    return workers.compile(module, options, machine)


def assembly_of(artifact: Artifact, target: TargetInfo) -> str:
    """Native assembly. Raises KeyError if the kernel's LLVM IR was not kept."""
    from llvmlite import binding

    from tilewright.backends.cpu.target import machine

    module = binding.parse_assembly(artifact.asm["llvm"])
    return machine(target).emit_assembly(module)
