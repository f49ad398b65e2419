"""Random programs of masked loads and stores: offsets and masks built from everything that
`raise-access` understands, and from things it must leave alone."""

import math
import random

import numpy as np


def program(seed):
    """The text of a program, and its arguments (as `oracle.execute` takes them)."""
    writer = Writer(random.Random(seed))
    for _ in range(writer.random.randrange(1, 4)):
        writer.access()
    text = "\n".join([HEAD, *writer.lines, "  func.return", "}", ""])
    numbers = np.random.default_rng(seed)
    data = numbers.integers(-1000, 1000, 8192).astype(np.int32)
    indices = numbers.integers(-4, 12, 64).astype(np.int32)
    scalars = [
        int(numbers.integers(-4, 20)),
        int(numbers.integers(-4, 20)),
        int(numbers.integers(1, 9)),
    ]
    return text, [(data, 4096), indices, np.zeros(512, np.int32), *scalars]


HEAD = (
    "func.func @k(%p: !tile.ptr<i32>, %indices: !tile.ptr<i32>, %out: !tile.ptr<i32>,"
    " %a: i32, %b: i32, %size: i32) {"
)
POINTER = "!tile.ptr<i32>"


def kind(shape, element="i32"):
    return f"tensor<{'x'.join(map(str, shape))}x{element}>" if shape else element


class Writer:
    """Appends operations to `lines`; methods return the name of a value."""

    def __init__(self, rng):
        self.random, self.lines = rng, []

    def new(self, text):
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def binary(self, op, lhs, rhs, shape, element="i32"):
        return self.new(f"arith.{op} {lhs}, {rhs} : {kind(shape, element)}")

    def constant(self, number):
        return self.new(f"arith.constant {number} : i32")

    def splat(self, value, shape, element="i32"):
        return self.new(f"tile.splat {value} : {element} to {kind(shape, element)}")

    def move(self, op, value, extra, before, after, element="i32"):
        """A shape operation."""
        return self.new(
            f"tile.{op} {value}{extra} : {kind(before, element)} to {kind(after, element)}"
        )

    def scalar(self):
        choice = self.random.randrange(6)
        if choice == 0:
            return self.constant(self.random.randrange(-5, 20))
        if choice == 1:
            return self.new("tile.program_id 0 : i32 : i32")
        if choice == 2:
            op = self.random.choice(["addi", "subi", "muli", "minsi"])
            return self.binary(op, self.scalar(), self.scalar(), ())
        return self.random.choice(["%a", "%b", "%size"])

    def leaf(self, shape):
        if len(shape) == 1 and self.random.random() < 0.8:
            start = self.random.randrange(3)
            bounds = f"{start} : i32, {start + shape[0]} : i32"
            return self.new(f"tile.arange {bounds} : {kind(shape)}")
        if len(shape) > 1 and self.random.random() < 0.85:
            return self.spread(shape, 0)
        return self.splat(self.scalar(), shape)

    def offsets(self, shape, depth):
        """An i32 tile."""
        if depth <= 0:
            return self.leaf(shape)
        below = [self.sums, self.sums, self.products, self.remainders, self.clamps, self.choices]
        if len(shape) == 1:
            below += [self.gathered]
        else:
            below += [self.transposed, self.spread, self.spread]
        below += [self.reshaped, self.hinted]
        return self.random.choice(below)(shape, depth - 1)

    def sums(self, shape, depth):
        op = self.random.choice(["addi", "subi"])
        return self.binary(op, self.offsets(shape, depth), self.offsets(shape, depth), shape)

    def products(self, shape, depth):
        pair = [self.offsets(shape, depth), self.splat(self.scalar(), shape)]
        self.random.shuffle(pair)
        return self.binary("muli", *pair, shape)

    def remainders(self, shape, depth):
        value = self.offsets(shape, depth)
        size = self.constant(self.random.randrange(1, 9)) if self.random.random() < 0.6 else "%size"
        op = self.random.choice(["remsi", "remsi", "divsi"])
        return self.binary(op, value, self.splat(size, shape), shape)

    def clamps(self, shape, depth):
        op = self.random.choice(["minsi", "maxsi"])
        return self.binary(op, self.offsets(shape, depth), self.offsets(shape, depth), shape)

    def choices(self, shape, depth):
        mask = self.mask(shape, depth)
        lhs, rhs = self.offsets(shape, depth), self.offsets(shape, depth)
        types = f"{kind(shape, 'i1')}, {kind(shape)}, {kind(shape)} to {kind(shape)}"
        return self.new(f"tile.select {mask}, {lhs}, {rhs} : {types}")

    def gathered(self, shape, depth):
        value = self.offsets(shape, depth)
        inside = self.binary("andi", value, self.splat(self.constant(63), shape), shape)
        pointers = self.pointers("%indices", inside, shape)
        return self.new(f"tile.load {pointers} : {kind(shape, POINTER)} to {kind(shape)}")

    def transposed(self, shape, depth):
        order = self.random.sample(range(len(shape)), len(shape))
        before = [shape[order.index(d)] for d in range(len(shape))]
        return self.move("trans", self.offsets(tuple(before), depth), f", {order}", before, shape)

    def reshaped(self, shape, depth):
        flat = self.random.random() < 0.4
        before = (math.prod(shape),) if flat else tuple(e for e in shape if e != 1) or (1,)
        return self.move("reshape", self.offsets(before, depth), "", before, shape)

    def hinted(self, shape, depth):
        extra = f', "multiple_of", {[1] * len(shape)}'
        return self.move("hint", self.offsets(shape, depth), extra, shape, shape)

    def spread(self, shape, depth, make=None, element="i32"):
        """A rank-1 tile along one dimension, expanded and broadcast."""
        dim = self.random.randrange(len(shape))
        value = (make or self.offsets)((shape[dim],), depth)
        have = [shape[dim]]
        for axis in range(len(shape)):
            if axis != dim:
                place = 0 if axis < dim else len(have)
                after = [*have[:place], 1, *have[place:]]
                value = self.move("expand_dims", value, f", {place} : i32", have, after, element)
                have = after
        return self.move("broadcast", value, "", have, shape, element)

    def mask(self, shape, depth):
        """An i1 tile."""
        choice = self.random.randrange(7)
        if choice <= 2 and depth > 0:
            op = "ori" if choice == 0 else "andi"
            return self.binary(
                op, self.mask(shape, depth - 1), self.mask(shape, depth - 1), shape, "i1"
            )
        if choice == 3:
            return self.splat(
                self.compare(["slt", "ne", "sge"], self.scalar(), self.scalar(), ()), shape, "i1"
            )
        if choice == 4 and len(shape) > 1:
            return self.spread(shape, depth, self.mask, "i1")
        pair = [self.offsets(shape, max(0, depth))]
        splat = self.random.random() < 0.7
        pair.append(self.splat(self.scalar(), shape) if splat else self.offsets(shape, 0))
        self.random.shuffle(pair)
        predicates = ["slt", "slt", "slt", "sle", "sgt", "sge", "ult", "uge", "eq", "ne"]
        return self.compare(predicates, *pair, shape)

    def compare(self, predicates, lhs, rhs, shape):
        predicate = self.random.choice(predicates)
        types = f"{kind(shape)}, {kind(shape)} to {kind(shape, 'i1')}"
        return self.new(f'tile.cmpi "{predicate}", {lhs}, {rhs} : {types}')

    def pointers(self, base, offset, shape, element="i32"):
        """`base` (a scalar pointer, or a tile of this shape) plus a tile of offsets."""
        tile = kind(shape, POINTER)
        start = self.splat(base, shape, POINTER) if base in ("%p", "%indices", "%out") else base
        return self.new(f"tile.addptr {start}, {offset} : {tile}, {kind(shape, element)} to {tile}")

    def access(self):
        """A load whose result is written to `out`, or a store."""
        rng = self.random
        shape = tuple(rng.choice([1, 2, 3, 4, 6]) for _ in range(rng.randrange(1, 4)))
        pointer, element = "%p", "i32"
        for _ in range(rng.randrange(1, 3)):
            offset, element = self.offsets(shape, rng.randrange(4)), "i32"
            if rng.random() < 0.3:
                offset = self.new(f"arith.extsi {offset} : {kind(shape)} to {kind(shape, 'i64')}")
                element = "i64"
            pointer = self.pointers(pointer, offset, shape, element)
        mask = f" mask {self.mask(shape, 2)} : {kind(shape, 'i1')}" if rng.random() < 0.75 else ""
        if rng.random() < 0.5:
            value = self.offsets(shape, 1)
            types = f"{kind(shape, POINTER)}, {kind(shape)}"
            self.effect(f"tile.store {pointer}, {value}{mask} : {types}")
            return
        other = (
            f" other {self.offsets(shape, 1)} : {kind(shape)}"
            if mask and rng.random() < 0.5
            else ""
        )
        loaded = self.new(
            f"tile.load {pointer}{mask}{other} : {kind(shape, POINTER)} to {kind(shape)}"
        )
        count = (math.prod(shape),)
        flat = self.move("reshape", loaded, "", shape, count)
        lanes = self.new(f"tile.arange 0 : i32, {count[0]} : i32 : {kind(count)}")
        out = self.pointers("%out", lanes, count)
        self.effect(f"tile.store {out}, {flat} : {kind(count, POINTER)}, {kind(count)}")

    def effect(self, text):
        self.lines.append(f"  {text}")
