"""`heuristics`: meta-parameters computed from the other arguments of a launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilewright.errors import LaunchError
from tilewright.runtime.interface import KernelInterface


def parameter_defaults(kernel: Any) -> dict[str, Any]:
    """Default values of a kernel's parameters by name (empty when the kernel does not say)."""
    while not hasattr(kernel, "params") and hasattr(kernel, "fn"):
        kernel = kernel.fn
    return {p.name: p.default for p in getattr(kernel, "params", ()) if p.has_default}


def innermost(kernel: Any) -> Any:
    """The jit function below any stack of autotuners and heuristics."""
    while (below := getattr(type(kernel), "decorates", None)) is not None:
        kernel = below.__get__(kernel)
    return kernel


class Heuristics(KernelInterface):
    """A kernel with meta-parameters that are computed at each launch (see `heuristics`)."""

    def __init__(
        self, fn: Any, arg_names: list[str], values: Mapping[str, Callable[[dict[str, Any]], Any]]
    ) -> None:
        self.fn = fn
        self.arg_names = list(arg_names)
        self.values = dict(values)
        self._defaults = parameter_defaults(fn)
        unknown = [name for name in self.values if name not in self.arg_names]
        if unknown:
            raise LaunchError(
                f"heuristics: {', '.join(map(repr, unknown))} is no parameter of the kernel",
                help=f"the kernel's parameters are {', '.join(self.arg_names)}",
            )

    @property
    def decorates(self) -> Any:
        return self.fn

    @property
    def base_fn(self) -> Any:
        """The plain Python function below all decorators."""
        return getattr(innermost(self), "fn", None)

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        known = {**self._defaults, **dict(zip(self.arg_names, args, strict=False)), **kwargs}
        for name, compute in self.values.items():
            value = compute(known)
            kwargs[name] = value
            known[name] = value
        return self.fn.run(*args, grid=grid, warmup=warmup, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("fn", "arg_names", "values"):
            raise AttributeError(name)
        return getattr(self.fn, name)


def heuristics(
    values: Mapping[str, Callable[[dict[str, Any]], Any]],
) -> Callable[[Any], Heuristics]:
    """Decorate a kernel: compute meta-parameters from the launch's arguments.

    Args:
        values: parameter name → function of a dict that holds every argument known at the launch
            (positional, keyword, defaults, the autotuner's choices when that is outside, and the
            heuristics listed before). `{"EVEN_K": lambda args: args["K"] % args["BLOCK_K"] == 0}`

    Stacks with `autotune` in either order. Raises LaunchError for a name that is no parameter.
    """

    def decorate(fn: Any) -> Heuristics:
        return Heuristics(fn, fn.arg_names, values)

    return decorate
