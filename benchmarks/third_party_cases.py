"""What `third_party_fla` and `third_party_liger` are made of: problems, and makers of their inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn import functional

CASES: dict[str, Callable[[Maker], Problem]] = {}


@dataclass
class Problem:
    """An operator, its arguments, and the same function in plain torch if there is one."""

    inputs: list[Any]
    operator: Callable[..., Any]
    reference: Callable[..., Any] | None = None
    dtype: torch.dtype = torch.float32
    fixed: tuple[int, ...] = ()
    """Positions of floating-point inputs without gradients."""
    differentiable: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.differentiable = set(range(len(self.inputs))) - set(self.fixed)


class Maker:
    """Makes inputs: the same ones whatever the device."""

    def __init__(self, device: str, dtype: str, length: int) -> None:
        self.device, self.length = device, length
        self.dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[dtype]
        self.chance = torch.Generator().manual_seed(0)
        small = device == "cpu"
        self.batch, self.heads, self.depth = (1, 2, 64) if small else (2, 4, 64)
        self.rows, self.hidden, self.vocabulary = (24, 256, 1000) if small else (256, 1024, 8192)

    def _kept(self, value: torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor:
        return value.to(dtype or self.dtype).to(self.device)

    def normal(self, *shape: int, scale: float = 1.0, dtype: torch.dtype | None = None):
        return self._kept(torch.randn(shape, generator=self.chance) * scale, dtype)

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

    def sequence(self, depth: int | None = None) -> tuple[int, int, int, int]:
        """The shape of queries, keys and values."""
        return self.batch, self.length, self.heads, depth or self.depth

    def qkv(self, depth: int | None = None):
        return tuple(self.normal(*self.sequence(depth)) for _ in range(3))

    def problem(
        self,
        *inputs: Any,
        run: Callable[..., Any],
        like: Callable[..., Any] | None = None,
        fixed: tuple[int, ...] = (),
    ):
        return Problem(list(inputs), run, like, self.dtype, fixed)


def registrar(package: str) -> Callable[[Callable[[Maker], Problem]], Any]:
    """A decorator that adds a function to the operators of a package."""

    def case(function: Callable[[Maker], Problem]) -> Any:
        CASES[f"{package}/{function.__name__}"] = function
        return function

    return case


def load() -> None:
    """Fill `CASES`."""
    import third_party_fla  # noqa: F401
    import third_party_liger  # noqa: F401
