"""Results of each kind of atomic read-modify-write, on NumPy scalars of the element type."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np


def _unsigned(choose: Callable[[int, int], bool]) -> Callable[[Any, Any], Any]:
    def combine(a: Any, b: Any) -> Any:
        bits = 8 * np.asarray(a).itemsize
        return a if choose(int(a) % (1 << bits), int(b) % (1 << bits)) else b

    return combine


def _wrapping_add(a: Any, b: Any) -> Any:
    kind = np.asarray(a).dtype
    return np.asarray(int(a) + int(b) & (1 << 8 * kind.itemsize) - 1, np.uint64).astype(kind)


#: `kind` of `tile.atomic_rmw` → (old value, operand) → new value
COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "add": _wrapping_add,
    "fadd": lambda a, b: a + b,
    "max": np.maximum,
    "min": np.minimum,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "umax": _unsigned(operator.ge),
    "umin": _unsigned(operator.le),
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "xchg": lambda a, b: b,
}
