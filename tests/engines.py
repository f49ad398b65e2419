"""One kernel in every way it can run without a GPU: native code, interpreted IR, Python, emulated PTX."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

#: "cpu" is native code, "ir" the interpreter on tile IR, "eager" the kernel's Python
ON_CPU = ("cpu", "ir", "eager")
#: PTX for these chips runs in the emulator of tests/ptx
EMULATED = ("sm_80", "sm_90a")
ENGINES = (*ON_CPU, *EMULATED)

_VARIABLE = {"cpu": "0", "ir": "ir", "eager": "1"}


def copies(arguments: tuple[Any, ...]) -> list[Any]:
    """The arguments with arrays of their own memory."""
    return [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]


def run(
    engine: str,
    kernel: Any,
    grid: tuple[int, ...],
    *arguments: Any,
    warps: int = 4,
    stages: int = 2,
    **constants: Any,
) -> list[np.ndarray]:
    """The arrays among `arguments` as a launch by `engine` leaves them; the originals stay."""
    given = copies(arguments)
    arrays = [a for a in given if isinstance(a, np.ndarray)]
    if engine in ON_CPU:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TILEWRIGHT_INTERPRET", _VARIABLE[engine])
            kernel[grid](*given, **constants)
        return arrays
    return _emulated(engine, kernel, grid, given, constants, warps, stages)


def _emulated(
    target: str,
    kernel: Any,
    grid: tuple[int, ...],
    given: list[Any],
    constants: dict[str, Any],
    warps: int,
    stages: int,
) -> list[np.ndarray]:
    from tests.ptx.launch import run_ptx

    from tilewright.backends.base import Options
    from tilewright.backends.nvidia.backend import backend
    from tilewright.backends.nvidia.target import target_info
    from tilewright.ir.text import parse_ir
    from tilewright.runtime.compiler import build_ir
    from tilewright.runtime.specialize import ir_arguments

    bound = kernel.signature.bind(*given, **constants)
    bound.apply_defaults()
    values = dict(bound.arguments)
    specializer = kernel.launcher.specializer
    types = {p.name: specializer.argument(p, values[p.name]) for p in kernel.params}
    options = Options(num_warps=warps, num_stages=stages)
    module = parse_ir(str(build_ir(kernel, types, options)))
    artifact = backend.compile(module, options, target_info(target))
    slots = ir_arguments(types.values(), [values[name] for name in types])
    slots = [np.float32(s) if isinstance(s, float) else s for s in slots]
    return run_ptx(artifact, slots, grid)
