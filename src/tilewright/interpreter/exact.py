"""Floating-point operations in exact arithmetic, rounded once: fused, or in a given direction.

`meaning("add_rz")` is a function of NumPy arrays of one float type. Slow, element by element, in fractions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

DIRECTIONS = ("rn", "rz", "rd", "ru")
OPERATIONS = ("add", "mul", "div", "sqrt", "fma", "narrow")
_PLAIN: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y, "mul": lambda x, y: x * y, "div": lambda x, y: x / y,
    "sqrt": np.sqrt, "fma": lambda x, y, z: x * y + z, "narrow": np.float32,
}  # fmt: skip


def meaning(name: str) -> Callable[..., Any]:
    """The function for "<operation>_<direction>"."""
    operation, _, direction = name.partition("_")

    def of_arrays(*arrays: Any) -> Any:
        kind = np.asarray(arrays[0]).dtype
        result = np.vectorize(
            lambda *v: _rounded(operation, direction, tuple(map(kind.type, v))), otypes=[object]
        )(*arrays)
        return np.asarray(result).astype(kind)

    return of_arrays


def _rounded(operation: str, direction: str, values: tuple[Any, ...]) -> Any:
    kind = np.float32 if operation == "narrow" else type(values[0])
    with np.errstate(all="ignore"):
        plain = kind(_PLAIN[operation](*values))
    finite = all(map(np.isfinite, values))
    if not finite or np.isnan(plain) or (operation == "div" and values[1] == 0):
        return plain
    exact = _exact(operation, [Fraction(float(v)) for v in values])
    if exact is None:
        return _root(kind, values[0], direction)
    if exact == 0:
        return _signed_zero(operation, direction, values, plain, kind)
    return _nearest(kind, exact) if direction == "rn" else _towards(kind, exact, direction)


def _exact(operation: str, x: list[Fraction]) -> Fraction | None:
    match operation:
        case "add":
            return x[0] + x[1]
        case "mul":
            return x[0] * x[1]
        case "div":
            return x[0] / x[1]
        case "fma":
            return x[0] * x[1] + x[2]
        case "narrow":
            return x[0]
        case _:
            return None


def _signed_zero(operation: str, direction: str, values: Any, plain: Any, kind: Any) -> Any:
    if operation not in ("add", "fma"):
        return plain
    first = values[0] if operation == "add" else values[0] * values[1]
    if np.signbit(first) == np.signbit(values[-1]):
        return kind(np.copysign(0.0, values[-1]))
    return kind(-0.0 if direction == "rd" else 0.0)


def _nearest(kind: Any, exact: Fraction) -> Any:
    """Correctly rounded; `float` of a fraction is."""
    low, high = _towards(kind, exact, "rd"), _towards(kind, exact, "ru")
    if low == high:
        return low
    with np.errstate(all="ignore"):
        if not np.isfinite(low) or not np.isfinite(high):
            return kind(_as_float(exact))
    below, above = exact - Fraction(float(low)), Fraction(float(high)) - exact
    if below == above:
        bits = np.dtype(f"u{np.dtype(kind).itemsize}")
        return high if int(np.asarray(low).view(bits)) & 1 else low
    return low if below < above else high


def _as_float(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _towards(kind: Any, exact: Fraction, direction: str) -> Any:
    if direction == "rz":
        direction = "rd" if exact > 0 else "ru"
    with np.errstate(all="ignore"):
        found = kind(_as_float(exact))
        bound = kind(-np.inf if direction == "rd" else np.inf)
        while np.isfinite(found) and (
            Fraction(float(found)) > exact if direction == "rd" else Fraction(float(found)) < exact
        ):
            found = np.nextafter(found, bound)
        if np.isinf(found) and (found > 0) == (direction == "rd"):
            found = np.nextafter(found, kind(0))
        while np.isfinite(found):  # the start may lie one too far
            closer = np.nextafter(found, -bound)
            if not np.isfinite(closer):
                break
            value = Fraction(float(closer))
            if value > exact if direction == "rd" else value < exact:
                break
            found = closer
    return kind(found)


def _root(kind: Any, x: Any, direction: str) -> Any:
    with np.errstate(all="ignore"):
        root = kind(np.sqrt(x))
    square, exact = Fraction(float(root)) ** 2, Fraction(float(x))
    if direction in ("rd", "rz") and square > exact:
        return np.nextafter(root, kind(-np.inf))
    if direction == "ru" and square < exact:
        return np.nextafter(root, kind(np.inf))
    return root
