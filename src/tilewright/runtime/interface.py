"""`KernelInterface`: what jit functions, autotuners and heuristics have in common."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tilewright.runtime.dynamo import dynamo_disabled


def innermost(kernel: Any) -> Any:
    """The jit function below any stack of autotuners and heuristics."""
    while (below := getattr(type(kernel), "decorates", None)) is not None:
        kernel = below.__get__(kernel)
    return kernel


class KernelInterface:
    """Something that can be launched: `kernel[grid](*args, **options)` calls `run(grid=grid, …)`."""

    __test__ = False
    """For pytest: a kernel whose name begins with `test_` is no test."""

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        """Launch over `grid`; with `warmup` compile only."""
        raise NotImplementedError

    @dynamo_disabled
    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """Bind a grid: a tuple or list of one to three integers, or a callable of the arguments."""
        return functools.partial(self.run, grid=grid, warmup=False)

    def warmup(self, *args: Any, grid: Any = (1,), **kwargs: Any) -> Any:
        """Compile for these arguments without launching."""
        return self.run(*args, grid=grid, warmup=True, **kwargs)
