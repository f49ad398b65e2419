"""A random program: its source, its arguments, and how the statements are chosen."""

from __future__ import annotations

import linecache
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from tests.random.programs import accesses, basic, control, products, shuffles
from tests.random.programs.helpers import FUNCTIONS
from tests.random.programs.writer import KEPT, OUTPUT, SPACE, Writer

from tilewright import dtypes

_TYPES = {"float32": dtypes.float32, "float16": dtypes.float16, "float64": dtypes.float64,
          "bfloat16": dtypes.bfloat16, "int32": dtypes.int32, "int8": dtypes.int8,
          "float8_e4m3fn": dtypes.float8e4nv, "float8_e5m2": dtypes.float8e5}  # fmt: skip
_TOLERANCES = {"float16": 2e-2, "bfloat16": 1e-1, "float32": 2e-5, "float64": 1e-10}

_STATEMENTS = (
    *basic.STATEMENTS, *shuffles.STATEMENTS, *products.STATEMENTS, *accesses.STATEMENTS,
    *control.STATEMENTS,
)  # fmt: skip


@dataclass(frozen=True)
class Program:
    """A kernel's source and how to launch it. `x`, `y`, `k`, `b`, `e` are read, `z` and `w` written."""

    source: str
    arguments: dict[str, Any]
    constants: dict[str, int]
    grid: tuple[int, ...]
    tolerance: float
    """How far a float may be off: relative to itself, and to the largest of its array (at least 1)."""

    def function(self) -> Callable[..., Any]:
        """The kernel as a Python function whose source `inspect` finds."""
        import tilewright.language as tl
        from tilewright.runtime.jit import jit

        name = f"<random program {hash(self.source) & 0xFFFFFFFF:08x}>"
        lines = self.source.splitlines(keepends=True)
        linecache.cache[name] = (len(self.source), None, lines, name)
        scope: dict[str, Any] = {"tl": tl, "jit": jit}
        exec(compile(self.source, name, "exec"), scope)
        return scope["kernel"]

    def signature(self) -> dict[str, Any]:
        """Parameter -> type, as `frontend.build` takes them."""
        types: dict[str, Any] = {
            name: dtypes.pointer_type(_TYPES[str(value.dtype)])
            if isinstance(value, np.ndarray)
            else dtypes.int32
            for name, value in self.arguments.items()
        }
        types.update({name: dtypes.constexpr(value) for name, value in self.constants.items()})
        return types

    def divisible(self) -> dict[str, int]:
        """Parameters that are multiples of 16 (arrays: their addresses), as `frontend.build` takes them."""
        numbers = {
            name: value.ctypes.data if isinstance(value, np.ndarray) else value
            for name, value in self.arguments.items()
        }
        return {name: 16 for name, number in numbers.items() if number % 16 == 0}

    def compare(
        self, expected: list[np.ndarray], found: list[np.ndarray], least: float = 0.0
    ) -> None:
        """Raise AssertionError where arrays differ by more than the tolerance (at least `least`)."""
        tolerance = max(self.tolerance, least)
        for a, b in zip(expected, found, strict=True):
            if a.dtype.kind in "iu":
                np.testing.assert_array_equal(a, b, err_msg=self.source)
                continue
            x, y = a.astype(np.float64), b.astype(np.float64)
            finite = np.abs(x[np.isfinite(x)])
            scale = max(1.0, float(finite.max()) if finite.size else 1.0)
            np.testing.assert_allclose(
                x, y, rtol=tolerance, atol=tolerance * scale, err_msg=self.source
            )


def generate(rng: random.Random) -> Program:
    """A random program; the same for the same state of `rng`."""
    writer = Writer(rng)
    basic.load(writer)
    basic.load(writer)
    for _ in range(rng.randrange(3, 11)):
        rng.choice(_STATEMENTS)(writer)
    if rng.random() < 0.4:
        basic.in_place(writer)
    for value in rng.sample(writer.values, min(len(writer.values), KEPT)):
        basic.store(writer, value)
    helpers = "".join(text for name, text in FUNCTIONS.items() if name in writer.helpers)
    head = "def kernel(x, y, k, b, e, z, w, n, m, s, UNUSED: tl.constexpr):\n"
    body = "\n".join(["    pid = tl.program_id(0)", *writer.lines])
    return Program(
        f"{helpers}{head}{body}\n", _arguments(rng, writer.float), {"UNUSED": 1},
        (rng.randrange(1, 4),), _TOLERANCES[writer.float],
    )  # fmt: skip


def _arguments(rng: random.Random, kind: str) -> dict[str, Any]:
    numbers = np.random.default_rng(rng.randrange(1 << 30))
    eight = rng.choice(("float8_e4m3fn", "float8_e5m2"))

    def floats(size: int, name: str) -> np.ndarray:
        return numbers.uniform(-2, 2, size).astype(np.float32).astype(_numpy(name))

    def integers(size: int, limit: int, name: str) -> np.ndarray:
        return numbers.integers(-limit, limit, size).astype(_numpy(name))

    return {
        "x": floats(SPACE, kind), "y": floats(SPACE, kind), "k": integers(SPACE, 1000, "int32"),
        "b": integers(SPACE, 128, "int8"), "e": floats(SPACE, eight),
        "z": floats(OUTPUT, kind), "w": integers(OUTPUT, 1000, "int32"),
        "n": rng.choice((1, 77, 128, 1000)), "m": rng.randrange(1, 9), "s": rng.choice((16, 33, 64)),
    }  # fmt: skip


def _numpy(name: str) -> Any:
    if name == "bfloat16" or name.startswith("float8"):
        import ml_dtypes

        return getattr(ml_dtypes, name)
    return np.dtype(name)
