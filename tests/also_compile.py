"""`pytest --also-compile sm_90a`: what tests launch on the CPU is compiled for GPUs as well."""

from __future__ import annotations

import functools
import re
from typing import Any

import pytest

from tilewright.errors import OutOfResources

#: wgmma instructions made to wait for each other, or register counts not given out
SERIALISED = re.compile(r"\(C75(04|08|1[0-4]|20)\)")


def compile_twice(targets: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make launches compile for `targets` (with commas) after they compiled for the CPU."""
    from tilewright.backends import registry
    from tilewright.runtime import compiler, launch

    machines = [registry.machine(name) for name in targets.split(",")]
    compile_kernel = compiler.compile_kernel

    def both(kernel: Any, signature: Any, options: Any, target: Any = "cpu") -> Any:
        compiled = compile_kernel(kernel, signature, options, target)
        if target == "cpu" and "cpu" not in registry._registered:
            for machine in machines:
                check(functools.partial(compile_kernel, kernel, signature, options, machine))
        return compiled

    monkeypatch.setattr(launch, "compile_kernel", both)


def check(compile_it: Any) -> None:
    """Compile, and look at what the assembler said."""
    try:
        compiled = compile_it()
    except OutOfResources:
        return
    except Exception as error:
        if "shared memory" in str(error):
            return
        raise
    log = compiled.artifact.asm.get("log", "")
    assert not SERIALISED.search(log), f"{compiled.name}: {log}"
