"""Random kernels, to compare ways of running them: interpreter, native code, devices.

`generate(random.Random(seed))` writes the source of a kernel with loads and stores (masked, strided,
two-dimensional, in place), arithmetic on several types, reductions, scans, dots and control flow, and
the arguments to launch it with. Comparisons look at loaded or integer values only, so that rounding
differences cannot change which way a program goes.
"""

from __future__ import annotations

import linecache
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

_FLOATS = ("float32", "float32", "float16", "bfloat16", "float64")
_EXTENTS = (1, 2, 4, 8, 16, 32)
_SPACE = 4096
_SLOT = 3072
"""What one store of all programs takes at most: programs never write what others read or write."""
_OUTPUT = 4 * _SLOT + 2048


@dataclass(frozen=True)
class Program:
    """A kernel's source and how to launch it. Arrays hold `_SPACE` elements each, outputs `_OUTPUT`."""

    source: str
    arguments: dict[str, Any]
    constants: dict[str, int]
    grid: tuple[int, ...]
    tolerance: float

    def function(self) -> Callable[..., Any]:
        """The kernel as a Python function whose source `inspect` finds."""
        import tilewright.language as tl

        name = f"<random program {hash(self.source) & 0xFFFFFFFF:08x}>"
        lines = self.source.splitlines(keepends=True)
        linecache.cache[name] = (len(self.source), None, lines, name)
        scope: dict[str, Any] = {"tl": tl}
        exec(compile(self.source, name, "exec"), scope)
        return scope["kernel"]


@dataclass
class _Value:
    name: str
    shape: tuple[int, ...]
    kind: str
    exact: bool
    """Whether every way of running the kernel gives the same bits."""


class _Writer:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.lines: list[str] = []
        self.values: list[_Value] = []
        self.count = 0
        self.float = rng.choice(_FLOATS)
        self.stores = 0

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def emit(self, text: str, depth: int = 1) -> None:
        self.lines.append("    " * depth + text)

    def add(self, text: str, shape: tuple[int, ...], kind: str, exact: bool) -> _Value:
        value = _Value(self.name(), shape, kind, exact)
        self.emit(f"{value.name} = {text}")
        self.values.append(value)
        return value

    def pick(self, **wanted: Any) -> _Value | None:
        found = [
            v for v in self.values if all(getattr(v, key) == value for key, value in wanted.items())
        ]
        return self.rng.choice(found) if found else None

    # ---- statements ----

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

    def shape(self) -> tuple[int, ...]:
        rng = self.rng
        if rng.random() < 0.5:
            return (rng.choice((1, 8, 16, 32, 64, 128, 256)),)
        return (rng.choice(_EXTENTS), rng.choice(_EXTENTS))

    def load(self) -> None:
        shape = self.shape()
        array, kind = self.rng.choice((("x", self.float), ("y", self.float), ("k", "int32")))
        text, mask = self.offsets(shape, 200)
        other = self.rng.choice(("", ", other=0", ", other=3"))
        masked = f", mask={mask}{other}" if self.rng.random() < 0.8 else ""
        self.add(f"tl.load({array} + {text}{masked})", shape, kind, True)

    def elementwise(self) -> None:
        rng = self.rng
        a = self.pick()
        if a is None:
            return
        b = self.pick(shape=a.shape, kind=a.kind)
        right = b.name if b and rng.random() < 0.7 else rng.choice(("2", "3", "5"))
        exact = a.exact and (b is None or b.exact or b.name != right) and a.kind == "int32"
        if a.kind == "int32":
            text = rng.choice((
                f"{a.name} + {right}", f"{a.name} - {right}", f"{a.name} * 3", f"{a.name} & {right}",
                f"{a.name} ^ {right}", f"{a.name} // 7", f"{a.name} % 5", f"{a.name} >> 2",
                f"tl.maximum({a.name}, {right})", f"-{a.name}",
            ))  # fmt: skip
            self.add(text, a.shape, "int32", exact)
            return
        wide = "tl.float64" if a.kind == "float64" else "tl.float32"
        text = rng.choice((
            f"{a.name} + {right}", f"{a.name} - {right}", f"{a.name} * 0.5", f"{a.name} * {right} * 0.25",
            f"tl.maximum({a.name}, {right})", f"tl.minimum({a.name}, {right})", f"tl.abs({a.name})",
            f"tl.exp(-tl.abs({a.name}))", f"tl.sqrt(tl.abs({a.name}))", f"({a.name} / 4).to({a.name}.dtype)",
            f"tl.sigmoid({a.name}.to({wide})).to({a.name}.dtype)",
        ))  # fmt: skip
        self.add(text, a.shape, a.kind, False)

    def where(self) -> None:
        a = self.pick()
        if a is None:
            return
        index = "tl.arange(0, {})".format
        if len(a.shape) == 1:
            condition = f"{index(a.shape[0])} < {self.rng.choice(('m', '3', 'pid + 1'))}"
        else:
            condition = f"({index(a.shape[0])}[:, None] + {index(a.shape[1])}[None, :]) % 3 == 1"
        self.add(f"tl.where({condition}, {a.name}, 1)", a.shape, a.kind, a.exact)

    def reduce(self) -> None:
        a = self.pick()
        if a is None:
            return
        axis = self.rng.randrange(len(a.shape))
        fn = self.rng.choice(("sum", "max", "min"))
        text = f"tl.{fn}({a.name}, axis={axis})"
        exact = a.exact and (a.kind == "int32" or fn != "sum")
        if len(a.shape) == 1:
            scalar = self.name()
            self.emit(f"{scalar} = {text}")
            scale = "" if a.kind == "int32" else " * 0.125"
            self.add(f"{a.name} - {scalar}{scale}", a.shape, a.kind, exact and a.kind == "int32")
            return
        row = self.add(text, (a.shape[1 - axis],), a.kind, exact)
        back = "[None, :]" if axis == 0 else "[:, None]"
        scale = "" if a.kind == "int32" else " * 0.125"
        self.add(
            f"{a.name} - {row.name}{back}{scale}", a.shape, a.kind, exact and a.kind == "int32"
        )

    def scan(self) -> None:
        a = self.pick()
        if a is None or a.kind in ("float16", "bfloat16"):
            return
        axis = self.rng.randrange(len(a.shape))
        reverse = self.rng.random() < 0.3
        scale = "" if a.kind == "int32" else " * 0.0625"
        text = f"tl.cumsum({a.name}, axis={axis}, reverse={reverse}){scale}"
        self.add(text, a.shape, a.kind, a.exact and a.kind == "int32")

    def dot(self) -> None:
        a = next(
            (v for v in reversed(self.values) if len(v.shape) == 2 and v.kind != "int32"), None
        )
        if a is None:
            return
        other = self.pick(shape=(a.shape[1], a.shape[0]), kind=a.kind)
        right = other.name if other else f"tl.trans({a.name})"
        scale = 1.0 / (4 * a.shape[1])
        m = a.shape[0]
        self.add(f"(tl.dot({a.name}, {right}) * {scale}).to({a.name}.dtype)", (m, m), a.kind, False)

    def trans(self) -> None:
        a = next((v for v in reversed(self.values) if len(v.shape) == 2), None)
        if a is not None:
            self.add(f"tl.trans({a.name})", a.shape[::-1], a.kind, a.exact)

    def branch(self) -> None:
        a = self.pick()
        if a is None:
            return
        value = _Value(self.name(), a.shape, a.kind, a.exact and a.kind == "int32")
        self.emit(f"{value.name} = {a.name}")
        self.emit(self.rng.choice(("if pid == 0:", "if n > 100:", "if pid % 2 == m % 2:")))
        self.emit(f"{value.name} = {a.name} + 1", 2)
        if self.rng.random() < 0.5:
            self.emit("else:")
            self.emit(f"{value.name} = {a.name} - {a.name}", 2)
        self.values.append(value)

    def loop(self) -> None:
        a = self.pick()
        if a is None:
            return
        value = _Value(self.name(), a.shape, a.kind, a.exact and a.kind == "int32")
        self.emit(f"{value.name} = {a.name}")
        bounds = self.rng.choice(("0, m % 5", "0, 3", "m % 4, -1, -1", "1, 8, 3"))
        self.emit(f"for i in range({bounds}):")
        if a.kind == "int32":
            self.emit(f"{value.name} = {value.name} * 3 + i", 2)
        elif self.rng.random() < 0.5 and len(a.shape) == 1:
            text, mask = self.offsets(a.shape, 50)
            self.emit(f"{value.name} += tl.load(x + {text} + i * 7, mask={mask}, other=0) * 0.5", 2)
        else:
            self.emit(f"{value.name} = {value.name} * 0.5 + i", 2)
        self.values.append(value)

    def store(self, value: _Value) -> None:
        target = "z" if value.kind != "int32" else "w"
        size = int(np.prod(value.shape))
        start = self.stores * _SLOT
        self.stores += 1
        if len(value.shape) == 1:
            place = f"tl.arange(0, {size})"
        else:
            rows, columns = value.shape
            place = f"tl.arange(0, {rows})[:, None] * {columns} + tl.arange(0, {columns})[None, :]"
        mask = f", mask=({place}) < {self.rng.choice((size, size, max(1, size - 3), 'n'))}"
        self.emit(f"tl.store({target} + {start} + pid * {size} + {place}, {value.name}{mask})")

    def in_place(self) -> None:
        """Read and write one array, shifted or not: lanes must not see each other's results."""
        size = self.rng.choice((16, 64, 200))
        extent = 1 << (size - 1).bit_length()
        shift = self.rng.choice((0, 1, 5, -1, 64))
        self.emit(f"o = {4 * _SLOT + 100} + pid * 400 + tl.arange(0, {extent})")
        self.emit(f"p = tl.load(z + o, mask=tl.arange(0, {extent}) < {size}, other=1)")
        self.emit(f"tl.store(z + o + {shift}, p * 0.5 + 1, mask=tl.arange(0, {extent}) < {size})")


def generate(rng: random.Random) -> Program:
    """A random program; the same for the same state of `rng`."""
    writer = _Writer(rng)
    writer.load()
    writer.load()
    steps = (
        writer.load, writer.elementwise, writer.elementwise, writer.elementwise, writer.where,
        writer.reduce, writer.scan, writer.dot, writer.trans, writer.branch, writer.loop,
    )  # fmt: skip
    for _ in range(rng.randrange(3, 11)):
        rng.choice(steps)()
    if rng.random() < 0.4:
        writer.in_place()
    for value in rng.sample(writer.values, min(len(writer.values), 4)):
        writer.store(value)
    head = "def kernel(x, y, k, z, w, n, m, s, UNUSED: tl.constexpr):\n    pid = tl.program_id(0)\n"
    source = head + "\n".join(writer.lines) + "\n"
    numbers = np.random.default_rng(rng.randrange(1 << 30))
    kind = _numpy(writer.float)
    arrays = {
        name: numbers.uniform(-2, 2, size).astype(np.float32).astype(kind)
        for name, size in (("x", _SPACE), ("y", _SPACE), ("z", _OUTPUT))
    }
    integers = {
        name: numbers.integers(-1000, 1000, size).astype(np.int32)
        for name, size in (("k", _SPACE), ("w", _OUTPUT))
    }
    sizes = {
        "n": rng.choice((1, 77, 128, 1000)),
        "m": rng.randrange(1, 9),
        "s": rng.choice((16, 33, 64)),
    }
    arguments = {
        "x": arrays["x"], "y": arrays["y"], "k": integers["k"], "z": arrays["z"], "w": integers["w"],
        **sizes,
    }  # fmt: skip
    tolerance = {"float16": 2e-2, "bfloat16": 1e-1, "float32": 2e-5, "float64": 1e-10}[writer.float]
    return Program(source, arguments, {"UNUSED": 1}, (rng.randrange(1, 4),), tolerance)


def _numpy(name: str) -> Any:
    if name == "bfloat16":
        import ml_dtypes

        return ml_dtypes.bfloat16
    return np.dtype(name)
