"""`pytest --also-compile sm_90a`: what tests launch on the CPU is compiled for GPUs as well."""

from __future__ import annotations

import functools
import re
from typing import Any

import pytest

from tilewright.errors import OutOfResources

#: wgmma instructions made to wait for each other, or register counts not given out
SERIALISED = re.compile(r"\(C75(04|08|1[0-4]|20)\)")

#: characters of PTX
LARGE = 1 << 20


def compile_twice(targets: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make launches compile for `targets` (with commas) after they compiled for the CPU."""
    from tilewright.backends import registry
    from tilewright.backends.nvidia import assemble
    from tilewright.runtime import compiler, hooks, options

    whole = assemble.Assembler.assemble

    def assembled(self: Any, ptx: str, meanwhile: Any = None) -> Any:
        enough = len(ptx) < LARGE  # tiles as large as only a CPU likes take ptxas minutes
        return whole(self, ptx, meanwhile) if enough else assemble.Assembled()

    monkeypatch.setattr(assemble.Assembler, "assemble", assembled)
    machines = [registry.machine(name) for name in targets.split(",")]
    compile_kernel = compiler.compile_kernel

    given: list[Any] = []
    parse = options.parse

    def parse_and_remember(*arguments: Any) -> Any:
        given[:] = arguments[:3]  # a CPU does not listen to num_warps and its kin
        return parse(*arguments)

    monkeypatch.setattr(options, "parse", parse_and_remember)

    def both(kernel: Any, signature: Any, wanted: Any, target: Any = "cpu") -> Any:
        compiled = compile_kernel(kernel, signature, wanted, target)
        checked = compiled.plan.checked  # on a CPU only
        if target == "cpu" and "cpu" not in registry._registered and not checked:
            if given and "waves_per_eu" in given[0]:
                return compiled  # a configuration for AMD's chips: too large for these
            chosen = parse(*given, True) if given and given[1] is kernel else wanted
            for machine in machines:
                check(functools.partial(compile_kernel, kernel, signature, chosen, machine))
        return compiled

    monkeypatch.setattr(hooks, "compile_kernel", both)


def check(compile_it: Any) -> None:
    """Compile, and look at what the assembler said."""
    try:
        compiled = compile_it()
    except OutOfResources:
        return
    except Exception as error:
        if "shared memory" in str(error) or 'sem="exclusive"' in str(error):
            return
        raise
    log = compiled.artifact.asm.get("log", "")
    if compiled.artifact.plan.spills:  # sums for which no thread has registers: a CPU's tiles
        log = log.replace("(C7511)", "")
    assert not SERIALISED.search(log), f"{compiled.name}: {log}"
