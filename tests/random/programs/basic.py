"""Statements of random programs: loads and stores, arithmetic, reductions, simple control flow."""

from __future__ import annotations

from tests.random.programs.writer import (
    SLOT,
    SLOTS,
    Value,
    Writer,
    place,
    type_name,
)

_HINTS = (
    ', cache_modifier=".cg"', ', eviction_policy="evict_first"', ', volatile=True',
)  # fmt: skip


def load(w: Writer) -> None:
    shape = w.shape()
    array, kind = w.rng.choice((("x", w.float), ("y", w.float), ("k", "int32")))
    text, mask = w.offsets(shape, 200)
    other = w.rng.choice(("", ", other=0", ", other=3"))
    masked = f", mask={mask}{other}" if w.rng.random() < 0.8 else ""
    hint = w.rng.choice(_HINTS) if w.rng.random() < 0.2 else ""
    w.add(f"tl.load({array} + {text}{masked}{hint})", shape, kind, True)


def elementwise(w: Writer) -> None:
    rng = w.rng
    a = w.pick()
    if a is None:
        return
    b = w.pick(shape=a.shape, kind=a.kind)
    right = b.name if b and rng.random() < 0.7 else rng.choice(("2", "3", "5"))
    exact = a.exact and (b is None or b.exact or b.name != right) and a.kind == "int32"
    if a.kind == "int32":
        text = rng.choice((
            f"{a.name} + {right}", f"{a.name} - {right}", f"{a.name} * 3", f"{a.name} & {right}",
            f"{a.name} ^ {right}", f"{a.name} // 7", f"{a.name} % 5", f"{a.name} >> 2",
            f"tl.maximum({a.name}, {right})", f"-{a.name}",
        ))  # fmt: skip
        w.add(text, a.shape, "int32", exact)
        return
    wide = "tl.float64" if a.kind == "float64" else "tl.float32"
    text = rng.choice((
        f"{a.name} + {right}", f"{a.name} - {right}", f"{a.name} * 0.5", f"{a.name} * {right} * 0.25",
        f"tl.maximum({a.name}, {right}).to({a.name}.dtype)",
        f"tl.minimum({a.name}, {right}).to({a.name}.dtype)", f"tl.abs({a.name})",
        f"tl.exp(-tl.abs({a.name}))", f"tl.sqrt(tl.abs({a.name}))", f"({a.name} / 4).to({a.name}.dtype)",
        f"tl.sigmoid({a.name}.to({wide})).to({a.name}.dtype)",
    ))  # fmt: skip
    w.add(text, a.shape, a.kind, False)


def where(w: Writer) -> None:
    a = w.pick()
    if a is None:
        return
    index = "tl.arange(0, {})".format
    if len(a.shape) == 1:
        condition = f"{index(a.shape[0])} < {w.rng.choice(('m', '3', 'pid + 1'))}"
    else:
        condition = f"({index(a.shape[0])}[:, None] + {index(a.shape[1])}[None, :]) % 3 == 1"
    w.add(f"tl.where({condition}, {a.name}, 1)", a.shape, a.kind, a.exact)


def reduce(w: Writer) -> None:
    a = w.pick()
    if a is None:
        return
    axis = w.rng.randrange(len(a.shape))
    fn = w.rng.choice(("sum", "max", "min"))
    text = f"tl.{fn}({a.name}, axis={axis})" + ("" if a.kind == "int32" else f".to({a.name}.dtype)")
    exact = a.exact and (a.kind == "int32" or fn != "sum")
    if len(a.shape) == 1:
        scalar = w.name()
        w.emit(f"{scalar} = {text}")
        scale = "" if a.kind == "int32" else " * 0.125"
        w.add(f"{a.name} - {scalar}{scale}", a.shape, a.kind, exact and a.kind == "int32")
        return
    row = w.add(text, (a.shape[1 - axis],), a.kind, exact)
    back = "[None, :]" if axis == 0 else "[:, None]"
    scale = "" if a.kind == "int32" else " * 0.125"
    w.add(f"{a.name} - {row.name}{back}{scale}", a.shape, a.kind, exact and a.kind == "int32")


def scan(w: Writer) -> None:
    a = w.pick()
    if a is None or a.kind in ("float16", "bfloat16"):
        return
    axis = w.rng.randrange(len(a.shape))
    reverse = w.rng.random() < 0.3
    scale = "" if a.kind == "int32" else " * 0.0625"
    text = f"tl.cumsum({a.name}, axis={axis}, reverse={reverse}){scale}"
    w.add(text, a.shape, a.kind, a.exact and a.kind == "int32")


def branch(w: Writer) -> None:
    a = w.pick()
    if a is None:
        return
    value = Value(w.name(), a.shape, a.kind, _exact(a))
    w.emit(f"{value.name} = {a.name}")
    w.emit(w.rng.choice(("if pid == 0:", "if n > 100:", "if pid % 2 == m % 2:")))
    w.emit(f"{value.name} = {a.name} + 1", 2)
    if w.rng.random() < 0.5:
        w.emit("else:")
        w.emit(f"{value.name} = {a.name} - {a.name}", 2)
    w.keep(value)


def loop(w: Writer) -> None:
    a = w.pick()
    if a is None:
        return
    value = Value(w.name(), a.shape, a.kind, _exact(a))
    w.emit(f"{value.name} = {a.name}")
    bounds = w.rng.choice(("0, m % 5", "0, 3", "m % 4, -1, -1", "1, 8, 3"))
    w.emit(f"for i in range({bounds}):")
    if a.kind == "int32":
        w.emit(f"{value.name} = {value.name} * 3 + i", 2)
    elif w.rng.random() < 0.5 and len(a.shape) == 1:
        text, mask = w.offsets(a.shape, 50)
        w.emit(f"{value.name} += tl.load(x + {text} + i * 7, mask={mask}, other=0) * 0.5", 2)
    else:
        w.emit(f"{value.name} = {value.name} * 0.5 + i.to({value.name}.dtype)", 2)
    w.keep(value)


def store(w: Writer, value: Value) -> None:
    """Write a value to a slot of its own: by pointers, or as a block that a descriptor describes."""
    start = w.slot()
    if start is None:
        return
    target = "z" if value.kind != "int32" else "w"
    base = f"{target} + {start} + pid * {value.size}"
    if len(value.shape) == 2 and value.shape[1] >= 16 and w.rng.random() < 0.25:
        rows, columns = value.shape
        extents = f"[{w.rng.choice((rows, 'm', max(1, rows - 3)))}, {w.rng.choice((columns, columns - 1))}]"
        block = f"[{rows}, {columns}]"
        name = w.let(f"tl.make_tensor_descriptor({base}, {extents}, [{columns}, 1], {block})")
        w.emit(f"{name}.store([0, 0], {value.name})")
        return
    where = place(value.shape)
    mask = (
        f", mask=({where}) < {w.rng.choice((value.size, value.size, max(1, value.size - 3), 'n'))}"
    )
    w.emit(f"tl.store({base} + {where}, {value.name}{mask})")


def in_place(w: Writer) -> None:
    """Read and write one array, shifted or not: lanes must not see each other's results."""
    size = w.rng.choice((16, 64, 200))
    extent = 1 << (size - 1).bit_length()
    shift = w.rng.choice((0, 1, 5, -1, 64))
    w.emit(f"o = {SLOTS * SLOT + 100} + pid * 400 + tl.arange(0, {extent})")
    w.emit(f"p = tl.load(z + o, mask=tl.arange(0, {extent}) < {size}, other=1)")
    w.emit(f"tl.store(z + o + {shift}, p * 0.5 + 1, mask=tl.arange(0, {extent}) < {size})")


def mathematics(w: Writer) -> None:
    """Functions that make errors no larger; those that jump or stretch get exact operands only."""
    rng = w.rng
    a = w.pick()
    if a is None:
        return
    name, kind = a.name, a.kind
    if kind == "int32":
        text = rng.choice((
            f"tl.cdiv({name}, 7)", f"{name} << 1", f"~{name}", f"{name}.to(tl.int8).to(tl.int32)",
            f"(({name}.to(tl.int64) * 100003) >> 5).to(tl.int32)", f"tl.clamp({name}, -50, 77)",
            f"({name}.to(tl.uint32) // 7).to(tl.int32)", f"{name} | 12", f"tl.abs({name})",
            f"tl.umulhi({name}.to(tl.uint32, bitcast=True), {name}.to(tl.uint32, bitcast=True)"
            f" * 77).to(tl.int32, bitcast=True)",
            f"({name} > 3).to(tl.int32)", f"tl.randint(m, {name}).to(tl.int32, bitcast=True) & 1023",
        ))  # fmt: skip
        w.add(text, a.shape, "int32", a.exact)
        return
    back = f".to({type_name(kind)})"
    smooth = (
        f"tl.exp2(-tl.abs({name}))", f"tl.log(tl.abs({name}) + 1)", f"tl.log2(tl.abs({name}) + 1)",
        f"tl.rsqrt(tl.abs({name}) + 1)", f"tl.erf({name})", f"tl.math.tanh({name})",
        f"tl.fma({name}, {name} * 0.125, {name})", f"tl.clamp({name}, -1.5, 2.5)",
        f"{name} / (tl.abs({name}) + 1)", f"tl.softmax({name}.to({_wide(kind)}), {len(a.shape) - 1})",
    )  # fmt: skip
    exact = (
        f"tl.sin({name})", f"tl.cos({name})", f"tl.floor({name})", f"tl.ceil({name} * 2)",
        f"{name} % 3", f"{name}.to(tl.float8e5)", f"{name}.to(tl.float8e4nv)",
        f"{name}.to(tl.bfloat16)", f"{name}.to(tl.float16)",
    )  # fmt: skip
    text = rng.choice((*smooth, *exact) if a.exact else smooth)
    w.add(f"({text}){back}", a.shape, kind, False)


def to_integers(w: Writer) -> None:
    """Integers from floats that are the same everywhere: by value, by comparison, or bit by bit."""
    a = w.pick(exact=True)
    if a is None or a.kind == "int32":
        return
    ways = [f"({a.name} * 4).to(tl.int32)", f"({a.name} > 0.5).to(tl.int32)"]
    if a.kind == "float32":
        ways.append(f"{a.name}.to(tl.int32, bitcast=True) >> 8")
    w.add(w.rng.choice(ways), a.shape, "int32", True)


def call(w: Writer) -> None:
    """A function of the program's own, with constants or a runtime branch."""
    a = w.pick()
    if a is None:
        return
    if w.rng.random() < 0.4:
        w.helpers.add("twice")
        w.add(f"twice({a.name}, {w.rng.choice(('m', 'n', '2'))})", a.shape, a.kind, _exact(a))
        return
    w.helpers.add("mixed")
    b = w.pick(shape=a.shape, kind=a.kind) or a
    mode, times = w.rng.randrange(2), w.rng.randrange(4)
    text = f"mixed({a.name}, {b.name}, {mode}, TIMES={times})"
    w.add(text, a.shape, a.kind, _exact(a) and _exact(b))


def _exact(value: Value) -> bool:
    return value.exact and value.kind == "int32"


def _wide(kind: str) -> str:
    return "tl.float64" if kind == "float64" else "tl.float32"


STATEMENTS = (
    load, load, load, elementwise, elementwise, elementwise, elementwise, where, reduce, scan, branch,
    loop, loop, mathematics, mathematics, to_integers, call,
)  # fmt: skip
