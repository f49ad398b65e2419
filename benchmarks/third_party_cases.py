"""What the `third_party_*` lists of operators are made of: problems, and makers of their inputs."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn import functional

from third_party_references import flat, joined, packed, segments

LISTS = (
    "third_party_fla",
    "third_party_fla_rwkv",
    "third_party_fla_states",
    "third_party_fla_inner",
    "third_party_fla_attention",
    "third_party_fla_modules",
    "third_party_fla_utils",
    "third_party_liger",
    "third_party_liger_losses",
)
CASES: dict[str, Callable[[Maker], Problem]] = {}


@dataclass
class Problem:
    """An operator, its arguments, and the same function in float64."""

    inputs: list[Any]
    operator: Callable[..., Any]
    reference: Callable[..., Any]
    fixed: tuple[int, ...] = ()
    """Positions of floating-point inputs without gradients."""
    forward_only: bool = False
    """The package has no backward."""
    note: str = ""
    """What the package does not do."""
    approximate: float = 0.0
    """The relative error at which the operator's own iterations end."""
    differentiable: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        if not self.forward_only:
            self.differentiable = set(range(len(self.inputs))) - set(self.fixed)


class Maker:
    """Makes inputs: the same ones whatever the device."""

    large = False
    """Whether sizes are those that authors measure."""

    def __init__(self, device: str, dtype: str, length: int, full: bool = False) -> None:
        self.device, self.length = device, length
        self.dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[dtype]
        self.chance = torch.Generator().manual_seed(0)
        small = device == "cpu" and not full
        self.batch, self.heads, self.depth = (1, 2, 32) if small else (2, 4, 64)
        self.rows, self.hidden, self.vocabulary = (24, 256, 1000) if small else (256, 1024, 8192)

    @property
    def starts(self) -> torch.Tensor:
        """`cu_seqlens` of a batch of packed sequences."""
        return torch.tensor(segments(self.length), dtype=torch.int32, device=self.device)

    @property
    def sequences(self) -> int:
        return len(segments(self.length)) - 1

    def _kept(self, value: torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor:
        return value.to(dtype or self.dtype).to(self.device)

    def normal(self, *shape: int, scale: float = 1.0, dtype: torch.dtype | None = None):
        return self._kept(torch.randn(shape, generator=self.chance) * scale, dtype)

    def wide(self, *shape: int, scale: float = 1.0):
        return self.normal(*shape, scale=scale, dtype=torch.float32)

    def unit(self, *shape: int, dtype: torch.dtype | None = None):
        value = torch.randn(shape, generator=self.chance)
        return self._kept(functional.normalize(value, dim=-1), dtype)

    def uniform(
        self, *shape: int, low: float = 0.0, high: float = 1.0, dtype: torch.dtype | None = None
    ):
        value = torch.rand(shape, generator=self.chance)
        return self._kept(low + (high - low) * value, dtype)

    def gate(self, *shape: int, dtype: torch.dtype | None = None):
        """Logarithms of forget gates."""
        value = torch.randn(shape, generator=self.chance) + 2
        return self._kept(functional.logsigmoid(value), dtype)

    def integers(self, high: int, *shape: int):
        return torch.randint(0, high, shape, generator=self.chance).to(self.device)

    def sized(self, small: Any, large: Any) -> Any:
        """An extent, or several, that does not follow from the others."""
        return large if self.large else small

    def sequence(self, depth: int | None = None, heads: int | None = None):
        """The shape of queries, keys and values."""
        return self.batch, self.length, heads or self.heads, depth or self.depth

    def head(self):
        """The shape of a value for each token and head."""
        return self.batch, self.length, self.heads

    def qkv(self, depth: int | None = None):
        return tuple(self.normal(*self.sequence(depth)) for _ in range(3))

    def problem(
        self, *inputs: Any, run: Callable[..., Any], like: Callable[..., Any], **options: Any
    ):
        return Problem(list(inputs), run, like, **options)


@dataclass
class Recurrence:
    """An operator over sequences that takes `initial_state`, `output_final_state` and `cu_seqlens`."""

    inputs: tuple[Any, ...]
    run: Callable[..., Any]
    """Of the inputs, and these three."""
    like: Callable[..., Any]
    """Of the inputs and a state or None: outputs and final state."""
    states: tuple[tuple[int, ...], ...] = ()
    """The shapes of one sequence's states; without: heads, keys, values."""
    fixed: tuple[int, ...] = ()
    whole: int = 0
    """How many of the last inputs are not along the time axis."""
    forward_only: bool | str = False
    """The package has no backward, or not for this variant."""
    state_gradient: bool = True
    """Whether the package gives the gradient of initial states …"""
    final_gradient: bool = True
    """… and takes that of final states."""
    approximate: float = 0.0


def registrar(package: str) -> Callable[[Callable[[Maker], Problem]], Any]:
    """A decorator that adds a function to the operators of a package."""

    def case(function: Callable[[Maker], Problem]) -> Any:
        CASES[f"{package}/{function.__name__}"] = function
        return function

    return case


def recurrent(package: str) -> Any:
    """A decorator: plain, with initial and final states, and with packed sequences of several lengths."""

    def family(variants: str = "plain states packed") -> Any:
        def add(function: Callable[[Maker], Recurrence]) -> Any:
            for variant in variants.split():
                suffix = "" if variant == "plain" else f"_{variant}"
                CASES[f"{package}/{function.__name__}{suffix}"] = _variant(function, variant)
            return function

        return add

    return family


def _variant(function: Callable[[Maker], Recurrence], variant: str):
    def make(m: Maker) -> Problem:
        if variant == "packed":
            m.batch = 1
        one = function(m)
        options: dict[str, Any] = {
            "fixed": one.fixed,
            "forward_only": one.forward_only in (True, variant),
            "approximate": one.approximate,
        }
        if variant == "plain":
            return Problem(
                list(one.inputs),
                lambda *args: one.run(*args)[0],
                lambda *args: one.like(*args, None)[0],
                **options,
            )
        count = len(one.inputs) - one.whole
        sequences = m.sequences if variant == "packed" else m.batch
        shapes = one.states or ((m.heads, m.depth, m.depth),)
        states = [m.wide(sequences, *shape, scale=0.5) for shape in shapes]

        if not one.state_gradient:
            options["fixed"] += tuple(range(len(one.inputs), len(one.inputs) + len(states)))
            options["note"] = "no gradient of the initial state"
        if not one.final_gradient:
            options["note"] = "the gradient of the final state is dropped"

        def ended(found):
            output, *final = flat(found)
            return output, *(final if one.final_gradient else [t.detach() for t in final])

        def run(*args):
            extra = {"cu_seqlens": m.starts} if variant == "packed" else {}
            inputs, state = args[: len(one.inputs)], joined(args[len(one.inputs) :])
            return ended(one.run(*inputs, initial_state=state, output_final_state=True, **extra))

        def like(*args):
            return one.like(*args[: len(one.inputs)], joined(args[len(one.inputs) :]))

        if variant == "packed":
            like = packed(one.like, count, m.length, len(shapes))
        reference = like
        return Problem(
            [*one.inputs, *states], run, lambda *args: ended(reference(*args)), **options
        )

    return make


def load() -> None:
    """Fill `CASES`."""
    for name in LISTS:
        importlib.import_module(name)
