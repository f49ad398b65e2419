"""Random kernels whose loops multiply tiles: what pipelining, tensor cores and copies ahead are made for.

Each is source text in the Triton language. Operands come through pointers, block pointers and tensor descriptors,
from rows that the program computes, clamps, selects, wraps around or loads from memory; loops run forwards,
backwards, nested, over a list of work, while a condition holds, and over no iteration at all. Several products share
operands, feed each other or are under a condition; tiles are stored, reduced and added atomically inside the loops.
Operands hold small integers, and what a product feeds into another is 0 or 1, so that every engine gives the same bits.
"""

import dataclasses

import ml_dtypes
import numpy as np
from tests.random.statements import Statements

ROWS, COLUMNS = 256, 256
"""Extents of the operands `x` and `y`, behind which there is some room."""
SLOT = 64 * 64
SLOTS, TILES = 3, 3
"""Results of a tile, and tiles at most; behind them is a place for atomics of all programs."""
HEAD = "def kernel(x, y, t, out, n, m, s, B: tl.constexpr):\n"
KINDS = {
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float32": np.dtype(np.float32),
    "int8": np.dtype(np.int8),
    "float8e5": np.dtype(ml_dtypes.float8_e5m2),
}


@dataclasses.dataclass(frozen=True)
class Program:
    """A kernel's source and its launch; `kind` is the type of the operands."""

    source: str
    scalars: dict
    kind: str
    grid: int
    lanes: int = 16
    shift: int | None = None

    def arguments(self):
        """Arrays and scalars by parameter. `t` holds block numbers in 0 … 3, then a permutation of 0 … 63."""
        numbers = np.random.default_rng(len(self.source))
        x, y = (
            numbers.integers(-2, 3, (ROWS + 16) * COLUMNS).astype(KINDS[self.kind])
            for _ in range(2)
        )
        t = np.concatenate([numbers.integers(0, 4, 16), numbers.permutation(64)]).astype(np.int32)
        out = np.zeros(SLOT * (SLOTS * TILES + 1), np.int32 if self.kind == "int8" else np.float32)
        return {"x": x, "y": y, "t": t, "out": out, **self.scalars}


class Writer(Statements):
    """The statements of one program so far."""

    def __init__(self, rng, kind):
        super().__init__(rng)
        self.kind, self.slots = kind, 0
        self.wide = kind in ("int8", "float8e5")
        self.sums = "tl.int32" if kind == "int8" else "tl.float32"
        self.counters = []

    # ---- operands ----

    def block(self):
        """A scalar in 0 … 3 that chooses a block of an operand."""
        rng = self.rng
        counter = rng.choice(self.counters) if self.counters else "pid"
        return rng.choice((
            counter, counter, counter, "0", f"tl.load(t + {counter})", f"tl.minimum({counter}, 2)", f"(3 - {counter})",
            f"tl.where({counter} < m, {counter}, 0)", f"({counter} * 3) % 4", f"tl.maximum({counter} - 1, 0)", "pid",
            f"({counter} if {counter} != s else 1)",
        ))  # fmt: skip

    def rows(self, extent):
        """Rows of a tile of an operand: 64 at most, each in 0 … 63."""
        rng, r = self.rng, f"tl.arange(0, {extent})"
        return rng.choice((
            r, r, r, r, f"({r} % {max(1, extent - 3)})", f"tl.where({r} < n, {r}, 0)", f"tl.minimum({r}, n)",
            f"tl.load(t + 16 + {r})", f"({extent - 1} - {r})", f"({r} + s) % {extent}",
        ))  # fmt: skip

    def mask(self, r, c, rows, columns):
        limit = self.rng.choice((
            "", "", "", f"{r} < n", f"{c} < n", f"({r} < {rows - 1}) & ({c} < {columns - 3})", f"({r} + {c}) % 3 != s",
            f"({r} < m * 8)",
        ))  # fmt: skip
        return f", mask={limit}, other={self.rng.choice((0, 0, 1))}" if limit else ""

    def load(self, array, rows, columns, block, along):
        """A tile of `array`; `block` moves it along its columns (`along` 1) or rows (0)."""
        rng = self.rng
        form = rng.choice(("pointer", "pointer", "descriptor", "block pointer"))
        step = (rows, columns)[along]
        start = (f"{block} * {rows}", "0") if along == 0 else ("0", f"{block} * {columns}")
        if form == "descriptor" and columns >= 16:
            extents = rng.choice((f"[{ROWS}, {COLUMNS}]", f"[n, {COLUMNS}]", f"[{ROWS}, n * 4]"))
            made = f"tl.make_tensor_descriptor({array}, {extents}, [{COLUMNS}, 1], [{rows}, {columns}])"
            return self.let(f"{made}.load([{start[0]}, {start[1]}])", "a")
        if form == "block pointer":
            strides, order = rng.choice(((f"({COLUMNS}, 1)", "(1, 0)"), (f"(1, {ROWS})", "(0, 1)")))
            extents = f"({rng.choice((128, 'n'))}, {rng.choice((128, 'n * 4'))})"
            made = f"tl.make_block_ptr({array}, {extents}, {strides}, ({start[0]}, {start[1]}), ({rows}, {columns}), {order})"
            return self.let(f'tl.load({made}, boundary_check=(0, 1), padding_option="zero")', "a")
        r, c = f"({self.rows(rows)})[:, None]", f"tl.arange(0, {columns})[None, :]"
        pitch = rng.choice((str(COLUMNS), str(COLUMNS), "72", "(s * 8 + 128)"))
        places = (f"({r})", f"({c})") if rng.random() < 0.75 else (f"({c})", f"({r})")
        moved = f"{block} * {step}"
        far = f"{moved} * {pitch}" if (along == 0) == (places[0] == f"({r})") else moved
        offset = f"{far} + {places[0]} * {pitch} + {places[1]}"
        if rng.random() < 0.15:
            offset = f"({offset}).to(tl.int64)"
        tile = self.let(f"tl.load({array} + {offset}{self.mask(r, c, rows, columns)})", "a")
        return (
            self.let(f"{tile} * {rng.choice((2, -1))}", "a")
            if not self.wide and rng.random() < 0.1
            else tile
        )

    def operand(self, array, rows, columns, along):
        """A tile of rows x columns, perhaps loaded as its transpose."""
        block = self.block()
        if self.rng.random() < 0.25:
            return f"tl.trans({self.load(array, columns, rows, block, 1 - along)})"
        return self.load(array, rows, columns, block, along)

    def dot(self, a, b, acc=None):
        tail = ', input_precision="tf32"' if self.kind == "float32" else ""
        if acc is None:
            return f"tl.dot({a}, {b}{tail})"
        return self.rng.choice(
            (f"tl.dot({a}, {b}, {acc}{tail})", f"{acc} + tl.dot({a}, {b}{tail})")
        )

    def narrow(self, value):
        """0 or 1 in the type of the operands."""
        return f"({value} > {self.rng.choice((0, 2, -3))}).to(x.dtype.element_ty)"

    # ---- bodies of loops ----

    def plain(self, shape):
        m, n, k = shape
        a, b = self.operand("x", m, k, 1), self.operand("y", k, n, 0)
        self.emit(f"acc = {self.dot(a, b, 'acc')}")

    def shared(self, shape):
        """Two products with an operand in common."""
        m, n, k = shape
        a, b = self.operand("x", m, k, 1), self.operand("y", k, n, 0)
        other = self.operand("y", k, n, 0) if self.rng.random() < 0.6 else b
        left = a if other is not b else self.operand("x", m, k, 1)
        self.emit(f"acc = {self.dot(a, b, 'acc')}")
        self.emit(f"second = {self.dot(left, other, 'second')}")

    def chained(self, shape):
        """A product of what a product gives, as attention has it."""
        m, n, k = shape
        a, b = self.operand("x", m, k, 1), self.operand("y", k, k if self.wide else n, 0)
        inner = self.let(self.dot(a, b), "s")
        columns = k if self.wide else n
        if self.rng.random() < 0.5:
            self.emit(f"top = tl.maximum(top, tl.max({inner}, 1))")
        v = self.operand("y", columns, n, 0)
        self.emit(f"acc = {self.dot(self.narrow(inner), v, 'acc')}")

    def guarded(self, shape):
        """A product under a condition that the loop's counter decides."""
        counter = self.counters[-1]
        self.emit(
            f"if {self.rng.choice((f'{counter} != s', f'{counter} < m', f'tl.load(t + {counter}) > 1', 'n > 20'))}:"
        )
        self.depth += 1
        self.plain(shape)
        self.depth -= 1

    def scattered(self, shape):
        """A product that is added to memory atomically, tile by tile."""
        m, n, k = shape
        product = self.let(self.dot(self.operand("x", m, k, 1), self.operand("y", k, n, 0)), "s")
        place = f"tl.arange(0, {m})[:, None] * {n} + tl.arange(0, {n})[None, :]"
        mask = self.rng.choice(("", f", mask={place} < n * 16", f", mask={product} > 0"))
        self.emit(f"tl.atomic_add(out + {SLOT * SLOTS * TILES} + {place}, {product}{mask})")

    def between(self):
        """What else a loop does to its sums."""
        rng = self.rng
        change = rng.choice((
            "", "", "", "acc = tl.where(acc > 500, acc - 500, acc)", "acc = acc * 2 - acc", "acc += tl.minimum(top, 100)[:, None]",
            "top += tl.sum(acc, 1)" if self.kind == "int8" else "top = tl.maximum(top, tl.max(acc, 1))",
            "acc -= second",
        ))  # fmt: skip
        if change:
            self.emit(change)

    def loop(self, shape, depth):
        rng = self.rng
        i = self.name("i")
        if rng.random() < 0.15:
            self.emit(f"{i} = {rng.choice(('0', 's'))}")
            self.emit(f"while {i} < {rng.choice(('m', '3', 'tl.load(t) + 1'))}:")
            after = f"{i} += 1"
        else:
            bounds = rng.choice((
                "0, 4", "0, m", "4", "3, -1, -1", "m - 1, -1, -1", "s, 4", "pid, m", "0, 4, s + 1", "0, tl.load(t)",
                "0, tl.cdiv(n, 16)", "tl.load(t), tl.load(t + 1) + 1",
            ))  # fmt: skip
            ranged = rng.choice(
                ("range({})",) * 4 + ("tl.range({}, num_stages=3)", "tl.range({}, flatten=True)")
            )
            self.emit(f"for {i} in {ranged.format(bounds)}:")
            after = ""
        self.depth += 1
        self.counters.append(i)
        nested = depth and rng.random() < 0.5
        if nested:
            self.loop(shape, depth - 1)
        if rng.random() < 0.7 or not nested:
            body = rng.choice(
                (self.plain, self.plain, self.shared, self.chained, self.guarded, self.scattered)
            )
            body(shape)
        self.between()
        if after:
            self.emit(after)
        self.counters.pop()
        self.depth -= 1

    def store(self, shape):
        m, n, _ = shape
        at = f"out + ({SLOTS} * tile + {{}}) * {SLOT} + tl.arange(0, {m})[:, None] * {n} + tl.arange(0, {n})[None, :]"
        mask = self.rng.choice(("", f", mask=tl.arange(0, {n})[None, :] < n"))
        self.emit(f"tl.store({at.format(0)}, acc{mask})")
        self.emit(f"tl.store({at.format(1)}, second)")
        self.emit(f"tl.store(out + ({SLOTS} * tile + 2) * {SLOT} + tl.arange(0, {m}), top)")


def generate(rng):
    """A random program; `rng` is a `random.Random`."""
    kind = rng.choice(("float16", "float16", "float16", "bfloat16", "float32", "int8", "float8e5"))
    w = Writer(rng, kind)
    least = 32 if w.wide else 16
    shape = rng.choice((16, 32, 64, 64)), rng.choice((16, 32, 64)), rng.choice((least, 32, 64))
    grid = rng.choice((1, 2, 3))
    w.emit("pid = tl.program_id(0)")
    persistent = rng.random() < 0.3
    if persistent:
        w.emit(f"for tile in {rng.choice(('range', 'tl.range'))}(pid, {grid}, tl.num_programs(0)):")
        w.depth += 1
    else:
        w.emit("tile = pid")
    w.emit(f"acc = tl.zeros(({shape[0]}, {shape[1]}), {w.sums})")
    w.emit(f"second = tl.zeros(({shape[0]}, {shape[1]}), {w.sums})")
    w.emit(f"top = tl.zeros(({shape[0]},), {w.sums})")
    for _ in range(rng.choice((1, 1, 1, 2))):
        w.loop(shape, rng.choice((0, 0, 1, 2)))
    w.store(shape)
    scalars = {
        "n": rng.choice((1, 16, 24, 33, 64)),
        "m": rng.randrange(0, 5),
        "s": rng.choice((0, 1, 2)),
    }
    source = HEAD + "\n".join(w.lines) + "\n"
    return Program(source, scalars, kind, max(1, grid - 1) if persistent else grid)
