"""What the `third_party_gems_*` lists of flag_gems' operators are made of: inputs at the sizes that its authors measure.

The package generates code for pointwise operators: each process has a folder of its own for that.
"""

from __future__ import annotations

import functools
import importlib
import os
import tempfile
import traceback
from collections.abc import Callable
from typing import Any

import torch

from third_party_speed_case import routine

add = routine("gems")


class _Package:
    """flag_gems, imported when it is used."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module("flag_gems"), name)


gems: Any = _Package()


def case(function: Callable[[Any], object]) -> Any:
    """A decorator that adds a function to the operators of flag_gems."""

    @functools.wraps(function)
    def run(maker: Any) -> object:
        os.environ.setdefault("GEMS_VENDOR", "nvidia")
        os.environ["FLAGGEMS_CACHE_DIR"] = tempfile.mkdtemp(prefix="gems-")
        if not maker.large:
            _without_gpu()
        return function(maker)

    return add(run)


def _without_gpu() -> None:
    """Give torch the generator of random numbers that the package asks a GPU for."""

    class Generator:
        state = torch.tensor([1234, 0])

        def get_state(self):
            return self.state.clone().view(torch.uint8)

        def set_state(self, state):
            self.state = state.view(torch.int64).clone()

    if not getattr(torch.cuda, "default_generators", ()):
        torch.cuda.default_generators = (Generator(),)


def experimental_op(name: str) -> Any:
    """A module of the package's experimental operators."""
    return importlib.import_module("flag_gems.experimental_ops." + name)


def points_shape(maker):
    """The shape of pointwise operators' inputs: 2²⁵ elements."""
    return maker.sized(37, 4096), maker.sized(65, 8192)


def rows_shape(maker):
    """The shape of inputs that are reduced along rows."""
    return maker.sized(33, 4096), maker.sized(130, 4096)


def cubes_shape(maker):
    return maker.sized(3, 64), maker.sized(17, 512), maker.sized(65, 512)


def side(maker):
    """Rows of a square matrix."""
    return maker.sized(48, 4096)


def points(maker, dtype=torch.bfloat16):
    return maker.normal(*points_shape(maker), dtype=dtype)


def uniform(maker, *shape, dtype=torch.bfloat16):
    """Between 0 and 1, and neither."""
    return maker.uniform(*shape, low=0.01, high=0.99, dtype=dtype)


def integers(maker, *shape, lo=-100, hi=100, dtype=torch.int32):
    return (maker.integers(hi - lo, *shape) + lo).to(dtype)


def ids(maker, count, *shape):
    """Indices below `count`."""
    return integers(maker, *shape, lo=0, hi=count, dtype=torch.int64)


def each(*functions: Callable[[], Any]) -> list[Any]:
    """Results of all functions; the first error is raised after the last of them."""
    results: list[Any] = []
    errors: list[Exception] = []
    for function in functions:
        try:
            results.append(function())
        except Exception as error:
            traceback.print_exc()
            errors.append(error)
            results.append(None)
    if errors:
        raise errors[0]
    return results


def unary(names, value):
    """Operators of one tensor; those whose names end in _ overwrite a copy of it."""
    return each(*(functools.partial(_applied, gems, name, value) for name in names.split()))


def binary(names, one, two):
    return each(*(functools.partial(getattr(gems, name), one, two) for name in names.split()))


def experimental(names, value, *more):
    return each(
        *(functools.partial(_applied, experimental_op(n), n, value, *more) for n in names.split())
    )


def _applied(place, name, value, *more):
    return getattr(place, name)(value.clone() if name.endswith("_") else value, *more)
