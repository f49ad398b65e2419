"""Assembly text of a compiled kernel, made from its LLVM IR when somebody asks."""

from __future__ import annotations

from tilewright.backends.base import Artifact
from tilewright.targets import TargetInfo


def assembly_of(artifact: Artifact, target: TargetInfo) -> str:
    """Native assembly. Raises KeyError if the kernel's LLVM IR was not kept."""
    from llvmlite import binding

    from tilewright.backends.cpu.target import machine

    module = binding.parse_assembly(artifact.asm["llvm"])
    return machine(target).emit_assembly(module)
