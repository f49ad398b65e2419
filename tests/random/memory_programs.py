"""Random kernels that look for wrong facts about integers and for wrong orders of accesses.

Each is source text in the Triton language: arithmetic that wraps in masks and (unsigned) in addresses, mixed
widths and signedness, truncations, odd offsets that loops carry, loaded and nested offsets, several stores of
one array in place, overlapping views, wrapped and permuted indices, reversed loops and steps known at run time,
products, scalars between tiles. All results are integers, or floats that hold small ones: every engine gives
the same bits. Programs own a slice of each array; stores give each address one value.
"""

import dataclasses

import numpy as np
from tests.random.statements import Statements

SLICE = 4096
"""Elements of `x`, `y` and `z` that a program owns."""
REACH = 2560
"""Addresses of accesses lie in [0, REACH)."""
MARGIN = 512
"""Elements below them, for offsets that are negative."""
WIDTHS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
PRIMES = (3, 5, 7, 1103515245, 2654435761, 40503)

HEAD = "def kernel(x, y, z, j, h, n, m, s, B: tl.constexpr):\n"


@dataclasses.dataclass(frozen=True)
class Program:
    """A kernel's source and its launch. `x`, `y`, `z` are written (`y` and `z` only if `x` does not overlap them)."""

    source: str
    scalars: dict
    lanes: int
    grid: int
    shift: int | None
    """`y` is `x` from this element on; None: an array of its own."""

    def arguments(self):
        """Arrays and scalars by parameter. `j` are indices below `B`, `h` small numbers in fp16."""
        numbers = np.random.default_rng(len(self.source))
        x, y, z = (
            numbers.integers(-200, 200, SLICE * self.grid).astype(np.int32) for _ in range(3)
        )
        if self.shift is not None:
            base = numbers.integers(-200, 200, SLICE * self.grid + 64).astype(np.int32)
            x, y = base[: SLICE * self.grid], base[self.shift : self.shift + SLICE * self.grid]
        j = numbers.permutation(self.lanes).astype(np.int32)
        h = numbers.integers(-2, 3, 4096).astype(np.float16)
        return {"x": x, "y": y, "z": z, "j": j, "h": h, **self.scalars}


class Writer(Statements):
    """The statements so far, and what later ones may use."""

    def __init__(self, rng, lanes):
        super().__init__(rng)
        self.lanes, self.size = lanes, 0
        self.tiles, self.scalars = ["o"], ["pid", "n", "m", "s"]
        self.counters = []
        """Scalars of loops below 32, which addresses may use."""

    # ---- numbers ----

    def number(self):
        rng = self.rng
        return rng.choice(
            [
                "1",
                "3",
                "-1",
                "7",
                "100",
                "255",
                "-129",
                "65537",
                str(rng.randrange(-40, 300)),
                "1103515245",
            ]
        )

    def scalar(self):
        return self.rng.choice([*self.scalars, *self.counters, self.number()])

    def arithmetic(self, depth=2):
        """A tile expression of 32-bit lanes; it may wrap."""
        rng = self.rng
        if depth == 0 or rng.random() < 0.2:
            return rng.choice(self.tiles)
        a = self.arithmetic(depth - 1)
        kind = rng.randrange(9)
        if kind < 3:
            return f"({a} {rng.choice('+-*^&|')} {rng.choice([self.arithmetic(depth - 1), self.scalar()])})"
        if kind == 3:
            return f"({a} {rng.choice(('<<', '>>'))} {rng.choice((1, 3, 7, 28))})"
        if kind == 4:
            return f"({a}.to(tl.{rng.choice(WIDTHS)}){rng.choice(('', ' * 3', ' + 100', ' >> 1'))}).to(tl.int32)"
        if kind == 5:
            hashed = f"({a}.to(tl.uint32) * {rng.choice(PRIMES)} + {rng.randrange(1 << 16)})"
            return f"({hashed} {rng.choice(('>> 5', '% 1000', '// 7', ''))}).to(tl.int32)".replace(
                " )", ")"
            )
        if kind == 6:
            return f"({a} {rng.choice(('//', '%'))} {rng.choice((3, 8, -3, -16, 100))})"
        if kind == 7:
            return f"tl.where({self.condition(depth - 1)}, {a}, {self.arithmetic(depth - 1)})"
        return f"tl.{rng.choice(('minimum', 'maximum'))}({a}, {self.arithmetic(depth - 1)})"

    def condition(self, depth=1):
        rng = self.rng
        a = self.arithmetic(depth)
        plain = f"o {rng.choice(('<', '>=', '!='))} {rng.choice((self.scalar(), self.lanes - 1, self.lanes // 2))}"
        compare = f"{a} {rng.choice(('<', '<=', '>', '>=', '==', '!='))} {rng.choice((self.scalar(), self.arithmetic(depth)))}"
        return rng.choice((plain, compare, f"({plain}) & ({compare})", f"({compare}) | ({plain})"))

    # ---- addresses ----

    def offset(self):
        """A scalar offset in [0, 1024)."""
        rng = self.rng
        counter = rng.choice(self.counters) if self.counters else "0"
        return rng.choice((
            "0", str(rng.randrange(0, 40)), "s", "n", f"{counter} * {rng.choice((1, 3, 16, 31))}",
            f"({rng.choice(self.scalars)} & 63)", f"(m - {counter} + 16)", f"tl.load(j + ({counter} & 7))",
        ))  # fmt: skip

    def lane_offset(self):
        """Offsets of lanes in [0, 1024), each lane its own."""
        rng, b = self.rng, self.lanes
        odd = rng.choice((1, 3, 5, 77))
        return rng.choice((
            "o", "o", "o * 2", f"({b} - 1 - o)", f"(o + {rng.choice(('s', 'n', '7', '64'))}) % {b}", f"(o * {odd} + 7) % {b}",
            "tl.load(j + o)", f"(o ^ {rng.randrange(b)})", f"((o.to(tl.uint32) * {odd} + 5) % {b}).to(tl.int32)",
            f"(o % {max(1, b // 8)}) * 8 + o // {max(1, b // 8)}",
        ))  # fmt: skip

    def address(self):
        return f"{self.rng.choice('xxxyz')}p + ({self.offset()}) + {self.lane_offset()}"

    # ---- statements ----

    def load(self):
        mask = (
            f", mask={self.condition()}, other={self.rng.choice((0, -1, 9))}"
            if self.rng.random() < 0.5
            else ""
        )
        self.tiles.append(self.let(f"tl.load({self.address()}{mask})"))

    def store(self):
        mask = f", mask={self.condition()}" if self.rng.random() < 0.6 else ""
        self.emit(f"tl.store({self.address()}, {self.arithmetic()}{mask})")

    def compute(self):
        self.tiles.append(self.let(self.arithmetic(3)))

    def reduce(self):
        kind = self.rng.choice(("sum", "max", "min"))
        self.scalars.append(self.let(f"tl.{kind}({self.arithmetic(1)}, 0)", "r"))

    def scalar_access(self):
        place = f"xp + ({self.offset()})"
        if self.rng.random() < 0.5:
            self.scalars.append(self.let(f"tl.load({place})", "r"))
        else:
            self.emit(f"tl.store({place}, {self.scalar()})")

    def columns(self):
        """An in-place update of a tile of two dimensions, with rows that may lie anywhere."""
        rng = self.rng
        pitch = rng.choice(("16", "33", "s + 16"))
        row, column = "tl.arange(0, 8)[:, None]", "tl.arange(0, 16)[None, :]"
        if rng.random() < 0.3:
            row = f"((tl.arange(0, 8) + {rng.choice(('s', 'n'))}) % 8)[:, None]"
        at = self.let(
            f"{rng.choice('xy')}p + ({self.offset()}) + {row} * ({pitch}) + {column}", "a"
        )
        live = rng.choice(
            (
                "",
                f", mask={column} < {rng.choice(('m', 'n', '13'))}",
                f", mask=({row} + {column}) * 3 > m",
            )
        )
        value = self.let(f"tl.load({at}{live}{', other=0' if live else ''})", "t")
        moved = rng.choice(("", " + 1", " + 16"))
        self.emit(
            f"tl.store({at}{moved}, {value} * 3 + 1{rng.choice((live, f', mask={value} > 5'))})"
        )

    def product(self):
        """A loop over products, forwards or backwards."""
        rng = self.rng
        r, c = "tl.arange(0, 16)[:, None]", "tl.arange(0, 16)[None, :]"
        acc = self.let("tl.zeros((16, 16), tl.float32)", "t")
        k = self.let("0", "k")
        self.emit(
            f"for {k} in range({rng.choice(('0, 4', '3, -1, -1', '0, m', 'm, 0, -1', '1, n, s + 1'))}):"
        )
        self.depth += 1
        step = f"({k} & 3)"
        a, b = self.rng.choice((("64", "1"), ("1", "16"))), rng.choice((("16", "1"), ("1", "64")))
        left = f"h + {r} * {a[0]} + ({c} + {step} * 16) * {a[1]}"
        right = f"h + 1024 + ({r} + {step} * 16) * {b[0]} + {c} * {b[1]}"
        self.emit(f"{acc} = tl.dot(tl.load({left}), tl.load({right}), {acc})")
        self.depth -= 1
        self.emit(f"tl.store(zp + ({self.offset()}) + {r} * 16 + {c}, {acc}.to(tl.int32))")

    def loop(self):
        if self.depth > 2:
            return self.store()
        rng = self.rng
        self.count += 1
        i, carried, off = (f"{kind}{self.count}" for kind in ("i", "c", "f"))
        bounds = rng.choice(
            (
                "0, 3",
                "3",
                "5, -1, -2",
                "0, m",
                "m, -1, -1",
                "s & 3, n, m + 1",
                "tl.load(j) & 3, 6",
                "0, 7, s + 1",
            )
        )
        self.emit(f"{off} = {rng.choice(('0', '1', 's'))}")
        self.emit(f"{carried} = {rng.choice(self.tiles)} + 0")
        self.emit(f"for {i} in range({bounds}):")
        self.depth += 1
        before = list(self.tiles), list(self.scalars), list(self.counters)
        self.counters += [f"({i} & 15)", f"({off} & 31)"]
        self.tiles.append(carried)
        for _ in range(rng.randrange(1, 4)):
            self.statement()
        self.emit(f"{carried} = ({carried} {rng.choice('+^-')} {self.arithmetic(1)}).to(tl.int32)")
        self.emit(f"{off} += {rng.choice((1, 3, 5, 16))}")
        self.depth -= 1
        self.tiles, self.scalars, self.counters = before
        self.tiles.append(carried)
        self.counters.append(f"({off} & 31)")
        return None

    def branch(self):
        self.emit(
            f"if {self.rng.choice(self.scalars)} {self.rng.choice(('>', '==', '<'))} {self.number()}:"
        )
        self.depth += 1
        before = list(self.tiles), list(self.scalars)
        self.store()
        if self.rng.random() < 0.5:
            self.load()
            self.store()
        self.tiles, self.scalars = before
        self.depth -= 1

    def atomic(self):
        self.emit(
            f"tl.atomic_add(xp + ({self.offset()}) + {self.lane_offset()}, {self.arithmetic(1)})"
        )

    def statement(self):
        kinds = (self.load, self.load, self.store, self.store, self.store, self.compute, self.reduce,
                 self.scalar_access, self.columns, self.loop, self.branch, self.atomic)  # fmt: skip
        self.rng.choice(kinds)()


def generate(rng):
    """A random program; `rng` is a `random.Random`."""
    writer = Writer(rng, rng.choice((32, 64, 128, 256, 512)))
    writer.emit("pid = tl.program_id(0)")
    writer.emit("o = tl.arange(0, B)")
    for name in "xyz":
        writer.emit(f"{name}p = {name} + pid * {SLICE} + {MARGIN}")
    writer.load()
    for _ in range(rng.randrange(2, 7)):
        writer.statement()
    if rng.random() < 0.15:
        writer.product()
    writer.store()
    scalars = {
        "n": rng.choice((1, 5, 16, 33)),
        "m": rng.randrange(0, 5),
        "s": rng.choice((0, 1, 3, 16)),
    }
    shift = rng.choice((0, 1, 5, 32)) if rng.random() < 0.2 else None
    source = HEAD + "\n".join(writer.lines) + "\n"
    return Program(
        source, scalars, writer.lanes, 1 if shift is not None else rng.choice((1, 2)), shift
    )
