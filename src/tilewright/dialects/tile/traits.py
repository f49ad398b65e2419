"""Traits of tile operations, for passes and backends that handle operations generically."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from xdsl.ir import Operation
from xdsl.traits import OpTrait


@dataclass(frozen=True)
class Elementwise(OpTrait):
    """Each lane of the result depends on the same lane of the operands only. Operands are scalars or of one shape."""

    cheap: bool = False
    """Whether it costs about as much as an integer addition, so that fused loops rematerialize it."""


@dataclass(frozen=True)
class MovesLanes(OpTrait):
    """The result consists of elements of the operands at other coordinates.

    Operands go through memory: scratch on a CPU, shared memory on a GPU. Remaps whose elements stay in their thread
    (`tile.trans`, `tile.reshape` …) do not have this trait.
    """


@functools.cache
def elementwise_trait(kind: type[Operation]) -> Elementwise | None:
    """The `Elementwise` trait of an operation class, if it has one."""
    return kind.get_trait(Elementwise)


@functools.cache
def _moves_lanes(kind: type[Operation]) -> bool:
    return kind.has_trait(MovesLanes, value_if_unregistered=False)


def moves_lanes(op: Operation) -> bool:
    """Whether `op` has the trait `MovesLanes`."""
    return _moves_lanes(type(op))
