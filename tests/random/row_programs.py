"""Random kernels over rows: reductions, passes that load a row again, and what they write back.

Each is source text in the Triton language. A program owns rows of `n` elements, which it holds as one tile, loads
block by block in one to four loops, or several at a time. Loops carry sums, maxima, minima and places, run forwards
or backwards, load what the loop before has loaded, and write in place, elsewhere, to 8-bit outputs, or by atomics.
Every value is a small integer, and sums stay below 2^24: every engine gives the same bits.
"""

import dataclasses

import ml_dtypes
import numpy as np
from tests.random.statements import Statements

KINDS = {
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "int8": np.dtype(np.int8),
    "int32": np.dtype(np.int32),
    "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
}
SMALL = ("int8", "uint8", "float8_e5m2", "float8_e4m3fn")
"""Types of the 8-bit output."""
HEAD = "def kernel(x, y, g, o, q, r, t, w, n, p, m, s, B: tl.constexpr):\n"


@dataclasses.dataclass(frozen=True)
class Program:
    """A kernel's source and its launch; `kind` is the type of the rows, `small` that of 8-bit outputs."""

    source: str
    scalars: dict
    kind: str
    small: str
    rows: int
    grid: int
    lanes: int
    shift: int | None = None

    def arguments(self):
        """Arrays and scalars: `x`, `y` rows, `g` weights, `o`, `q`, `r` results, `t` a permutation, `w` for atomics."""
        numbers = np.random.default_rng(len(self.source))
        kind, pitch = KINDS[self.kind], self.scalars["p"]
        size = self.rows * pitch + 64
        x, y = (numbers.integers(-3, 4, size).astype(kind) for _ in range(2))
        g = numbers.integers(-2, 3, pitch).astype(kind)
        small = np.dtype(getattr(ml_dtypes, self.small, self.small))
        return {
            "x": x, "y": y, "g": g, "o": np.zeros(size, kind), "q": np.zeros(size, small),
            "r": np.zeros(self.rows * 16, np.float32), "t": numbers.permutation(self.rows).astype(np.int32),
            "w": np.zeros(pitch + 64, np.float32 if self.kind != "int32" else np.int32), **self.scalars,
        }  # fmt: skip


class Writer(Statements):
    """The statements of one program so far."""

    def __init__(self, rng, kind, lanes, rows):
        super().__init__(rng)
        self.kind, self.lanes, self.rows = kind, lanes, rows
        self.wide = "tl.int32" if kind in ("int8", "int32") else "tl.float32"
        self.other = rng.choice(("row", "row", "m - 1 - row", "row * 0"))
        """Row of `y` that a program may read besides its own; `y` is written where there is none."""
        self.scalars, self.results = [], 0
        """Values of a row (a scalar, or one for each of `rows` rows) that later passes may use."""

    # ---- shapes: one row is a tile of one dimension, several are a tile of two ----

    def across(self, value):
        """A value of each row, for arithmetic with a tile."""
        return f"({value})[:, None]" if self.rows else value

    def along(self, columns):
        return f"{columns}[None, :]" if self.rows else columns

    def zeros(self, kind=None):
        shape = f"({self.rows}, B)" if self.rows else "(B,)"
        return f"tl.zeros({shape}, {kind or self.wide})"

    def mask(self, columns, limit):
        """The lanes of a tile that are in the array."""
        parts = [self.along(f"({columns} < {limit})")]
        if self.rows:
            parts.append("(row < m)[:, None]")
        return " & ".join(parts)

    # ---- one tile ----

    def load(self, array, columns, limit, at="row"):
        """A tile of rows of `array` in the type that sums have."""
        rng = self.rng
        other = ", other=" + rng.choice(("0", "0", "0", "-1")) if rng.random() < 0.9 else ""
        hint = rng.choice(
            ("",) * 5 + (', eviction_policy="evict_last"', ', eviction_policy="evict_first"')
        )
        place = self.along(columns)
        if array != "g":
            place = f"{self.across(f'{at} * p')} + {place}"
        live = self.mask(columns, limit) if array != "g" else self.along(f"({columns} < {limit})")
        known = rng.random() < 0.15 and not self.rows
        tail = "" if known and limit == "B" else f", mask={live}{other}"
        name = self.let(f"tl.load({array} + {place}{tail}{hint})")
        if not other and tail:
            name = self.let(f"tl.where({live}, {name}, 0)")
        return self.let(f"{name}.to({self.wide})")

    def tile(self, columns, limit):
        """What a pass computes of a block of the row: a tile of small integers."""
        rng = self.rng
        value = self.load("x", columns, limit)
        if rng.random() < 0.4:
            at = rng.choice(("row", "row", "other"))
            value = self.let(f"{value} {rng.choice('+-*')} {self.load('y', columns, limit, at)}")
        if rng.random() < 0.4:
            value = self.let(f"{value} * {self.load('g', columns, limit)}")
        for _ in range(rng.randrange(0, 3)):
            value = self.let(self.change(value, columns))
        return value

    def change(self, value, columns):
        rng = self.rng
        scalar = self.across(rng.choice(self.scalars)) if self.scalars else "s"
        near = self.along(columns)
        return rng.choice((
            f"tl.where({value} > 2, {value} - 2, {value})", f"tl.maximum({value}, -2)", f"tl.minimum({value} + 1, 4)",
            f"tl.abs({value})", f"{value} + {scalar}", f"{value} - {scalar}", f"tl.where({near} % 3 == s, 0, {value})",
            f"tl.where({value} == {scalar}, 1, {value})", f"{value} * s", f"tl.where({near} < m * 8, {value}, -{value})",
        ))  # fmt: skip

    def small(self, value):
        """A value in 0 … 7."""
        if self.wide == "tl.int32":
            return f"(({value}) & 7)"
        return f"(({value}) - tl.floor(({value}) * 0.125) * 8)"

    def keep(self, value):
        """Let later passes use a value of each row, in 0 … 7, and write it."""
        name = self.let(self.small(f"({value}).to({self.wide})"), "r")
        self.scalars.append(name)
        if self.results < 12 and self.rng.random() < 0.7:
            live = ", mask=row < m" if self.rows else ""
            self.emit(f"tl.store(r + row * 16 + {self.results}, {name}.to(tl.float32){live})")
            self.results += 1

    def write(self, value, columns, limit):
        """Store a tile of results."""
        rng = self.rng
        place = f"{self.across('row * p')} + {self.along(columns)}"
        live = self.mask(columns, limit)
        value = self.let(self.small(value))
        way = rng.randrange(8)
        if way < 3:
            self.emit(f"tl.store(o + {place}, {value}.to(o.dtype.element_ty), mask={live})")
        elif way < 5:
            self.emit(f"tl.store(q + {place}, {value}.to(q.dtype.element_ty), mask={live})")
        elif way < 7:
            array = rng.choice(("x", "x", "y")) if self.other == "row" else "x"
            self.emit(
                f"tl.store({array} + {place}, {value}.to({array}.dtype.element_ty), mask={live})"
            )
        else:
            lanes = self.along(columns)
            if self.rows:
                lanes = f"tl.arange(0, {self.rows})[:, None] * 0 + {lanes}"
            self.emit(f"tl.atomic_add(w + {lanes}, {value}.to(w.dtype.element_ty), mask={live})")

    # ---- passes ----

    def whole(self):
        """A pass over the row as one tile, or over its first block."""
        value = self.tile("c", "n")
        axis = 1 if self.rows else 0
        for _ in range(self.rng.randrange(0, 3)):
            self.keep(self.reduction(value, axis, "c"))
        if self.rng.random() < 0.3 and not self.rows:
            self.emit(
                f"{value} = tl.cumsum({self.small(value)}, 0{self.rng.choice(('', ', reverse=True'))})"
            )
        if self.rng.random() < 0.7:
            self.write(self.change(value, "c"), "c", "n")

    def reduction(self, value, axis, columns):
        fn = self.rng.choice(("sum", "sum", "max", "min", "argmax", "argmin"))
        return f"tl.{fn}({self.small(value) if fn != 'sum' else value}, {axis})"

    def loop(self):
        """A pass over the row block by block."""
        rng = self.rng
        axis = 1 if self.rows else 0
        i, sums = self.name("i"), []
        shape = f"tl.zeros(({self.rows},), {self.wide})" if self.rows else None
        for _ in range(rng.randrange(0, 3)):
            fn, tiled = rng.choice(("sum", "sum", "max", "min")), rng.random() < 0.5
            start = self.zeros() if tiled else shape or f"tl.sum({self.zeros()}, 0)"
            sums.append((self.let(start, "a"), fn, tiled))
        forms = (f"for {i} in range(0, n, B):", f"for {i} in range(0, n, B):", f"for {i} in range(0, tl.cdiv(n, B)):",
                 f"for {i} in range(tl.cdiv(n, B) - 1, -1, -1):", f"for {i} in tl.range(0, n, B, num_stages=3):")  # fmt: skip
        form = rng.choice(forms)
        carried = rng.random() < 0.15
        if carried:
            self.emit("at = 0")
        self.emit(form)
        self.depth += 1
        start = "at" if carried else i if "n, B" in form and "cdiv" not in form else f"{i} * B"
        columns = self.let(f"{start} + tl.arange(0, B)", "c")
        value = self.tile(columns, rng.choice(("n", "n", "n", "(n - s)")))
        for name, fn, tiled in sums:
            part = value if tiled else f"tl.{fn}({value}, {axis})"
            self.emit(
                f"{name} = {name} + {part}"
                if fn == "sum"
                else f"{name} = tl.{fn}imum({name}, {part})"
            )
        scan = rng.random() < 0.15 and not self.rows
        if scan:
            self.emit(f"{value} = tl.cumsum({self.small(value)}, 0)")
        if not sums or rng.random() < 0.5:
            self.write(self.change(value, columns), columns, "n")
        if carried:
            self.emit("at += B")
        self.depth -= 1
        for name, fn, tiled in sums:
            self.keep(f"tl.{fn}({name}, {axis})" if tiled else name)


def generate(rng):
    """A random program; `rng` is a `random.Random`."""
    kind = rng.choice(("float32", "float32", "float16", "bfloat16", "int8", "int32", "float8_e5m2"))
    lanes = rng.choice((16, 64, 128, 256, 512, 1024, 2048))
    several = rng.choice((0, 0, 0, 1, 2, 4, 8)) if lanes <= 512 else 0
    programs = rng.choice((1, 2, 3))
    w = Writer(rng, kind, lanes, several)
    w.emit("pid = tl.program_id(0)")
    rows = programs * max(1, several)
    persistent = rng.random() < 0.2 and not several
    grid = programs
    if several:
        w.emit(f"row = pid * {several} + tl.arange(0, {several})")
    elif persistent:
        grid = max(1, programs - 1)
        w.emit("for row in range(pid, m, tl.num_programs(0)):")
        w.depth += 1
    else:
        w.emit(
            f"row = {rng.choice(('pid', 'pid', 'pid', 'pid.to(tl.int64)', 'tl.load(t + pid)', 'm - 1 - pid'))}"
        )
    w.emit(f"other = {w.other}")
    w.emit("c = tl.arange(0, B)")
    looped = rng.random() < 0.7
    for _ in range(rng.randrange(1, 5)):
        (w.loop if looped and rng.random() < 0.85 else w.whole)()
    if "tl.store" not in w.lines[-1]:
        w.whole()
    blocks = rng.choice((1, 1, 2, 3, 4)) if looped else 1
    n = max(
        1,
        rng.choice(
            (
                lanes * blocks,
                lanes * blocks,
                lanes * blocks - rng.choice((1, 3, 8, 16)),
                lanes // 2 + 1,
            )
        ),
    )
    p = rng.choice((n, n, (n + 15) // 16 * 16, n + 1, (n + 127) // 128 * 128))
    scalars = {
        "n": n,
        "p": max(p, lanes * blocks if rng.random() < 0.5 else p),
        "m": rows,
        "s": rng.choice((0, 1, 2)),
    }
    source = HEAD + "\n".join(w.lines) + "\n"
    return Program(source, scalars, kind, rng.choice(SMALL), rows, grid, lanes)
