"""`check_passes`: find the compiler step that changes a kernel's results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.backends import registry
from tilewright.backends.base import Options
from tilewright.dtypes import like
from tilewright.errors import InternalError, LaunchError
from tilewright.runtime.compiler import build_ir
from tilewright.runtime.grids import grid_extents
from tilewright.runtime.interface import innermost
from tilewright.runtime.specialize import ir_arguments
from tilewright.testing.closeness import to_numpy


@dataclass(frozen=True)
class Step:
    """One step of the compiler: a pass, or "machine code" for code generation."""

    name: str
    changed: bool
    """Whether it changed the IR (always true for machine code)."""
    difference: float
    """Largest difference of any element from the first IR's results, relative to that array's largest."""


def check_passes(
    kernel: Any, grid: Any, *args: Any, tolerance: float = 1e-2, **constants: Any
) -> list[Step]:
    """Run a kernel's IR in the interpreter before and after every pass, then its machine code.

    All runs use copies; `args` are not modified. The order of reductions is unspecified, so results may
    differ by rounding.

    Args:
        kernel: a jit function (below autotune and heuristics: pass their choices as `constants`).
        grid: as in a launch.
        args, constants: as in a launch; arrays are NumPy's or torch's on the CPU.
        tolerance: maximum error of an element, relative to the largest of its array.

    Returns the steps in order. Raises InternalError, which names the first step after which
    results differ: that step is miscompiled.
    """
    from tilewright.interpreter.executor import run_module

    launch = _Launch(kernel, args, constants)
    module = launch.module()
    backend = registry.get("cpu")
    target = backend.target()
    extents = launch.extents(grid)

    def interpreted() -> dict[str, np.ndarray]:
        copies = launch.copies()
        run_module(module, launch.slots(copies), extents)
        return _arrays(copies)

    reference = interpreted()
    steps: list[Step] = []
    for step in backend.passes():
        before = str(module)
        step.apply(module, target)
        changed = str(module) != before
        found = _worst(reference, interpreted()) if changed else (0.0, "")
        steps.append(_checked(launch, f"pass {step.name}", changed, found, tolerance))
    copies = launch.copies()
    launch.kernel[grid](*copies.values())
    found = _worst(reference, _arrays(copies))
    return [*steps, _checked(launch, "machine code", True, found, tolerance)]


class _Launch:
    """One launch, to be repeated on copies of its arguments."""

    def __init__(self, kernel: Any, args: Sequence[Any], constants: Mapping[str, Any]) -> None:
        self.kernel = innermost(kernel)
        try:
            bound = self.kernel.signature.bind(*args, **constants)
        except TypeError as error:
            raise LaunchError(f"check_passes of {self.kernel.fn.__name__}: {error}") from None
        bound.apply_defaults()
        self.values = dict(bound.arguments)
        specializer = self.kernel.launcher.specializer
        self.types = {
            p.name: specializer.argument(p, self.values[p.name]) for p in self.kernel.params
        }

    def module(self) -> Any:
        return build_ir(self.kernel, self.types, Options())

    def extents(self, grid: Any) -> tuple[int, ...]:
        return grid_extents(grid(dict(self.values)) if callable(grid) else grid)

    def copies(self) -> dict[str, Any]:
        return {name: _copied(value) for name, value in self.values.items()}

    def slots(self, values: Mapping[str, Any]) -> list[Any]:
        """The runtime arguments among `values`, in order."""
        return ir_arguments(self.types.values(), [values[name] for name in self.types])


def _copied(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.copy(order="K")
    if isinstance(value, tuple):
        return like(value, [_copied(item) for item in value])
    return value.clone() if hasattr(value, "clone") else value


def _arrays(values: Mapping[str, Any]) -> dict[str, np.ndarray]:
    found = {}
    for name, value in values.items():
        for i, item in enumerate(value if isinstance(value, tuple) else (value,)):
            if hasattr(item, "dtype") and hasattr(item, "shape") and np.ndim(item):
                found[f"{name}[{i}]" if isinstance(value, tuple) else name] = to_numpy(item)
    return found


def _worst(
    reference: Mapping[str, np.ndarray], results: Mapping[str, np.ndarray]
) -> tuple[float, str]:
    """The largest relative difference and its description."""
    worst, text = 0.0, ""
    for name, wanted in reference.items():
        a, b = wanted.astype(np.float64), results[name].astype(np.float64)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        if same.all():
            continue
        finite = np.abs(a[np.isfinite(a)])
        scale = float(finite.max(initial=0.0)) or 1.0
        with np.errstate(invalid="ignore"):
            off = np.where(same, 0.0, np.abs(a - b) / scale)
        off = np.where(np.isnan(off), np.inf, off)
        at = tuple(int(i) for i in np.unravel_index(int(np.argmax(off)), off.shape))
        if off[at] > worst:
            worst = float(off[at])
            text = f"element {list(at)} of '{name}' is {b[at]:.9g} where it was {a[at]:.9g}"
    return worst, text


def _checked(
    launch: _Launch, name: str, changed: bool, found: tuple[float, str], tolerance: float
) -> Step:
    difference, text = found
    if difference <= tolerance:
        return Step(name.removeprefix("pass "), changed, difference)
    fault = ArithmeticError(f"it changes what the kernel computes: {text}")
    raise InternalError(f"in {name}", fault, launch.kernel.location())
