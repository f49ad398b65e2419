"""What all statements of a random program share: names, the values so far, and places in arrays."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Any

FLOATS = ("float32", "float32", "float16", "bfloat16", "float64")
SPACE = 16384
"""Elements of an array that is only read."""
LARGEST = 4096
"""Elements of the largest tile: the arrays that are written have room for it in every program."""
SLOT = 3 * LARGEST
"""What one store of all programs takes at most: programs never write what others read or write."""
SLOTS = 8
KEPT = 4
"""Slots of the values that are stored at the end."""
OUTPUT = SLOTS * SLOT + 2048

_EXTENTS = (1, 2, 4, 8, 16, 32, 32, 64)
_EXTENTS_1D = (1, 8, 16, 32, 64, 128, 256)


@dataclass
class Value:
    """A tile that later statements may use."""

    name: str
    shape: tuple[int, ...]
    kind: str
    exact: bool
    """Whether every way of running the kernel gives the same bits."""

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class Writer:
    """The statements of a kernel so far, and the choices still to make."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.lines: list[str] = []
        self.values: list[Value] = []
        self.helpers: set[str] = set()
        """Names of the functions (`helpers.FUNCTIONS`) that the kernel calls."""
        self.count = 0
        self.float = rng.choice(FLOATS)
        self.stores = 0

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def emit(self, text: str, depth: int = 1) -> None:
        self.lines.append("    " * depth + text)

    def let(self, text: str, depth: int = 1) -> str:
        """The name of a new variable with the value of `text`."""
        name = self.name()
        self.emit(f"{name} = {text}", depth)
        return name

    def add(self, text: str, shape: tuple[int, ...], kind: str, exact: bool) -> Value:
        value = Value(self.let(text), shape, kind, exact)
        self.keep(value)
        return value

    def keep(self, value: Value) -> None:
        """Let later statements use a value whose lines are written; ValueError if it is too large."""
        if value.size > LARGEST:
            raise ValueError(f"a tile of {value.size} elements; at most {LARGEST} can be stored")
        self.values.append(value)

    def pick(self, most: int = LARGEST, **wanted: Any) -> Value | None:
        """A value of at most `most` elements that has the attributes `wanted`; None if there is none."""
        found = [
            v
            for v in self.values
            if v.size <= most and all(getattr(v, key) == value for key, value in wanted.items())
        ]
        return self.rng.choice(found) if found else None

    def pick_exact(self, most: int = LARGEST) -> Value | None:
        """An integer tile that is the same everywhere."""
        return self.pick(most, kind="int32", exact=True)

    def slot(self, kept: int = 0) -> int | None:
        """Where a store of its own may begin; None where only `kept` slots are left."""
        if self.stores + kept >= SLOTS:
            return None
        self.stores += 1
        return (self.stores - 1) * SLOT

    def shape(self) -> tuple[int, ...]:
        rng = self.rng
        if rng.random() < 0.5:
            return (rng.choice(_EXTENTS_1D),)
        return (rng.choice(_EXTENTS), rng.choice(_EXTENTS))

    def offsets(self, shape: tuple[int, ...], spread: int) -> tuple[str, str]:
        """(offset expression, mask expression) of a tile of `shape` in an array."""
        rng = self.rng
        if len(shape) == 1:
            step = rng.choice((1, 1, 1, 2, 3))
            start = rng.randrange(0, spread)
            base = f"{start} + pid * {shape[0]} + tl.arange(0, {shape[0]}) * {step}"
            bound = rng.choice(("n", f"{start + shape[0] * step}", "n // 2"))
            return base, f"({base}) < {bound}"
        rows, columns = shape
        order = rng.random() < 0.25
        a, b = ("1", str(rows)) if order else (rng.choice(("s", str(columns), "40")), "1")
        r, c = f"tl.arange(0, {rows})[:, None]", f"tl.arange(0, {columns})[None, :]"
        start = rng.randrange(0, spread)
        text = f"{start} + pid * 64 + {r} * {a} + {c} * {b}"
        live = f"({r} < {rng.choice((rows, 'm', max(1, rows - 1)))}) & ({c} < {rng.choice((columns, 'm'))})"
        return text, live


def place(shape: tuple[int, ...]) -> str:
    """Row-major offsets of a tile of one or two dimensions."""
    if len(shape) == 1:
        return f"tl.arange(0, {shape[0]})"
    rows, columns = shape
    return f"tl.arange(0, {rows})[:, None] * {columns} + tl.arange(0, {columns})[None, :]"


def type_name(kind: str) -> str:
    """`tl.float16` for "float16" and so on."""
    return f"tl.{kind}"
