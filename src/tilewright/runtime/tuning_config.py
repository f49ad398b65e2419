"""`Config`, one choice of an autotuned kernel, and which of its fields a target listens to."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

from tilewright.runtime.devices import device_of

#: options of `Config` that are not meta-parameters, with their defaults
_OPTIONS: dict[str, Any] = {
    "num_warps": 4, "num_ctas": 1, "num_stages": 3, "maxnreg": None, "ir_override": None,
    "disable": None,
}  # fmt: skip
#: options that a target family ignores besides keywords that no parameter takes
_IGNORED_BY = {"cpu": frozenset(("num_warps", "num_ctas", "num_stages", "maxnreg"))}


class Config:
    """Meta-parameters and launch options to try.

    Args:
        kwargs: meta-parameter name → value; vendor hints (`waves_per_eu`, `kpack` …) may be among
            them and are ignored where they mean nothing.
        num_warps, num_stages, num_ctas, maxnreg: launch options of GPUs.
        pre_hook: called with a dict of all arguments before a launch with this configuration.
        ir_override: path of an IR file to compile instead of the kernel's source.
        disable: names of passes to leave out, on every target.
    """

    def __init__(
        self,
        kwargs: Mapping[str, Any],
        num_warps: int = 4,
        num_stages: int = 3,
        num_ctas: int = 1,
        maxnreg: int | None = None,
        pre_hook: Callable[[dict[str, Any]], Any] | None = None,
        ir_override: str | None = None,
        disable: Sequence[str] | str | None = None,
    ) -> None:
        self.kwargs = dict(kwargs)
        self.num_warps = num_warps
        self.num_stages = num_stages
        self.num_ctas = num_ctas
        self.maxnreg = maxnreg
        self.pre_hook = pre_hook
        self.ir_override = ir_override
        self.disable = disable

    def all_kwargs(self) -> dict[str, Any]:
        """Meta-parameters and the options that are set, as launch keywords."""
        options = {name: getattr(self, name) for name in _OPTIONS}
        return {**self.kwargs, **{k: v for k, v in options.items() if v is not None}}

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Config)
            and self.all_kwargs() == other.all_kwargs()
            and self.pre_hook == other.pre_hook
        )

    def __hash__(self) -> int:
        return hash((frozenset(map(_hashable, self.all_kwargs().items())), self.pre_hook))

    def __str__(self) -> str:
        shown = dict(self.kwargs)
        for name in ("num_warps", "num_ctas", "num_stages", "maxnreg"):
            shown[name] = getattr(self, name)
        if self.ir_override is not None:
            shown["ir_override"] = self.ir_override
        if self.disable is not None:
            shown["disable"] = self.disable
        return ", ".join(f"{name}: {value}" for name, value in shown.items())

    def __repr__(self) -> str:
        options = [
            f"{name}={getattr(self, name)!r}"
            for name, default in _OPTIONS.items()
            if getattr(self, name) != default
        ]
        return f"Config({', '.join([repr(self.kwargs), *options])})"


def _hashable(item: tuple[str, Any]) -> Any:
    return item if isinstance(item[1], Hashable) else item[0]


def effective_options(kernel: Any, args: Sequence[Any]) -> Callable[[Config], dict[str, Any]]:
    """A function: the part of a Config that changes code for `kernel` on the target.

    The target follows from where the arrays in `args` are. Options that are parameters of the kernel always count. Vendor hints never reach code.
    """
    family = target_family(args)
    ignored = _IGNORED_BY.get(family, frozenset())
    parameters = frozenset(getattr(kernel, "arg_names", ()))

    def effective(config: Config) -> dict[str, Any]:
        return {
            name: value
            for name, value in config.all_kwargs().items()
            if name in parameters or (name in _OPTIONS and name not in ignored)
        }

    return effective


def target_family(args: Iterable[Any]) -> str:
    """ "cpu" unless an array among `args` lives on an accelerator ("nvidia")."""
    for value in args:
        if device_of(value) is not None:
            return "nvidia"
    return "cpu"
