"""Random kernels of integers of every width, signedness and of truth values, in tiles of up to four dimensions.

Reductions and scans with combining functions of tuples, sorting, gathering, histograms, joins, permutations, products of
8-bit integers, atomics whose lanes meet, loops that carry tuples. Every engine gives the same bits.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.random.statements import Statements

WIDTHS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
KINDS = (*WIDTHS, "int1")
SPACE, SLOT, SLOTS = 1024, 512, 4
"""Elements of an input; of a stored value; stored values of a type and program."""
SHAPES = (
    (1,), (16,), (64,), (256,), (8, 16), (16, 16), (1, 32), (32, 4), (2, 64), (64, 2), (4, 8, 4), (2, 2, 32), (8, 1, 16),
    (2, 4, 8, 2), (2, 16, 2, 4),
)  # fmt: skip

HELPERS = """
@jit
def larger(a, i, b, j):
    take = (a > b) | ((a == b) & (i < j))
    return tl.where(take, a, b), tl.where(take, i, j)


@jit
def mixed(a, b):
    return (a & b) + (a | b)


@jit
def affine(a, b, c, d):
    return a * c, b * c + d


@jit
def both(a, b):
    return a + b, a - b


"""
HEAD = "def kernel({}, n, m, s, B: tl.constexpr):\n".format(
    ", ".join([*(f"in_{kind}" for kind in KINDS), *(f"out_{kind}" for kind in KINDS)])
)


@dataclasses.dataclass(frozen=True)
class Program:
    """A kernel's source and its launch. `in_<type>` is read, `out_<type>` written."""

    source: str
    scalars: dict[str, int]
    lanes: int
    grid: int
    shift: None = None

    def arguments(self) -> dict[str, Any]:
        numbers = np.random.default_rng(len(self.source))
        found: dict[str, Any] = {}
        for prefix, size in (("in", SPACE), ("out", SLOT * SLOTS * self.grid)):
            for kind in KINDS:
                if kind == "int1":
                    found[f"{prefix}_{kind}"] = numbers.integers(0, 2, size).astype(bool)
                    continue
                info = np.iinfo(kind)
                wide = numbers.integers(info.min, info.max, size, dtype=kind, endpoint=True)
                small = (wide % 7).astype(kind)
                found[f"{prefix}_{kind}"] = np.where(numbers.random(size) < 0.5, wide, small)
        return {**found, **self.scalars}


@dataclasses.dataclass(frozen=True)
class Tile:
    name: str
    shape: tuple[int, ...]
    kind: str

    @property
    def bits(self) -> int:
        return int(self.kind.lstrip("uint"))


class Writer(Statements):
    """The statements so far, and the tiles that later ones may use."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.tiles = list[Tile]()
        self.slots = dict.fromkeys(KINDS, 0)

    def add(self, text: str, shape: tuple[int, ...], kind: str) -> Tile:
        tile = Tile(self.let(text), shape, kind)
        self.tiles.append(tile)
        return tile

    def pick(self, accepts: Callable[[Tile], bool] = lambda _: True) -> Tile | None:
        found = [tile for tile in self.tiles if accepts(tile)]
        return self.rng.choice(found) if found else None

    def number(self, accepts: Callable[[Tile], bool] = lambda _: True) -> Tile | None:
        """A tile that is no truth value."""
        return self.pick(lambda tile: tile.kind != "int1" and accepts(tile))

    def like(self, tile: Tile, kind: str | None = None) -> str:
        """An operand of a shape (and type): a tile, or one that is converted, or a number."""
        other = self.pick(
            lambda t: t.shape == tile.shape and (t.kind == "int1") == (kind == "int1")
        )
        if kind == "int1":
            return other.name if other else f"({tile.name} == {tile.name})"
        if other is None or self.rng.random() < 0.3:
            return self.rng.choice(("1", "3", "7", "100", "s", "n"))
        return other.name if kind is None else f"{other.name}.to(tl.{kind})"

    def place(self, shape: tuple[int, ...]) -> str:
        """Row-major offsets of a tile's elements."""
        terms, stride = [], 1
        for axis in reversed(range(len(shape))):
            index = ", ".join(":" if i == axis else "None" for i in range(len(shape)))
            scaled = f" * {stride}" if stride > 1 else ""
            terms.append(f"tl.arange(0, {shape[axis]})[{index}]{scaled}")
            stride *= shape[axis]
        return " + ".join(terms)

    # ---- statements ----

    def load(self) -> None:
        kind, shape = self.rng.choice(KINDS), self.rng.choice(SHAPES)
        at = f"in_{kind} + {self.rng.choice(('0', '17', 's', '64'))} + {self.place(shape)}"
        masks = (
            "",
            f", mask={self.place(shape)} < n, other=1",
            f", mask=({self.place(shape)}) % 3 != m, other=0",
        )
        self.add(f"tl.load({at}{self.rng.choice(masks)})", shape, kind)

    def arithmetic(self) -> None:
        a = self.number()
        if a is None:
            return
        b = self.like(a)
        other = self.number(lambda t: t.shape == a.shape)
        small = f"({other.name}.to(tl.{a.kind}) & 7)" if other else "3"
        text = self.rng.choice((
            f"{a.name} + {b}", f"{a.name} - {b}", f"{a.name} * {b}", f"{a.name} & {b}", f"{a.name} | {b}", f"{a.name} ^ {b}",
            f"{a.name} // ({small} + 1)", f"{a.name} % ({small} + 1)", f"{a.name} << {small}", f"{a.name} >> {small}",
            f"~{a.name}", f"tl.maximum({a.name}, {b})", f"tl.minimum({a.name}, {b})", f"mixed({a.name}, {b})",
            f"-({a.name}.to(tl.int64))", f"tl.abs({a.name}.to(tl.int32))", f"tl.cdiv({a.name}, 5)",
        ))  # fmt: skip
        kind = self.rng.choice((a.kind, a.kind, self.rng.choice(WIDTHS)))
        self.add(f"({text}).to(tl.{kind})", a.shape, kind)

    def convert(self) -> None:
        a = self.pick()
        if a is None:
            return
        kind = self.rng.choice(KINDS)
        by = ["", ""]
        if kind != "int1" and a.bits <= 16:
            by.append(".to(tl.float32)")
        if kind in ("int32", "int64") and a.kind in ("int8", "int16", "int32"):
            by.append(".to(tl.float64)")
        self.add(f"{a.name}{self.rng.choice(by)}.to(tl.{kind})", a.shape, kind)

    def truth(self) -> None:
        a = self.pick()
        if a is None:
            return
        if a.kind == "int1":
            b = self.like(a, "int1")
            text = self.rng.choice(
                (
                    f"{a.name} & {b}",
                    f"{a.name} | {b}",
                    f"{a.name} ^ {b}",
                    f"{a.name} == {b}",
                    f"{a.name} == 0",
                )
            )
        else:
            text = f"{a.name} {self.rng.choice(('<', '<=', '>', '>=', '==', '!='))} {self.like(a)}"
        self.add(text, a.shape, "int1")

    def select(self) -> None:
        a, c = self.pick(), None
        if a is not None:
            c = self.pick(lambda t: t.kind == "int1" and t.shape == a.shape)
        if a is None or c is None:
            return
        other = self.like(a, a.kind)
        self.add(f"tl.where({c.name}, {a.name}, {other}).to(tl.{a.kind})", a.shape, a.kind)

    def reduce(self) -> None:
        a = self.number()
        if a is None:
            return
        axis = self.rng.randrange(len(a.shape))
        index = f"(tl.zeros({list(a.shape)}, tl.int32) + {self.place(a.shape)})"
        text, kind = self.rng.choice((
            (f"tl.sum({a.name}, {axis}, keep_dims=True)", a.kind), (f"tl.max({a.name}, {axis}, keep_dims=True)", a.kind),
            (f"tl.min({a.name}, {axis}, keep_dims=True)", a.kind), (f"tl.xor_sum({a.name}, {axis}, keep_dims=True)", a.kind),
            (f"tl.argmax({a.name}, {axis}, keep_dims=True)", "int32"), (f"tl.argmin({a.name}, {axis}, keep_dims=True)", "int32"),
            (f"tl.reduce({a.name}, {axis}, mixed, keep_dims=True)", a.kind),
            (f"tl.reduce(({a.name}, {index}), {axis}, larger, keep_dims=True)[1]", "int32"),
        ))  # fmt: skip
        small = tuple(1 if i == axis else extent for i, extent in enumerate(a.shape))
        row = self.add(f"({text}).to(tl.{kind})", small, kind)
        if self.rng.random() < 0.6:
            self.add(f"({a.name} ^ {row.name}.to(tl.{a.kind})).to(tl.{a.kind})", a.shape, a.kind)

    def scan(self) -> None:
        a = self.number(lambda t: t.bits >= 32)
        if a is None:
            return
        axis, reverse = self.rng.randrange(len(a.shape)), self.rng.random() < 0.3
        b = self.like(a, a.kind)
        two = f"({a.name}, {b} + tl.zeros_like({a.name}))"
        text = self.rng.choice((
            f"tl.cumsum({a.name}, {axis}, reverse={reverse})",
            f"tl.associative_scan({a.name}, {axis}, mixed, reverse={reverse})",
            f"tl.associative_scan({two}, {axis}, affine, reverse={reverse})[1]",
        ))  # fmt: skip
        self.add(f"({text}).to(tl.{a.kind})", a.shape, a.kind)

    def reorder(self) -> None:
        a = self.pick()
        if a is None:
            return
        rank = len(a.shape)
        order = self.rng.sample(range(rank), rank)
        permuted = tuple(a.shape[i] for i in order)
        size = int(np.prod(a.shape))
        shape = self.rng.choice([s for s in (*SHAPES, a.shape) if int(np.prod(s)) == size])
        choices = [
            (f"tl.permute({a.name}, {tuple(order)})", permuted), (f"tl.reshape({a.name}, {list(shape)})", shape),
            (f"tl.flip({a.name}, {rank - 1})", a.shape),
        ]  # fmt: skip
        if a.kind != "int1":
            choices.append((f"tl.sort({a.name}, descending={self.rng.random() < 0.5})", a.shape))
        if rank < 4 and size <= 128:
            axis = self.rng.randrange(rank + 1)
            wide = (*a.shape[:axis], 2, *a.shape[axis:])
            choices.append(
                (f"tl.broadcast_to(tl.expand_dims({a.name}, {axis}), {list(wide)})", wide)
            )
            choices.append(
                (
                    f"tl.join({a.name}, {self.like(a, a.kind)} + tl.zeros_like({a.name}))"
                    if a.kind != "int1"
                    else f"tl.join({a.name}, {a.name})",
                    (*a.shape, 2),
                )
            )
        text, shape = self.rng.choice(choices)
        self.add(text, shape, a.kind)

    def halves(self) -> None:
        a = self.pick(lambda t: len(t.shape) > 1 and t.shape[-1] == 2)
        if a is None:
            return
        names = [self.name(), self.name()]
        self.emit(f"{', '.join(names)} = tl.split({a.name})")
        self.tiles += [Tile(name, a.shape[:-1], a.kind) for name in names]

    def gather(self) -> None:
        a = self.pick()
        if a is None:
            return
        axis = self.rng.randrange(len(a.shape))
        index = self.number(lambda t: t.shape == a.shape)
        if index is None:
            return
        self.add(
            f"tl.gather({a.name}, {index.name}.to(tl.int32) & {a.shape[axis] - 1}, {axis})",
            a.shape,
            a.kind,
        )

    def histogram(self) -> None:
        a = self.number(lambda t: len(t.shape) == 1)
        if a is not None:
            bins = self.rng.choice((16, 64))
            self.add(f"tl.histogram({a.name}.to(tl.int32) & {bins - 1}, {bins})", (bins,), "int32")

    def product(self) -> None:
        a, b = (self.number(lambda t: t.shape == (16, 16)) for _ in range(2))
        if a is not None and b is not None:
            text = f"tl.dot({a.name}.to(tl.int8), {b.name}.to(tl.int8))"
            self.add(text, (16, 16), "int32")

    def loop(self) -> None:
        a = self.number()
        if a is None or self.depth > 2:
            return
        x, y, i = self.name(), self.name(), self.name()
        self.emit(f"{x}, {y} = {a.name}, {a.name} ^ 5")
        self.emit(
            self.rng.choice(
                (
                    f"for {i} in range(0, m):",
                    f"for {i} in tl.static_range(3):",
                    f"for {i} in range(n, 0, -5):",
                )
            )
        )
        self.depth += 1
        before = list(self.tiles)
        self.tiles += [Tile(x, a.shape, a.kind), Tile(y, a.shape, a.kind)]
        for _ in range(self.rng.randrange(0, 3)):
            self.rng.choice(
                (self.arithmetic, self.truth, self.select, self.reduce, self.reorder, self.scan)
            )()
        found = self.number(lambda t: t.shape == a.shape)
        used = found.name if found else x
        self.emit(f"t{self.count} = both({y}, {used})")
        self.emit(
            f"{x}, {y} = ({x} + t{self.count}[1] + {i}).to(tl.{a.kind}), t{self.count}[0].to(tl.{a.kind})"
        )
        self.depth -= 1
        self.tiles = [*before, Tile(x, a.shape, a.kind), Tile(y, a.shape, a.kind)]

    def branch(self) -> None:
        a = self.number()
        if a is None:
            return
        value, total = self.name(), self.name()
        self.emit(f"{total} = tl.max(tl.reshape({a.name}, [{int(np.prod(a.shape))}]), 0)")
        self.emit(f"{value} = {a.name}")
        self.emit(f"if {self.rng.choice((f'{total} > 50', 'pid == m', f'({total} & 1) == 0'))}:")
        self.emit(f"    {value} = ({a.name} * 3 + {total}).to(tl.{a.kind})")
        self.tiles.append(Tile(value, a.shape, a.kind))

    def atomic(self) -> None:
        a = self.number(lambda t: t.bits >= 32)
        if a is None:
            return
        fn = self.rng.choice(("add", "max", "min", "and", "or", "xor"))
        spread = self.rng.choice((SLOT, 8, 3))
        at = f"(pid * {SLOTS} + {SLOTS - 1}) * {SLOT} + ({self.place(a.shape)}) % {spread}"
        mask = self.rng.choice(("", f", mask={self.place(a.shape)} < n"))
        self.emit(f"tl.atomic_{fn}(out_{a.kind} + {at}, {a.name}{mask})")

    def store(self, a: Tile) -> None:
        slot = self.slots[a.kind]
        if slot == SLOTS - 1 or int(np.prod(a.shape)) > SLOT:
            return
        self.slots[a.kind] += 1
        mask = self.rng.choice(("", "", f", mask=({self.place(a.shape)}) % 5 != m"))
        self.emit(
            f"tl.store(out_{a.kind} + (pid * {SLOTS} + {slot}) * {SLOT} + {self.place(a.shape)}, {a.name}{mask})"
        )


def generate(rng: random.Random) -> Program:
    """A random program; the same for the same state of `rng`."""
    w = Writer(rng)
    w.emit("pid = tl.program_id(0)")
    for _ in range(3):
        w.load()
    statements = (w.load, w.arithmetic, w.arithmetic, w.arithmetic, w.convert, w.truth, w.select, w.select, w.reduce, w.reduce,
                  w.scan, w.reorder, w.reorder, w.halves, w.gather, w.histogram, w.product, w.loop, w.branch)  # fmt: skip
    for _ in range(rng.randrange(4, 14)):
        rng.choice(statements)()
    if rng.random() < 0.3:
        w.atomic()
    for tile in rng.sample(w.tiles, min(len(w.tiles), 8)):
        w.store(tile)
    scalars = {
        "n": rng.choice((1, 5, 16, 33)),
        "m": rng.randrange(0, 4),
        "s": rng.choice((0, 1, 3, 16)),
    }
    return Program(HELPERS + HEAD + "\n".join(w.lines) + "\n", scalars, 16, rng.choice((1, 2)))
