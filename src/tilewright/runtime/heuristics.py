"""`heuristics`: meta-parameters computed from the other arguments of a launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilewright.errors import LaunchError
from tilewright.runtime.interface import KernelDecorator, parameter_names
from tilewright.runtime.options import is_option
from tilewright.runtime.tracebacks import user_facing


class Heuristics(KernelDecorator):
    """A kernel with meta-parameters that are computed at each launch (see `heuristics`)."""

    def __init__(
        self, fn: Any, arg_names: list[str], values: Mapping[str, Callable[[dict[str, Any]], Any]]
    ) -> None:
        super().__init__(fn, arg_names)
        self.values = dict(values)
        unknown = [n for n in self.values if n not in self.arg_names and not is_option(n)]
        if unknown:
            raise LaunchError(
                f"heuristics: {', '.join(map(repr, unknown))} is not a parameter of the kernel",
                help=f"the kernel's parameters are {', '.join(self.arg_names)}",
            )

    @user_facing
    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        known = {**self._defaults, **dict(zip(self.arg_names, args, strict=False)), **kwargs}
        for name, compute in self.values.items():
            value = self._value(name, compute, known)
            kwargs[name] = value
            known[name] = value
        if not warmup:
            return self.fn[grid](*args, **kwargs)
        return self.fn.run(*args, grid=grid, warmup=True, **kwargs)

    def _value(self, name: str, compute: Callable[..., Any], known: dict[str, Any]) -> Any:
        try:
            return compute(known)
        except KeyError as error:
            missing = error.args[0] if error.args else None
            if missing not in self.arg_names or missing in known:
                error.add_note(f"The heuristic for '{name}' is given {', '.join(known)}.")
                raise
            raise LaunchError(
                f"no value for '{missing}', which the heuristic for '{name}' reads",
                help=f"the kernel's parameters are {', '.join(self.arg_names)}",
            ) from None

    def __repr__(self) -> str:
        return f"<Heuristics for {', '.join(self.values)} of {self.fn!r}>"


def heuristics(
    values: Mapping[str, Callable[[dict[str, Any]], Any]],
) -> Callable[[Any], Heuristics]:
    """Decorate a kernel: compute meta-parameters from the launch's arguments.

    Args:
        values: name of a parameter, or of a launch option (`num_warps`) → function of a dict that holds every argument known at the launch
            (positional, keyword, defaults, the autotuner's choices when that is outside, and the
            heuristics listed before). `{"EVEN_K": lambda args: args["K"] % args["BLOCK_K"] == 0}`

    Stacks with `autotune` in either order. Raises LaunchError for a name that is neither.
    """

    def decorate(fn: Any) -> Heuristics:
        return Heuristics(fn, parameter_names(fn, "heuristics"), values)

    return decorate
