"""Statements of random programs that move elements, and reductions and scans with functions of their own."""

from __future__ import annotations

import random

from tests.random.programs.writer import Value, Writer, place

_SORTED = 256
"""Elements of the largest tile that is sorted: a network of many steps, each a whole-tile operation."""


def trans(w: Writer) -> None:
    a = next((v for v in reversed(w.values) if len(v.shape) == 2), None)
    if a is not None:
        w.add(f"tl.trans({a.name})", a.shape[::-1], a.kind, a.exact)


def _factors(rng: random.Random, size: int, rank: int) -> tuple[int, ...]:
    """Random powers of two with this product."""
    bits = [0] * rank
    for _ in range(size.bit_length() - 1):
        bits[rng.randrange(rank)] += 1
    return tuple(1 << b for b in bits)


def _as_matrix(w: Writer, name: str, size: int, kind: str, exact: bool) -> None:
    """A value of any rank as a matrix or a row that other statements take."""
    shape = _factors(w.rng, size, 2)
    if max(shape) > 256:
        shape = (size // 64, 64)
    text = f"tl.reshape({name}, {list(shape)})"
    w.add(text, shape, kind, exact)


def reshape(w: Writer) -> None:
    a = w.pick()
    if a is None:
        return
    if w.rng.random() < 0.3 and a.size <= 512:
        w.add(f"tl.ravel({a.name})", (a.size,), a.kind, a.exact)
        return
    _as_matrix(w, a.name, a.size, a.kind, a.exact)


def permute(w: Writer) -> None:
    """Three dimensions in another order, perhaps with something done along one of them."""
    rng = w.rng
    a = w.pick()
    if a is None or a.size < 8:
        return
    shape = _factors(rng, a.size, 3)
    order = rng.sample(range(3), 3)
    after = tuple(shape[d] for d in order)
    name = w.let(f"tl.permute(tl.reshape({a.name}, {list(shape)}), {order})")
    step, exact = rng.randrange(5), a.exact
    integer = a.kind == "int32"
    axis = rng.randrange(3)
    size = a.size
    if step == 0:
        name, exact = w.let(f"tl.flip({name}, {axis})"), exact
    elif step == 1:
        fn = rng.choice(("sum", "max", "min"))
        scale = "" if integer or fn != "sum" else " * 0.125"
        back = "" if integer else f".to({name}.dtype)"
        name = w.let(f"tl.{fn}({name}, axis={axis}, keep_dims=True){back}{scale}")
        exact, size = exact and (integer or fn != "sum"), size // after[axis]
    elif step == 2 and (integer or a.kind in ("float32", "float64")):
        scale = "" if integer else " * 0.0625"
        name = w.let(f"tl.cumsum({name}, axis={axis}){scale}")
        exact = exact and integer
    elif step == 3:
        coordinates = [f"tl.arange(0, {n})" for n in after]
        i, j = coordinates[0] + "[:, None, None]", coordinates[2] + "[None, None, :]"
        name = w.let(f"tl.where(({i} + {j}) % 3 < 2, {name}, 2)")
    _as_matrix(w, name, size, a.kind, exact)


def pairs(w: Writer) -> None:
    """Two tiles into one, or one into two."""
    rng = w.rng
    a = w.pick(2048)
    if a is None:
        return
    if rng.random() < 0.3 and a.size >= 2:
        low, high = w.name(), w.name()
        shape = (*_factors(rng, a.size // 2, 2), 2)
        w.emit(f"{low}, {high} = tl.split(tl.reshape({a.name}, {list(shape)}))")
        for name in (low, high):
            w.keep(Value(name, shape[:2], a.kind, a.exact))
        return
    b = w.pick(shape=a.shape, kind=a.kind) or a
    exact = a.exact and b.exact
    last = (*a.shape[:-1], 2 * a.shape[-1])
    way = rng.randrange(3)
    if way == 0:
        w.add(f"tl.interleave({a.name}, {b.name})", last, a.kind, exact)
    elif way == 1:
        dim = rng.randrange(len(a.shape))
        shape = tuple(2 * n if d == dim else n for d, n in enumerate(a.shape))
        w.add(f"tl.cat({a.name}, {b.name}, dim={dim})", shape, a.kind, exact)
    else:
        name = w.let(f"tl.join({a.name}, {b.name})")
        _as_matrix(w, name, 2 * a.size, a.kind, exact)


def gather(w: Writer) -> None:
    """Elements at places that are computed, or loaded."""
    rng = w.rng
    a = w.pick()
    if a is None:
        return
    axis = rng.randrange(len(a.shape))
    index = w.pick(shape=a.shape, kind="int32", exact=True)
    limit = a.shape[axis] - 1
    text = index.name if index else f"({place(a.shape)}) * {rng.choice((3, 5, 7))}"
    w.add(f"tl.gather({a.name}, ({text}) & {limit}, {axis})", a.shape, a.kind, a.exact)


def histogram(w: Writer) -> None:
    a = w.pick_exact()
    if a is None:
        return
    bins = w.rng.choice((1, 8, 32, 64, 128))
    flat = w.let(f"tl.ravel({a.name}) & {w.rng.choice((bins - 1, 2 * bins - 1))}")
    mask = f", mask=({flat} != 2)" if w.rng.random() < 0.3 else ""
    if not mask and w.rng.random() < 0.5:
        mask = f", mask=tl.arange(0, {a.size}) < {w.rng.choice(('m * 5', 'n'))}"
    w.add(f"tl.histogram({flat}, {bins}{mask})", (bins,), "int32", True)


def sort(w: Writer) -> None:
    a = w.pick(_SORTED)
    if a is None:
        return
    descending = w.rng.random() < 0.5
    extent = a.shape[-1]
    if w.rng.random() < 0.3:
        k = 1 << w.rng.randrange(extent.bit_length())
        w.add(f"tl.topk({a.name}, {k})", (*a.shape[:-1], k), a.kind, a.exact)
        return
    w.add(f"tl.sort({a.name}, descending={descending})", a.shape, a.kind, a.exact)


def places_of_extremes(w: Writer) -> None:
    """Where the largest element is; of equal ones the first."""
    rng = w.rng
    a = w.pick(exact=True)
    if a is None or len(a.shape) != 2:
        return
    axis = rng.randrange(2)
    shape = (a.shape[1 - axis],)
    way = rng.randrange(3)
    if way == 0:
        w.add(f"tl.{rng.choice(('argmax', 'argmin'))}({a.name}, {axis})", shape, "int32", True)
        return
    most, where = w.name(), w.name()
    if way == 1:
        w.emit(f"{most}, {where} = tl.max({a.name}, {axis}, return_indices=True)")
    else:
        w.helpers.add("larger")
        index = f"({place(a.shape)}) + {a.name}.to(tl.int32) * 0"
        w.emit(f"{most}, {where} = tl.reduce(({a.name}, {index}), {axis}, larger)")
    w.keep(Value(most, shape, a.kind, True))
    w.keep(Value(where, shape, "int32", True))


def own_reduction(w: Writer) -> None:
    """Reductions of one tile or three with a function of the program's own."""
    rng = w.rng
    a = w.pick()
    if a is None or len(a.shape) != 2:
        return
    axis = rng.randrange(2)
    shape = (a.shape[1 - axis],)
    if a.kind == "int32" and rng.random() < 0.5:
        w.helpers.add("either")
        way = rng.choice((f"tl.reduce({a.name}, {axis}, either)", f"tl.xor_sum({a.name}, {axis})",
                          f"tl.reduce_or({a.name}, {axis})"))  # fmt: skip
        w.add(way, shape, "int32", a.exact)
        return
    b = w.pick(shape=a.shape, kind=a.kind) or a
    w.helpers.add("spread")
    names = [w.name() for _ in range(3)]
    total = f"{a.name} * {'3' if a.kind == 'int32' else '0.0625'}"
    if a.kind in ("float16", "bfloat16"):
        total = f"({total}).to(tl.float32)"
    w.emit(f"{', '.join(names)} = tl.reduce(({a.name}, {b.name}, {total}), {axis}, spread)")
    for name, exact in ((names[0], a.exact), (names[1], b.exact)):
        w.keep(Value(name, shape, a.kind, exact))
    back = f"{names[2]}.to({a.name}.dtype)"
    w.add(back, shape, a.kind, a.exact and a.kind == "int32")


def own_scan(w: Writer) -> None:
    """Scans of one tile or a pair with functions that are associative, not commutative."""
    rng = w.rng
    a = w.pick()
    if a is None:
        return
    axis, reverse = rng.randrange(len(a.shape)), rng.random() < 0.3
    tail = f", {axis}, {{}}, reverse={reverse})"
    if rng.random() < 0.4:
        w.helpers.add("lowest")
        text = f"tl.associative_scan({a.name}{tail.format('lowest')}"
        w.add(text, a.shape, a.kind, a.exact)
        return
    if a.kind in ("float16", "bfloat16"):
        return
    b = w.pick(shape=a.shape, kind=a.kind) or a
    w.helpers.add("recur")
    factor = a.name if a.kind == "int32" else f"(tl.exp(-tl.abs({a.name})) * 0.75)"
    left, right = w.name(), w.name()
    w.emit(f"{left}, {right} = tl.associative_scan(({factor}, {b.name}){tail.format('recur')}")
    w.keep(Value(right, a.shape, a.kind, a.exact and b.exact and a.kind == "int32"))


STATEMENTS = (
    trans, reshape, permute, permute, pairs, gather, histogram, sort, places_of_extremes,
    own_reduction, own_scan,
)  # fmt: skip
