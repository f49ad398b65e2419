"""Base classes of jit functions, autotuners and heuristics."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.errors import LaunchError
from tilewright.runtime.dynamo import dynamo_disabled


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


class KernelDecorator(KernelInterface):
    """A kernel `fn` with some of its arguments chosen at each launch; attributes that it lacks are those of `fn`."""

    def __init__(self, fn: Any, arg_names: Sequence[str]) -> None:
        self.fn = fn
        self.arg_names = list(arg_names)
        params = getattr(fn, "params", ())
        self._defaults = {p.name: p.default for p in params if p.has_default}

    @property
    def base_fn(self) -> Any:
        """The plain Python function below all decorators."""
        kernel = innermost(self)
        return getattr(kernel, "fn", kernel)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "fn":
            raise AttributeError(name)
        return getattr(self.fn, name)


def innermost(kernel: Any) -> Any:
    """The jit function below any stack of autotuners and heuristics."""
    while isinstance(kernel, KernelDecorator):
        kernel = kernel.fn
    return kernel


def parameter_names(kernel: Any, decorator: str) -> list[str]:
    """Names of the parameters of what `decorator` decorates. Raises LaunchError for anything but a kernel."""
    names = getattr(kernel, "arg_names", None)
    if names is None:
        raise LaunchError(
            f"{decorator} expects a kernel, got {kernel!r}",
            help=f"put @jit below @{decorator}, next to the function",
        )
    return list(names)
